//! The extension that the relay has: what A2A's messages have no field for, a handoff's intent and who takes part in it.
//!
//! A client may put `intent` and `proposedAction` under the extension's URI into the metadata of `SendMessage`. One that
//! activates it with `A2A-Extensions` finds the handoff's facts in each task's metadata.

use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::domain::agent::Handle;
use crate::domain::intent::Intent;
use crate::domain::json::{Document, Issues, Object};
use crate::domain::thread::ThreadView;
use crate::domain::time::Timestamp;

/// The extension's name.
pub(super) const URI: &str = "urn:agentrelay:a2a:handoff:v1";

/// What a client says of its handoff.
pub(super) struct HandoffParams {
    pub(super) intent: &'static str,
    pub(super) proposed_action: Option<Document>,
}

impl HandoffParams {
    /// Reads the extension's member of `metadata`.
    pub(super) fn read(params: &Object<'_>, issues: &mut Issues) -> HandoffParams {
        let metadata = params.optional("metadata").and_then(|value| value.object(&mut Issues::default()));
        let own = metadata.and_then(|metadata| metadata.optional(URI)).and_then(|value| value.object(issues));
        let own = own.unwrap_or_else(|| Object::empty(params.at("metadata")));
        // A2A's names are in camel case.
        let own = match own.member("proposedAction") {
            Some(action) => own.with("proposed_action", action.raw),
            None => own,
        };
        let (intent, proposed_action) = Intent::read(&own, issues);
        HandoffParams { intent, proposed_action }
    }
}

/// What the relay says of a handoff.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    sender: &'a Handle,
    recipient: &'a Handle,
    intent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed_action: Option<&'a serde_json::value::RawValue>,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_at: Option<Timestamp>,
}

/// A task's metadata: what the sender said beside its first message and, for clients that know the extension, the
/// handoff's facts.
pub(super) fn task_metadata(view: &ThreadView, active: bool) -> Option<Document> {
    if !active {
        return view.metadata.rest.clone();
    }
    let thread = &view.thread;
    let facts = Facts {
        sender: &thread.sender.handle,
        recipient: &thread.recipient.handle,
        intent: thread.intent,
        proposed_action: view.intent.proposed_action().map(|action| &**action),
        generation: thread.generation,
        accepted_at: thread.ends.accepted_at,
    };
    let facts = to_raw_value(&facts).ok()?;
    view.metadata.with_member(URI, &facts)
}
