//! Artifacts, by the change of their thread that brought them.

use rusqlite::Connection;

use crate::domain::id::Row;
use crate::domain::json::Document;
use crate::domain::thread::ThreadArtifact;
use crate::error::Result;
use crate::store::Tx;
use crate::store::values::Stored;

/// Inserts the artifacts of one change.
pub fn insert(tx: &Tx<'_>, thread: Row, generation: i64, author: Row, artifacts: &[Document]) -> Result<()> {
    if artifacts.is_empty() {
        return Ok(());
    }
    let mut statement = tx.prepare_cached(
        "INSERT INTO artifacts (thread, generation, position, author, document) VALUES (?, ?, ?, ?, ?)",
    )?;
    for (position, document) in (0_i64..).zip(artifacts) {
        statement.execute((thread, generation, position, author, document.get()))?;
    }
    Ok(())
}

/// Lists the artifacts of a thread that came after the version `after`, up to `until`, in order.
pub fn list_between(conn: &Connection, thread: Row, after: i64, until: i64) -> Result<Vec<ThreadArtifact>> {
    let mut statement = conn.prepare_cached(
        "SELECT generation, author, document FROM artifacts
         WHERE thread = ? AND generation > ? AND generation <= ? ORDER BY generation, position",
    )?;
    let artifacts = statement.query_map((thread, after, until), |row| {
        Ok(ThreadArtifact { generation: row.get(0)?, author: row.get(1)?, document: row.get::<_, Stored>(2)?.0 })
    })?;
    Ok(artifacts.collect::<rusqlite::Result<_>>()?)
}
