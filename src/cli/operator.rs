//! The operator: whoever can open the data file may look after its agents.
//!
//! Every command opens the file for itself and closes it again. A relay that serves the file meanwhile sees the change
//! with its next request.

use crate::cli::{Failure, logs};
use crate::config::Common;
use crate::domain::id::random_ulid;
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;
use crate::relay::{Actor, Relay};
use crate::store::{Store, StoreOptions};

/// The operator at work on an open data file.
pub(super) struct Operator {
    /// The relay of that file.
    pub(super) relay: Relay,
    /// The moment of the command.
    pub(super) now: Timestamp,
    request_id: String,
}

/// Runs a command on a data file that exists.
pub(super) fn run(common: &Common, work: impl AsyncFnOnce(&Operator) -> Result<(), Failure>) -> Result<(), Failure> {
    let path = common.data_file()?;
    if !path.try_exists().unwrap_or(true) {
        return Err(Failure::not_found(format!(
            "no data file at {}; start one with 'agentrelay serve' or name another with --data FILE",
            path.display()
        )));
    }
    run_creating(common, work)
}

/// Runs a command on a data file, creating it when there is none.
pub(super) fn run_creating(
    common: &Common,
    work: impl AsyncFnOnce(&Operator) -> Result<(), Failure>,
) -> Result<(), Failure> {
    logs::start_for_commands();
    let store = Store::open(&common.data_file()?, StoreOptions::default())?;
    let now = store.clock().now();
    let operator = Operator { relay: Relay::new(store), now, request_id: format!("req_{}", random_ulid(now)) };
    block_on(work(&operator))
}

/// Waits for a command on this one thread.
pub(super) fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(crate::error::Error::internal)?.block_on(work)
}

impl Operator {
    /// The operator, as the one who acts.
    pub(super) fn actor(&self) -> Actor {
        Actor::operator(self.request_id.clone())
    }

    /// The agent that was named, else the data file's default agent.
    pub(super) async fn agent_or_default(&self, named: Option<AgentName>) -> Result<AgentName, Failure> {
        if let Some(name) = named {
            return Ok(name);
        }
        match self.relay.default_agent().await? {
            Some(agent) => Ok(AgentName::Id(agent.id)),
            None => {
                Err(Failure::not_found("there is no agent yet; create one with 'agentrelay agent create YOU@TEAM'"))
            }
        }
    }
}
