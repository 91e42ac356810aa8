//! Ids only ever grow, whatever the clock does.

use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;

use crate::storage::{SetClock, agent, sqlite};
use crate::{consistency, operations};

#[tokio::test]
async fn ids_grow_while_the_clock_is_set_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(9_000_000);
    let relay = clock.relay(&path);
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let mut last = None;
    for ms in [9_000_000, 9_000_000, 8_000_000, 0, 9_000_001, 5_000_000] {
        clock.set(ms);
        let sent = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
        let said = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
        let ids = (sent.thread, sent.message.expect("a message").0, said.message.expect("a message").0);
        assert!(ids.1 < ids.2);
        assert!(last < Some(ids), "{last:?} before {ids:?}");
        last = Some(ids);
    }
    consistency::check(&sqlite(&path));
}

#[tokio::test]
async fn a_threads_id_grows_also_when_the_clock_was_set_back_while_the_relay_was_down() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(9_000_000);
    let relay = clock.relay(&path);
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let before = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    drop(relay);

    clock.set(1_000);
    let relay = clock.relay(&path);
    let after = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    assert!(before.thread < after.thread);
}

#[tokio::test]
async fn so_does_a_messages_id_and_none_is_given_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(9_000_000);
    let relay = clock.relay(&path);
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let sent = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    let before = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
    drop(relay);

    // Messages, keys and agents draw from the same sequence as threads.
    let relay = clock.relay(&path);
    let after = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
    assert_ne!(sent.message, after.message);
    assert!(before.message < after.message, "{:?} before {:?}", before.message, after.message);
    drop(relay);
    clock.set(1_000);
    let relay = clock.relay(&path);
    let last = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
    assert!(after.message < last.message, "{:?} before {:?}", after.message, last.message);
    consistency::check(&sqlite(&path));
}

#[tokio::test]
async fn and_after_a_thousand_other_things_have_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let clock = SetClock::at(9_000_000);
    let relay = clock.relay(&path);
    let (bob, frank) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let sent = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    let before = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
    for _ in 0..510 {
        let (blocker, blocked) = (AgentName::Id(frank.id()), AgentName::Id(bob.id()));
        let actor = || Actor::operator("req_ids");
        relay.block(actor(), blocker.clone(), blocked.clone(), None).await.expect("blocked");
        relay.unblock(actor(), blocker, blocked).await.expect("unblocked");
    }
    drop(relay);

    // BUG: only the last thousand events are looked at for the last message's id (store/writer, `last_id`).
    clock.set(1_000);
    let relay = clock.relay(&path);
    let after = operations::say(&relay, &bob, sent.thread, "a message").await.expect("said");
    assert!(before.message < after.message, "{:?} before {:?}", before.message, after.message);
}
