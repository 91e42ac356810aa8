//! Webhooks. The log is the outbox: a webhook knows up to where it was told, and when to try the next.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params};

use crate::domain::id::Row;
use crate::domain::time::Timestamp;
use crate::domain::webhook::{Authentication, Secret, Target, Webhook};
use crate::error::Result;
use crate::store::Tx;
use crate::store::bell::Topic;

/// Where a webhook stands in its thread. A statement that moves it names the place that it was judged at: whoever removed
/// or replaced the webhook meanwhile was first. The thread is there because rows are used again.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The webhook.
    pub webhook: Row,
    /// Its thread.
    pub thread: Row,
    /// It was told up to this change,
    pub generation: i64,
    /// and so many updates of the one after it.
    pub told: i64,
}

/// What has to be told, and where: the only way that token and credentials leave the file.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where the webhook stands, or stood.
    pub position: Position,
    /// How often this update was tried.
    pub tries: i64,
    /// Where it leads.
    pub target: Target,
}

/// Inserts a webhook that is told what happens after the change `generation`, in place of the one with its name.
pub fn insert(tx: &Tx<'_>, thread: Row, sender: Row, generation: i64, name: &str, target: &Target) -> Result<()> {
    let authentication = target.authentication.as_ref();
    let credentials = authentication.and_then(|authentication| authentication.credentials.as_ref());
    tx.prepare_cached(
        "INSERT INTO webhooks (thread, sender, name, url, token, scheme, credentials, created_at, generation)
         VALUES (:thread, :sender, :name, :url, :token, :scheme, :credentials, :now, :generation)
         ON CONFLICT (thread, name) DO UPDATE SET url = excluded.url, token = excluded.token,
             scheme = excluded.scheme, credentials = excluded.credentials, created_at = excluded.created_at,
             generation = excluded.generation, told = 0, tries = 0, due_at = NULL",
    )?
    .execute(named_params! {
        ":thread": thread,
        ":sender": sender,
        ":name": name,
        ":url": target.url,
        ":token": target.token.as_ref().map(Secret::reveal),
        ":scheme": authentication.map(|authentication| &authentication.scheme),
        ":credentials": credentials.map(Secret::reveal),
        ":now": tx.now,
        ":generation": generation,
    })?;
    Ok(())
}

/// Deletes a webhook with its dead letters. False when there was none.
pub fn delete(tx: &Tx<'_>, thread: Row, name: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM webhooks WHERE thread = ? AND name = ?", (thread, name))? > 0)
}

/// Finds a webhook of a thread.
pub fn find(conn: &Connection, thread: Row, name: &str) -> Result<Option<Webhook>> {
    let mut statement = conn.prepare_cached("SELECT name, url, scheme FROM webhooks WHERE thread = ? AND name = ?")?;
    Ok(statement.query_row((thread, name), webhook).optional()?)
}

/// Lists the webhooks of a thread, by name.
pub fn list(conn: &Connection, thread: Row) -> Result<Vec<Webhook>> {
    let mut statement = conn.prepare_cached("SELECT name, url, scheme FROM webhooks WHERE thread = ? ORDER BY name")?;
    let webhooks = statement.query_map([thread], webhook)?;
    Ok(webhooks.collect::<rusqlite::Result<_>>()?)
}

