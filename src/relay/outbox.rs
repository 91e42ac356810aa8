//! The outbox: what webhooks have to be told next. The log holds it, so that nothing is ever put here; a webhook has a
//! place in its thread and a time.
//!
//! Whoever carries the errands writes down that an update was told after it was: at least once, and in order. A webhook
//! that cannot be told is tried again, ever more rarely, and then goes on with the next update; the one it missed
//! becomes a dead letter.

use tokio::sync::watch;

use crate::domain::change::ThreadChange;
use crate::domain::id::{DeadLetterId, Row, fill_random};
use crate::domain::thread::Thread;
use crate::domain::time::Timestamp;
use crate::domain::webhook::{TRIES_MAX, Target, retry_delay};
use crate::error::{Error, Result};
use crate::relay::Relay;
use crate::relay::watch::changes;
use crate::store::bell::Topic;
use crate::store::webhooks::{Outgoing, Position};
use crate::store::{Connection, agents, dead_letters, threads, webhooks};

/// Longest account of a failed try that is kept, in characters.
const ERROR_MAX: usize = 200;
/// How many dead letters that are to be tried once more are looked at together.
const LETTERS_MAX: usize = 256;

/// What an errand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A webhook's next change.
    Webhook(Row),
    /// A dead letter that is tried once more.
    DeadLetter(DeadLetterId),
}

/// Something that has to be told now.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// What it is for.
    pub purpose: Purpose,
    /// Whose webhook it is.
    pub sender: Row,
}

/// What there is to do.
#[derive(Debug, Default)]
pub struct Outbox {
    /// What has to be told now.
    pub due: Vec<Due>,
    /// When something else will be due, if anything is sure to be.
    pub next: Option<Timestamp>,
}

/// One change of a thread on its way to a webhook.
#[derive(Clone, Debug)]
pub struct Errand {
    /// Where to.
    pub target: Target,
    /// The thread, as it is now.
    pub thread: Thread,
    /// The conversation that it is part of; one of its own when absent.
    pub context_id: Option<String>,
    /// What happened.
    pub change: ThreadChange,
    /// Whether its sender may still be told.
    pub allowed: bool,
    purpose: Purpose,
    position: Position,
    tries: i64,
}

impl Errand {
    /// The update that is next, of those that the change has: a number from 0.
    pub fn next_update(&self) -> usize {
        usize::try_from(self.position.told).unwrap_or(usize::MAX)
    }

    /// Whether only this update is told, whatever else the change has.
    pub fn is_single(&self) -> bool {
        matches!(self.purpose, Purpose::DeadLetter(_))
    }
}

/// What became of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The next update of the same change may be told.
    Next,
    /// There is no more to tell for now: the change is told, the try is over, or the webhook is gone or another.
    Done,
}

impl Relay {
    /// Rings when a webhook has something to tell.
    pub fn outbox_bell(&self) -> watch::Receiver<i64> {
        self.store().bell().listen(Topic::Webhooks)
    }

    /// What has to be told now, beside what is under way: for each agent no more than `per_sender_max` in all, so that
    /// one whose receivers hang delays nobody else.
    pub fn outbox(&self, under_way: &[Due], per_sender_max: usize) -> Result<Outbox> {
        let now = self.clock().now();
        self.store().look_up_together(|conn| outbox(conn, now, under_way, per_sender_max))
    }

    /// Loads what has to be told. `None` when it is not to be told any more.
    pub async fn errand(&self, due: Due) -> Result<Option<Errand>> {
        self.store().read(move |conn| errand(conn, due.purpose)).await
    }

    /// Notes that the errand's next update arrived. Its change has `updates` in all.
    pub async fn told(&self, errand: &mut Errand, updates: usize) -> Result<Onward> {
        let (purpose, from) = (errand.purpose, errand.position);
        if let Purpose::DeadLetter(id) = purpose {
            self.store().write(move |tx| dead_letters::delete(tx, id)).await?;
            return Ok(Onward::Done);
        }
        let to = after(from, updates);
        let moved = self.store().write(move |tx| webhooks::update_position(tx, from, to.generation, to.told)).await?;
        errand.position = to;
        errand.tries = 0;
        Ok(if moved && to.generation == from.generation { Onward::Next } else { Onward::Done })
    }

