//! Keys: minted, listed by prefix, revoked, rotated.

use serde_json::json;

use crate::domain::agent::Agent;
use crate::domain::event::EventKind;
use crate::domain::id::KeyId;
use crate::domain::key::{Key, KeyOptions, KeyRecord, MintedKey};
use crate::error::{Error, Result, Symbol};
use crate::relay::agents::{AgentName, find};
use crate::relay::{Actor, Caller, Relay};
use crate::store::events::Resource;
use crate::store::{events, keys};

impl Relay {
    /// Mints one more key for an agent.
    pub async fn mint_key(&self, actor: Actor, name: AgentName, options: KeyOptions) -> Result<(Agent, MintedKey)> {
        self.add_key(actor, name, options, false).await
    }

    /// Mints a key for an agent and revokes all its older ones in the same moment.
    pub async fn rotate_keys(&self, actor: Actor, name: AgentName, options: KeyOptions) -> Result<(Agent, MintedKey)> {
        self.add_key(actor, name, options, true).await
    }

    /// Mints a key for the caller and revokes all its older ones, the one that it called with included.
    pub async fn rotate_own_keys(&self, caller: &Caller) -> Result<(Agent, MintedKey)> {
        self.rotate_keys(caller.actor(), AgentName::Id(caller.id()), KeyOptions::default()).await
    }

    async fn add_key(
        &self,
        actor: Actor,
        name: AgentName,
        options: KeyOptions,
        alone: bool,
    ) -> Result<(Agent, MintedKey)> {
        self.store()
            .write(move |tx| {
                let agent = find(tx, &name)?;
                if alone {
                    keys::revoke_all(tx, agent.row)?;
                }
                let key = Key::mint();
                let id = keys::insert(tx, agent.row, &key, &options)?;
                let kind = if alone { EventKind::KeyRotated } else { EventKind::KeyMinted };
                let detail = json!({ "label": options.label });
                events::append_to_agent(tx, &actor, kind, agent.row, Some(Resource::Key(id)), Some(&detail))?;
                Ok((agent, MintedKey { id, key }))
            })
            .await
    }

    /// Revokes a key. Again: nothing happens.
    pub async fn revoke_key(&self, actor: Actor, id: KeyId) -> Result<KeyRecord> {
        self.store()
            .write(move |tx| {
                let no_key =
                    || Error::new(Symbol::RecipientNotFound, format!("No key has the id '{id}'; see key list"));
                let (record, agent) = keys::find_by_id(tx, id)?.ok_or_else(no_key)?;
                if record.revoked_at.is_none() {
                    keys::revoke(tx, id)?;
                    events::append_to_agent(tx, &actor, EventKind::KeyRevoked, agent, Some(Resource::Key(id)), None)?;
                }
                keys::find_by_id(tx, id)?.map(|(record, _)| record).ok_or_else(no_key)
            })
            .await
    }

    /// Lists keys, oldest first: of one agent or of all.
    pub async fn keys(&self, name: Option<AgentName>) -> Result<Vec<KeyRecord>> {
        self.store()
            .read(move |conn| {
                let agent = name.map(|name| find(conn, &name)).transpose()?;
                keys::list(conn, agent.map(|agent| agent.row))
            })
            .await
    }
}
