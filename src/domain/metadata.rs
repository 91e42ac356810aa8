//! Freeform metadata of a call, and the idempotency key that may travel in it.

use serde_json::value::RawValue;

use crate::domain::json::{Document, Issues, Object, looked_at};

/// Longest idempotency key, in characters.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// The member of `metadata` that makes a retry safe.
pub const IDEMPOTENCY_KEY: &str = "client_idempotency_key";

/// What a caller says beside its content.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// The caller's name for this call: a second call of this name answers as the first.
    pub idempotency_key: Option<String>,
    /// Everything else; `None` when there is nothing else.
    pub rest: Option<Document>,
}

impl Metadata {
    /// Reads the optional member `metadata`.
    pub fn read(params: &Object<'_>, issues: &mut Issues) -> Metadata {
        let Some(metadata) = params.optional("metadata").and_then(|value| value.object(issues)) else {
            return Metadata::default();
        };
        let key = metadata.optional(IDEMPOTENCY_KEY).and_then(|value| value.name(IDEMPOTENCY_KEY_MAX, issues));
        let rest = metadata.members().filter(|(key, _)| *key != IDEMPOTENCY_KEY);
        Metadata { idempotency_key: key.map(std::borrow::Cow::into_owned), rest: object(rest) }
    }

    /// The metadata as its setter sees it, with the key.
    pub fn with_key(&self) -> Option<Document> {
        let Some(key) = &self.idempotency_key else {
            return self.rest.clone();
        };
        self.with_member(IDEMPOTENCY_KEY, &serde_json::value::to_raw_value(key).ok()?)
    }

    /// The metadata without the key, and with this member in the place of one of the same name.
    pub fn with_member(&self, name: &str, value: &RawValue) -> Option<Document> {
        let rest = self.rest.as_deref().and_then(looked_at);
        let rest = rest.iter().flat_map(Object::members).filter(|(key, _)| *key != name);
        object(rest.chain([(name, value)]))
    }
}

/// An object of these members, each as it came; `None` when there are none.
fn object<'a>(members: impl Iterator<Item = (&'a str, &'a RawValue)>) -> Option<Document> {
    let mut text = String::new();
    for (key, raw) in members {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(&serde_json::to_string(key).ok()?);
        text.push(':');
        text.push_str(raw.get());
    }
    if text.is_empty() {
        return None;
    }
    text.push('}');
    RawValue::from_string(text).ok()
}
