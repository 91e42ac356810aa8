//! Threads, and what their senders said beside the first message.

use std::sync::Arc;

use rusqlite::types::FromSqlError;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params};

use crate::domain::agent::Participant;
use crate::domain::id::{Row, ThreadId};
use crate::domain::intent::Intent;
use crate::domain::metadata::Metadata;
use crate::domain::thread::{Ends, Thread, preview};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};
use crate::error::Result;
use crate::store::Tx;
use crate::store::values::Stored;

/// Up to so many threads that changed since a moment are sorted in memory; beyond, walking the box from its newest end finds
/// a page of them sooner.
const RECENT_MAX: usize = 1_000;

/// Inserts a thread with its first message still to come.
pub fn insert(tx: &mut Tx<'_>, sender: Row, recipient: Row, intent: &Intent, summary: &str) -> Result<(Row, ThreadId)> {
    let id = ThreadId::from(tx.next_id());
    tx.prepare_cached(
        "INSERT INTO threads (ulid, sender, recipient, state, generation, message_count, intent, sender_read,
             recipient_read, created_at, updated_at, summary_preview)
         VALUES (:ulid, :sender, :recipient, 'pending', 1, 1, :intent, 1, 0, :now, :now, :preview)",
    )?
    .execute(named_params! {
        ":ulid": id,
        ":sender": sender,
        ":recipient": recipient,
        ":intent": intent.name(),
        ":now": tx.now,
        ":preview": preview(summary),
    })?;
    Ok((tx.last_insert_rowid(), id))
}

/// What a sender said beside the first message.
#[derive(Clone, Copy)]
pub struct HandoffRow<'a> {
    /// Its metadata, with the idempotency key.
    pub metadata: &'a Metadata,
    /// What it wants.
    pub intent: &'a Intent,
    /// The conversation that the thread is part of, when not one of its own.
    pub context_id: Option<&'a str>,
}

/// Inserts what the sender said beside the first message, if it said anything.
pub fn insert_handoff(tx: &Tx<'_>, thread: Row, handoff: &HandoffRow<'_>) -> Result<()> {
    let HandoffRow { metadata, intent, context_id } = *handoff;
    let rest = metadata.rest.as_ref().map(|rest| rest.get());
    let action = intent.proposed_action().map(|action| action.get());
    if metadata.idempotency_key.is_none() && rest.is_none() && action.is_none() && context_id.is_none() {
        return Ok(());
    }
    tx.prepare_cached(
        "INSERT INTO handoffs (thread, idempotency_key, metadata, proposed_action, context_id) VALUES (?, ?, ?, ?, ?)",
    )?
    .execute((thread, metadata.idempotency_key.as_deref(), rest, action, context_id))?;
    Ok(())
}

/// Makes a thread part of a conversation, for this agent.
pub fn insert_context(tx: &Tx<'_>, agent: Row, context_id: &str, thread: Row) -> Result<()> {
    tx.prepare_cached("INSERT INTO contexts (agent, context_id, thread) VALUES (?, ?, ?)")?
        .execute((agent, context_id, thread))?;
    Ok(())
}

/// Finds what the sender said beside the first message: metadata, intent, and the conversation it is part of.
pub fn find_handoff(conn: &Connection, thread: &Thread) -> Result<(Metadata, Intent, Option<String>)> {
    let mut statement = conn.prepare_cached(
        "SELECT idempotency_key, metadata, proposed_action, context_id FROM handoffs WHERE thread = ?",
    )?;
    let found = statement
        .query_row([thread.row], |row| {
            let rest: Option<Stored> = row.get(1)?;
            let action: Option<Stored> = row.get(2)?;
            Ok((
                Metadata { idempotency_key: row.get(0)?, rest: rest.map(|rest| rest.0) },
                action.map(|action| action.0),
                row.get(3)?,
            ))
        })
        .optional()?;
    let (metadata, action, context_id) = found.unwrap_or_default();
    Ok((metadata, Intent::new(thread.intent, action)?, context_id))
}

/// Finds the recipient's account of how the thread ended.
pub fn find_result_summary(conn: &Connection, thread: Row) -> Result<Option<String>> {
    Ok(conn.prepare_cached("SELECT result_summary FROM threads WHERE id = ?")?.query_row([thread], |row| row.get(0))?)
}

