//! Keys, by their hashes.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params};

use crate::domain::agent::Handle;
use crate::domain::id::{AgentId, KeyId, Row};
use crate::domain::key::{Key, KeyHash, KeyOptions, KeyRecord};
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::store::Tx;

/// Who holds a key, and whether it still works.
#[derive(Clone, Debug)]
pub struct Holder {
    /// The key's row.
    pub key: Row,
    /// The agent's row.
    pub agent: Row,
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent's handle.
    pub handle: Handle,
    /// Whether the agent is disabled.
    pub disabled: bool,
    /// Whether the key was revoked.
    pub revoked: bool,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
}

/// Inserts a key.
pub fn insert(tx: &mut Tx<'_>, agent: Row, key: &Key, options: &KeyOptions) -> Result<KeyId> {
    let id = KeyId::from(tx.next_id());
    tx.prepare_cached(
        "INSERT INTO keys (ulid, agent, hash, prefix, label, created_at, expires_at)
         VALUES (:ulid, :agent, :hash, :prefix, :label, :now, :expires_at)",
    )?
    .execute(named_params! {
        ":ulid": id,
        ":agent": agent,
        ":hash": key.hash().as_bytes(),
        ":prefix": key.shown_prefix(),
        ":label": options.label,
        ":now": tx.now,
        ":expires_at": options.expires_at,
    })?;
    Ok(id)
}

/// Finds the holder of the key with this hash.
pub fn find_holder(conn: &Connection, hash: &KeyHash) -> Result<Option<Holder>> {
    let mut statement = conn.prepare_cached(
        "SELECT keys.id, agent, agents.ulid, handle, disabled_at, revoked_at, expires_at, hash
         FROM keys JOIN agents ON agents.id = keys.agent WHERE hash = ?",
    )?;
    let found = statement
        .query_row([hash.as_bytes()], |row| {
            let stored: [u8; 32] = row.get("hash")?;
            let holder = Holder {
                key: row.get("id")?,
                agent: row.get("agent")?,
                agent_id: row.get("ulid")?,
                handle: row.get("handle")?,
                disabled: row.get::<_, Option<Timestamp>>("disabled_at")?.is_some(),
                revoked: row.get::<_, Option<Timestamp>>("revoked_at")?.is_some(),
                expires_at: row.get("expires_at")?,
            };
            Ok((stored, holder))
        })
        .optional()?;
    Ok(found.filter(|(stored, _)| hash.matches(stored)).map(|(_, holder)| holder))
}

/// Lists keys, oldest first: of one agent or of all.
pub fn list(conn: &Connection, agent: Option<Row>) -> Result<Vec<KeyRecord>> {
    let mut statement = conn.prepare_cached(
        "SELECT keys.*, agents.handle FROM keys JOIN agents ON agents.id = keys.agent
         WHERE :agent IS NULL OR keys.agent = :agent ORDER BY keys.id",
    )?;
    let keys = statement.query_map(named_params! { ":agent": agent }, record)?.collect::<rusqlite::Result<_>>()?;
    Ok(keys)
}

/// Finds a key by its id, with its agent's row.
pub fn find_by_id(conn: &Connection, id: KeyId) -> Result<Option<(KeyRecord, Row)>> {
    let mut statement = conn.prepare_cached(
        "SELECT keys.*, agents.handle FROM keys JOIN agents ON agents.id = keys.agent WHERE keys.ulid = ?",
    )?;
    Ok(statement.query_row([id], |row| Ok((record(row)?, row.get("agent")?))).optional()?)
}

/// Revokes one key.
pub fn revoke(tx: &Tx<'_>, id: KeyId) -> Result<()> {
    tx.execute("UPDATE keys SET revoked_at = ? WHERE ulid = ? AND revoked_at IS NULL", (tx.now, id))?;
    Ok(())
}

/// Revokes all keys of an agent.
pub fn revoke_all(tx: &Tx<'_>, agent: Row) -> Result<()> {
    tx.execute("UPDATE keys SET revoked_at = ? WHERE agent = ? AND revoked_at IS NULL", (tx.now, agent))?;
    Ok(())
}

/// Notes when keys were last used.
pub fn update_last_used(tx: &Tx<'_>, used: &[(Row, Timestamp)]) -> Result<()> {
    let mut statement = tx.prepare_cached("UPDATE keys SET last_used_at = ? WHERE id = ?")?;
    for (key, at) in used {
        statement.execute((at, key))?;
    }
    Ok(())
}

fn record(row: &SqlRow<'_>) -> rusqlite::Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.get("ulid")?,
        agent: row.get("handle")?,
        prefix: row.get("prefix")?,
        label: row.get("label")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        revoked_at: row.get("revoked_at")?,
        last_used_at: row.get("last_used_at")?,
    })
}
