//! Dead letters: updates that were given up on.

use rusqlite::{Connection, OptionalExtension};

use crate::domain::id::{DeadLetterId, Row};
use crate::domain::time::Timestamp;
use crate::domain::webhook::{DeadLetter, shown_url};
use crate::error::Result;
use crate::store::Tx;
use crate::store::webhooks::{Outgoing, Position, outgoing};

/// Inserts the update that a webhook could not be told at this place.
pub fn insert(tx: &mut Tx<'_>, at: Position, tries: i64, error: &str) -> Result<()> {
    let id = DeadLetterId::from(tx.next_id());
    tx.prepare_cached(
        "INSERT INTO dead_letters (ulid, webhook, generation, position, tries, error, died_at)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute((id, at.webhook, at.generation + 1, at.told, tries, error, tx.now))?;
    Ok(())
}

/// Lists dead letters, newest first.
pub fn list(conn: &Connection, count: usize) -> Result<Vec<DeadLetter>> {
    let mut statement = conn.prepare_cached(
        "SELECT l.ulid, agents.handle AS sender, threads.ulid AS thread, l.generation, w.name, w.url, l.tries, l.error,
             l.died_at, l.due_at IS NOT NULL AS retrying
         FROM dead_letters l
             JOIN webhooks w ON w.id = l.webhook
             JOIN threads ON threads.id = w.thread
             JOIN agents ON agents.id = w.sender
         ORDER BY l.id DESC LIMIT ?",
    )?;
    let letters = statement.query_map([i64::try_from(count).unwrap_or(i64::MAX)], |row| {
        Ok(DeadLetter {
            id: row.get("ulid")?,
            sender: row.get("sender")?,
            thread: row.get("thread")?,
            generation: row.get("generation")?,
            webhook: row.get("name")?,
            url: shown_url(&row.get::<_, String>("url")?),
            tries: row.get("tries")?,
            error: row.get("error")?,
            died_at: row.get("died_at")?,
            retrying: row.get("retrying")?,
        })
    })?;
    Ok(letters.collect::<rusqlite::Result<_>>()?)
}

/// Whether there is this dead letter.
pub fn exists(conn: &Connection, id: DeadLetterId) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM dead_letters WHERE ulid = ?")?.exists([id])?)
}

/// Notes that a dead letter is to be tried once more, as soon as possible.
pub fn update_due(tx: &Tx<'_>, id: DeadLetterId) -> Result<()> {
    tx.execute("UPDATE dead_letters SET due_at = coalesce(due_at, ?) WHERE ulid = ?", (tx.now, id))?;
    Ok(())
}

/// The same for all of them. Returns how many there are.
pub fn update_all_due(tx: &Tx<'_>) -> Result<usize> {
    Ok(tx.execute("UPDATE dead_letters SET due_at = coalesce(due_at, ?)", [tx.now])?)
}

/// Deletes a dead letter.
pub fn delete(tx: &Tx<'_>, id: DeadLetterId) -> Result<()> {
    tx.prepare_cached("DELETE FROM dead_letters WHERE ulid = ?")?.execute([id])?;
    Ok(())
}

/// Deletes all of them. Returns how many there were.
pub fn delete_all(tx: &Tx<'_>) -> Result<usize> {
    Ok(tx.execute("DELETE FROM dead_letters", [])?)
}

/// Lists those that are to be tried once more, with whose webhooks they are for.
pub fn list_due(conn: &Connection, now: Timestamp, count: usize) -> Result<Vec<(DeadLetterId, Row)>> {
    let mut statement = conn.prepare_cached(
        "SELECT l.ulid, w.sender FROM dead_letters l JOIN webhooks w ON w.id = l.webhook
         WHERE l.due_at <= ? ORDER BY l.due_at LIMIT ?",
    )?;
    let due =
        statement.query_map((now, i64::try_from(count).unwrap_or(i64::MAX)), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(due.collect::<rusqlite::Result<_>>()?)
}

/// Finds what a dead letter has to tell, if it is to be tried once more.
pub fn find_outgoing(conn: &Connection, id: DeadLetterId) -> Result<Option<Outgoing>> {
    let mut statement = conn.prepare_cached(
        "SELECT l.webhook, w.thread, l.generation - 1 AS generation, l.position AS told, l.tries, w.url, w.token,
             w.scheme, w.credentials
         FROM dead_letters l JOIN webhooks w ON w.id = l.webhook WHERE l.ulid = ? AND l.due_at IS NOT NULL",
    )?;
    Ok(statement.query_row([id], outgoing).optional()?)
}

/// Notes that it failed once more, and that nobody wants it tried again for now.
pub fn update_failed(tx: &Tx<'_>, id: DeadLetterId, tries: i64, error: &str) -> Result<()> {
    tx.prepare_cached("UPDATE dead_letters SET due_at = NULL, tries = ?, error = ?, died_at = ? WHERE ulid = ?")?
        .execute((tries, error, tx.now, id))?;
    Ok(())
}
