//! The log, as agents follow it and as people audit it.

use std::time::Duration;

use tokio::sync::watch;

use crate::domain::event::{Event, EventKind};
use crate::domain::id::AgentId;
use crate::domain::json::Path;
use crate::domain::page::{Limit, ListName, Page};
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::relay::agents::{AgentName, find};
use crate::relay::{Caller, Relay};
use crate::store::bell::Topic;
use crate::store::events;
use crate::store::events::AuditFilter;

/// How many events are read at once.
const BATCH: usize = 100;
/// How often somebody who waits is asked again whether it still may.
pub const RECHECK: Duration = Duration::from_secs(15);

/// Which events an audit shows.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Of this kind.
    pub kind: Option<EventKind>,
    /// At this moment or later.
    pub since: Option<Timestamp>,
}

/// The events of an agent's threads, one batch after the other, from a place in the log on.
pub struct Follower {
    relay: Relay,
    caller: Caller,
    bell: watch::Receiver<i64>,
    after: i64,
}

impl Follower {
    /// The place in the log up to which events were given.
    pub fn after(&self) -> i64 {
        self.after
    }

    /// Gives the events that are there, oldest first, without waiting for any.
    ///
    /// # Errors
    /// Also when the caller's key has stopped working meanwhile.
    pub async fn present(&mut self) -> Result<Vec<Event>> {
        // The bell is marked as heard before the log is read: an event in between rings again.
        self.bell.borrow_and_update();
        let (agent, after) = (self.caller.row(), self.after);
        let found = self.relay.store().read(move |conn| events::list_of_threads(conn, agent, after, BATCH)).await?;
        // Asked after the reading: what was written once the key had stopped working is not told to it.
        self.relay.authenticate_again(&self.caller)?;
        self.after = found.last().map_or(self.after, |last| last.seq);
        Ok(found)
    }

    /// Waits until there are events and gives them, oldest first. May be dropped at any moment without losing any.
    ///
    /// # Errors
    /// As [`Follower::present`], within [`RECHECK`].
    pub async fn next(&mut self) -> Result<Vec<Event>> {
        loop {
            let found = self.present().await?;
            if !found.is_empty() {
                return Ok(found);
            }
            // Whether it rang or not: the log is looked at again.
            let _ = tokio::time::timeout(RECHECK, self.bell.changed()).await;
        }
    }
}

impl Relay {
    /// Follows the events of the caller's threads after the place `after` in the log; from now on when absent.
    pub async fn follow(&self, caller: &Caller, after: Option<i64>) -> Result<Follower> {
        let bell = self.store().bell().listen(Topic::Agent(caller.row()));
        let after = match after {
            Some(after) => after,
            None => self.store().read(events::last_seq).await?,
        };
        Ok(Follower { relay: self.clone(), caller: caller.clone(), bell, after })
    }

    /// What the caller did and what others did in its threads, newest first.
    pub async fn own_audit(
        &self,
        caller: &Caller,
        audit: Audit,
        limit: Limit,
        cursor: Option<&str>,
    ) -> Result<Page<Event>> {
        self.audit(Some(AgentName::Id(caller.id())), audit, limit, cursor).await
    }

    /// What happened, newest first: all of it, or what one agent may see.
    pub async fn audit(
        &self,
        agent: Option<AgentName>,
        audit: Audit,
        limit: Limit,
        cursor: Option<&str>,
    ) -> Result<Page<Event>> {
        let store = self.store();
        let agent = match agent {
            Some(name) => Some(store.read(move |conn| find(conn, &name)).await?),
            None => None,
        };
        let id = agent.as_ref().map(|agent| agent.id);
        let since = audit.since.map(|since| since.ms().to_string()).unwrap_or_default();
        let list = ListName::new(&[
            "audit",
            &id.as_ref().map(AgentId::to_string).unwrap_or_default(),
            audit.kind.map(EventKind::name).unwrap_or_default(),
            &since,
        ]);
        let before = match cursor {
            Some(cursor) => list.position(cursor, Path::root().key("cursor"))?.parse().unwrap_or(i64::MAX),
            None => i64::MAX,
        };
        let filter = AuditFilter { agent: agent.map(|agent| agent.row), kind: audit.kind, since: audit.since };
        store
            .read(move |conn| {
                let found = events::list_newest(conn, &filter, before, limit.get() + 1)?;
                Ok(Page::of(found, limit, &list, |event| event.seq.to_string()))
            })
            .await
    }
}
