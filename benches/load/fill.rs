//! Filling a file through the relay's own operations: some agents and what they have said to each other.
//!
//! A fifth of the handoffs is completed and a tenth accepted, so that a list of all states has to merge them. A thousand
//! threads (at most each tenth), spread over the whole file, have 20 messages and belong to agents of their own, who have nothing else in
//! their inboxes. Everything happens today, which is the worst case for the index of idempotency keys.

use std::sync::Arc;
use std::time::Instant;

use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::intent::Intent;
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::message::Draft;
use agentrelay::domain::metadata::Metadata;
use agentrelay::domain::transition::Transition;
use agentrelay::relay::agents::AgentName;
use agentrelay::relay::send::{Append, Handoff};
use agentrelay::relay::transitions::Step;
use agentrelay::relay::{Actor, Caller, Relay};

use crate::Result;
use crate::bodies::TEXT;
use crate::cast::{Agent, Cast};
use crate::scenario::LONG_THREAD_MESSAGES;

/// Who sends and receives most of it.
const AGENTS: usize = 20;
/// Who has long threads only: pairs of a talker and a reader.
const PAIRS: usize = 4;
const LONG_THREADS: u64 = 1000;
/// More than the writer takes into one group, so that every group is full.
const AT_ONCE: u64 = 256;

/// Creates the agents and `threads` threads.
pub(crate) async fn fill(relay: &Relay, threads: u64) -> Result<()> {
    for handle in agents().chain(talkers()).chain(readers()) {
        let agent = NewAgent::with_handle(Handle::parse(&handle)?);
        relay.create_agent(operator(), agent, KeyOptions::default()).await?;
    }
    let company = Arc::new(Company {
        agents: callers(relay, agents()).await?,
        talkers: callers(relay, talkers()).await?,
        readers: callers(relay, readers()).await?,
        threads,
    });
    let start = Instant::now();
    for tenth in 0..10 {
        let (from, to) = (threads * tenth / 10, threads * (tenth + 1) / 10);
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let (relay, company) = (relay.clone(), company.clone());
                tokio::spawn(async move {
                    let mut number = from + first;
                    while number < to {
                        company.make(&relay, number).await?;
                        number += AT_ONCE;
                    }
                    Result::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        eprintln!("seeding: {to} threads of {threads} after {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Gives every agent a new key, its only one.
pub(crate) async fn rotate_keys(relay: &Relay) -> Result<Cast> {
    Ok(Cast { agents: with_new_keys(relay, agents()).await?, readers: with_new_keys(relay, readers()).await? })
}

/// The agents of a file while it is filled.
struct Company {
    agents: Vec<Caller>,
    talkers: Vec<Caller>,
    readers: Vec<Caller>,
    threads: u64,
}

impl Company {
    async fn make(&self, relay: &Relay, number: u64) -> Result<()> {
        let step = (self.threads / LONG_THREADS).max(10);
        let index = usize::try_from(number)?;
        if number.is_multiple_of(step) && number / step < LONG_THREADS {
            let pair = usize::try_from(number / step)? % PAIRS;
            return self.make_long(relay, number, &self.talkers[pair], &self.readers[pair]).await;
        }
        // Everybody sends to everybody else in turn.
        let (round, sender) = (index / AGENTS, index % AGENTS);
        let recipient = &self.agents[(sender + 1 + round % (AGENTS - 1)) % AGENTS];
        let receipt = relay.send(&self.agents[sender], handoff(number, recipient)).await?;
        let steps: &[Transition] = match number % 10 {
            1 | 2 => &[Transition::Accept, Transition::Complete],
            3 => &[Transition::Accept],
            _ => &[],
        };
        for &transition in steps {
            relay.transition(recipient, Step::new(receipt.thread, transition)).await?;
        }
        Ok(())
    }

    async fn make_long(&self, relay: &Relay, number: u64, talker: &Caller, reader: &Caller) -> Result<()> {
        let receipt = relay.send(talker, handoff(number, reader)).await?;
        for _ in 1..LONG_THREAD_MESSAGES {
            relay.append(talker, Append::new(receipt.thread, draft())).await?;
        }
        Ok(())
    }
}

fn handoff(number: u64, recipient: &Caller) -> Handoff {
    // As long as a UUID.
    let metadata = Metadata { idempotency_key: Some(format!("seed-{number:031}")), rest: None };
    Handoff { metadata, ..Handoff::new(recipient.handle().clone(), Intent::Inform, draft()) }
}

fn draft() -> Draft {
    Draft { role: Some("user".to_owned()), ..Draft::text(TEXT) }
}

fn agents() -> impl Iterator<Item = String> {
    (0..AGENTS).map(|number| format!("agent-{number:02}@load"))
}

fn talkers() -> impl Iterator<Item = String> {
    (0..PAIRS).map(|number| format!("talker-{number}@load"))
}

fn readers() -> impl Iterator<Item = String> {
    (0..PAIRS).map(|number| format!("reader-{number}@load"))
}

async fn callers(relay: &Relay, handles: impl Iterator<Item = String>) -> Result<Vec<Caller>> {
    let agents = with_new_keys(relay, handles).await?;
    agents.iter().map(|agent| Ok(relay.authenticate(Some(&agent.key), "load-seed")?)).collect()
}

async fn with_new_keys(relay: &Relay, handles: impl Iterator<Item = String>) -> Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for handle in handles {
        let name = AgentName::Handle(Handle::parse(&handle)?);
        let (_, minted) = relay.rotate_keys(operator(), name, KeyOptions::default()).await?;
        agents.push(Agent { handle, key: minted.key.reveal().to_owned() });
    }
    Ok(agents)
}

fn operator() -> Actor {
    Actor::operator("load-seed")
}
