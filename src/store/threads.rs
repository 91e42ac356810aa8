//! Threads, and what their senders said beside the first message.

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

/// Up to so many threads changed since a moment are sorted in memory; beyond, walking the box from its newest end finds
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

/// Inserts what the sender said beside the first message, if it said anything.
pub fn insert_handoff(tx: &Tx<'_>, thread: Row, metadata: &Metadata, intent: &Intent) -> Result<()> {
    let rest = metadata.rest.as_ref().map(|rest| rest.get());
    let action = intent.proposed_action().map(|action| action.get());
    if metadata.idempotency_key.is_none() && rest.is_none() && action.is_none() {
        return Ok(());
    }
    tx.prepare_cached("INSERT INTO handoffs (thread, idempotency_key, metadata, proposed_action) VALUES (?, ?, ?, ?)")?
        .execute((thread, metadata.idempotency_key.as_deref(), rest, action))?;
    Ok(())
}

/// Finds what the sender said beside the first message.
pub fn find_handoff(conn: &Connection, thread: &Thread) -> Result<(Metadata, Intent)> {
    let mut statement =
        conn.prepare_cached("SELECT idempotency_key, metadata, proposed_action FROM handoffs WHERE thread = ?")?;
    let found = statement
        .query_row([thread.row], |row| {
            let rest: Option<Stored> = row.get(1)?;
            let action: Option<Stored> = row.get(2)?;
            Ok((
                Metadata { idempotency_key: row.get(0)?, rest: rest.map(|rest| rest.0) },
                action.map(|action| action.0),
            ))
        })
        .optional()?;
    let (metadata, action) = found.unwrap_or_default();
    Ok((metadata, Intent::new(&thread.intent, action)?))
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
            "SELECT t.id, t.ulid, t.state, t.generation, t.message_count, t.intent, t.sender_read, t.recipient_read,
                 t.sender_unread, t.recipient_unread, t.created_at, t.updated_at, t.accepted_at, t.completed_at,
                 t.cancelled_at, t.session_id, t.summary_preview,
                 s.id, s.ulid, s.handle, s.name, s.role, r.id, r.ulid, r.handle, r.name, r.role
             FROM threads t JOIN agents s ON s.id = t.sender JOIN agents r ON r.id = t.recipient ",
            $rest
        )
    };
}

/// Finds a thread.
pub fn find(conn: &Connection, id: ThreadId) -> Result<Option<Thread>> {
    let mut statement = conn.prepare_cached(select_threads!("WHERE t.ulid = ?"))?;
    Ok(statement.query_row([id], thread).optional()?)
}

/// The thread in this row.
pub fn get(conn: &Connection, row: Row) -> Result<Thread> {
    Ok(conn.prepare_cached(select_threads!("WHERE t.id = ?"))?.query_row([row], thread)?)
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
    if let Some(since) = list.since {
        let recent = recently_updated(conn, list, since)?;
        if recent.len() <= RECENT_MAX {
            let wanted = |state: &State| list.states.is_empty() || list.states.contains(state);
            let recent = recent.into_iter().filter(|(row, state)| *row < before && wanted(state)).map(|(row, _)| row);
            return Ok(newest(recent.collect(), count));
        }
    }
    let since = list.since.map_or(i64::MIN, Timestamp::ms);
    let count_sql = i64::try_from(count).unwrap_or(i64::MAX);
    if list.states.is_empty() {
        let mut statement = conn.prepare_cached(in_any_state(list.side))?;
        let rows = statement.query_map((list.agent, before, since, count_sql), |row| row.get(0))?;
        return Ok(rows.collect::<rusqlite::Result<_>>()?);
    }
    // One indexed read per state, merged: a sort over all of them would read the whole box.
    let mut rows = Vec::with_capacity(count * list.states.len());
    let mut statement = conn.prepare_cached(in_state(list.side))?;
    for state in &list.states {
        let found = statement.query_map((list.agent, state, before, since, count_sql), |row| row.get(0))?;
        for row in found {
            rows.push(row?);
        }
    }
    Ok(newest(rows, count))
}

fn newest(mut rows: Vec<Row>, count: usize) -> Vec<Row> {
    rows.sort_unstable_by(|left, right| right.cmp(left));
    rows.truncate(count);
    rows
}

fn recently_updated(conn: &Connection, list: &Mailbox, since: Timestamp) -> Result<Vec<(Row, State)>> {
    let mut statement = conn.prepare_cached(updated_since(list.side))?;
    let count = i64::try_from(RECENT_MAX + 1).unwrap_or(i64::MAX);
    let rows = statement.query_map((list.agent, since.ms(), count), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The statements behind a list of threads, for each side. The tests look at their plans.
pub fn list_statements(side: Side) -> [&'static str; 4] {
    [in_any_state(side), in_state(side), updated_since(side), select_threads!("WHERE t.id = ?")]
}

const fn in_any_state(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id FROM threads INDEXED BY threads_inbox
             WHERE recipient = ? AND id < ? AND updated_at >= ? ORDER BY id DESC LIMIT ?"
        }
        Side::Sender => {
            "SELECT id FROM threads INDEXED BY threads_sent
             WHERE sender = ? AND id < ? AND updated_at >= ? ORDER BY id DESC LIMIT ?"
        }
    }
}

const fn in_state(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id FROM threads INDEXED BY threads_inbox_by_state
             WHERE recipient = ? AND state = ? AND id < ? AND updated_at >= ? ORDER BY id DESC LIMIT ?"
        }
        Side::Sender => {
            "SELECT id FROM threads INDEXED BY threads_sent_by_state
             WHERE sender = ? AND state = ? AND id < ? AND updated_at >= ? ORDER BY id DESC LIMIT ?"
        }
    }
}

const fn updated_since(side: Side) -> &'static str {
    match side {
        Side::Recipient => {
            "SELECT id, state FROM threads INDEXED BY threads_inbox_by_update
             WHERE recipient = ? AND updated_at >= ? ORDER BY updated_at LIMIT ?"
        }
        Side::Sender => {
            "SELECT id, state FROM threads INDEXED BY threads_sent_by_update
             WHERE sender = ? AND updated_at >= ? ORDER BY updated_at LIMIT ?"
        }
    }
}

/// Columns by position: lists read fifty of these, and names are looked up one by one.
fn thread(row: &SqlRow<'_>) -> rusqlite::Result<Thread> {
    let participant = |first: usize| -> rusqlite::Result<Participant> {
        Ok(Participant {
            row: row.get(first)?,
            id: row.get(first + 1)?,
            handle: row.get(first + 2)?,
            name: row.get(first + 3)?,
            role: row.get(first + 4)?,
        })
    };
    Ok(Thread {
        row: row.get(0)?,
        id: row.get(1)?,
        state: row.get(2)?,
        generation: row.get(3)?,
        message_count: row.get(4)?,
        intent: row.get(5)?,
        read: (row.get(6)?, row.get(7)?),
        unread: (row.get(8)?, row.get(9)?),
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
        ends: Ends { accepted_at: row.get(12)?, completed_at: row.get(13)?, cancelled_at: row.get(14)? },
        session_id: row.get(15)?,
        summary_preview: row.get(16)?,
        sender: participant(17)?,
        recipient: participant(22)?,
    })
}
