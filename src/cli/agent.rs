//! `agentrelay agent`: who sends and receives.

use clap::Subcommand;
use serde::Serialize;

use crate::cli::console::{Console, Table, note, or_dash};
use crate::cli::operator::{self, Operator};
use crate::cli::values;
use crate::cli::{Failure, key};
use crate::config::Common;
use crate::domain::agent::{Agent, AgentFilter, Handle, NewAgent};
use crate::domain::id::AgentId;
use crate::domain::json::Path;
use crate::domain::page::Limit;
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;

/// Create agents and look after them
///
/// An agent is an identity that sends and receives handoffs. It is named by its handle, such as frank@acme, and known
/// by its keys.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Rename(RenameArgs),
    Disable(DisableArgs),
    Enable(EnableArgs),
    Default(DefaultArgs),
}

/// Create an agent and mint its first key
///
/// The key is printed once, alone on standard output: `KEY=$(agentrelay agent create frank@acme)`. The first agent of a
/// data file becomes its default agent. Creates the data file when there is none.
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// Its handle, such as frank@acme: never given to another agent
    handle: Handle,

    /// What people call it [default: the part of the handle before the @]
    #[arg(long, value_parser = values::name)]
    name: Option<String>,

    /// Where its person is reached
    #[arg(long, value_parser = values::email)]
    email: Option<String>,

    /// What it does in its team, such as backend
    #[arg(long, value_parser = values::name)]
    role: Option<String>,

    #[command(flatten)]
    key: key::Options,
}

/// List the agents, by handle
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only agents of this role
    #[arg(long)]
    role: Option<String>,

    /// Only agents with this skill
    #[arg(long)]
    skill: Option<String>,

    /// Only agents that own this repository
    #[arg(long)]
    repo: Option<String>,
}

/// Show what is known of an agent
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Its handle or id [default: the default agent]
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,
}

/// Give an agent another handle
///
/// The former handle keeps reaching it and is never given to another agent.
#[derive(Debug, clap::Args)]
struct RenameArgs {
    /// Its handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    agent: AgentName,

    /// Its new handle
    #[arg(value_name = "NEW_HANDLE")]
    handle: Handle,
}

/// Disable an agent
///
/// Its keys open nothing and nobody can send to it. Its threads stay, and it can be enabled again.
#[derive(Debug, clap::Args)]
struct DisableArgs {
    /// Its handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    agent: AgentName,
}

/// Enable a disabled agent again, with the keys that it had
#[derive(Debug, clap::Args)]
struct EnableArgs {
    /// Its handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    agent: AgentName,
}

/// Make an agent the one that commands without --as mean
///
/// Without a handle this prints the handle of the present one.
#[derive(Debug, clap::Args)]
struct DefaultArgs {
    /// Its handle or id
    #[arg(value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,
}

impl Args {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        match self.command {
            Command::Create(args) => operator::run_creating(common, async |operator| args.run(operator, console).await),
            Command::List(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Show(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Rename(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Disable(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Enable(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Default(args) => operator::run(common, async |operator| args.run(operator, console).await),
        }
    }
}

impl CreateArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let options = self.key.resolve(operator.now)?;
        let new = NewAgent { handle: self.handle, name: self.name, email: self.email, role: self.role };
        let (agent, minted) = operator.relay.create_agent(operator.actor(), new, options).await?;
        note(&format!("Created {} with the id {}.", agent.handle, agent.id));
        if default_id(operator).await? == Some(agent.id) {
            note("It is the default agent: commands without --as mean it.");
        }
        key::hand_over(console, &agent, &minted)
    }
}

impl ListArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let filter = AgentFilter { role: self.role, skill: self.skill, repo: self.repo };
        let limit = Limit::new(Limit::MAX.into(), Limit::MAX).unwrap_or(Limit::DEFAULT);
        let (mut agents, mut cursor) = (Vec::new(), None);
        loop {
            let page = operator.relay.agents(filter.clone(), true, limit, cursor.as_deref(), Path::root()).await?;
            agents.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if agents.is_empty() {
            note("No agents.");
        }
        let default = default_id(operator).await?;
        let list = List { agents: agents.iter().map(|agent| Document::of(agent, default)).collect() };
        console.show(&list, || {
            let mut table = Table::with_headings(["HANDLE", "NAME", "ROLE", "STATUS", "CREATED", "DEFAULT"]);
            for agent in &list.agents {
                table.add([
                    agent.handle.as_str(),
                    agent.name,
                    agent.role.unwrap_or("-"),
                    agent.status,
                    &agent.created_at.to_string(),
                    if agent.default { "yes" } else { "-" },
                ]);
            }
            table
        })
    }
}

impl ShowArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let name = operator.agent_or_default(self.agent).await?;
        let agent = operator.relay.agent(name).await?;
        let document = Document::of(&agent, default_id(operator).await?);
        console.show(&document, || document.table())
    }
}