/// Writes a thread's next version over the one that `thread` was made from, which has the generation before. False when
/// somebody else wrote first.
pub fn update(tx: &Tx<'_>, thread: &Thread, result_summary: Option<&str>) -> Result<bool> {
    let changed = tx
        .prepare_cached(
            "UPDATE threads SET state = :state, generation = :generation, message_count = :message_count,
                 sender_read = :sender_read, recipient_read = :recipient_read, sender_unread = :sender_unread,
                 recipient_unread = :recipient_unread, updated_at = :updated_at, accepted_at = :accepted_at,
                 completed_at = :completed_at, cancelled_at = :cancelled_at, session_id = :session_id,
                 result_summary = coalesce(:result_summary, result_summary)
             WHERE id = :id AND generation = :generation - 1",
        )?
        .execute(named_params! {
            ":id": thread.row,
            ":state": thread.state,
            ":generation": thread.generation,
            ":message_count": thread.message_count,
            ":sender_read": thread.read.0,
            ":recipient_read": thread.read.1,
            ":sender_unread": thread.unread.0,
            ":recipient_unread": thread.unread.1,
            ":updated_at": thread.updated_at,
            ":accepted_at": thread.ends.accepted_at,
            ":completed_at": thread.ends.completed_at,
            ":cancelled_at": thread.ends.cancelled_at,
            ":session_id": thread.session_id,
            ":result_summary": result_summary,
        })?;
    Ok(changed == 1)
}

/// Notes up to where a side has read, and what waits for it since. No change of the thread.
pub fn update_read(tx: &Tx<'_>, thread: Row, side: Side, sequence_no: i64, unread: i64) -> Result<()> {
    let sql = match side {
        Side::Sender => "UPDATE threads SET sender_read = ?, sender_unread = ? WHERE id = ?",
        Side::Recipient => "UPDATE threads SET recipient_read = ?, recipient_unread = ? WHERE id = ?",
    };
    tx.prepare_cached(sql)?.execute((sequence_no, unread, thread))?;
    Ok(())
}

macro_rules! select_threads {
    ($rest:literal) => {
        concat!(
            "SELECT id, ulid, state, generation, message_count, intent, sender_read, recipient_read, sender_unread,
                 recipient_unread, created_at, updated_at, accepted_at, completed_at, cancelled_at, session_id,
                 summary_preview, sender, recipient
             FROM threads ",
            $rest
        )
    };
}

/// Finds a thread.
pub fn find(conn: &Connection, id: ThreadId) -> Result<Option<Thread>> {
    let mut statement = conn.prepare_cached(select_threads!("WHERE ulid = ?"))?;
    let mut participants = Participants::new(conn);
    Ok(statement.query_row([id], |row| thread(row, &mut participants)).optional()?)
}

/// The threads in these rows.
pub fn get_all(conn: &Connection, rows: &[Row]) -> Result<Vec<Thread>> {
    let mut statement = conn.prepare_cached(select_threads!("WHERE id = ?"))?;
    let mut participants = Participants::new(conn);
    let mut threads = Vec::with_capacity(rows.len());
    for id in rows {
        threads.push(statement.query_row([id], |row| thread(row, &mut participants))?);
    }
    Ok(threads)
}

/// The thread in this row.
pub fn get(conn: &Connection, row: Row) -> Result<Thread> {
    let mut participants = Participants::new(conn);
    let mut statement = conn.prepare_cached(select_threads!("WHERE id = ?"))?;
    Ok(statement.query_row([row], |row| thread(row, &mut participants))?)
}

/// The participants of a list of threads, each looked up once: a box is full of the same few.
struct Participants<'a> {
    conn: &'a Connection,
    known: Vec<Arc<Participant>>,
}

