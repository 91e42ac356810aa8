//! Blocks: whom an agent does not want to hear from.

use rusqlite::Connection;

use crate::domain::agent::Handle;
use crate::domain::id::Row;
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::store::Tx;

/// A block, as the blocker sees it.
#[derive(Clone, Debug)]
pub struct Block {
    /// Who is blocked.
    pub handle: Handle,
    /// What people call it.
    pub name: String,
    /// What it does in its team.
    pub role: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Since when.
    pub blocked_at: Timestamp,
}

/// Inserts a block. False when it was there already.
pub fn insert(tx: &Tx<'_>, blocker: Row, blocked: Row, reason: Option<&str>) -> Result<bool> {
    let inserted = tx.execute(
        "INSERT OR IGNORE INTO blocks (blocker, blocked, reason, created_at) VALUES (?, ?, ?, ?)",
        (blocker, blocked, reason, tx.now),
    )?;
    Ok(inserted > 0)
}

/// Deletes a block. False when there was none.
pub fn delete(tx: &Tx<'_>, blocker: Row, blocked: Row) -> Result<bool> {
    Ok(tx.execute("DELETE FROM blocks WHERE blocker = ? AND blocked = ?", (blocker, blocked))? > 0)
}

/// Whether `blocker` has blocked `blocked`.
pub fn exists(conn: &Connection, blocker: Row, blocked: Row) -> Result<bool> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM blocks WHERE blocker = ? AND blocked = ?")?;
    Ok(statement.exists((blocker, blocked))?)
}

/// Lists the blocks of an agent by handle.
pub fn list(conn: &Connection, blocker: Row) -> Result<Vec<Block>> {
    let mut statement = conn.prepare_cached(
        "SELECT handle, name, role, reason, blocks.created_at FROM blocks JOIN agents ON agents.id = blocks.blocked
         WHERE blocker = ? ORDER BY handle",
    )?;
    let blocks = statement.query_map([blocker], |row| {
        Ok(Block {
            handle: row.get("handle")?,
            name: row.get("name")?,
            role: row.get("role")?,
            reason: row.get("reason")?,
            blocked_at: row.get("created_at")?,
        })
    })?;
    Ok(blocks.collect::<rusqlite::Result<_>>()?)
}
