//! `GET` and `POST /agents/me/block`, `DELETE /agents/me/block/{handle}`: whom an agent does not want to hear from.

use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay, message};
use crate::wire::{bare, masked};

/// What an agent does about others.
trait Blocks {
    async fn block_with(&self, body: Value) -> Answer;
    async fn unblock(&self, handle: &str) -> Answer;
    async fn blocked(&self) -> Value;
    async fn try_to_hand_to(&self, recipient: &Agent) -> Answer;
}

impl Blocks for Agent {
    async fn block_with(&self, body: Value) -> Answer {
        self.rest_with("POST", "/agents/me/block", body).await
    }

    async fn unblock(&self, handle: &str) -> Answer {
        self.rest("DELETE", &format!("/agents/me/block/{handle}")).await
    }

    async fn blocked(&self) -> Value {
        let answer = self.rest("GET", "/agents/me/block").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    async fn try_to_hand_to(&self, recipient: &Agent) -> Answer {
        self.rpc("message/send", json!({"recipient": recipient.handle, "message": message("Hello")})).await
    }
}

fn named(handle: &str) -> AgentName {
    AgentName::Handle(Handle::parse(handle).expect("a handle"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_is_added_listed_and_lifted() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    mallory.rest_with("PUT", "/agents/me/card", json!({"role": "sales"})).await;
    let answer = frank.rest("GET", "/agents/me/block").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json(), json!({"blocked": []}));

    let answer = frank.block_with(json!({"handle": "mallory@acme", "reason": "too many letters"})).await;
    assert_eq!((answer.status, answer.header("content-type")), (201, "application/json"));
    assert_eq!(answer.json(), json!({"ok": true, "blocked_handle": "mallory@acme"}));
    let bare = frank.block_with(json!({"handle": "bob@acme", "reason": null})).await;
    assert_eq!((bare.status, bare.json()), (201, json!({"ok": true, "blocked_handle": "bob@acme"})));
    let listed = frank.blocked().await;
    assert_eq!(
        masked(&listed),
        json!({"blocked": [
            {"handle": "bob@acme", "name": "bob", "role": null, "reason": null, "blocked_at": "TIME"},
            {
                "handle": "mallory@acme",
                "name": "mallory",
                "role": "sales",
                "reason": "too many letters",
                "blocked_at": "TIME",
            },
        ]})
    );
    assert_eq!(bob.blocked().await, json!({"blocked": []}), "a list of blocks is its agent's alone");
    assert_eq!(mallory.blocked().await, json!({"blocked": []}));

    // Again: the same answer, and the first block stays as it was.
    let again = frank.block_with(json!({"handle": "mallory@acme", "reason": "another"})).await;
    assert_eq!((again.status, again.json()), (201, json!({"ok": true, "blocked_handle": "mallory@acme"})));
    assert_eq!(frank.blocked().await, listed);

    for _ in 0..2 {
        let answer = frank.unblock("mallory@acme").await;
        assert_eq!((answer.status, &*answer.text, answer.header("content-type")), (204, "", ""));
        assert!(answer.header("x-request-id").starts_with("req_"));
        assert_eq!(frank.blocked().await["blocked"].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lifting_is_204_with_whatever_handle() {
    let relay = TestRelay::start().await;
    let (_, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    frank.block(&mallory).await;
    // `%FF%FE` decodes to no text at all.
    for handle in [
        "bob@acme",
        "frank@acme",
        "ghost@acme",
        "mallory",
        "mallory@",
        "@",
        "mallory@acme.",
        "mallory@@acme",
        "m%00allory@acme",
        "mallory%2Facme",
        "mallory%40acme%2F..",
        "%2e%2e",
        "..%2F..%2Fadmin",
        "%25",
        "%F0%9F%92%A9",
        "%FF%FE",
        "%ZZ",
        "m%D0%B0llory@acme",
        "null",
        &"x".repeat(1_000),
    ] {
        let answer = bare(&frank.url, "DELETE", &format!("/agents/me/block/{handle}"), &frank.key).await;
        assert_eq!((answer.status, &*answer.text), (204, ""), "{handle}");
        assert_eq!(frank.blocked().await["blocked"][0]["handle"], "mallory@acme", "{handle}");
    }
    for handle in ["mallory@acme", "mallory%40acme", "MALLORY@Acme", "%6D%61llory%40acm%65", "mallory@acme?x=y#z"] {
        frank.block(&mallory).await;
        assert_eq!(frank.unblock(handle).await.status, 204, "{handle}");
        assert_eq!(frank.blocked().await, json!({"blocked": []}), "{handle}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_blocked_is_refused_with_the_reason() {
    let relay = TestRelay::start().await;
    let (_, frank) = relay.bob_and_frank().await;
    for (body, paths, code) in [
        (json!({}), vec!["handle"], "invalid_type"),
        (json!({"handle": null}), vec!["handle"], "invalid_type"),
        (json!({"handle": 7}), vec!["handle"], "invalid_type"),
        (json!({"handle": ["bob@acme"]}), vec!["handle"], "invalid_type"),
        (json!({"handle": ""}), vec!["handle"], "invalid_value"),
        (json!({"handle": "bob"}), vec!["handle"], "invalid_value"),
        (json!({"handle": "frank@acme"}), vec!["handle"], "custom"),
        (json!({"handle": "Frank@Acme"}), vec!["handle"], "custom"),
        (json!({"handle": "bob@acme", "reason": ""}), vec!["reason"], "too_small"),
        (json!({"handle": "bob@acme", "reason": "x".repeat(2_001)}), vec!["reason"], "too_big"),
        (json!({"handle": "bob@acme", "reason": 1}), vec!["reason"], "invalid_type"),
        (json!({"handle": "b@b@b", "reason": []}), vec!["reason", "handle"], "invalid_type"),
    ] {
        let refused = frank.block_with(body.clone()).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), paths, "{body}");
        assert_eq!(refused.error()["details"]["issues"][0]["code"], code, "{body}");
    }
    let refused = frank.block_with(json!({"handle": "Ghost@acme"})).await.refused("recipient_not_found");
    assert_eq!(
        masked(&refused.json()),
        json!({
            "code": "recipient_not_found",
            "message": "No agent has the handle 'ghost@acme'",
            "request_id": "REQUEST",
            "details": {},
        })
    );
    assert_eq!(frank.blocked().await, json!({"blocked": []}));
    let longest = frank.block_with(json!({"handle": "bob@acme", "reason": "ü".repeat(2_000)})).await;
    assert_eq!(longest.status, 201, "{}", longest.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_is_folded_and_a_former_one_still_means_its_agent() {
    let relay = TestRelay::start().await;
    let (_, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    let folded = frank.block_with(json!({"handle": "MALLORY@ACME"})).await;
    assert_eq!((folded.status, folded.json()), (201, json!({"ok": true, "blocked_handle": "mallory@acme"})));

    let operator = || Actor::operator("req_test");
    let new = Handle::parse("melody@acme").expect("a handle");
    relay.relay.rename_agent(operator(), named("mallory@acme"), new).await.expect("renamed");
    assert_eq!(frank.blocked().await["blocked"][0]["handle"], "melody@acme", "a block outlives a new name");
    mallory.try_to_hand_to(&frank).await.refused("teammate_blocked");

    assert_eq!(frank.unblock("mallory@acme").await.status, 204);
    assert_eq!(frank.blocked().await, json!({"blocked": []}));
    let by_former = frank.block_with(json!({"handle": "mallory@acme"})).await;
    assert_eq!(by_former.json(), json!({"ok": true, "blocked_handle": "melody@acme"}));

    // One who is disabled may come back: the block waits for it.
    let disabled = relay.agent("dora@acme").await;
    relay.relay.disable_agent(operator(), named("dora@acme")).await.expect("disabled");
    assert_eq!(frank.block(&disabled).await.status, 201);
    relay.relay.enable_agent(operator(), named("dora@acme")).await.expect("enabled");
    disabled.try_to_hand_to(&frank).await.refused("teammate_blocked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_stops_the_very_next_request_and_lifting_it_lets_the_next_one_through() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    let to_frank = mallory.hand_to(&frank, "for Frank").await;
    let from_frank = frank.hand_to(&mallory, "for Mallory").await;
    let accepted = frank.hand_to(&mallory, "for Mallory too").await;
    mallory.step(&accepted, "accept").await.result();

    for _ in 0..20 {
        assert_eq!(frank.block(&mallory).await.status, 201);
        mallory.try_to_hand_to(&frank).await.refused("teammate_blocked");
        mallory.say(&to_frank, "more").await.refused("teammate_blocked");
        assert_eq!(frank.unblock("mallory@acme").await.status, 204);
        mallory.say(&to_frank, "more").await.result();
    }

    frank.block(&mallory).await;
    // Nothing of hers reaches him, on neither side of a thread.
    mallory.step(&from_frank, "accept").await.refused("teammate_blocked");
    let note = json!({"message": message("no")});
    mallory.step_with(&from_frank, "reject", note.clone()).await.refused("teammate_blocked");
    mallory.step_with(&from_frank, "answer", note.clone()).await.refused("teammate_blocked");
    for transition in ["progress", "request_input", "fail"] {
        mallory.step_with(&accepted, transition, note.clone()).await.refused("teammate_blocked");
    }
    mallory.step(&accepted, "complete").await.refused("teammate_blocked");
    mallory.say(&accepted, "psst").await.refused("teammate_blocked");
    // Reading and taking back stay possible.
    assert_eq!(mallory.get(&from_frank).await["status"]["state"], "pending");
    assert_eq!(mallory.inbox().await.len(), 2);
    assert_eq!(
        mallory.rpc("tasks/cancel", json!({"task_id": to_frank})).await.result()["status"]["state"],
        "cancelled"
    );
    // Nobody else is concerned, and the one who blocks may go on writing.
    bob.hand_to(&frank, "Hello").await;
    mallory.hand_to(&bob, "Hello").await;
    frank.say(&from_frank, "anything new?").await.result();
    frank.hand_to(&mallory, "one more").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocked_one_is_not_told_until_it_tries() {
    let relay = TestRelay::start().await;
    let (_, frank) = relay.bob_and_frank().await;
    let mallory = relay.agent("mallory@acme").await;
    let before = mallory.rest("GET", "/agents/me/audit").await.json();
    let after = mallory.rest("GET", "/events?wait=0").await.json()["next_after"].clone();
    frank.block(&mallory).await;
    frank.unblock("mallory@acme").await;
    frank.block(&mallory).await;

    assert_eq!(mallory.rest("GET", "/agents/me/audit").await.json(), before);
    let events = mallory.rest("GET", &format!("/events?wait=0&after={after}")).await.json();
    assert_eq!(events["events"], json!([]));
    let listed = mallory.rest("GET", "/agents").await.text;
    assert!(!listed.contains("block"), "{listed}");
    let refused = mallory.try_to_hand_to(&frank).await.refused("teammate_blocked");
    assert_eq!(refused.error()["details"], json!({}));
}