impl<'a> Participants<'a> {
    fn new(conn: &'a Connection) -> Participants<'a> {
        Participants { conn, known: Vec::new() }
    }

    fn get(&mut self, row: Row) -> rusqlite::Result<Arc<Participant>> {
        if let Some(known) = self.known.iter().find(|known| known.row == row) {
            return Ok(known.clone());
        }
        let mut statement = self.conn.prepare_cached("SELECT ulid, handle, name, role FROM agents WHERE id = ?")?;
        let found = statement.query_row([row], |found| {
            Ok(Participant { row, id: found.get(0)?, handle: found.get(1)?, name: found.get(2)?, role: found.get(3)? })
        })?;
        let found = Arc::new(found);
        self.known.push(found.clone());
        Ok(found)
    }
}

/// The row of a thread.
pub fn find_row(conn: &Connection, id: ThreadId) -> Result<Option<Row>> {
    let mut statement = conn.prepare_cached("SELECT id FROM threads WHERE ulid = ?")?;
    Ok(statement.query_row([id], |row| row.get(0)).optional()?)
}

/// What a list of threads is about.
#[derive(Clone, Debug)]
pub struct Mailbox {
    /// Whose threads.
    pub agent: Row,
    /// On which side of them the agent is.
    pub side: Side,
    /// In which states; all when empty.
    pub states: Vec<State>,
    /// Changed at this moment or later.
    pub since: Option<Timestamp>,
}

/// Lists the rows of a box, newest thread first: those created before the thread in `before`, at most `count`.
pub fn list_rows(conn: &Connection, list: &Mailbox, before: Row, count: usize) -> Result<Vec<Row>> {
    match list.since {
        Some(since) => list_rows_since(conn, list, since, before, count),
        None => list_rows_ever(conn, list, before, count),
    }
}

fn list_rows_ever(conn: &Connection, list: &Mailbox, before: Row, count: usize) -> Result<Vec<Row>> {
    let limit = i64::try_from(count).unwrap_or(i64::MAX);
    if list.states.is_empty() {
        let mut statement = conn.prepare_cached(in_any_state(list.side))?;
        let rows = statement.query_map((list.agent, before, limit), |row| row.get(0))?;
        return Ok(rows.collect::<rusqlite::Result<_>>()?);
    }
    // One indexed read per state, merged: a sort over all of them would read the whole box.
    let mut rows = Vec::with_capacity(count * list.states.len());
    let mut statement = conn.prepare_cached(in_state(list.side))?;
    for state in &list.states {
        let found = statement.query_map((list.agent, state, before, limit), |row| row.get(0))?;
        for row in found {
            rows.push(row?);
        }
    }
    Ok(newest(rows, count))
}

fn list_rows_since(conn: &Connection, list: &Mailbox, since: Timestamp, before: Row, count: usize) -> Result<Vec<Row>> {
    let wanted = |state: State| list.states.is_empty() || list.states.contains(&state);
    let mut changed: Vec<(Row, State)> = Vec::new();
    let mut statement = conn.prepare_cached(changed_since(list.side))?;
    let limit = i64::try_from(RECENT_MAX + 1).unwrap_or(i64::MAX);
    for row in statement.query_map((list.agent, since, limit), |row| Ok((row.get(0)?, row.get(1)?)))? {
        changed.push(row?);
    }
    if changed.len() > RECENT_MAX {
        return walk_updated_since(conn, list, since, before, count);
    }
    let changed = changed.into_iter().filter(|(row, state)| *row < before && wanted(*state)).map(|(row, _)| row);
    let mut rows: Vec<Row> = changed.collect();
    if wanted(State::Pending) {
        rows.extend(unchanged_since(conn, list, since, before, count)?);
    }
    Ok(newest(rows, count))
}

/// The newest threads that are as they were sent, at this moment or later. Ids only grow, and none is older than its
/// thread: at the first older id there are no more.
fn unchanged_since(conn: &Connection, list: &Mailbox, since: Timestamp, before: Row, count: usize) -> Result<Vec<Row>> {
    let mut statement = conn.prepare_cached(pending(list.side))?;
    let mut walk = statement.query((list.agent, before))?;
    let mut rows = Vec::new();
    while let Some(row) = walk.next()?
        && rows.len() < count
    {
        let (id, ulid, generation, updated_at): (Row, ThreadId, i64, Timestamp) = row.try_into()?;
        if ulid.made_at() < since {
            break;
        }
        if generation == 1 && updated_at >= since {
            rows.push(id);
        }
    }
    Ok(rows)
}

fn walk_updated_since(
    conn: &Connection,
    list: &Mailbox,
    since: Timestamp,
    before: Row,
    count: usize,
) -> Result<Vec<Row>> {
    let mut rows = Vec::with_capacity(count);
    let mut statement = conn.prepare_cached(newest_updated_since(list.side))?;
    let mut walk = statement.query((list.agent, before, since))?;
    while let Some(row) = walk.next()?
        && rows.len() < count
    {
        if list.states.is_empty() || list.states.contains(&row.get(1)?) {
            rows.push(row.get(0)?);
        }
    }
    Ok(rows)
}

fn newest(mut rows: Vec<Row>, count: usize) -> Vec<Row> {
    rows.sort_unstable_by(|left, right| right.cmp(left));
    rows.truncate(count);
    rows
}

/// The statements behind a list of threads, for each side. The tests look at their plans.
pub fn list_statements(side: Side) -> [&'static str; 6] {
    [
        in_any_state(side),
        in_state(side),
        changed_since(side),
        pending(side),
        newest_updated_since(side),
        select_threads!("WHERE id = ?"),
    ]
}

const fn in_any_state(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id FROM threads INDEXED BY threads_inbox
             WHERE recipient = ? AND id < ? ORDER BY id DESC LIMIT ?"
        }
        Side::Sender => {
            "SELECT id FROM threads INDEXED BY threads_sent
             WHERE sender = ? AND id < ? ORDER BY id DESC LIMIT ?"
        }
    }
}

