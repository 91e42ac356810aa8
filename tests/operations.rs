//! What an agent does, straight through [`Relay`]'s operations: for tests that need more of them than HTTP would bear.

use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::ThreadId;
use agentrelay::domain::intent::Intent;
use agentrelay::domain::message::Draft;
use agentrelay::domain::metadata::Metadata;
use agentrelay::domain::thread::Receipt;
use agentrelay::error::Result;
use agentrelay::relay::send::{Append, Handoff};
use agentrelay::relay::{Caller, Relay};

use crate::support::Agent;

/// The caller that holds this agent's key.
#[track_caller]
pub fn caller(relay: &Relay, agent: &Agent) -> Caller {
    relay.authenticate(Some(&agent.key), "req_operation").expect("a working key")
}

/// Sends a new handoff.
pub async fn hand(relay: &Relay, from: &Caller, to: &str, text: &str, key: Option<&str>) -> Result<Receipt> {
    let handoff = Handoff::new(Handle::parse(to).expect("a handle"), Intent::Inform, Draft::text(text));
    relay.send(from, Handoff { metadata: named(key), ..handoff }).await
}

/// Adds a message to a thread.
pub async fn say(relay: &Relay, from: &Caller, thread: ThreadId, text: &str) -> Result<Receipt> {
    relay.append(from, Append::new(thread, Draft::text(text))).await
}

fn named(key: Option<&str>) -> Metadata {
    Metadata { idempotency_key: key.map(ToOwned::to_owned), rest: None }
}
