//! Sending: a new handoff, or a message into a thread.

use crate::domain::agent::Handle;
use crate::domain::event::EventKind;
use crate::domain::id::ThreadId;
use crate::domain::intent::Intent;
use crate::domain::json::{Document, Path, issue};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::thread::{Ends, Receipt};
use crate::domain::transition::State;
use crate::domain::webhook::NewWebhook;
use crate::error::{Error, Result, Symbol};
use crate::relay::change::{Next, commit, refuse_if_blocked, refuse_if_changed, remember, standing};
use crate::relay::replay::{Payload, replay};
use crate::relay::threads::find_as_participant;
use crate::relay::{Caller, Relay, webhooks};
use crate::store::events::Change;
use crate::store::idempotency::Call;
use crate::store::messages::Place;
use crate::store::threads::HandoffRow;
use crate::store::{Tx, agents, artifacts, events, messages, threads};

/// A new handoff.
#[derive(Clone, Debug)]
pub struct Handoff {
    /// To whom.
    pub recipient: Handle,
    /// What for.
    pub intent: Intent,
    /// What the sender says.
    pub message: Draft,
    /// What it attaches.
    pub artifacts: Vec<Document>,
    /// What it says beside that.
    pub metadata: Metadata,
    /// The conversation that it is part of; one of its own when absent.
    pub context_id: Option<String>,
    /// Where the sender wants to be told what happens.
    pub webhook: Option<NewWebhook>,
}

/// A message into a thread.
#[derive(Clone, Debug)]
pub struct Append {
    /// The thread.
    pub thread: ThreadId,
    /// What the author says.
    pub message: Draft,
    /// What it attaches.
    pub artifacts: Vec<Document>,
    /// What it says beside that.
    pub metadata: Metadata,
    /// The version that the author has seen, when the message is only meant for that one.
    pub expected_generation: Option<i64>,
    /// Where the sender wants to be told what happens.
    pub webhook: Option<NewWebhook>,
}

impl Handoff {
    /// A bare handoff.
    pub fn new(recipient: Handle, intent: Intent, message: Draft) -> Handoff {
        Handoff {
            recipient,
            intent,
            message,
            artifacts: Vec::new(),
            metadata: Metadata::default(),
            context_id: None,
            webhook: None,
        }
    }
}

impl Append {
    /// A bare message.
    pub fn new(thread: ThreadId, message: Draft) -> Append {
        Append {
            thread,
            message,
            artifacts: Vec::new(),
            metadata: Metadata::default(),
            expected_generation: None,
            webhook: None,
        }
    }
}

impl Relay {
    /// Sends a new handoff: it waits, on disk, until its recipient accepts it.
    ///
    /// # Errors
    /// In this order: `invalid_params` for the webhook, `duplicate_idempotency_key`, `recipient_not_found`,
    /// `invalid_params` for oneself, `teammate_blocked`.
    pub async fn send(&self, caller: &Caller, handoff: Handoff) -> Result<Receipt> {
        webhooks::check(handoff.webhook.as_ref())?;
        let call = Payload::of("send", &handoff.metadata)
            .text(handoff.recipient.as_str())
            .text(handoff.intent.name())
            .document(handoff.intent.proposed_action())
            .draft(Some(&handoff.message))
            .documents(&handoff.artifacts)
            .extra("context_id", handoff.context_id.as_deref())
            .extra("webhook", handoff.webhook.as_ref().map(|webhook| &*webhook.target.url))
            .call(caller);
        let caller = caller.clone();
        self.store().write(move |tx| create(tx, &caller, call.as_ref(), &handoff)).await
    }

    /// Adds a message to a thread. An answer by the sender ends a wait for input.
    ///
    /// # Errors
    /// In this order: `invalid_params` for the webhook, `thread_not_found`, `not_a_participant`,
    /// `duplicate_idempotency_key`, `forbidden` for the recipient's webhook, `thread_terminal`, `teammate_blocked`,
    /// `state_changed`, `invalid_params` for one webhook too many.
    pub async fn append(&self, caller: &Caller, append: Append) -> Result<Receipt> {
        webhooks::check(append.webhook.as_ref())?;
        let call = Payload::of("append", &append.metadata)
            .text(&append.thread.to_string())
            .draft(Some(&append.message))
            .documents(&append.artifacts)
            .generation(append.expected_generation)
            .extra("webhook", append.webhook.as_ref().map(|webhook| &*webhook.target.url))
            .call(caller);
        let caller = caller.clone();
        self.store().write(move |tx| add(tx, &caller, call.as_ref(), &append)).await
    }
}

