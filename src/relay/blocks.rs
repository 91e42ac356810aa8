//! Blocks: an agent decides whom it does not want to hear from. The blocked one is not told, until it tries.

use serde_json::json;

use crate::domain::agent::Agent;
use crate::domain::event::EventKind;
use crate::domain::json::{Path, issue};
use crate::error::Result;
use crate::relay::agents::{AgentName, find};
use crate::relay::{Actor, Relay};
pub use crate::store::blocks::Block;
use crate::store::events::Resource;
use crate::store::{blocks, events};

impl Relay {
    /// Blocks `blocked` for `blocker`. Returns the blocked agent. Again: nothing happens.
    pub async fn block(
        &self,
        actor: Actor,
        blocker: AgentName,
        blocked: AgentName,
        reason: Option<String>,
    ) -> Result<Agent> {
        self.store()
            .write(move |tx| {
                let (blocker, blocked) = (find(tx, &blocker)?, find(tx, &blocked)?);
                if blocker.row == blocked.row {
                    return Err(issue(Path::root().key("handle"), "custom", "this is you; block a teammate"));
                }
                if blocks::insert(tx, blocker.row, blocked.row, reason.as_deref())? {
                    let about = Some(Resource::Blocked(blocked.id));
                    let detail = json!({ "blocked_handle": blocked.handle, "reason": reason });
                    events::append_to_agent(tx, &actor, EventKind::BlockAdded, blocker.row, about, Some(&detail))?;
                }
                Ok(blocked)
            })
            .await
    }

    /// Lifts a block. Without one nothing happens.
    pub async fn unblock(&self, actor: Actor, blocker: AgentName, blocked: AgentName) -> Result<Agent> {
        self.store()
            .write(move |tx| {
                let (blocker, blocked) = (find(tx, &blocker)?, find(tx, &blocked)?);
                if blocks::delete(tx, blocker.row, blocked.row)? {
                    let about = Some(Resource::Blocked(blocked.id));
                    let detail = json!({ "blocked_handle": blocked.handle });
                    events::append_to_agent(tx, &actor, EventKind::BlockRemoved, blocker.row, about, Some(&detail))?;
                }
                Ok(blocked)
            })
            .await
    }

    /// Lists whom an agent has blocked, by handle.
    pub async fn blocks(&self, blocker: AgentName) -> Result<Vec<Block>> {
        self.store().read(move |conn| blocks::list(conn, find(conn, &blocker)?.row)).await
    }
}
