//! A change of a thread: its next version, what that brings along, its event, and the name of the call that made it. All
//! of it is written here, in one transaction, or none.

use serde_json::json;

use crate::domain::event::EventKind;
use crate::domain::id::Row;
use crate::domain::json::Document;
use crate::domain::message::Draft;
use crate::domain::thread::{Receipt, Thread};
use crate::domain::transition::{Side, State};
use crate::error::{Error, Result, Symbol};
use crate::relay::Caller;
use crate::store::events::Change;
use crate::store::idempotency::{self, Call};
use crate::store::messages::Place;
use crate::store::{Tx, artifacts, blocks, events, messages, threads, webhooks};

/// What is about to become of a thread.
pub(super) struct Next<'a> {
    /// The thread as it was judged.
    pub(super) thread: &'a Thread,
    /// The side that changes it.
    pub(super) side: Side,
    /// Its state afterwards.
    pub(super) state: State,
    /// The event that this is.
    pub(super) kind: EventKind,
    /// The session that does it.
    pub(super) session_id: Option<&'a str>,
    pub(super) message: Option<&'a Draft>,
    pub(super) artifacts: &'a [Document],
    pub(super) result_summary: Option<&'a str>,
}

/// Writes the next version, if the thread is still the one that was judged.
pub(super) fn commit(tx: &mut Tx<'_>, caller: &Caller, call: Option<&Call>, next: &Next<'_>) -> Result<Receipt> {
    let thread = next_version(tx, next);
    if !threads::update(tx, &thread, next.result_summary)? {
        return Err(state_changed(next.thread));
    }
    let mut change = Change::of(&thread);
    let mut receipt = Receipt {
        thread: thread.id,
        generation: thread.generation,
        state: thread.state,
        message: None,
        at: tx.now,
        ends: thread.ends,
    };
    if let Some(message) = next.message {
        let sequence_no = thread.message_count;
        let place = Place { thread: thread.row, sequence_no, generation: thread.generation, author: caller.row() };
        receipt.message = Some((messages::insert(tx, place, message)?, sequence_no));
        change.sequence_no = Some(sequence_no);
    }
    artifacts::insert(tx, thread.row, thread.generation, caller.row(), next.artifacts)?;
    let detail = next.session_id.map(|session_id| json!({ "session_id": session_id }));
    let event = events::append_to_thread(tx, &caller.actor(), next.kind, change, detail.as_ref())?;
    webhooks::mark_due(tx, thread.row)?;
    remember(tx, call, event)?;
    Ok(receipt)
}

fn next_version(tx: &Tx<'_>, next: &Next<'_>) -> Thread {
    let mut thread = Thread {
        generation: next.thread.generation + 1,
        state: next.state,
        updated_at: tx.now,
        ends: next.thread.ends.reaching(next.state, tx.now),
        ..next.thread.clone()
    };
    if next.kind == EventKind::ThreadAccepted {
        thread.session_id = next.session_id.map(ToOwned::to_owned);
    }
    if next.message.is_some() {
        thread.message_count += 1;
        match next.side {
            Side::Sender => thread.unread.1 += 1,
            Side::Recipient => thread.unread.0 += 1,
        }
    }
    thread
}

/// Remembers what the call did, when it has a name.
pub(super) fn remember(tx: &Tx<'_>, call: Option<&Call>, event: i64) -> Result<()> {
    match call {
        Some(call) => idempotency::insert(tx, call, event),
        None => Ok(()),
    }
}

/// Whoever blocked the caller gets nothing more from it.
pub(super) fn refuse_if_blocked(tx: &Tx<'_>, other: Row, caller: &Caller) -> Result<()> {
    if blocks::exists(tx, other, caller.row())? {
        return Err(Error::new(
            Symbol::TeammateBlocked,
            "The other side has blocked you; ask your person to talk to theirs",
        ));
    }
    Ok(())
}

/// A caller who said which version it means is not served another.
pub(super) fn refuse_if_changed(thread: &Thread, expected_generation: Option<i64>) -> Result<()> {
    match expected_generation {
        Some(expected) if expected != thread.generation => Err(state_changed(thread)),
        _ => Ok(()),
    }
}

/// Somebody else was first.
pub(super) fn state_changed(thread: &Thread) -> Error {
    let message = format!(
        "The thread was changed by another call; it is {} now. Read it with tasks/get, then decide",
        thread.state.name()
    );
    standing(Error::new(Symbol::StateChanged, message), thread)
}

/// Tells the caller where the thread stands.
pub(super) fn standing(error: Error, thread: &Thread) -> Error {
    let (status, detail) = thread.state.status();
    let error = error.with_detail("state", status).with_detail("generation", thread.generation);
    match detail {
        Some(detail) => error.with_detail("detail", detail),
        None => error,
    }
}