    /// Notes that the errand's next update could not be told, and why. Its change has `updates` in all.
    ///
    /// Returns whether it was given up on.
    pub async fn failed(&self, errand: &Errand, updates: usize, error: &str) -> Result<bool> {
        let (purpose, at, tries) = (errand.purpose, errand.position, errand.tries + 1);
        let error: String = error.chars().take(ERROR_MAX).collect();
        let mut roll = [0];
        fill_random(&mut roll);
        let delay_ms = i64::try_from(retry_delay(tries, roll[0]).as_millis()).unwrap_or(i64::MAX);
        self.store()
            .write(move |tx| {
                if let Purpose::DeadLetter(id) = purpose {
                    dead_letters::update_failed(tx, id, tries, &error)?;
                    return Ok(true);
                }
                if tries < TRIES_MAX {
                    webhooks::update_tries(tx, at, tries, Timestamp::from_ms(tx.now.ms() + delay_ms))?;
                    return Ok(false);
                }
                let to = after(at, updates);
                let moved = webhooks::update_position(tx, at, to.generation, to.told)?;
                if moved {
                    dead_letters::insert(tx, at, tries, &error)?;
                }
                Ok(moved)
            })
            .await
    }
}

fn outbox(conn: &Connection, now: Timestamp, under_way: &[Due], per_sender_max: usize) -> Result<Outbox> {
    let mut outbox = Outbox::default();
    let is_under_way = |purpose: Purpose| under_way.iter().any(|due| due.purpose == purpose);
    let of = |sender: Row, all: &[Due]| all.iter().filter(|due| due.sender == sender).count();
    let mut senders = Vec::new();
    let mut last = Row::MIN;
    while let Some((sender, due_at)) = webhooks::find_next_sender(conn, last)? {
        last = sender;
        if due_at <= now {
            senders.push((due_at, sender));
        } else {
            outbox.next = Some(outbox.next.map_or(due_at, |next| next.min(due_at)));
        }
    }
    // Whoever waited longest comes first, if there is not room for all.
    senders.sort_unstable();
    for (_, sender) in senders {
        let busy = of(sender, under_way);
        let found = webhooks::list_due(conn, sender, now, per_sender_max)?;
        let found = found.into_iter().map(Purpose::Webhook).filter(|purpose| !is_under_way(*purpose));
        let room = per_sender_max.saturating_sub(busy);
        outbox.due.extend(found.take(room).map(|purpose| Due { purpose, sender }));
    }
    for (id, sender) in dead_letters::list_due(conn, now, LETTERS_MAX)? {
        let purpose = Purpose::DeadLetter(id);
        if !is_under_way(purpose) && of(sender, under_way) + of(sender, &outbox.due) < per_sender_max {
            outbox.due.push(Due { purpose, sender });
        }
    }
    Ok(outbox)
}

fn errand(conn: &Connection, purpose: Purpose) -> Result<Option<Errand>> {
    let outgoing = match purpose {
        Purpose::Webhook(webhook) => webhooks::find_outgoing(conn, webhook)?,
        Purpose::DeadLetter(id) => dead_letters::find_outgoing(conn, id)?,
    };
    let Some(Outgoing { position, tries, target }) = outgoing else {
        return Ok(None);
    };
    let thread = threads::get(conn, position.thread)?;
    let change = changes(conn, &thread, position.generation, 1)?.pop();
    let change = change.ok_or_else(|| Error::internal("a webhook is due without a change to tell"))?;
    let (_, _, context_id) = threads::find_handoff(conn, &thread)?;
    let allowed = agents::get(conn, thread.sender.row)?.disabled_at.is_none();
    Ok(Some(Errand { target, thread, context_id, change, allowed, purpose, position, tries }))
}

/// The place after the next update of a change that has `updates`.
fn after(at: Position, updates: usize) -> Position {
    let told = at.told + 1;
    if usize::try_from(told).is_ok_and(|told| told < updates) {
        Position { told, ..at }
    } else {
        Position { generation: at.generation + 1, told: 0, ..at }
    }
}
