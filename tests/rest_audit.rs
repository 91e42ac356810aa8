//! `GET /agents/me/audit`: the log, as one agent may read it.

use std::collections::HashSet;

use agentrelay::domain::agent::Handle;
use agentrelay::domain::event::EventKind;
use agentrelay::domain::key::KeyOptions;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay, fresh_key, message};
use crate::wire::{is_key, is_time, is_ulid, masked};

/// What an agent sees of the log.
trait Auditor {
    async fn audit(&self, query: &str) -> Vec<Value>;
}

impl Auditor for Agent {
    async fn audit(&self, query: &str) -> Vec<Value> {
        events(&self.rest("GET", &format!("/agents/me/audit?{query}")).await)
    }
}

fn events(answer: &Answer) -> Vec<Value> {
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    body["events"].as_array().expect("events").clone()
}

/// `actor action`, oldest first.
fn told(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, key: &str| event[key].as_str().expect(key).to_owned();
    events.iter().rev().map(|event| format!("{} {}", text(event, "actor_handle"), text(event, "action"))).collect()
}

fn named(agent: &Agent) -> AgentName {
    AgentName::Handle(Handle::parse(&agent.handle).expect("a handle"))
}

fn operator() -> Actor {
    Actor::operator("req_operator")
}

fn count(relay: &TestRelay) -> i64 {
    relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get(0)).expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mutation_is_audited_for_those_whom_it_concerns_and_for_nobody_else() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    let note = |text: &str| json!({"message": message(text)});

    // The operator's hand.
    let options = KeyOptions { label: Some("laptop".to_owned()), expires_at: None };
    let (_, minted) = relay.relay.mint_key(operator(), named(&bob), options).await.expect("minted");
    relay.relay.revoke_key(operator(), minted.id).await.expect("revoked");
    relay.relay.disable_agent(operator(), named(&bob)).await.expect("disabled");
    relay.relay.enable_agent(operator(), named(&bob)).await.expect("enabled");
    for handle in ["robert@acme", "bob@acme"] {
        let handle = Handle::parse(handle).expect("a handle");
        relay.relay.rename_agent(operator(), named(&bob), handle).await.expect("renamed");
    }
    relay.relay.make_default(operator(), named(&frank)).await.expect("made default");
    // The agents' own.
    bob.rest_with("PUT", "/agents/me/card", json!({"role": "backend"})).await;
    let first = bob.hand_to(&frank, "first").await;
    bob.say(&first, "more").await;
    frank.get(&first).await;
    frank.step_with(&first, "accept", json!({"session_id": "claude-1234"})).await.result();
    frank.step_with(&first, "progress", note("half done")).await.result();
    frank.step_with(&first, "request_input", note("which one?")).await.result();
    bob.say(&first, "the second").await;
    frank.step_with(&first, "complete", json!({"result_summary": "Done."})).await.result();
    let second = bob.hand_to(&frank, "second").await;
    bob.rpc("tasks/cancel", json!({"task_id": second})).await.result();
    let third = bob.hand_to(&frank, "third").await;
    frank.step(&third, "reject").await.result();
    let fourth = bob.hand_to(&frank, "fourth").await;
    frank.step_with(&fourth, "answer", note("42")).await.result();
    let fifth = frank.hand_to(&bob, "fifth").await;
    bob.step(&fifth, "accept").await.result();
    bob.step_with(&fifth, "fail", note("no access")).await.result();
    bob.rest_with("POST", "/agents/me/block", json!({"handle": "mallory@acme", "reason": "noise"})).await;
    bob.rest("DELETE", "/agents/me/block/mallory@acme").await;
    let rotated = bob.rest("POST", "/agents/me/keys/rotate").await.json();
    let bob = bob.with_key(rotated["api_key"].as_str().expect("a key"));

    let threads = [
        "bob@acme thread.created",
        "bob@acme thread.message",
        "frank@acme thread.fetched",
        "frank@acme thread.accepted",
        "frank@acme thread.progressed",
        "frank@acme thread.input_requested",
        "bob@acme thread.message",
        "frank@acme thread.completed",
        "bob@acme thread.created",
        "bob@acme thread.cancelled",
        "bob@acme thread.created",
        "frank@acme thread.rejected",
        "bob@acme thread.created",
        "frank@acme thread.answered",
        "frank@acme thread.created",
        "bob@acme thread.accepted",
        "bob@acme thread.failed",
    ];
    let before = [
        "operator agent.created",
        "operator key.minted",
        "operator key.minted",
        "operator key.revoked",
        "operator agent.disabled",
        "operator agent.enabled",
        "operator agent.renamed",
        "operator agent.renamed",
        "bob@acme agent.card_changed",
    ];
    let after = ["bob@acme block.added", "bob@acme block.removed", "bob@acme key.rotated"];
    let of_bob = bob.audit("limit=1000").await;
    assert_eq!(told(&of_bob), [&before[..], &threads, &after].concat());
    let of_frank = frank.audit("limit=1000").await;
    let before = ["operator agent.created", "operator key.minted", "operator agent.made_default"];
    assert_eq!(told(&of_frank), [&before[..], &threads].concat());
    let of_mallory = mallory.audit("limit=1000").await;
    assert_eq!(told(&of_mallory), ["operator agent.created", "operator key.minted"]);

    let seen: HashSet<&str> = of_bob.iter().chain(&of_frank).filter_map(|event| event["action"].as_str()).collect();
    for kind in EventKind::ALL {
        assert!(seen.contains(kind.name()), "{} is not in this story", kind.name());
    }
    check_resources(&of_bob, &bob, &mallory, &[&first, &second, &third, &fourth, &fifth]);
    let everything = json!([of_bob, of_frank, of_mallory]).to_string();
    for secret in [&*bob.key, &frank.key, minted.key.reveal(), "first", "half done", "Done."] {
        assert!(!everything.contains(secret), "{secret}");
    }
}

