//! Shapes that several methods share.

use serde::Serialize;

use crate::api::status::StatusBody;
use crate::domain::agent::{Handle, Participant};
use crate::domain::artifact;
use crate::domain::id::{MessageId, ThreadId};
use crate::domain::json::{Document, Issues, Object, Path};
use crate::domain::page::Limit;
use crate::domain::thread::Receipt;
use crate::domain::time::Timestamp;

/// A participant of a thread.
#[derive(Serialize)]
pub(super) struct ParticipantBody<'a> {
    handle: &'a Handle,
    name: &'a str,
    role: Option<&'a str>,
}

impl<'a> From<&'a Participant> for ParticipantBody<'a> {
    fn from(participant: &'a Participant) -> ParticipantBody<'a> {
        ParticipantBody { handle: &participant.handle, name: &participant.name, role: participant.role.as_deref() }
    }
}

/// What is answered to a transition.
#[derive(Serialize)]
pub(super) struct TransitionBody {
    thread_id: ThreadId,
    task_id: ThreadId,
    status: StatusBody,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_no: Option<i64>,
    accepted_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    cancelled_at: Option<Timestamp>,
    updated_at: Timestamp,
}

impl From<&Receipt> for TransitionBody {
    fn from(receipt: &Receipt) -> TransitionBody {
        TransitionBody {
            thread_id: receipt.thread,
            task_id: receipt.thread,
            status: receipt.state.into(),
            generation: receipt.generation,
            message_id: receipt.message.map(|(id, _)| id),
            sequence_no: receipt.message.map(|(_, sequence_no)| sequence_no),
            accepted_at: receipt.ends.accepted_at,
            completed_at: receipt.ends.completed_at,
            cancelled_at: receipt.ends.cancelled_at,
            updated_at: receipt.at,
        }
    }
}

/// Reads `task_id`.
pub(super) fn task_id<'a>(params: &Object<'a>, issues: &mut Issues) -> Option<std::borrow::Cow<'a, str>> {
    params.required("task_id", issues)?.string(issues)
}

/// Reads `expected_generation`.
pub(super) fn expected_generation(params: &Object<'_>, issues: &mut Issues) -> Option<i64> {
    params.optional("expected_generation")?.integer(issues)
}

/// Reads `artifacts`; none when absent.
pub(super) fn artifacts(params: &Object<'_>, issues: &mut Issues) -> Vec<Document> {
    params.optional("artifacts").map(|value| artifact::read(value, issues)).unwrap_or_default()
}

/// Reads `page`: its limit and cursor.
pub(super) fn page(params: &Object<'_>, issues: &mut Issues) -> (Limit, Option<String>) {
    let page = params.optional("page").and_then(|value| value.object(issues));
    let page = page.unwrap_or_else(|| Object::empty(Path::root()));
    let limit = page.optional("limit").and_then(|value| {
        let limit = Limit::new(value.integer(issues)?, Limit::MAX);
        if limit.is_none() {
            issues.add(page.at("limit"), "invalid_value", format!("a page holds 1 to {} rows", Limit::MAX));
        }
        limit
    });
    let cursor = page.optional("cursor").and_then(|value| value.string(issues));
    (limit.unwrap_or(Limit::DEFAULT), cursor.map(std::borrow::Cow::into_owned))
}
