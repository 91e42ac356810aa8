//! Watching one thread: as it is, and change by change from then on. The log is read, so that a watcher may be slow, be
//! cut off and come back, and sees each change once and in order.

use std::time::Duration;

use tokio::sync::watch;

use crate::domain::change::ThreadChange;
use crate::domain::id::ThreadId;
use crate::domain::thread::{Thread, ThreadView};
use crate::domain::transition::Side;
use crate::error::{Error, Result};
use crate::relay::events::RECHECK;
use crate::relay::threads::find_as_participant;
use crate::relay::{Caller, Relay};
use crate::store::bell::Topic;
use crate::store::{Connection, artifacts, events, messages, threads};

/// How many changes are read at once.
const BATCH: usize = 50;

/// The changes of a thread, one batch after the other.
pub struct Watcher {
    relay: Relay,
    caller: Caller,
    bell: watch::Receiver<i64>,
    thread: Thread,
    after: i64,
}

impl Watcher {
    /// Waits until the thread has changed and gives the changes, oldest first. May be dropped at any moment without
    /// losing any.
    ///
    /// # Errors
    /// Also when the caller's key has stopped working meanwhile, within [`RECHECK`].
    pub async fn next(&mut self) -> Result<Vec<ThreadChange>> {
        loop {
            // The bell is marked as heard before the log is read: a change in between rings again.
            self.bell.borrow_and_update();
            let found = self.relay.store().look_up_together(|conn| changes(conn, &self.thread, self.after, BATCH))?;
            // Asked after the reading: what was written once the key had stopped working is not told to it.
            self.relay.authenticate_again(&self.caller)?;
            if let Some(last) = found.last() {
                self.after = last.generation;
                return Ok(found);
            }
            // Whether it rang or not: the log is looked at again.
            let _ = tokio::time::timeout(RECHECK, self.bell.changed()).await;
        }
    }
}

impl Relay {
    /// A thread as it is, and what happens to it from then on. No read cursor moves.
    ///
    /// # Errors
    /// `thread_not_found`, `not_a_participant`.
    pub async fn watch(&self, caller: &Caller, id: ThreadId) -> Result<(ThreadView, Watcher)> {
        let view = self.peek(caller, id).await?;
        let watcher = self.watcher(caller, view.thread.clone(), view.thread.generation);
        Ok((view, watcher))
    }

    /// A thread as it was after the change `generation`, with `artifacts` of the change after that one, and what happened
    /// to it since `generation`. `None` when the thread has not come so far.
    ///
    /// # Errors
    /// `thread_not_found`, `not_a_participant`.
    pub async fn watch_from(
        &self,
        caller: &Caller,
        id: ThreadId,
        generation: i64,
        artifacts: usize,
    ) -> Result<Option<(ThreadView, Watcher)>> {
        let view = self.peek(caller, id).await?;
        let standing = self.store().look_up_together(|conn| changes(conn, &view.thread, generation - 1, 1))?;
        let Some(standing) = standing.first().filter(|standing| standing.generation == generation) else {
            return Ok(None);
        };
        let watcher = self.watcher(caller, view.thread.clone(), generation);
        Ok(Some((view.as_of(standing, artifacts), watcher)))
    }

    fn watcher(&self, caller: &Caller, thread: Thread, after: i64) -> Watcher {
        let bell = self.store().bell().listen(Topic::Thread(thread.row));
        Watcher { relay: self.clone(), caller: caller.clone(), bell, thread, after }
    }

    /// Waits until the recipient has let go of the thread, by ending it or by asking for input, but no longer than
    /// `patience`, nor past the end of `stop`. Gives the thread as it is then.
    ///
    /// # Errors
    /// As [`Relay::watch`].
    pub async fn wait_for_recipient(
        &self,
        caller: &Caller,
        id: ThreadId,
        patience: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<ThreadView> {
        let row = self.store().look_up(|conn| find_as_participant(conn, caller, id))?.0.row;
        let mut bell = self.store().bell().listen(Topic::Thread(row));
        let let_go = async {
            loop {
                bell.borrow_and_update();
                let thread = self.store().look_up(|conn| threads::get(conn, row))?;
                if thread.state.waits_for_sender() {
                    return Ok::<_, Error>(());
                }
                let _ = tokio::time::timeout(RECHECK, bell.changed()).await;
                self.authenticate_again(caller)?;
            }
        };
        tokio::select! {
            biased;
            outcome = let_go => outcome?,
            () = tokio::time::sleep(patience) => {}
            () = stop => {}
        }
        self.peek(caller, id).await
    }
}

/// The changes of a thread after the version `after`, oldest first, at most `count`.
pub(super) fn changes(conn: &Connection, thread: &Thread, after: i64, count: usize) -> Result<Vec<ThreadChange>> {
    let versions = events::list_versions(conn, thread.row, after, count)?;
    let Some(last) = versions.last() else {
        return Ok(Vec::new());
    };
    let mut with_message = versions.iter().filter_map(|version| version.sequence_no);
    let mut messages = match with_message.next() {
        Some(from) => messages::list_between(conn, thread, from, with_message.next_back().unwrap_or(from))?,
        None => Vec::new(),
    };
    let mut artifacts = artifacts::list_between(conn, thread.row, after, last.generation)?;
    let mut changes = Vec::with_capacity(versions.len());
    for version in versions {
        let generation = version.generation;
        let ended = version.state.is_terminal();
        let rest = artifacts.split_off(artifacts.partition_point(|artifact| artifact.generation <= generation));
        changes.push(ThreadChange {
            generation,
            state: version.state,
            at: version.at,
            by: if version.actor == Some(thread.sender.row) { Side::Sender } else { Side::Recipient },
            message: take_first(&mut messages, |message| message.generation == generation),
            artifacts: std::mem::replace(&mut artifacts, rest),
            result_summary: if ended { threads::find_result_summary(conn, thread.row)? } else { None },
        });
    }
    Ok(changes)
}

fn take_first<T>(items: &mut Vec<T>, wanted: impl Fn(&T) -> bool) -> Option<T> {
    items.iter().position(wanted).map(|position| items.remove(position))
}
