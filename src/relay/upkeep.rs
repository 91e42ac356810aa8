//! What a relay does by itself, now and then. None of it is worth a write of its own in a request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::id::Row;
use crate::domain::time::Timestamp;
use crate::error::{Error, Result};
use crate::relay::Relay;
use crate::store::{idempotency, keys, relay};

/// How many old idempotency keys one upkeep forgets: a bounded write, however many there are.
const FORGOTTEN_MAX: i64 = 10_000;

/// When keys were last used, until the next upkeep writes it down.
#[derive(Default)]
pub(super) struct LastUsed(Mutex<HashMap<Row, Timestamp>>);

impl LastUsed {
    pub(super) fn note(&self, key: Row, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, now);
    }

    fn take(&self) -> Vec<(Row, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain().collect()
    }
}

impl Relay {
    /// Writes down when keys were used and forgets idempotency keys that are over a week old. Once a minute is right.
    pub async fn upkeep(&self) -> Result<()> {
        let used = self.0.last_used.take();
        if !used.is_empty() {
            self.store().write(move |tx| keys::update_last_used(tx, &used)).await?;
        }
        self.store().write(|tx| idempotency::delete_old(tx, FORGOTTEN_MAX)).await?;
        Ok(())
    }

    /// Reads and writes the file, to know that both still work.
    ///
    /// # Errors
    /// The readiness answer: unavailable.
    pub async fn check(&self) -> Result<()> {
        self.store().read(|conn| relay::find_default_agent(conn).map(|_| ())).await.map_err(Error::unavailable)?;
        self.store().write(|tx| relay::update_checked_at(tx)).await.map_err(Error::unavailable)
    }
}
