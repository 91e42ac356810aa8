//! The bell says "look again": something was written that this listener may read. It carries no event. Whoever listens
//! reads the log, at its own pace, and so loses nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::domain::id::Row;

/// What somebody listens for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Events that an agent may read.
    Agent(Row),
    /// What happens to a thread.
    Thread(Row),
    /// Webhooks that have something to tell.
    Webhooks,
}

/// Below so many topics it is not worth looking for those that nobody listens for any more.
const SWEEP_FROM: usize = 64;

/// One bell per topic that somebody listens for.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<Listeners>>);

#[derive(Default)]
struct Listeners {
    topics: HashMap<Topic, watch::Sender<i64>>,
    sweep_at: usize,
}

impl Bell {
    /// Listens for this topic. Listen first and read the log then: what is written in between rings.
    pub fn listen(&self, topic: Topic) -> watch::Receiver<i64> {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listeners.topics.entry(topic).or_insert_with(|| watch::channel(0).0).subscribe();
        if listeners.topics.len() >= listeners.sweep_at {
            listeners.topics.retain(|_, bell| bell.receiver_count() > 0);
            listeners.sweep_at = SWEEP_FROM.max(2 * listeners.topics.len());
        }
        listener
    }

    /// Rings for each of these, after their events are on disk.
    pub(super) fn ring(&self, written: &[(Topic, i64)]) {
        if written.is_empty() {
            return;
        }
        let listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic, seq) in written {
            if let Some(bell) = listeners.topics.get(topic) {
                bell.send_replace(*seq);
            }
        }
    }
}