/// Counts the webhooks of a thread beside the one with this name.
pub fn count_others(conn: &Connection, thread: Row, name: &str) -> Result<usize> {
    let mut statement = conn.prepare_cached("SELECT count(*) FROM webhooks WHERE thread = ? AND name <> ?")?;
    let count: i64 = statement.query_row((thread, name), |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The thread has changed: its webhooks have something to tell. One that had before keeps its time.
pub fn mark_due(tx: &mut Tx<'_>, thread: Row) -> Result<()> {
    let marked = tx
        .prepare_cached("UPDATE webhooks SET due_at = ? WHERE thread = ? AND due_at IS NULL")?
        .execute((tx.now, thread))?;
    if marked > 0 {
        tx.ring(Topic::Webhooks, tx.now.ms());
    }
    Ok(())
}

/// Finds the next agent after `after` whose webhooks have something to tell, and when the first of them is due.
pub fn find_next_sender(conn: &Connection, after: Row) -> Result<Option<(Row, Timestamp)>> {
    let mut statement = conn.prepare_cached(
        "SELECT sender, due_at FROM webhooks WHERE due_at IS NOT NULL AND sender > ? ORDER BY sender, due_at LIMIT 1",
    )?;
    Ok(statement.query_row([after], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Lists the webhooks of an agent that are due, those that waited longest first.
pub fn list_due(conn: &Connection, sender: Row, now: Timestamp, count: usize) -> Result<Vec<Row>> {
    let mut statement =
        conn.prepare_cached("SELECT id FROM webhooks WHERE sender = ? AND due_at <= ? ORDER BY due_at LIMIT ?")?;
    let due = statement.query_map((sender, now, i64::try_from(count).unwrap_or(i64::MAX)), |row| row.get(0))?;
    Ok(due.collect::<rusqlite::Result<_>>()?)
}

/// Finds what a webhook has to tell, if it still has something.
pub fn find_outgoing(conn: &Connection, webhook: Row) -> Result<Option<Outgoing>> {
    let mut statement = conn.prepare_cached(
        "SELECT id AS webhook, thread, generation, told, tries, url, token, scheme, credentials
         FROM webhooks WHERE id = ? AND due_at IS NOT NULL",
    )?;
    Ok(statement.query_row([webhook], outgoing).optional()?)
}

/// Moves a webhook on to `generation` and `told`. It is due again when there is more. False when it is elsewhere by now.
pub fn update_position(tx: &Tx<'_>, from: Position, generation: i64, told: i64) -> Result<bool> {
    let moved = tx
        .prepare_cached(
            "UPDATE webhooks SET generation = :generation, told = :told, tries = 0,
                 due_at = CASE WHEN :generation < (SELECT generation FROM threads WHERE id = :thread) THEN :now END
             WHERE id = :webhook AND thread = :thread AND generation = :from_generation AND told = :from_told",
        )?
        .execute(named_params! {
            ":generation": generation,
            ":told": told,
            ":now": tx.now,
            ":webhook": from.webhook,
            ":thread": from.thread,
            ":from_generation": from.generation,
            ":from_told": from.told,
        })?;
    Ok(moved > 0)
}

/// Notes that the next update was tried so often, and when to try again. False when the webhook is elsewhere by now.
pub fn update_tries(tx: &Tx<'_>, at: Position, tries: i64, due_at: Timestamp) -> Result<bool> {
    let noted = tx
        .prepare_cached(
            "UPDATE webhooks SET tries = ?, due_at = ? WHERE id = ? AND thread = ? AND generation = ? AND told = ?",
        )?
        .execute((tries, due_at, at.webhook, at.thread, at.generation, at.told))?;
    Ok(noted > 0)
}

/// Token and credentials stay where they are.
fn webhook(row: &SqlRow<'_>) -> rusqlite::Result<Webhook> {
    let scheme: Option<String> = row.get("scheme")?;
    let authentication = scheme.map(|scheme| Authentication { scheme, credentials: None });
    Ok(Webhook { name: row.get("name")?, target: Target { url: row.get("url")?, token: None, authentication } })
}

/// What has to be told, from a row that has the columns of a webhook and its place.
pub(super) fn outgoing(row: &SqlRow<'_>) -> rusqlite::Result<Outgoing> {
    let secret = |column: &str| row.get::<_, Option<String>>(column).map(|text| text.map(Secret::new));
    let (scheme, credentials) = (row.get::<_, Option<String>>("scheme")?, secret("credentials")?);
    Ok(Outgoing {
        position: Position {
            webhook: row.get("webhook")?,
            thread: row.get("thread")?,
            generation: row.get("generation")?,
            told: row.get("told")?,
        },
        tries: row.get("tries")?,
        target: Target {
            url: row.get("url")?,
            token: secret("token")?,
            authentication: scheme.map(|scheme| Authentication { scheme, credentials }),
        },
    })
}
