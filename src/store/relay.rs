//! What there is one of: the single row of `relay`.

use rusqlite::{Connection, OptionalExtension};

use crate::domain::agent::Agent;
use crate::domain::id::Row;
use crate::error::Result;
use crate::store::{Tx, agents};

/// The default agent, once there is one.
pub fn find_default_agent(conn: &Connection) -> Result<Option<Agent>> {
    let mut statement =
        conn.prepare_cached("SELECT agents.* FROM relay JOIN agents ON agents.id = relay.default_agent")?;
    Ok(statement.query_row([], agents::agent).optional()?)
}

/// Makes this agent the default.
pub fn update_default_agent(tx: &Tx<'_>, agent: Row) -> Result<()> {
    tx.execute("UPDATE relay SET default_agent = ?", [agent])?;
    Ok(())
}

/// Makes this agent the default of a file that has none.
pub fn insert_default_agent(tx: &Tx<'_>, agent: Row) -> Result<()> {
    tx.execute("UPDATE relay SET default_agent = ? WHERE default_agent IS NULL", [agent])?;
    Ok(())
}

/// Notes that the file could be written.
pub fn update_checked_at(tx: &Tx<'_>) -> Result<()> {
    tx.execute("UPDATE relay SET checked_at = ?", [tx.now])?;
    Ok(())
}