/// Each event says what it happened to, and what its kind adds.
fn check_resources(events: &[Value], bob: &Agent, mallory: &Agent, threads: &[&str]) {
    for event in events {
        let (action, id) =
            (event["action"].as_str().expect("an action"), event["resource_id"].as_str().expect("an id"));
        let kind = action.split('.').next().expect("a kind");
        assert_eq!(event["resource_type"], kind, "{event}");
        assert!(is_ulid(id), "{event}");
        match kind {
            "thread" => assert!(threads.contains(&id), "{event}"),
            "agent" => assert_eq!(id, bob.id, "{event}"),
            "block" => assert_eq!(id, mallory.id, "{event}"),
            _ => assert!(id != bob.id, "{event}"),
        }
        assert!(is_time(event["timestamp"].as_str().expect("a time")), "{event}");
        assert!(event["request_id"].as_str().expect("a request id").starts_with("req_"), "{event}");
        let metadata = match action {
            "agent.created" => json!({"handle": "bob@acme"}),
            "agent.renamed" if event["metadata"]["from"] == "bob@acme" => {
                json!({"from": "bob@acme", "to": "robert@acme"})
            }
            "agent.renamed" => json!({"from": "robert@acme", "to": "bob@acme"}),
            "key.minted" if event["metadata"]["label"] == "laptop" => json!({"label": "laptop"}),
            "key.minted" | "key.rotated" => json!({"label": null}),
            "block.added" => json!({"blocked_handle": "mallory@acme", "reason": "noise"}),
            "block.removed" => json!({"blocked_handle": "mallory@acme"}),
            "thread.accepted" if event["actor_handle"] == "frank@acme" => json!({"session_id": "claude-1234"}),
            _ => json!({}),
        };
        assert_eq!(event["metadata"], metadata, "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_names_the_request_that_caused_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    relay.clock.set(1_777_284_000_000);
    let rotated = bob.rest("POST", "/agents/me/keys/rotate").await;
    let bob = bob.with_key(rotated.json()["api_key"].as_str().expect("a key"));
    let request = bob.http.put(format!("{}/agents/me/card", bob.url)).bearer_auth(&bob.key);
    let request = request.header("x-request-id", "trace-7/a").json(&json!({"role": "data"}));
    assert_eq!(request.send().await.expect("an answer").status(), 200);

    let answer = bob.rest("GET", "/agents/me/audit?limit=2").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let mut body = answer.json();
    assert!(body["next_cursor"].take().is_string(), "more follow");
    assert_eq!(
        body,
        json!({
            "events": [
                {
                    "timestamp": "2026-04-27T10:00:00.000Z",
                    "actor_handle": "bob@acme",
                    "action": "agent.card_changed",
                    "resource_type": "agent",
                    "resource_id": bob.id,
                    "request_id": "trace-7/a",
                    "metadata": {},
                },
                {
                    "timestamp": "2026-04-27T10:00:00.000Z",
                    "actor_handle": "bob@acme",
                    "action": "key.rotated",
                    "resource_type": "key",
                    "resource_id": rotated.json()["key_id"],
                    "request_id": rotated.header("x-request-id"),
                    "metadata": {"label": null},
                },
            ],
            "next_cursor": null,
        })
    );

    let carol = relay.admin("POST", "/admin/agents", json!({"handle": "carol@acme"})).await;
    let key = carol.json()["api_key"].as_str().expect("a key").to_owned();
    assert!(is_key(&key));
    for event in frank.with_key(&key).audit("").await {
        assert_eq!(event["request_id"], carol.header("x-request-id"), "both were one request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_leaves_no_event() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    let metadata = fresh_key();
    let send = json!({"recipient": "frank@acme", "message": message("Hello"), "metadata": metadata});
    let task = bob.rpc("message/send", send.clone()).await.result()["task_id"].as_str().expect("an id").to_owned();
    frank.get(&task).await;
    frank.step_with(&task, "accept", json!({"session_id": "s"})).await.result();
    frank.block(&mallory).await;
    let (_, minted) = relay.relay.mint_key(operator(), named(&bob), KeyOptions::default()).await.expect("minted");
    relay.relay.revoke_key(operator(), minted.id).await.expect("revoked");
    relay.relay.disable_agent(operator(), named(&mallory)).await.expect("disabled");
    let before = count(&relay);

    // Reading.
    for path in ["/agents", "/agents/me", "/agents/me/audit", "/agents/me/block", "/events?wait=0&after=0", "/readyz"] {
        assert_eq!(bob.rest("GET", path).await.status, 200, "{path}");
    }
    frank.get(&task).await;
    bob.get(&task).await;
    frank.inbox().await;
    // Doing again what was done.
    bob.rpc("message/send", send).await.result();
    frank.step_with(&task, "accept", json!({"session_id": "s"})).await.result();
    frank.block(&mallory).await;
    assert_eq!(frank.rest("DELETE", "/agents/me/block/bob@acme").await.status, 204);
    relay.relay.revoke_key(operator(), minted.id).await.expect("revoked");
    relay.relay.disable_agent(operator(), named(&mallory)).await.expect("disabled");
    relay.relay.enable_agent(operator(), named(&bob)).await.expect("enabled");
    let same = Handle::parse("bob@acme").expect("a handle");
    relay.relay.rename_agent(operator(), named(&bob), same).await.expect("renamed");
    // Being refused.
    let other = json!({"recipient": "frank@acme", "message": message("Other"), "metadata": metadata});
    bob.rpc("message/send", other).await.refused("duplicate_idempotency_key");
    bob.rpc("message/send", json!({"recipient": "ghost@acme", "message": message("x")}))
        .await
        .refused("recipient_not_found");
    bob.step(&task, "complete").await.refused("not_authorized_transition");
    bob.rest_with("PUT", "/agents/me/card", json!({"role": 1})).await.refused("invalid_params");
    bob.rest_with("POST", "/agents/me/block", json!({"handle": "ghost@acme"})).await.refused("recipient_not_found");
    relay.admin("POST", "/admin/agents", json!({"handle": "bob@acme"})).await.refused("invalid_params");
    assert_eq!(count(&relay), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_filtered_by_action() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    bob.say(&task, "and").await;
    frank.step(&task, "accept").await.result();
    for (action, expected) in [
        ("thread.message", vec!["bob@acme thread.message"]),
        ("thread.accepted", vec!["frank@acme thread.accepted"]),
        ("key.minted", vec!["operator key.minted"]),
        ("thread.failed", vec![]),
    ] {
        assert_eq!(told(&bob.audit(&format!("action={action}")).await), expected, "{action}");
    }
    for kind in EventKind::ALL {
        for event in bob.audit(&format!("action={}", kind.name())).await {
            assert_eq!(event["action"], kind.name());
        }
    }
    assert_eq!(bob.audit("action=").await.len(), 5, "an empty filter is none");

    for action in ["thread", "thread.*", "THREAD.CREATED", "created", "thread.created,thread.message", "%00", "%FF"] {
        let refused = bob.rest("GET", &format!("/agents/me/audit?action={action}")).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), ["action"], "{action}");
    }
    let refused = bob.rest("GET", "/agents/me/audit?action=thread.seen").await.refused("invalid_params");
    let names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(
        masked(&refused.json()["details"]),
        json!({"issues": [{
            "path": ["action"],
            "message": format!("an action is one of {}", names.join(", ")),
            "code": "invalid_value",
        }]})
    );
    let all = bob.rest("GET", "/agents/me/audit?action=x&since=x&limit=x").await.refused("invalid_params");
    assert_eq!(all.issue_paths(), ["action", "since", "limit"], "every problem at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn since_is_inclusive_and_understands_offsets_and_fractions() {
    let relay = TestRelay::start().await;
    relay.clock.set(1_777_283_999_999);
    let (bob, frank) = relay.bob_and_frank().await;
    relay.clock.set(1_777_284_000_000);
    bob.hand_to(&frank, "at ten").await;
    relay.clock.set(1_777_284_000_500);
    bob.hand_to(&frank, "half a second later").await;

    for (since, expected) in [
        ("2026-04-27T09:59:59.999Z", 4),
        ("2026-04-27T10:00:00Z", 2),
        ("2026-04-27T10:00:00.000Z", 2),
        ("2026-04-27T10:00:00.000000000Z", 2),
        ("2026-04-27t10:00:00z", 2),
        ("2026-04-27T12:00:00%2B02:00", 2),
        ("2026-04-27T12:00:00+02:00", 2),
        ("2026-04-27T05:30:00-04:30", 2),
        ("2026-04-28T00:00:00%2B14:00", 2),
        ("2026-04-27T10:00:00.001Z", 1),
        ("2026-04-27T10:00:00.5Z", 1),
        ("2026-04-27T10:00:00.501Z", 0),
        ("2026-04-27T11:00:00%2B00:00", 0),
        ("9999-12-30T22:00:00Z", 0),
        ("1970-01-01T00:00:00Z", 4),
        ("1969-12-31T23:59:59Z", 4),
        ("", 4),
    ] {
        assert_eq!(bob.audit(&format!("since={since}")).await.len(), expected, "{since}");
    }
    for since in [
        "2026-04-27T10:00:00",
        "2026-04-27",
        "10:00:00Z",
        "1777284000000",
        "yesterday",
        "2026-02-30T00:00:00Z",
        "2026-04-27T25:00:00Z",
        "%FF",
    ] {
        let refused = bob.rest("GET", &format!("/agents/me/audit?since={since}")).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), ["since"], "{since}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_first_is_the_order_of_the_log_also_when_the_clock_is_set_back() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut expected = Vec::new();
    for ms in [1_777_284_002_000, 1_777_284_000_000, 1_777_284_001_000, 1_777_284_001_000] {
        relay.clock.set(ms);
        expected.insert(0, bob.hand_to(&frank, "Hello").await);
    }
    let ids: Vec<_> =
        bob.audit("action=thread.created").await.iter().map(|event| event["resource_id"].clone()).collect();
    assert_eq!(json!(ids), json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_comes_in_pages_and_a_walk_sees_each_event_once() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    relay.clock.set(1_777_284_000_000);
    let task = bob.hand_to(&frank, "Hello").await;
    for number in 0..60 {
        frank.say(&task, &number.to_string()).await.result();
    }
    assert_eq!(bob.audit("").await.len(), 50, "the default");
    let expected = bob.audit("limit=1000").await;
    assert_eq!(expected.len(), 63);

    let (mut cursor, mut seen) = (String::new(), Vec::new());
    loop {
        let answer = bob.rest("GET", &format!("/agents/me/audit?limit=7&cursor={cursor}")).await;
        seen.extend(events(&answer));
        // What happens meanwhile is newer than where the walk is.
        bob.say(&task, "meanwhile").await.result();
        match answer.json()["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    assert_eq!(seen, expected);
    for (limit, events) in [("1", 1), ("1000", 72)] {
        assert_eq!(bob.audit(&format!("limit={limit}")).await.len(), events);
    }
    for limit in ["0", "1001", "-1", "abc", "1.0", "%20"] {
        let refused = bob.rest("GET", &format!("/agents/me/audit?limit={limit}")).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), ["limit"], "{limit}");
        assert_eq!(refused.error()["message"], "limit: expected a whole number from 1 to 1000", "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_belongs_to_its_reader_and_its_filter() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for _ in 0..3 {
        bob.hand_to(&frank, "Hello").await;
    }
    let cursor_of = async |query: &str| {
        let body = bob.rest("GET", &format!("/agents/me/audit?limit=1&{query}")).await.json();
        body["next_cursor"].as_str().unwrap_or_else(|| panic!("{query}: {body}")).to_owned()
    };
    let plain = cursor_of("").await;
    let created = cursor_of("action=thread.created").await;
    let since = cursor_of("since=2026-01-01T00:00:00Z").await;
    let agents = bob.rest("GET", "/agents?limit=1").await.json()["next_cursor"].as_str().expect("a cursor").to_owned();
    for (reader, query, cursor) in [
        (&frank, "", &plain),
        (&bob, "action=thread.created", &plain),
        (&bob, "since=2026-01-01T00:00:00Z", &plain),
        (&bob, "", &created),
        (&bob, "", &since),
        (&bob, "since=2026-01-01T00:00:01Z", &since),
        (&bob, "", &agents),
        (&bob, "", &"7".to_owned()),
        (&bob, "", &"9223372036854775807".to_owned()),
    ] {
        let path = format!("/agents/me/audit?{query}&cursor={cursor}");
        assert_eq!(reader.rest("GET", &path).await.refused("invalid_params").issue_paths(), ["cursor"], "{path}");
    }
    // The same moment written another way is the same filter.
    let path = format!("limit=2&since=2026-01-01T01:00:00%2B01:00&cursor={since}");
    assert_eq!(bob.audit(&path).await.len(), 2);
}
