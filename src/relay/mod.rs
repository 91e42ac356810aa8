//! What a relay does. Each operation reads like the paragraph that specifies it: find, decide, change, return. All
//! decisions are here and in `domain`; `store` below only reads and writes, and the wires above only translate.

mod authenticate;
pub mod send;
pub mod transitions;
mod change;
mod replay;
pub mod threads;
pub mod boxes;
pub mod agents;
pub mod keys;
pub mod blocks;
pub mod events;
pub mod watch;
pub mod webhooks;
pub mod dead_letters;
pub mod outbox;
mod upkeep;

use std::sync::Arc;

pub use self::authenticate::Caller;
use self::upkeep::LastUsed;
use crate::domain::time::Clock;
use crate::store::Store;
pub use crate::store::events::Actor;

/// A relay over one data file. Cheap to clone.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    store: Store,
    last_used: LastUsed,
}

impl Relay {
    /// The relay of this file.
    pub fn new(store: Store) -> Relay {
        Relay(Arc::new(Inner { store, last_used: LastUsed::default() }))
    }

    /// The file.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The clock of its operations.
    pub fn clock(&self) -> &Clock {
        self.store().clock()
    }
}