fn create(tx: &mut Tx<'_>, caller: &Caller, call: Option<&Call>, handoff: &Handoff) -> Result<Receipt> {
    if let Some(receipt) = replay(tx, tx.now, call)? {
        return Ok(receipt);
    }
    let recipient = agents::find_by_handle(tx, &handoff.recipient)?.filter(|agent| agent.disabled_at.is_none());
    let Some(recipient) = recipient else {
        return Err(Error::new(
            Symbol::RecipientNotFound,
            format!("No agent with handle '{}'; agents/list shows who is there", handoff.recipient),
        ));
    };
    if recipient.row == caller.row() {
        return Err(issue(Path::root().key("recipient"), "custom", "this is you; hand it to a teammate"));
    }
    refuse_if_blocked(tx, recipient.row, caller)?;

    let (thread, id) = threads::insert(tx, caller.row(), recipient.row, &handoff.intent, &handoff.message.parts.body)?;
    let context_id = handoff.context_id.as_deref();
    let row = HandoffRow { metadata: &handoff.metadata, intent: &handoff.intent, context_id };
    threads::insert_handoff(tx, thread, &row)?;
    if let Some(context_id) = context_id {
        threads::insert_context(tx, caller.row(), context_id, thread)?;
        threads::insert_context(tx, recipient.row, context_id, thread)?;
    }
    let place = Place { thread, sequence_no: 1, generation: 1, author: caller.row() };
    let message = messages::insert(tx, place, &handoff.message)?;
    artifacts::insert(tx, thread, 1, caller.row(), &handoff.artifacts)?;
    let change = Change {
        thread,
        participants: [caller.row(), recipient.row],
        generation: 1,
        state: State::Pending,
        sequence_no: Some(1),
    };
    let event = events::append_to_thread(tx, &caller.actor(), EventKind::ThreadCreated, change, None)?;
    if let Some(webhook) = &handoff.webhook {
        webhooks::insert(tx, thread, caller.row(), 1, webhook)?;
    }
    remember(tx, call, event)?;
    Ok(Receipt {
        thread: id,
        generation: 1,
        state: State::Pending,
        message: Some((message, 1)),
        at: tx.now,
        ends: Ends::default(),
    })
}

fn add(tx: &mut Tx<'_>, caller: &Caller, call: Option<&Call>, append: &Append) -> Result<Receipt> {
    let (thread, side) = find_as_participant(tx, caller, append.thread)?;
    if let Some(receipt) = replay(tx, tx.now, call)? {
        return Ok(receipt);
    }
    if append.webhook.is_some() {
        webhooks::refuse_recipient(side)?;
    }
    let Some(state) = thread.state.after_message(side) else {
        let message = format!("The thread is {} and takes no more messages; send a new handoff", thread.state.name());
        return Err(standing(Error::new(Symbol::ThreadTerminal, message), &thread));
    };
    refuse_if_blocked(tx, thread.other(side).row, caller)?;
    refuse_if_changed(&thread, append.expected_generation)?;
    if let Some(webhook) = &append.webhook {
        webhooks::refuse_if_full(tx, &thread, webhook, &webhooks::place())?;
    }

    let next = Next {
        thread: &thread,
        side,
        state,
        kind: EventKind::ThreadMessage,
        session_id: None,
        message: Some(&append.message),
        artifacts: &append.artifacts,
        result_summary: None,
    };
    let receipt = commit(tx, caller, call, &next)?;
    if let Some(webhook) = &append.webhook {
        webhooks::insert(tx, thread.row, caller.row(), receipt.generation, webhook)?;
    }
    Ok(receipt)
}
