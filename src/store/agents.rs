//! Agents and their handles.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params};

use crate::domain::agent::{Agent, AgentFilter, CardChange, Handle, NewAgent};
use crate::domain::id::{AgentId, Row};
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::store::{Tx, relay};

/// Inserts an agent and its handle. The first agent of a file becomes its default.
pub fn insert(tx: &mut Tx<'_>, agent: &NewAgent) -> Result<Agent> {
    let id = AgentId::from(tx.next_id());
    let name = agent.name.clone().unwrap_or_else(|| agent.handle.local_part().to_owned());
    tx.prepare_cached(
        "INSERT INTO agents (ulid, handle, name, email, role, created_at, changed_at)
         VALUES (:ulid, :handle, :name, :email, :role, :now, :now)",
    )?
    .execute(named_params! {
        ":ulid": id,
        ":handle": agent.handle,
        ":name": name,
        ":email": agent.email,
        ":role": agent.role,
        ":now": tx.now,
    })?;
    let row = tx.last_insert_rowid();
    insert_handle(tx, &agent.handle, row)?;
    relay::insert_default_agent(tx, row)?;
    Ok(Agent {
        row,
        id,
        handle: agent.handle.clone(),
        name,
        email: agent.email.clone(),
        role: agent.role.clone(),
        description: None,
        skills: Vec::new(),
        repos_owned: Vec::new(),
        created_at: tx.now,
        disabled_at: None,
        changed_at: tx.now,
    })
}

fn insert_handle(tx: &Tx<'_>, handle: &Handle, agent: Row) -> Result<()> {
    tx.execute("INSERT OR IGNORE INTO handles (handle, agent) VALUES (?, ?)", (handle, agent))?;
    Ok(())
}

/// Gives an agent another handle, which is free or was its own. The former one keeps reaching it.
pub fn update_handle(tx: &Tx<'_>, agent: Row, handle: &Handle) -> Result<()> {
    insert_handle(tx, handle, agent)?;
    tx.execute("UPDATE agents SET handle = ?, changed_at = ? WHERE id = ?", (handle, tx.now, agent))?;
    Ok(())
}

/// Disables an agent now, or enables it.
pub fn update_disabled(tx: &Tx<'_>, agent: Row, disabled_at: Option<Timestamp>) -> Result<()> {
    tx.execute("UPDATE agents SET disabled_at = ?, changed_at = ? WHERE id = ?", (disabled_at, tx.now, agent))?;
    Ok(())
}

/// Changes what is given. An empty text takes the old one away.
pub fn update_card(tx: &Tx<'_>, agent: Row, change: &CardChange) -> Result<()> {
    let list = |list: &Option<Vec<String>>| list.as_ref().map(|list| serde_json::json!(list).to_string());
    tx.execute(
        "UPDATE agents SET role = nullif(coalesce(:role, role), ''),
             description = nullif(coalesce(:description, description), ''),
             skills = coalesce(:skills, skills), repos_owned = coalesce(:repos_owned, repos_owned), changed_at = :now
         WHERE id = :agent",
        named_params! {
            ":role": change.role,
            ":description": change.description,
            ":skills": list(&change.skills),
            ":repos_owned": list(&change.repos_owned),
            ":now": tx.now,
            ":agent": agent,
        },
    )?;
    Ok(())
}

/// The agent that has or had this handle.
pub fn find_by_handle(conn: &Connection, handle: &Handle) -> Result<Option<Agent>> {
    let mut statement = conn.prepare_cached(
        "SELECT agents.* FROM handles JOIN agents ON agents.id = handles.agent WHERE handles.handle = ?",
    )?;
    Ok(statement.query_row([handle], agent).optional()?)
}

/// The agent with this id.
pub fn find_by_id(conn: &Connection, id: AgentId) -> Result<Option<Agent>> {
    let mut statement = conn.prepare_cached("SELECT * FROM agents WHERE ulid = ?")?;
    Ok(statement.query_row([id], agent).optional()?)
}

/// The agent in this row.
pub fn get(conn: &Connection, row: Row) -> Result<Agent> {
    Ok(conn.prepare_cached("SELECT * FROM agents WHERE id = ?")?.query_row([row], agent)?)
}

/// Lists agents by handle: those after `after` that match, at most `count`.
pub fn list(
    conn: &Connection,
    filter: &AgentFilter,
    with_disabled: bool,
    after: &str,
    count: usize,
) -> Result<Vec<Agent>> {
    let mut statement = conn.prepare_cached(
        "SELECT * FROM agents
         WHERE handle > :after
           AND (:with_disabled OR disabled_at IS NULL)
           AND (:role IS NULL OR role = :role)
           AND (:skill IS NULL OR EXISTS (SELECT 1 FROM json_each(skills) WHERE value = :skill))
           AND (:repo IS NULL OR EXISTS (SELECT 1 FROM json_each(repos_owned) WHERE value = :repo))
         ORDER BY handle LIMIT :count",
    )?;
    let parameters = named_params! {
        ":after": after,
        ":with_disabled": with_disabled,
        ":role": filter.role,
        ":skill": filter.skill,
        ":repo": filter.repo,
        ":count": i64::try_from(count).unwrap_or(i64::MAX),
    };
    let agents = statement.query_map(parameters, agent)?.collect::<rusqlite::Result<_>>()?;
    Ok(agents)
}

pub(super) fn agent(row: &SqlRow<'_>) -> rusqlite::Result<Agent> {
    let list = |column: &str| -> rusqlite::Result<Vec<String>> {
        let text: String = row.get(column)?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    };
    Ok(Agent {
        row: row.get("id")?,
        id: row.get("ulid")?,
        handle: row.get("handle")?,
        name: row.get("name")?,
        email: row.get("email")?,
        role: row.get("role")?,
        description: row.get("description")?,
        skills: list("skills")?,
        repos_owned: list("repos_owned")?,
        created_at: row.get("created_at")?,
        disabled_at: row.get("disabled_at")?,
        changed_at: row.get("changed_at")?,
    })
}
