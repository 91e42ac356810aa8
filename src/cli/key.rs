//! `agentrelay key`: the secrets by which agents are known.

use clap::Subcommand;
use serde::Serialize;

use crate::cli::console::{Console, Table, note, or_dash};
use crate::cli::operator::{self, Operator};
use crate::cli::values::{self, Moment};
use crate::cli::{Exit, Failure};
use crate::config::Common;
use crate::domain::agent::{Agent, Handle};
use crate::domain::id::{AgentId, KeyId};
use crate::domain::key::{KeyOptions, KeyRecord, MintedKey};
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;

/// Mint, list and revoke the keys of agents
///
/// Only a hash of a key is kept, so that no command shows one again: a key that was lost is revoked, and another minted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Mint(MintArgs),
    Revoke(RevokeArgs),
    Rotate(RotateArgs),
}

/// List keys, oldest first, by the characters that they begin with
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only the keys of this agent
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,
}

/// Mint one more key for an agent
///
/// The key is printed once, alone on standard output. The agent's other keys stay as they are.
#[derive(Debug, clap::Args)]
struct MintArgs {
    /// The agent [default: the default agent]
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,

    #[command(flatten)]
    options: Options,
}

/// Revoke a key: from now on it opens nothing
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// The key's id, as in `agentrelay key list`
    // A plain string: the parser's own refusal would show it, and somebody may have put the key itself here.
    key_id: String,
}

/// Mint a key for an agent and revoke all its others in the same moment
///
/// The key is printed once, alone on standard output.
#[derive(Debug, clap::Args)]
struct RotateArgs {
    /// The agent [default: the default agent]
    #[arg(long = "as", value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,

    #[command(flatten)]
    options: Options,
}

/// How a key is minted.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// What to call the key in lists, such as laptop
    #[arg(long, value_parser = values::name)]
    label: Option<String>,

    /// When the key stops working by itself: a time such as 30d, or a moment such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    expires: Option<Moment>,
}

impl Options {
    pub(super) fn resolve(self, now: Timestamp) -> Result<KeyOptions, Failure> {
        let expires_at = self.expires.map(|moment| moment.after(now)).transpose();
        let expires_at = expires_at.map_err(|reason| Failure::usage(format!("--expires: {reason}")))?;
        Ok(KeyOptions { label: self.label, expires_at })
    }
}

impl Args {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        match self.command {
            Command::List(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Mint(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Revoke(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Rotate(args) => operator::run(common, async |operator| args.run(operator, console).await),
        }
    }
}

impl ListArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let keys = operator.relay.keys(self.agent).await?;
        if keys.is_empty() {
            note("No keys.");
        }
        let list = List { keys: keys.iter().map(|key| Document::of(key, operator.now)).collect() };
        console.show(&list, || {
            let headings = ["ID", "AGENT", "PREFIX", "LABEL", "STATUS", "CREATED", "EXPIRES", "LAST USED"];
            let mut table = Table::with_headings(headings);
            for key in &list.keys {
                table.add([
                    &key.id.to_string(),
                    key.agent.as_str(),
                    key.prefix,
                    key.label.unwrap_or("-"),
                    key.status,
                    &key.created_at.to_string(),
                    &or_dash(key.expires_at),
                    &or_dash(key.last_used_at),
                ]);
            }
            table
        })
    }
}

impl MintArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let options = self.options.resolve(operator.now)?;
        let name = operator.agent_or_default(self.agent).await?;
        let (agent, minted) = operator.relay.mint_key(operator.actor(), name, options).await?;
        hand_over(console, &agent, &minted)
    }
}

impl RevokeArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let id = KeyId::parse(&self.key_id).ok_or_else(|| {
            Failure::usage("KEY_ID is the 26 characters in the column ID of 'agentrelay key list', not the key itself")
        })?;
        let key = operator.relay.revoke_key(operator.actor(), id).await?;
        let sentence = format!("The key {}… of {} is revoked.", key.prefix, key.agent);
        console.done(&Document::of(&key, operator.now), &sentence)
    }
}

impl RotateArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let options = self.options.resolve(operator.now)?;
        let name = operator.agent_or_default(self.agent).await?;
        let (agent, minted) = operator.relay.rotate_keys(operator.actor(), name, options).await?;
        note(&format!("All other keys of {} are revoked.", agent.handle));
        hand_over(console, &agent, &minted)
    }
}

/// A new key with its secret.
#[derive(Serialize)]
struct Minted<'a> {
    agent_id: AgentId,
    handle: &'a Handle,
    api_key: &'a str,
    key_id: KeyId,
}

/// Hands a new key to its operator: the only time that it is shown.
pub(super) fn hand_over(console: Console, agent: &Agent, minted: &MintedKey) -> Result<(), Failure> {
    let secret = minted.key.reveal();
    let document = Minted { agent_id: agent.id, handle: &agent.handle, api_key: secret, key_id: minted.id };
    console.hand_over(&document, secret).map_err(|error| {
        let lost = format!(
            "the key could not be written to standard output and is lost; revoke it with 'agentrelay key revoke {}' and \
             mint another with 'agentrelay key mint --as {}'",
            minted.id, agent.handle
        );
        Failure::new(Exit::Failure, lost).because(&error)
    })?;
    note(&format!(
        "The key {}… has the id {} and is shown this once. Give it to the agent of {}, which calls the relay with the \
         header 'Authorization: Bearer KEY'.",
        minted.key.shown_prefix(),
        minted.id,
        agent.handle
    ));
    Ok(())
}

#[derive(Serialize)]
struct List<'a> {
    keys: Vec<Document<'a>>,
}

/// A key as its operator sees it.
#[derive(Serialize)]
struct Document<'a> {
    id: KeyId,
    agent: &'a Handle,
    prefix: &'a str,
    label: Option<&'a str>,
    status: &'static str,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl Document<'_> {
    fn of(key: &KeyRecord, now: Timestamp) -> Document<'_> {
        Document {
            id: key.id,
            agent: &key.agent,
            prefix: &key.prefix,
            label: key.label.as_deref(),
            status: key.status(now),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}
