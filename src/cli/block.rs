//! `agentrelay block`, `unblock` and `blocks`: whom an agent does not want to hear from.

use serde::Serialize;

use crate::cli::Failure;
use crate::cli::console::{Console, Table, note};
use crate::cli::{operator, values};
use crate::config::Common;
use crate::domain::agent::Handle;
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;
use crate::relay::blocks::Block;

/// Block an agent: nothing more from it reaches yours
///
/// It learns of it only when it tries to send something. Blocking again changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct BlockArgs {
    /// Whom to block, by handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    blocked: AgentName,

    /// The agent that blocks [default: the default agent]
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    blocker: Option<AgentName>,

    /// Why, as a note to yourself
    #[arg(long, value_name = "TEXT", value_parser = values::reason)]
    reason: Option<String>,
}

/// Lift a block
///
/// Without one this changes nothing.
#[derive(Debug, clap::Args)]
pub(super) struct UnblockArgs {
    /// Whom to hear from again, by handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    blocked: AgentName,

    /// The agent that blocked [default: the default agent]
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    blocker: Option<AgentName>,
}

/// List whom an agent has blocked
#[derive(Debug, clap::Args)]
pub(super) struct BlocksArgs {
    /// The agent that blocks [default: the default agent]
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    blocker: Option<AgentName>,
}

impl BlockArgs {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        operator::run(common, async |operator| {
            let blocker = operator.relay.agent(operator.agent_or_default(self.blocker).await?).await?;
            let relay = &operator.relay;
            let blocked = relay.block(operator.actor(), AgentName::Id(blocker.id), self.blocked, self.reason).await?;
            let sentence = format!("{} is blocked: nothing more from it reaches {}.", blocked.handle, blocker.handle);
            let standing = Standing { blocker: &blocker.handle, handle: &blocked.handle, blocked: true };
            console.done(&standing, &sentence)
        })
    }
}

impl UnblockArgs {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        operator::run(common, async |operator| {
            let blocker = operator.relay.agent(operator.agent_or_default(self.blocker).await?).await?;
            let unblocked = operator.relay.unblock(operator.actor(), AgentName::Id(blocker.id), self.blocked).await?;
            let sentence = format!("{} is no longer blocked by {}.", unblocked.handle, blocker.handle);
            let standing = Standing { blocker: &blocker.handle, handle: &unblocked.handle, blocked: false };
            console.done(&standing, &sentence)
        })
    }
}

impl BlocksArgs {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        operator::run(common, async |operator| {
            let blocker = operator.relay.agent(operator.agent_or_default(self.blocker).await?).await?;
            let blocks = operator.relay.blocks(AgentName::Id(blocker.id)).await?;
            if blocks.is_empty() {
                note(&format!("{} has blocked nobody.", blocker.handle));
            }
            let blocked = blocks.iter().map(Document::of).collect();
            let list = List { blocker: &blocker.handle, blocked };
            console.show(&list, || {
                let mut table = Table::with_headings(["HANDLE", "NAME", "ROLE", "SINCE", "REASON"]);
                for block in &blocks {
                    table.add([
                        block.handle.as_str(),
                        &block.name,
                        block.role.as_deref().unwrap_or("-"),
                        &block.blocked_at.to_string(),
                        block.reason.as_deref().unwrap_or("-"),
                    ]);
                }
                table
            })
        })
    }
}

/// How the one stands to the other now.
#[derive(Serialize)]
struct Standing<'a> {
    blocker: &'a Handle,
    handle: &'a Handle,
    blocked: bool,
}

#[derive(Serialize)]
struct List<'a> {
    blocker: &'a Handle,
    blocked: Vec<Document<'a>>,
}

/// A block as the blocker sees it.
#[derive(Serialize)]
struct Document<'a> {
    handle: &'a Handle,
    name: &'a str,
    role: Option<&'a str>,
    reason: Option<&'a str>,
    blocked_at: Timestamp,
}

impl Document<'_> {
    fn of(block: &Block) -> Document<'_> {
        Document {
            handle: &block.handle,
            name: &block.name,
            role: block.role.as_deref(),
            reason: block.reason.as_deref(),
            blocked_at: block.blocked_at,
        }
    }
}
