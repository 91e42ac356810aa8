//! `message/send`: a new handoff, or a message into a thread.

use serde::Serialize;

use crate::api::rpc::wire::{artifacts, expected_generation};
use crate::api::rpc::{Text, result};
use crate::api::status::StatusBody;
use crate::domain::id::{MessageId, ThreadId};
use crate::domain::intent::Intent;
use crate::domain::json::{Document, Issues, Object};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::thread::Receipt;
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::relay::send::{Append, Handoff};
use crate::relay::threads::thread_id;
use crate::relay::{Caller, Relay};

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Text> {
    let receipt = match params.optional("task_id") {
        None => relay.send(caller, handoff(&params)?).await?,
        Some(task_id) => {
            let mut issues = Issues::default();
            let task_id = task_id.string(&mut issues);
            let (message, artifacts, metadata) = content(&params, &mut issues);
            let expected_generation = expected_generation(&params, &mut issues);
            let (task_id, mut message) = issues.take(task_id.zip(message))?;
            // A message without a payload of its own shows what its author said beside it.
            message.payload = message.payload.or_else(|| metadata.rest.clone());
            let thread = thread_id(&task_id)?;
            let append = Append { artifacts, metadata, expected_generation, ..Append::new(thread, message) };
            relay.append(caller, append).await?
        }
    };
    result(&SentBody::from(&receipt))
}

fn handoff(params: &Object<'_>) -> Result<Handoff> {
    let mut issues = Issues::default();
    let recipient = params.required("recipient", &mut issues).and_then(|value| value.handle(&mut issues));
    let (intent, proposed_action) = Intent::read(params, &mut issues);
    let (message, artifacts, metadata) = content(params, &mut issues);
    let (recipient, message) = issues.take(recipient.zip(message))?;
    let intent = Intent::new(intent, proposed_action)?;
    Ok(Handoff { artifacts, metadata, ..Handoff::new(recipient, intent, message) })
}

fn content(params: &Object<'_>, issues: &mut Issues) -> (Option<Draft>, Vec<Document>, Metadata) {
    let message = params.required("message", issues).and_then(|value| Draft::read(value, issues));
    let payload = params.optional("payload").and_then(|value| {
        let document = value.document();
        value.object(issues).map(|_| document)
    });
    let message = message.map(|message| Draft { payload, ..message });
    (message, artifacts(params, issues), Metadata::read(params, issues))
}

#[derive(Serialize)]
struct SentBody {
    task_id: ThreadId,
    thread_id: ThreadId,
    status: StatusBody,
    generation: i64,
    message_id: Option<MessageId>,
    sequence_no: Option<i64>,
    created_at: Timestamp,
}

impl From<&Receipt> for SentBody {
    fn from(receipt: &Receipt) -> SentBody {
        SentBody {
            task_id: receipt.thread,
            thread_id: receipt.thread,
            status: receipt.state.into(),
            generation: receipt.generation,
            message_id: receipt.message.map(|(id, _)| id),
            sequence_no: receipt.message.map(|(_, sequence_no)| sequence_no),
            created_at: receipt.at,
        }
    }
}
