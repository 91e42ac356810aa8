//! Messages, clustered by their thread.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use crate::domain::agent::Participant;
use crate::domain::id::{MessageId, Row};
use crate::domain::message::{Draft, Message};
use crate::domain::part::Parts;
use crate::domain::thread::Thread;
use crate::error::{Error, Result};
use crate::store::Tx;
use crate::store::values::{Stored, StoredList};

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its thread.
    pub thread: Row,
    /// Its place in it.
    pub sequence_no: i64,
    /// The change that brings it.
    pub generation: i64,
    /// Who says it.
    pub author: Row,
}

/// Inserts a message.
pub fn insert(tx: &mut Tx<'_>, place: Place, draft: &Draft) -> Result<MessageId> {
    let id = MessageId::from(tx.next_id());
    let parts = draft.parts.documents.as_ref().map(serde_json::to_string).transpose().map_err(Error::internal)?;
    tx.prepare_cached(
        "INSERT INTO messages (thread, sequence_no, ulid, generation, author, created_at, role, body, parts, payload,
             envelope)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute((
        place.thread,
        place.sequence_no,
        id,
        place.generation,
        place.author,
        tx.now,
        draft.role.as_deref(),
        &draft.parts.body,
        parts,
        draft.payload.as_ref().map(|payload| payload.get()),
        draft.envelope.as_ref().map(|envelope| envelope.get()),
    ))?;
    Ok(id)
}

macro_rules! select_messages {
    ($rest:literal) => {
        concat!(
            "SELECT sequence_no, ulid, generation, author, created_at, role, body, parts, payload, envelope
             FROM messages ",
            $rest
        )
    };
}

/// Lists the messages of a thread from the place `from` to the place `until`, in order.
pub fn list_between(conn: &Connection, thread: &Thread, from: i64, until: i64) -> Result<Vec<Message>> {
    let mut statement =
        conn.prepare_cached(select_messages!("WHERE thread = ? AND sequence_no BETWEEN ? AND ? ORDER BY sequence_no"))?;
    let messages = statement.query_map((thread.row, from, until), |row| message(row, thread))?;
    Ok(messages.collect::<rusqlite::Result<_>>()?)
}

/// Finds the message that came with the last change of a thread. The text of another one is not read: it may be long.
pub fn find_latest(conn: &Connection, thread: &Thread) -> Result<Option<Message>> {
    let mut statement =
        conn.prepare_cached(select_messages!("WHERE thread = ? AND sequence_no = ? AND generation = ?"))?;
    let parameters = (thread.row, thread.message_count, thread.generation);
    Ok(statement.query_row(parameters, |row| message(row, thread)).optional()?)
}

/// Finds the id of a message by its place.
pub fn find_id(conn: &Connection, thread: Row, sequence_no: i64) -> Result<MessageId> {
    let mut statement = conn.prepare_cached("SELECT ulid FROM messages WHERE thread = ? AND sequence_no = ?")?;
    Ok(statement.query_row((thread, sequence_no), |row| row.get(0))?)
}

/// Counts the messages of others than `reader` after the first one and after `sequence_no`.
pub fn count_unread(conn: &Connection, thread: Row, reader: Row, sequence_no: i64) -> Result<i64> {
    let mut statement = conn
        .prepare_cached("SELECT count(*) FROM messages WHERE thread = ? AND sequence_no > max(1, ?) AND author <> ?")?;
    Ok(statement.query_row((thread, sequence_no, reader), |row| row.get(0))?)
}

/// Columns by position: a thread is read as often as anything, and names are looked up one by one.
fn message(row: &SqlRow<'_>, thread: &Thread) -> rusqlite::Result<Message> {
    let author: Row = row.get(3)?;
    let author: &Participant = if author == thread.sender.row { &thread.sender } else { &thread.recipient };
    let parts: Option<StoredList> = row.get(7)?;
    let payload: Option<Stored> = row.get(8)?;
    let envelope: Option<Stored> = row.get(9)?;
    Ok(Message {
        sequence_no: row.get(0)?,
        id: row.get(1)?,
        generation: row.get(2)?,
        author: author.handle.clone(),
        author_id: author.id,
        created_at: row.get(4)?,
        draft: Draft {
            role: row.get(5)?,
            parts: Parts { body: row.get(6)?, documents: parts.map(|parts| parts.0) },
            payload: payload.map(|payload| payload.0),
            envelope: envelope.map(|envelope| envelope.0),
        },
    })
}
