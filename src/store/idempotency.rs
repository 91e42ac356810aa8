//! What was already done: retries find the event of their first call.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::domain::id::Row;
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::store::Tx;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How many days a key is remembered.
pub const DAYS_KEPT: i64 = 7;

/// A call by name: the caller, its idempotency key, and what it asked for. Short hashes, because this index is the
/// dearest part of a handoff: of 10^8 keys two share 12 bytes with a chance of 10^-13, and a payload is only ever compared
/// with the one of the same key.
#[derive(Clone, Debug)]
pub struct Call {
    key: [u8; 12],
    payload: [u8; 8],
}

impl Call {
    /// The call of `caller` that it named `key`.
    pub fn new(caller: Row, key: &str, payload: Sha256) -> Call {
        let mut name = Sha256::new();
        name.update(caller.to_le_bytes());
        name.update(key.as_bytes());
        Call { key: beginning(name), payload: beginning(payload) }
    }
}

fn beginning<const LENGTH: usize>(sha: Sha256) -> [u8; LENGTH] {
    let hash = sha.finalize();
    std::array::from_fn(|index| hash[index])
}

/// What is known of a call's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The same call did this event.
    Same(i64),
    /// The name belongs to another call.
    Other,
}

/// Finds what the call did before. Tomorrow's keys too: the clock may have been set back.
pub fn find(conn: &Connection, now: Timestamp, call: &Call) -> Result<Option<Known>> {
    let today = now.ms().div_euclid(DAY_MS);
    let mut statement = conn.prepare_cached(
        "SELECT payload, event FROM idempotency
         WHERE day IN (?1 + 1, ?1, ?1 - 1, ?1 - 2, ?1 - 3, ?1 - 4, ?1 - 5, ?1 - 6, ?1 - 7) AND key = ?2",
    )?;
    let found =
        statement.query_row((today, call.key), |row| Ok((row.get::<_, [u8; 8]>(0)?, row.get(1)?))).optional()?;
    Ok(found.map(|(payload, event)| if payload == call.payload { Known::Same(event) } else { Known::Other }))
}

/// Remembers that the call did this event.
pub fn insert(tx: &Tx<'_>, call: &Call, event: i64) -> Result<()> {
    let today = tx.now.ms().div_euclid(DAY_MS);
    tx.prepare_cached("INSERT INTO idempotency (day, key, payload, event) VALUES (?, ?, ?, ?)")?.execute((
        today,
        call.key,
        call.payload,
        event,
    ))?;
    Ok(())
}

/// Forgets what is older than [`DAYS_KEPT`] whole days, a bounded number of rows at a time. Returns how many.
pub fn delete_old(tx: &Tx<'_>, count_max: i64) -> Result<usize> {
    let today = tx.now.ms().div_euclid(DAY_MS);
    let deleted = tx.execute(
        "DELETE FROM idempotency WHERE (day, key) IN
             (SELECT day, key FROM idempotency WHERE day < ? ORDER BY day, key LIMIT ?)",
        (today - DAYS_KEPT, count_max),
    )?;
    Ok(deleted)
}
