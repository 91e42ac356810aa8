//! Agents: created and looked after by the operator, described by themselves.

use serde_json::json;

use crate::domain::agent::{Agent, AgentFilter, CardChange, Handle, NewAgent};
use crate::domain::event::EventKind;
use crate::domain::id::AgentId;
use crate::domain::json::{Path, issue};
use crate::domain::key::{Key, KeyOptions, MintedKey};
use crate::domain::page::{Limit, ListName, Page};
use crate::error::{Error, Result, Symbol};
use crate::relay::{Actor, Caller, Relay};
use crate::store::events::Resource;
use crate::store::{Connection, Tx, agents, events, keys, relay};

/// How somebody names an agent.
#[derive(Clone, Debug)]
pub enum AgentName {
    /// By a handle that it has or had.
    Handle(Handle),
    /// By its id.
    Id(AgentId),
}

pub(super) fn find(conn: &Connection, name: &AgentName) -> Result<Agent> {
    let (found, text) = match name {
        AgentName::Handle(handle) => (agents::find_by_handle(conn, handle)?, format!("handle '{handle}'")),
        AgentName::Id(id) => (agents::find_by_id(conn, *id)?, format!("id '{id}'")),
    };
    found.ok_or_else(|| Error::new(Symbol::RecipientNotFound, format!("No agent has the {text}")))
}

impl Relay {
    /// Creates an agent and mints its first key.
    ///
    /// # Errors
    /// `invalid_params` for a handle that an agent has or had.
    pub async fn create_agent(&self, actor: Actor, agent: NewAgent, key: KeyOptions) -> Result<(Agent, MintedKey)> {
        self.store()
            .write(move |tx| {
                refuse_if_taken(tx, &agent.handle, None)?;
                let created = agents::insert(tx, &agent)?;
                let detail = json!({ "handle": created.handle });
                events::append_to_agent(tx, &actor, EventKind::AgentCreated, created.row, None, Some(&detail))?;
                let minted = Key::mint();
                let id = keys::insert(tx, created.row, &minted, &key)?;
                let detail = json!({ "label": key.label });
                events::append_to_agent(
                    tx,
                    &actor,
                    EventKind::KeyMinted,
                    created.row,
                    Some(Resource::Key(id)),
                    Some(&detail),
                )?;
                Ok((created, MintedKey { id, key: minted }))
            })
            .await
    }

    /// Gives an agent another handle. The former one keeps reaching it and is never given to another.
    pub async fn rename_agent(&self, actor: Actor, name: AgentName, handle: Handle) -> Result<Agent> {
        self.store()
            .write(move |tx| {
                let agent = find(tx, &name)?;
                refuse_if_taken(tx, &handle, Some(&agent))?;
                if agent.handle != handle {
                    agents::update_handle(tx, agent.row, &handle)?;
                    let detail = json!({ "from": agent.handle, "to": handle });
                    events::append_to_agent(tx, &actor, EventKind::AgentRenamed, agent.row, None, Some(&detail))?;
                }
                agents::get(tx, agent.row)
            })
            .await
    }

    /// Disables an agent: its keys open nothing and nobody can send to it, its threads stay. Again: nothing happens.
    pub async fn disable_agent(&self, actor: Actor, name: AgentName) -> Result<Agent> {
        self.set_disabled(actor, name, true).await
    }

    /// Enables an agent again. Again: nothing happens.
    pub async fn enable_agent(&self, actor: Actor, name: AgentName) -> Result<Agent> {
        self.set_disabled(actor, name, false).await
    }

    async fn set_disabled(&self, actor: Actor, name: AgentName, disabled: bool) -> Result<Agent> {
        self.store()
            .write(move |tx| {
                let agent = find(tx, &name)?;
                if agent.disabled_at.is_some() != disabled {
                    let kind = if disabled { EventKind::AgentDisabled } else { EventKind::AgentEnabled };
                    agents::update_disabled(tx, agent.row, disabled.then_some(tx.now))?;
                    events::append_to_agent(tx, &actor, kind, agent.row, None, None)?;
                }
                agents::get(tx, agent.row)
            })
            .await
    }

    /// Changes the caller's card. What is not given stays.
    pub async fn change_card(&self, caller: &Caller, change: CardChange) -> Result<()> {
        let (actor, agent) = (caller.actor(), caller.row());
        self.store()
            .write(move |tx| {
                agents::update_card(tx, agent, &change)?;
                events::append_to_agent(tx, &actor, EventKind::AgentCardChanged, agent, None, None)?;
                Ok(())
            })
            .await
    }

    /// The caller's own record.
    pub async fn own_agent(&self, caller: &Caller) -> Result<Agent> {
        let row = caller.row();
        self.store().read(move |conn| agents::get(conn, row)).await
    }

    /// One agent.
    pub async fn agent(&self, name: AgentName) -> Result<Agent> {
        self.store().read(move |conn| find(conn, &name)).await
    }

    /// One agent, looked up on the calling thread.
    pub fn find_agent(&self, name: &AgentName) -> Result<Agent> {
        self.store().look_up(|conn| find(conn, name))
    }

    /// Lists agents by handle. `cursor_path` is where the caller wrote its cursor.
    pub async fn agents(
        &self,
        filter: AgentFilter,
        with_disabled: bool,
        limit: Limit,
        cursor: Option<&str>,
        cursor_path: Path,
    ) -> Result<Page<Agent>> {
        let word = |word: &Option<String>| word.as_ref().map_or_else(|| "-".to_owned(), |word| format!("+{word}"));
        let list = ListName::new(&["agents", &word(&filter.role), &word(&filter.skill), &word(&filter.repo)]);
        let after = cursor.map(|cursor| list.position(cursor, cursor_path)).transpose()?.unwrap_or_default();
        self.store()
            .read(move |conn| {
                let found = agents::list(conn, &filter, with_disabled, &after, limit.get() + 1)?;
                Ok(Page::of(found, limit, &list, |agent| agent.handle.to_string()))
            })
            .await
    }

    /// The agent that commands without `--as` mean, once there is an agent.
    pub async fn default_agent(&self) -> Result<Option<Agent>> {
        self.store().read(relay::find_default_agent).await
    }

    /// Makes an agent the default.
    pub async fn make_default(&self, actor: Actor, name: AgentName) -> Result<Agent> {
        self.store()
            .write(move |tx| {
                let agent = find(tx, &name)?;
                relay::update_default_agent(tx, agent.row)?;
                events::append_to_agent(tx, &actor, EventKind::AgentMadeDefault, agent.row, None, None)?;
                Ok(agent)
            })
            .await
    }
}

/// A handle that was ever given belongs to its agent for good.
fn refuse_if_taken(tx: &Tx<'_>, handle: &Handle, by_other_than: Option<&Agent>) -> Result<()> {
    match agents::find_by_handle(tx, handle)? {
        Some(owner) if by_other_than.is_none_or(|agent| agent.row != owner.row) => Err(issue(
            Path::root().key("handle"),
            "custom",
            format!("'{handle}' is or was another agent's handle and stays with it; choose another"),
        )),
        _ => Ok(()),
    }
}
