//! Who is calling: the holder of the key, and nothing else a request says.

use crate::domain::agent::Handle;
use crate::domain::id::{AgentId, Row};
use crate::domain::key::{Key, KeyHash};
use crate::error::{Error, Result, Symbol};
use crate::relay::{Actor, Relay};
use crate::store::keys;

/// The authenticated agent of a request. Only [`Relay::authenticate`] makes one, so whoever has one has checked.
#[derive(Clone, Debug)]
pub struct Caller {
    agent: Row,
    id: AgentId,
    handle: Handle,
    key: KeyHash,
    request_id: String,
}

impl Caller {
    /// Its row in the data file.
    pub fn row(&self) -> Row {
        self.agent
    }

    /// Its id.
    pub fn id(&self) -> AgentId {
        self.id
    }

    /// Its handle.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The request that it makes.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// It, as the one who acts.
    pub fn actor(&self) -> Actor {
        Actor { agent: Some(self.agent), request_id: self.request_id.clone() }
    }
}

impl Relay {
    /// Finds the caller by its key.
    ///
    /// # Errors
    /// `unauthenticated` for no key or one that is unknown, revoked or expired; `forbidden` for a disabled agent's.
    pub fn authenticate(&self, key: Option<&str>, request_id: &str) -> Result<Caller> {
        let Some(key) = key else {
            return Err(Error::new(
                Symbol::Unauthenticated,
                "This needs a key: send the header 'Authorization: Bearer ah_live_…'",
            ));
        };
        let key = Key::parse(key).ok_or_else(refused)?.hash();
        self.authenticate_hash(key, request_id.to_owned())
    }

    /// Checks that a caller who has been here for a while may still be.
    pub(crate) fn authenticate_again(&self, caller: &Caller) -> Result<()> {
        self.authenticate_hash(caller.key.clone(), String::new()).map(|_| ())
    }

    fn authenticate_hash(&self, key: KeyHash, request_id: String) -> Result<Caller> {
        let holder = self.store().look_up(|conn| keys::find_holder(conn, &key))?.ok_or_else(refused)?;
        let now = self.clock().now();
        if holder.revoked || holder.expires_at.is_some_and(|end| end <= now) {
            return Err(refused());
        }
        if holder.disabled {
            return Err(Error::new(
                Symbol::Forbidden,
                format!("{} is disabled; ask the relay's operator to enable it", holder.handle),
            ));
        }
        self.0.last_used.note(holder.key, now);
        Ok(Caller { agent: holder.agent, id: holder.agent_id, handle: holder.handle, key, request_id })
    }
}

/// One text for unknown, revoked and expired: whoever tries keys learns nothing about them.
fn refused() -> Error {
    Error::new(Symbol::Unauthenticated, "This key is unknown, revoked or expired; ask the relay's operator for another")
}