impl RenameArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let former = operator.relay.agent(self.agent.clone()).await?.handle;
        let agent = operator.relay.rename_agent(operator.actor(), self.agent, self.handle).await?;
        let sentence = if former == agent.handle {
            format!("{former} has that handle already.")
        } else {
            format!("{former} is {} now. The former handle keeps reaching it.", agent.handle)
        };
        console.done(&Document::of(&agent, default_id(operator).await?), &sentence)
    }
}

impl DisableArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let agent = operator.relay.disable_agent(operator.actor(), self.agent).await?;
        let sentence = format!("{} is disabled: its keys open nothing and nobody can send to it.", agent.handle);
        console.done(&Document::of(&agent, default_id(operator).await?), &sentence)
    }
}

impl EnableArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let agent = operator.relay.enable_agent(operator.actor(), self.agent).await?;
        let sentence = format!("{} is enabled.", agent.handle);
        console.done(&Document::of(&agent, default_id(operator).await?), &sentence)
    }
}

impl DefaultArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let Some(name) = self.agent else {
            let name = operator.agent_or_default(None).await?;
            let agent = operator.relay.agent(name).await?;
            return console.show(&Document::of(&agent, Some(agent.id)), || {
                let mut table = Table::without_headings();
                table.add([agent.handle.as_str()]);
                table
            });
        };
        let agent = operator.relay.make_default(operator.actor(), name).await?;
        let sentence = format!("{} is the default agent: commands without --as mean it.", agent.handle);
        console.done(&Document::of(&agent, Some(agent.id)), &sentence)
    }
}

async fn default_id(operator: &Operator) -> Result<Option<AgentId>, Failure> {
    Ok(operator.relay.default_agent().await?.map(|agent| agent.id))
}

#[derive(Serialize)]
struct List<'a> {
    agents: Vec<Document<'a>>,
}

/// An agent as its operator sees it.
#[derive(Serialize)]
struct Document<'a> {
    id: AgentId,
    handle: &'a Handle,
    name: &'a str,
    email: Option<&'a str>,
    role: Option<&'a str>,
    description: Option<&'a str>,
    skills: &'a [String],
    repos_owned: &'a [String],
    status: &'static str,
    default: bool,
    created_at: Timestamp,
    disabled_at: Option<Timestamp>,
}

impl Document<'_> {
    fn of(agent: &Agent, default: Option<AgentId>) -> Document<'_> {
        Document {
            id: agent.id,
            handle: &agent.handle,
            name: &agent.name,
            email: agent.email.as_deref(),
            role: agent.role.as_deref(),
            description: agent.description.as_deref(),
            skills: &agent.skills,
            repos_owned: &agent.repos_owned,
            status: agent.status(),
            default: default == Some(agent.id),
            created_at: agent.created_at,
            disabled_at: agent.disabled_at,
        }
    }

    fn table(&self) -> Table {
        let list = |items: &[String]| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
        let mut table = Table::without_headings();
        table.add(["handle", self.handle.as_str()]);
        table.add(["id", &self.id.to_string()]);
        table.add(["name", self.name]);
        table.add(["email", self.email.unwrap_or("-")]);
        table.add(["role", self.role.unwrap_or("-")]);
        table.add(["description", self.description.unwrap_or("-")]);
        table.add(["skills", &list(self.skills)]);
        table.add(["repos owned", &list(self.repos_owned)]);
        table.add(["status", self.status]);
        table.add(["default", if self.default { "yes" } else { "no" }]);
        table.add(["created", &self.created_at.to_string()]);
        table.add(["disabled", &or_dash(self.disabled_at)]);
        table
    }
}
