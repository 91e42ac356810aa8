//! `tasks/get`: a whole thread.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::api::rpc::wire::{ParticipantBody, task_id};
use crate::api::rpc::{Text, result};
use crate::api::status::StatusBody;
use crate::domain::agent::Handle;
use crate::domain::id::{AgentId, MessageId, Row, ThreadId};
use crate::domain::json::{Document, Issues, Object};
use crate::domain::message::{Message, empty_object};
use crate::domain::thread::ThreadView;
use crate::domain::time::Timestamp;
use crate::domain::transition::Side;
use crate::error::{Error, Result};
use crate::relay::threads::thread_id;
use crate::relay::{Caller, Relay};

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Text> {
    let mut issues = Issues::default();
    let task_id = task_id(&params, &mut issues);
    let task_id = issues.take(task_id)?;
    body(&relay.thread(caller, thread_id(&task_id)?).await?)
}

fn body(view: &ThreadView) -> Result<Text> {
    let thread = &view.thread;
    let empty = empty_object();
    let messages = view.messages.iter().map(|message| MessageBody::of(view, message, &empty)).collect::<Vec<_>>();
    // Old clients read the same list by two names.
    let messages = to_raw_value(&messages).map_err(Error::internal)?;
    let with_generation = |generation| artifacts(view, move |came_with, _| came_with == generation);
    let metadata = match view.side {
        Side::Sender => view.metadata.with_key(),
        Side::Recipient => view.metadata.rest.clone(),
    };
    result(&ThreadBody {
        thread_id: thread.id,
        task_id: thread.id,
        status: thread.state.into(),
        generation: thread.generation,
        sender: (&*thread.sender).into(),
        recipient: (&*thread.recipient).into(),
        sender_id: thread.sender.id,
        recipient_id: thread.recipient.id,
        summary: view.messages.first().map_or("", |first| &first.draft.parts.body),
        intent: thread.intent,
        artifacts: with_generation(1),
        proposed_action: view.intent.proposed_action().map(|action| &**action),
        metadata: metadata.as_deref().unwrap_or(&empty),
        messages: &messages,
        history: &messages,
        completed_summary: view.result_summary.as_deref(),
        completion_artifacts: if thread.state.is_terminal() { with_generation(thread.generation) } else { Vec::new() },
        result_artifacts: artifacts(view, |_, author| author == thread.recipient.row),
        session_id: thread.session_id.as_deref(),
        accepted_at: thread.ends.accepted_at,
        completed_at: thread.ends.completed_at,
        cancelled_at: thread.ends.cancelled_at,
        created_at: thread.created_at,
        updated_at: thread.updated_at,
    })
}

fn artifacts(view: &ThreadView, wanted: impl Fn(i64, Row) -> bool) -> Vec<&RawValue> {
    let artifacts = view.artifacts.iter().filter(|artifact| wanted(artifact.generation, artifact.author));
    artifacts.map(|artifact| &*artifact.document).collect()
}

#[derive(Serialize)]
struct ThreadBody<'a> {
    thread_id: ThreadId,
    task_id: ThreadId,
    status: StatusBody,
    generation: i64,
    sender: ParticipantBody<'a>,
    recipient: ParticipantBody<'a>,
    sender_id: AgentId,
    recipient_id: AgentId,
    summary: &'a str,
    intent: &'a str,
    artifacts: Vec<&'a RawValue>,
    proposed_action: Option<&'a RawValue>,
    metadata: &'a RawValue,
    messages: &'a RawValue,
    history: &'a RawValue,
    /// The recipient's account of how it ended.
    completed_summary: Option<&'a str>,
    /// What came with the end.
    completion_artifacts: Vec<&'a RawValue>,
    /// Everything that the recipient attached, in order.
    result_artifacts: Vec<&'a RawValue>,
    session_id: Option<&'a str>,
    accepted_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    cancelled_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

#[derive(Serialize)]
struct MessageBody<'a> {
    id: MessageId,
    sequence_no: i64,
    from: &'a Handle,
    author_id: AgentId,
    role: &'a str,
    body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<&'a [Document]>,
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    envelope: Option<&'a RawValue>,
    artifacts: Vec<&'a RawValue>,
    created_at: Timestamp,
}

impl<'a> MessageBody<'a> {
    fn of(view: &'a ThreadView, message: &'a Message, empty: &'a RawValue) -> MessageBody<'a> {
        let draft = &message.draft;
        let by_sender = message.author_id == view.thread.sender.id;
        MessageBody {
            id: message.id,
            sequence_no: message.sequence_no,
            from: &message.author,
            author_id: message.author_id,
            role: draft.role.as_deref().unwrap_or(if by_sender { "user" } else { "agent" }),
            body: &draft.parts.body,
            parts: draft.parts.documents.as_deref().filter(|_| draft.parts.has_more_than_text()),
            payload: draft.payload.as_deref().unwrap_or(empty),
            envelope: draft.envelope.as_deref(),
            artifacts: artifacts(view, |generation, _| generation == message.generation),
            created_at: message.created_at,
        }
    }
}
