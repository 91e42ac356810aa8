//! The courier: carries updates from the outbox to the webhooks.
//!
//! It keeps nothing that matters. What has to be told stands in the data file, and so does what was told, as soon as it
//! arrived: a relay that is stopped or killed goes on where it was, and tells at most the update under way twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use crate::api::a2a::delivery::Gate;
use crate::api::a2a::translate;
use crate::error::{Error, Result};
use crate::relay::Relay;
use crate::relay::outbox::{Due, Errand, Onward};

/// Most errands under way.
const UNDER_WAY_MAX: usize = 256;
/// Most of them for one sender, so that receivers of one that hang delay nobody else's.
const PER_SENDER_MAX: usize = 16;
/// How often the outbox is looked at without a bell: another process may have filled it.
const RECHECK: Duration = Duration::from_secs(1);
/// How often while something waits for its time: the clock may be set.
const RECHECK_WAITING: Duration = Duration::from_millis(250);
/// How long to leave the data file alone after it failed.
const TROUBLE: Duration = Duration::from_secs(5);
/// How long a stopping courier waits for what is under way. What is cut off is told again after the next start.
const GRACE: Duration = Duration::from_millis(1_500);

/// Carries errands until `stopping` turns true.
pub(in crate::api) async fn run(relay: Relay, private_too: bool, mut stopping: watch::Receiver<bool>) {
    let mut bell = relay.outbox_bell();
    let mut courier =
        Courier { relay, gate: Arc::new(Gate::new(private_too)), tasks: JoinSet::new(), under_way: HashMap::new() };
    loop {
        // The bell is marked as heard before the outbox is looked at: what is written in between rings again.
        bell.borrow_and_update();
        let pause = match courier.set_out() {
            Ok(pause) => pause,
            Err(error) => {
                report(&error, "the outbox could not be read");
                TROUBLE
            }
        };
        tokio::select! {
            biased;
            // Whoever would say so may be gone: that is a stop too.
            _ = stopping.wait_for(|stopping| *stopping) => break,
            Some(done) = courier.tasks.join_next_with_id() => courier.returned(done),
            _ = bell.changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
        while let Some(done) = courier.tasks.try_join_next_with_id() {
            courier.returned(done);
        }
    }
    let finish = async { while courier.tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::debug!("webhooks that did not answer in time are told again after the next start");
    }
    courier.tasks.shutdown().await;
}

struct Courier {
    relay: Relay,
    gate: Arc<Gate>,
    tasks: JoinSet<()>,
    under_way: HashMap<Id, Due>,
}

impl Courier {
    /// Sets out with whatever is due and has room. Says how long nothing else can be, unless the bell rings.
    fn set_out(&mut self) -> Result<Duration> {
        let under_way: Vec<Due> = self.under_way.values().copied().collect();
        let outbox = self.relay.outbox(&under_way, PER_SENDER_MAX)?;
        for due in outbox.due.into_iter().take(UNDER_WAY_MAX.saturating_sub(under_way.len())) {
            let errand = carry(self.relay.clone(), self.gate.clone(), due);
            self.under_way.insert(self.tasks.spawn(errand).id(), due);
        }
        Ok(match outbox.next {
            None => RECHECK,
            Some(next) => {
                let left_ms = next.ms().saturating_sub(self.relay.clock().now().ms());
                Duration::from_millis(u64::try_from(left_ms).unwrap_or_default()).min(RECHECK_WAITING)
            }
        })
    }

    fn returned(&mut self, done: std::result::Result<(Id, ()), tokio::task::JoinError>) {
        let id = match done {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "an errand to a webhook panicked");
                error.id()
            }
        };
        self.under_way.remove(&id);
    }
}

/// One errand, from the outbox to the note that it is done.
async fn carry(relay: Relay, gate: Arc<Gate>, due: Due) {
    let outcome = match relay.errand(due).await {
        Ok(Some(errand)) => tell(&relay, &gate, errand).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        report(&error, "a webhook's place could not be read or written");
        // It is still due: without a pause it would be told over and over.
        tokio::time::sleep(TROUBLE).await;
    }
}

/// Tells the updates of one change, one after the other, as far as they arrive.
async fn tell(relay: &Relay, gate: &Gate, mut errand: Errand) -> Result<()> {
    let mut updates = translate::told(&errand.thread, errand.context_id.as_deref(), &errand.change);
    let count = updates.len();
    loop {
        let delivered = match updates.get_mut(errand.next_update()).map(std::mem::take) {
            // A later version may tell a change in fewer updates than the one that began with it.
            None => Ok(()),
            Some(_) if !errand.allowed => Err("refused: the webhook's agent is disabled".to_owned()),
            Some(update) => gate.deliver(&errand.target, update).await,
        };
        match delivered {
            Ok(()) => {
                if relay.told(&mut errand, count).await? == Onward::Done {
                    return Ok(());
                }
            }
            Err(reason) => {
                let task = errand.thread.id;
                if relay.failed(&errand, count, &reason).await? {
                    tracing::warn!(thread = %task, reason, "a webhook could not be told: see 'agentrelay deadletters'");
                } else {
                    tracing::debug!(thread = %task, reason, "a webhook could not be told and is tried again");
                }
                return Ok(());
            }
        }
    }
}

fn report(error: &Error, sentence: &str) {
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(source, "{sentence}");
}
