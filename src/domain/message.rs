//! Messages: what the participants of a thread say.

use serde_json::value::RawValue;

use crate::domain::agent::Handle;
use crate::domain::id::{AgentId, MessageId};
use crate::domain::json::{Document, Issues, Value};
use crate::domain::part::Parts;
use crate::domain::time::Timestamp;

/// Longest `role` of a message, in characters.
const ROLE_MAX: usize = 60;

/// What a caller says, before it has a place in a thread.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The role that the caller gave itself, such as `user`. Who spoke is known from its key, not from here.
    pub role: Option<String>,
    /// What it says.
    pub parts: Parts,
    /// A document that comes with the message.
    pub payload: Option<Document>,
    /// What the author's protocol says around the message, as an object: the author's own name for it, say.
    pub envelope: Option<Document>,
}

impl Draft {
    /// A message of nothing but text.
    pub fn text(body: impl Into<String>) -> Draft {
        Draft { role: None, parts: Parts::text(body), payload: None, envelope: None }
    }

    /// Reads a `message`.
    pub fn read(value: Value<'_>, issues: &mut Issues) -> Option<Draft> {
        let message = value.object(issues)?;
        let role = message.optional("role").and_then(|value| value.name(ROLE_MAX, issues));
        let parts = message.required("parts", issues).and_then(|value| Parts::read(value, issues))?;
        Some(Draft { role: role.map(std::borrow::Cow::into_owned), parts, payload: None, envelope: None })
    }
}

/// A message in its thread.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its place in the thread, from 1.
    pub sequence_no: i64,
    /// The thread's version that it made.
    pub generation: i64,
    /// Who said it.
    pub author: Handle,
    /// The id of who said it.
    pub author_id: AgentId,
    /// What was said.
    pub draft: Draft,
    /// When.
    pub created_at: Timestamp,
}

/// `{}`.
pub fn empty_object() -> Document {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}
