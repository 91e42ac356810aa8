//! `agentrelay audit`: what happened, from the log that every change is written to.

use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::console::{Console, Table, note, or_dash};
use crate::cli::operator;
use crate::cli::values::{self, Moment};
use crate::config::Common;
use crate::domain::agent::Handle;
use crate::domain::event::{Event, EventKind};
use crate::domain::page::Limit;
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;
use crate::relay::events::Audit;

/// How many events are read at once.
const BATCH_MAX: u16 = 1000;

/// Show what happened, newest first
///
/// Every change is in the log, with who made it and the request that it came with. Keys and messages are not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only what this agent did or what concerns it
    #[arg(long, value_name = "HANDLE", value_parser = values::agent_name)]
    agent: Option<AgentName>,

    /// Only this kind of change
    #[arg(long, value_name = "ACTION", value_parser = values::event_kind(), hide_possible_values = true)]
    action: Option<EventKind>,

    /// Only from this time on: a time ago such as 2h or 7d, or a moment such as 2026-04-25T10:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,

    /// How many to show at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

impl Args {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        operator::run(common, async |operator| {
            let since = self.since.map(|moment| moment.before(operator.now)).transpose();
            let since = since.map_err(|reason| Failure::usage(format!("--since: {reason}")))?;
            let audit = Audit { kind: self.action, since };
            let (mut events, mut cursor) = (Vec::new(), None);
            let mut missing = usize::try_from(self.limit).unwrap_or(usize::MAX);
            while let Some(limit) = batch(missing) {
                let page = operator.relay.audit(self.agent.clone(), audit.clone(), limit, cursor.as_deref()).await?;
                missing = missing.saturating_sub(page.items.len());
                events.extend(page.items);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            if events.is_empty() {
                note("Nothing happened.");
            }
            let list = List { events: events.iter().map(Document::of).collect() };
            console.show(&list, || {
                let headings = ["TIME", "ACTOR", "ACTION", "RESOURCE", "REQUEST", "DETAILS"];
                let mut table = Table::with_headings(headings);
                for event in &list.events {
                    table.add([
                        &event.timestamp.to_string(),
                        event.actor_handle,
                        event.action,
                        event.resource_id,
                        event.request_id,
                        &event.details(),
                    ]);
                }
                table
            })
        })
    }
}

/// How many events to read next when so many are missing.
fn batch(missing: usize) -> Option<Limit> {
    Limit::new(i64::try_from(missing.min(BATCH_MAX.into())).ok()?, BATCH_MAX)
}

#[derive(Serialize)]
struct List<'a> {
    events: Vec<Document<'a>>,
}

/// An event as its operator sees it: what agents see in their own audit, and how it left its thread.
#[derive(Serialize)]
struct Document<'a> {
    seq: i64,
    timestamp: Timestamp,
    actor_handle: &'a str,
    action: &'static str,
    resource_type: &'static str,
    resource_id: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    metadata: Value,
}

impl Document<'_> {
    fn of(event: &Event) -> Document<'_> {
        let detail = event.detail.as_deref().and_then(|detail| serde_json::from_str(detail.get()).ok());
        Document {
            seq: event.seq,
            timestamp: event.at,
            actor_handle: event.actor.as_ref().map_or("operator", Handle::as_str),
            action: event.kind.name(),
            resource_type: event.kind.resource_type(),
            resource_id: &event.resource_id,
            request_id: &event.request_id,
            state: event.thread.as_ref().map(|thread| thread.state.name()),
            generation: event.thread.as_ref().map(|thread| thread.generation),
            metadata: detail.unwrap_or_else(|| json!({})),
        }
    }

    fn details(&self) -> String {
        let state = self.state.zip(self.generation);
        let state = state.map(|(state, generation)| format!("{state}, generation {generation}"));
        let more = self.metadata.as_object().filter(|members| !members.is_empty()).map(|_| self.metadata.to_string());
        or_dash([state, more].into_iter().flatten().reduce(|state, more| format!("{state} {more}")))
    }
}
