//! The bell says "look again": an event was written that this agent may read. It carries no event. Whoever listens
//! reads the log, at its own pace, and so loses nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::domain::id::Row;

/// One bell per agent that somebody listens for.
#[derive(Clone, Default)]
pub struct Bell(Arc<Mutex<HashMap<Row, watch::Sender<i64>>>>);

impl Bell {
    /// Listens for events of this agent. Listen first and read the log then: what is written in between rings.
    pub fn listen(&self, agent: Row) -> watch::Receiver<i64> {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.entry(agent).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Rings for each of these, after their events are on disk.
    pub(super) fn ring(&self, written: &[(Row, i64)]) {
        if written.is_empty() {
            return;
        }
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (agent, seq) in written {
            let Some(sender) = listeners.get(agent) else {
                continue;
            };
            if sender.send(*seq).is_err() {
                listeners.remove(agent);
            }
        }
    }
}
