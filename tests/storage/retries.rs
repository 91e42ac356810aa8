//! How long an idempotency key is remembered, and that it is forgotten then.

use agentrelay::domain::id::ThreadId;
use agentrelay::error::Symbol;
use agentrelay::relay::{Caller, Relay};

use crate::operations;
use crate::storage::{SetClock, agent, count, sqlite};

const DAY_MS: i64 = 24 * 3_600_000;
/// Ten minutes after a midnight.
const SENT_AT: i64 = 20_000 * DAY_MS + 600_000;

async fn send(relay: &Relay, bob: &Caller) -> ThreadId {
    operations::hand(relay, bob, "frank@acme", "a handoff", Some("key")).await.expect("sent").thread
}

#[tokio::test]
async fn a_key_is_remembered_for_seven_days_and_forgotten_after_the_eighth() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    for minute_of_day in [0, 10, 1_439] {
        let sent_at = 20_000 * DAY_MS + minute_of_day * 60_000;
        let clock = SetClock::at(sent_at);
        let path = path.with_extension(minute_of_day.to_string());
        let relay = clock.relay(&path);
        let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
        let first = send(&relay, &bob).await;
        for later in [1, DAY_MS, 3 * DAY_MS, 7 * DAY_MS - 1, 7 * DAY_MS] {
            clock.set(sent_at + later);
            relay.upkeep().await.expect("upkeep");
            assert_eq!(send(&relay, &bob).await, first, "after {later} ms");
        }
        let other = operations::hand(&relay, &bob, "frank@acme", "another", Some("key")).await;
        assert_eq!(other.expect_err("another payload").symbol(), Symbol::DuplicateIdempotencyKey);

        clock.set(sent_at + 8 * DAY_MS);
        assert_eq!(count(&sqlite(&path), "SELECT count(*) FROM idempotency"), 1);
        relay.upkeep().await.expect("upkeep");
        assert_eq!(count(&sqlite(&path), "SELECT count(*) FROM idempotency"), 0);
        assert_ne!(send(&relay, &bob).await, first);
        assert_eq!(count(&sqlite(&path), "SELECT count(*) FROM threads"), 2);
    }
}

#[tokio::test]
async fn a_key_is_remembered_also_when_the_clock_is_set_back_over_midnight() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(SENT_AT);
    let relay = clock.relay(&path);
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let first = send(&relay, &bob).await;
    clock.set(SENT_AT - 3_600_000);
    // The key is one of tomorrow now.
    assert_eq!(send(&relay, &bob).await, first);
}

#[tokio::test]
async fn upkeep_forgets_a_bounded_number_of_keys_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(SENT_AT);
    let relay = clock.relay(&path);
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    send(&relay, &bob).await;
    let conn = sqlite(&path);
    conn.execute_batch(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 24999)
         INSERT INTO idempotency SELECT 19000, randomblob(12), randomblob(8), (SELECT max(seq) FROM events) FROM n",
    )
    .expect("many keys");
    for left in [15_000, 5_000, 1, 1] {
        relay.upkeep().await.expect("upkeep");
        // The 24,999 old ones go, the one of today stays.
        assert_eq!(count(&conn, "SELECT count(*) FROM idempotency"), left);
    }
}