const fn in_state(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id FROM threads INDEXED BY threads_inbox_by_state
             WHERE recipient = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT ?"
        }
        Side::Sender => {
            "SELECT id FROM threads INDEXED BY threads_sent_by_state
             WHERE sender = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT ?"
        }
    }
}

const fn newest_updated_since(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id, state FROM threads INDEXED BY threads_inbox
             WHERE recipient = ? AND id < ? AND updated_at >= ? ORDER BY id DESC"
        }
        Side::Sender => {
            "SELECT id, state FROM threads INDEXED BY threads_sent
             WHERE sender = ? AND id < ? AND updated_at >= ? ORDER BY id DESC"
        }
    }
}

const fn pending(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id, ulid, generation, updated_at FROM threads INDEXED BY threads_inbox_by_state
             WHERE recipient = ? AND state = 'pending' AND id < ? ORDER BY id DESC"
        }
        Side::Sender => {
            "SELECT id, ulid, generation, updated_at FROM threads INDEXED BY threads_sent_by_state
             WHERE sender = ? AND state = 'pending' AND id < ? ORDER BY id DESC"
        }
    }
}

const fn changed_since(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id, state FROM threads INDEXED BY threads_inbox_by_update
             WHERE recipient = ? AND updated_at >= ? AND generation > 1 ORDER BY updated_at LIMIT ?"
        }
        Side::Sender => {
            "SELECT id, state FROM threads INDEXED BY threads_sent_by_update
             WHERE sender = ? AND updated_at >= ? AND generation > 1 ORDER BY updated_at LIMIT ?"
        }
    }
}

/// Columns by position: lists read fifty of these, and names are looked up one by one.
fn thread(row: &SqlRow<'_>, participants: &mut Participants<'_>) -> rusqlite::Result<Thread> {
    Ok(Thread {
        row: row.get(0)?,
        id: row.get(1)?,
        state: row.get(2)?,
        generation: row.get(3)?,
        message_count: row.get(4)?,
        intent: intent_name(row.get_ref(5)?.as_str()?)?,
        read: (row.get(6)?, row.get(7)?),
        unread: (row.get(8)?, row.get(9)?),
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
        ends: Ends { accepted_at: row.get(12)?, completed_at: row.get(13)?, cancelled_at: row.get(14)? },
        session_id: row.get(15)?,
        summary_preview: row.get(16)?,
        sender: participants.get(row.get(17)?)?,
        recipient: participants.get(row.get(18)?)?,
    })
}

fn intent_name(name: &str) -> rusqlite::Result<&'static str> {
    Intent::NAMES.into_iter().find(|known| *known == name).ok_or_else(|| FromSqlError::InvalidType.into())
}
