//! `metadata.client_idempotency_key`: a call that is made again is done once, and answered as the first time.

use std::time::Duration;

use agentrelay::api::Settings;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Agent, Answer, TestRelay, message, settings};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A call as it is posted, word for word.
#[derive(Clone)]
struct Call {
    caller: Agent,
    body: String,
}

impl Call {
    fn new(caller: &Agent, method: &str, params: &Value) -> Call {
        let body = json!({ "jsonrpc": "2.0", "id": "req-1", "method": method, "params": params });
        Call { caller: caller.clone(), body: body.to_string() }
    }

    async fn post(&self) -> Answer {
        self.caller.post_a2a(self.body.clone()).await
    }

    /// The same call to a relay that has another address now.
    fn to(&self, relay: &TestRelay) -> Call {
        Call { caller: Agent { url: relay.url.clone(), ..self.caller.clone() }, body: self.body.clone() }
    }
}

/// Parameters with an idempotency key.
fn keyed(key: &str, mut params: Value) -> Value {
    params["metadata"]["client_idempotency_key"] = json!(key);
    params
}

fn to_frank(text: &str) -> Value {
    json!({ "recipient": "frank@acme", "message": message(text) })
}

fn link(url: &str) -> Value {
    json!({ "type": "link", "url": url })
}

fn count(relay: &TestRelay, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    relay.sqlite().query_row(&sql, [], |row| row.get(0)).expect("a count")
}

#[track_caller]
fn task_of(answer: &Answer) -> String {
    answer.result()["task_id"].as_str().expect("a task id").to_owned()
}

mod an_exact_retry {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn answers_as_the_first_time_whatever_has_changed_since() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut done: Vec<(Call, String)> = Vec::new();
        let first = async |caller: &Agent, method: &str, params: Value| {
            let call = Call::new(caller, method, &params);
            let answer = call.post().await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            (call, answer)
        };

        let (call, answer) = first(&bob, "message/send", keyed("send", to_frank("Hello"))).await;
        let task = task_of(&answer);
        done.push((call, answer.text));
        let other = bob.hand_to(&frank, "Never mind").await;
        let with_session = json!({ "task_id": task, "transition": "accept", "session_id": "claude-1234" });
        let step = |transition: &str| json!({ "task_id": task, "transition": transition, "message": message("So") });
        let mut progress = step("progress");
        progress["artifacts"] = json!([link("a")]);
        for (caller, method, params) in [
            (&bob, "message/send", json!({ "task_id": task, "message": message("And?"), "artifacts": [link("a")] })),
            (&frank, "message/send", json!({ "task_id": task, "message": message("Soon") })),
            (&frank, "tasks/update", with_session),
            (&frank, "tasks/update", progress),
            (&frank, "tasks/update", json!({ "task_id": task, "transition": "progress", "artifacts": [link("b")] })),
            (&frank, "tasks/update", step("request_input")),
            (&bob, "message/send", json!({ "task_id": task, "message": message("The second one") })),
            (&frank, "tasks/update", step("complete")),
            (&bob, "tasks/cancel", json!({ "task_id": other })),
        ] {
            let (call, answer) = first(caller, method, keyed(&done.len().to_string(), params)).await;
            done.push((call, answer.text));
            for (call, text) in &done {
                assert_eq!(&call.post().await.text, text, "after {}: {}", done[done.len() - 1].0.body, call.body);
            }
        }

        let again = async |relay: &TestRelay, when: &str, callers: &[&str]| {
            for (call, text) in &done {
                if callers.contains(&&*call.caller.handle) {
                    let answer = call.to(relay).post().await;
                    assert_eq!((answer.status, &answer.text), (200, text), "{when}: {}", call.body);
                }
            }
        };
        let both = &["bob@acme", "frank@acme"];
        let before = bob.get(&task).await;
        assert_eq!((bob.block(&frank).await.status, frank.block(&bob).await.status), (201, 201));
        again(&relay, "blocked", both).await;
        let relay = relay.restart(Settings { rate_limit: 0, ..settings() }).await;
        again(&relay, "after a restart", both).await;
        assert_eq!(relay.admin("DELETE", &format!("/admin/agents/{}", frank.id), json!({})).await.status, 204);
        again(&relay, "with a disabled recipient", &["bob@acme"]).await;

        let bob = Agent { url: relay.url.clone(), ..bob };
        assert_eq!(bob.get(&task).await, before, "nothing of it was done again");
        assert_eq!(count(&relay, "threads"), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_known_by_the_alias_too() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let params = keyed("k", json!({ "task_id": task, "transition": "cancel" }));
        let first = bob.rpc("tasks/cancel", params.clone()).await;
        assert_eq!(first.result()["status"]["state"], "cancelled");
        assert_eq!(bob.rpc("tasks/update", params).await.text, first.text);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_by_what_it_says_not_by_how_it_is_written() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let send = async |params: &str| {
            bob.post_a2a(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{params}}}"#)).await
        };
        let first = send(
            r#"{"recipient":"frank@acme","message":{"parts":[{"type":"text","text":"é"}]},
                "artifacts":[{"type":"link","url":"a","x":{"b":1,"a":[1,2]}}],
                "payload":{"one":1,"two":2},
                "metadata":{"client_idempotency_key":"k","ticket":42,"team":"core"}}"#,
        )
        .await;
        first.result();
        for (difference, params) in [
            (
                "the order of keys",
                r#"{"metadata":{"team":"core","ticket":42,"client_idempotency_key":"k"},"payload":{"two":2,"one":1},
                    "message":{"parts":[{"text":"é","type":"text"}]},
                    "artifacts":[{"x":{"a":[1,2],"b":1},"url":"a","type":"link"}],"recipient":"frank@acme"}"#,
            ),
            (
                "spaces",
                r#"{ "recipient" : "frank@acme" , "message" : { "parts" : [ { "type" : "text" , "text" : "é" } ] },
                    "artifacts" : [ { "type" : "link" , "url" : "a" , "x" : { "b" : 1 , "a" : [ 1 , 2 ] } } ],
                    "payload" : { "one" : 1 , "two" : 2 },
                    "metadata" : { "client_idempotency_key" : "k" , "ticket" : 42 , "team" : "core" } }"#,
            ),
            (
                "escapes",
                r#"{"recipient":"frank\u0040acme","message":{"parts":[{"type":"text","text":"\u00e9"}]},
                    "artifacts":[{"type":"link","url":"\u0061","x":{"\u0062":1,"a":[1,2]}}],
                    "payload":{"one":1,"\u0074wo":2},
                    "metadata":{"client_idempotency_\u006bey":"\u006b","ticket":42,"team":"core"}}"#,
            ),
            (
                "null for absent, and defaults",
                r#"{"task_id":null,"recipient":"Frank@ACME","intent":"inform","proposed_action":null,
                    "message":{"role":null,"parts":[{"type":"text","text":"é"}]},
                    "artifacts":[{"type":"link","url":"a","x":{"b":1,"a":[1,2]}}],
                    "payload":{"one":1,"two":2},
                    "metadata":{"client_idempotency_key":"k","ticket":42,"team":"core"}}"#,
            ),
            (
                "unknown fields",
                r#"{"recipient":"frank@acme","message":{"parts":[{"type":"text","text":"é"}],"lang":"fr"},
                    "artifacts":[{"type":"link","url":"a","x":{"b":1,"a":[1,2]}}],
                    "payload":{"one":1,"two":2},"attempt":2,
                    "metadata":{"client_idempotency_key":"k","ticket":42,"team":"core"}}"#,
            ),
        ] {
            assert_eq!(send(params).await.text, first.text, "{difference}");
        }
        assert_eq!(count(&relay, "threads"), 1);

        let task = bob.hand_to(&frank, "Hello").await;
        let step = |more: Value| {
            let mut params = keyed("step", json!({ "task_id": task, "transition": "accept" }));
            params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            params
        };
        let first = frank.rpc("tasks/update", step(json!({}))).await;
        first.result();
        let nothing = json!({
            "task_id": task.to_lowercase(), "session_id": null, "message": null, "artifacts": [],
            "result_summary": null, "expected_generation": null
        });
        assert_eq!(frank.rpc("tasks/update", step(nothing)).await.text, first.text);
    }
}

mod another_payload {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_refused_for_a_new_handoff() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        relay.agent("carol@acme").await;
        let first = json!({
            "recipient": "frank@acme",
            "message": message("Hello"),
            "artifacts": [link("a")],
            "payload": { "n": 1 },
            "metadata": { "ticket": 42 }
        });
        let answer = bob.rpc("message/send", keyed("k", first.clone())).await;
        let task = task_of(&answer);
        let action = json!({ "description": "d", "target_files": [], "rationale": "r" });
        let text = |text: &str| json!({ "type": "text", "text": text });
        for change in [
            json!({ "recipient": "carol@acme" }),
            json!({ "message": message("Hello!") }),
            json!({ "message": { "parts": [text("Hello")] } }),
            json!({ "message": { "role": "agent", "parts": [text("Hello")] } }),
            json!({ "message": { "role": "user", "parts": [text("Hello"), text("")] } }),
            json!({ "message": { "role": "user", "parts": [text("Hello"), { "type": "data", "data": 1 }] } }),
            json!({ "intent": "ask_question" }),
            json!({ "intent": "propose_action", "proposed_action": action }),
            json!({ "artifacts": null }),
            json!({ "artifacts": [link("b")] }),
            json!({ "artifacts": [link("a"), link("a")] }),
            json!({ "artifacts": [{ "type": "link", "url": "a", "title": "a" }] }),
            json!({ "payload": null }),
            json!({ "payload": { "n": 2 } }),
            json!({ "payload": { "n": "1" } }),
            json!({ "payload": { "n": 1.0 } }),
            json!({ "payload": {} }),
            json!({ "metadata": {} }),
            json!({ "metadata": { "ticket": 43 } }),
            json!({ "metadata": { "ticket": 42, "more": null } }),
        ] {
            let mut params = first.clone();
            params.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
            let refused = bob.rpc("message/send", keyed("k", params)).await;
            assert_eq!(refused.symbol(), "duplicate_idempotency_key", "{change}");
            assert_eq!(refused.refused("duplicate_idempotency_key").error()["details"], json!({}));
        }
        let append = json!({ "task_id": task, "message": message("Hello") });
        bob.rpc("message/send", keyed("k", append)).await.refused("duplicate_idempotency_key");
        let cancel = json!({ "task_id": task });
        bob.rpc("tasks/cancel", keyed("k", cancel)).await.refused("duplicate_idempotency_key");
        assert_eq!(bob.rpc("message/send", keyed("k", first)).await.text, answer.text);
        assert_eq!(count(&relay, "threads"), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_refused_for_a_message() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (task, other) = (bob.hand_to(&frank, "Hello").await, bob.hand_to(&frank, "Hello").await);
        let first = json!({ "task_id": task, "message": message("Hm"), "expected_generation": 1 });
        let answer = bob.rpc("message/send", keyed("k", first.clone())).await;
        answer.result();
        for change in [
            json!({ "task_id": other }),
            json!({ "message": message("Hm.") }),
            json!({ "artifacts": [link("a")] }),
            json!({ "payload": { "n": 1 } }),
            json!({ "metadata": { "ticket": 1 } }),
            json!({ "expected_generation": null }),
            json!({ "expected_generation": 2 }),
        ] {
            let mut params = first.clone();
            params.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
            let refused = bob.rpc("message/send", keyed("k", params)).await;
            assert_eq!(refused.symbol(), "duplicate_idempotency_key", "{change}");
        }
        assert_eq!(bob.rpc("message/send", keyed("k", first)).await.text, answer.text);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_refused_for_a_transition() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (task, other) = (bob.hand_to(&frank, "Hello").await, bob.hand_to(&frank, "Hello").await);
        for task in [&task, &other] {
            frank.step(task, "accept").await.result();
        }
        let first = json!({
            "task_id": task,
            "transition": "complete",
            "session_id": "s",
            "message": message("Done"),
            "artifacts": [link("a")],
            "result_summary": "Done.",
            "expected_generation": 2
        });
        let answer = frank.rpc("tasks/update", keyed("k", first.clone())).await;
        answer.result();
        for change in [
            json!({ "task_id": other }),
            json!({ "transition": "fail" }),
            json!({ "session_id": null }),
            json!({ "session_id": "t" }),
            json!({ "message": null }),
            json!({ "message": message("Done!") }),
            json!({ "artifacts": [] }),
            json!({ "result_summary": null }),
            json!({ "result_summary": "Done!" }),
            json!({ "expected_generation": null }),
            json!({ "expected_generation": 3 }),
            json!({ "metadata": { "ticket": 1 } }),
        ] {
            let mut params = first.clone();
            params.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
            let refused = frank.rpc("tasks/update", keyed("k", params)).await;
            assert_eq!(refused.symbol(), "duplicate_idempotency_key", "{change}");
        }
        assert_eq!(frank.rpc("tasks/update", keyed("k", first)).await.text, answer.text);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn does_not_hide_in_how_fields_follow_each_other() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        frank.step(&task, "accept").await.result();
        let step = |more: Value| {
            let mut params = keyed("k", json!({ "task_id": task, "transition": "complete" }));
            params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            params
        };
        frank.rpc("tasks/update", step(json!({ "session_id": "a" }))).await.result();
        for other in [json!({ "result_summary": "a" }), json!({ "session_id": "a", "result_summary": "" })] {
            frank.rpc("tasks/update", step(other)).await.refused("duplicate_idempotency_key");
        }
    }
}

mod at_once {
    use super::*;

    async fn fifty(call: &Call) -> Vec<Answer> {
        let calls: JoinSet<Answer> = (0..50).map(|_| call.clone()).map(async |call| call.post().await).collect();
        calls.join_all().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_calls_make_one_row() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let send = Call::new(&bob, "message/send", &keyed("send", to_frank("Hello")));
        let answers = fifty(&send).await;
        let task = task_of(&answers[0]);
        assert!(answers.iter().all(|answer| answer.text == answers[0].text));
        assert_eq!((count(&relay, "threads"), count(&relay, "messages")), (1, 1));

        let append = keyed("append", json!({ "task_id": task, "message": message("Hm") }));
        let answers = fifty(&Call::new(&frank, "message/send", &append)).await;
        answers[0].result();
        assert!(answers.iter().all(|answer| answer.text == answers[0].text));
        assert_eq!((count(&relay, "threads"), count(&relay, "messages")), (1, 2));

        let accept = keyed("accept", json!({ "task_id": task, "transition": "accept", "session_id": "s" }));
        let answers = fifty(&Call::new(&frank, "tasks/update", &accept)).await;
        answers[0].result();
        assert!(answers.iter().all(|answer| answer.text == answers[0].text));
        assert_eq!(count(&relay, "idempotency"), 3);
        assert_eq!(bob.get(&task).await["generation"], 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_fifty_payloads_one_wins() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let calls: JoinSet<Answer> = (0..50)
            .map(|number| Call::new(&bob, "message/send", &keyed("k", to_frank(&number.to_string()))))
            .map(async |call| call.post().await)
            .collect();
        let answers = calls.join_all().await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.refused("duplicate_idempotency_key");
        }
        assert_eq!(count(&relay, "threads"), 1);
    }
}

mod a_key {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_the_callers_own() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let carol = relay.agent("carol@acme").await;
        let task = task_of(&bob.rpc("message/send", keyed("k", to_frank("Hello"))).await);
        let other = task_of(&carol.rpc("message/send", keyed("k", to_frank("Something else"))).await);
        assert_ne!(task, other);
        let accept = keyed("k", json!({ "task_id": task, "transition": "accept" }));
        frank.rpc("tasks/update", accept).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn outlives_the_bearer_key_that_it_was_sent_with() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let first = bob.rpc("message/send", keyed("k", to_frank("Hello"))).await;
        let rotated = bob.rest("POST", "/agents/me/keys/rotate").await.json();
        let bob = bob.with_key(rotated["api_key"].as_str().expect("a key"));
        assert_eq!(bob.rpc("message/send", keyed("k", to_frank("Hello"))).await.text, first.text);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_told_from_every_other() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let keys = ["k", "K", " k", "k ", "kk", "\u{e9}", "e\u{301}", "k\u{0}", "null", "0"];
        for key in keys {
            bob.rpc("message/send", keyed(key, to_frank("Hello"))).await.result();
        }
        assert_eq!(count(&relay, "threads"), 10);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_not_used_up_by_a_call_that_was_refused() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        frank.block(&bob).await;
        let mut ghost = to_frank("Hello");
        ghost["recipient"] = json!("ghost@acme");
        bob.rpc("message/send", keyed("k", ghost)).await.refused("recipient_not_found");
        bob.rpc("message/send", keyed("k", to_frank("Hello"))).await.refused("teammate_blocked");
        frank.rest("DELETE", "/agents/me/block/bob@acme").await;
        let task = task_of(&bob.rpc("message/send", keyed("k", to_frank("Hello, then"))).await);

        let complete = keyed("c", json!({ "task_id": task, "transition": "complete" }));
        frank.rpc("tasks/update", complete.clone()).await.refused("invalid_transition");
        frank.step(&task, "accept").await.result();
        frank.rpc("tasks/update", complete.clone()).await.result();
        frank.rpc("tasks/update", complete).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_notification_counts() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params = keyed("k", to_frank("Hello"));
        let notification = json!({ "jsonrpc": "2.0", "method": "message/send", "params": params });
        assert_eq!(bob.post_a2a(notification.to_string()).await.status, 204);
        let task = task_of(&bob.rpc("message/send", params).await);
        assert_eq!(frank.inbox().await[0]["task_id"], task.as_str());
        assert_eq!(count(&relay, "threads"), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_an_accept_that_was_answered_as_the_first_time_is_remembered() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        frank.step(&task, "accept").await.result();
        let accept = keyed("k", json!({ "task_id": task, "transition": "accept" }));
        let first = frank.rpc("tasks/update", accept.clone()).await;
        first.result();
        frank.step(&task, "complete").await.result();
        assert_eq!(frank.rpc("tasks/update", accept).await.text, first.text);
        frank
            .rpc("message/send", keyed("k", json!({ "recipient": "bob@acme", "message": message("Hello") })))
            .await
            .refused("duplicate_idempotency_key");
    }
}

mod seven_days {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_key_is_remembered_and_then_it_is_free() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for (number, start) in
            ["2026-04-25T00:00:00Z", "2026-04-25T13:37:00Z", "2026-04-25T23:59:59.999Z"].iter().enumerate()
        {
            let start: jiff::Timestamp = start.parse().expect("a time");
            relay.clock.set(start.as_millisecond());
            let key = format!("key-{number}");
            let first = bob.rpc("message/send", keyed(&key, to_frank("Hello"))).await;
            let task = task_of(&first);
            for _ in 0..7 {
                relay.clock.advance(DAY);
                relay.relay.upkeep().await.expect("an upkeep");
                assert_eq!(bob.rpc("message/send", keyed(&key, to_frank("Hello"))).await.text, first.text, "{start}");
                bob.rpc("message/send", keyed(&key, to_frank("Other"))).await.refused("duplicate_idempotency_key");
            }
            relay.clock.advance(DAY);
            relay.relay.upkeep().await.expect("an upkeep");
            assert_eq!(count(&relay, "idempotency"), 0, "{start}");
            let next = task_of(&bob.rpc("message/send", keyed(&key, to_frank("Other"))).await);
            assert_ne!(next, task);
            assert_eq!(bob.get(&task).await["metadata"]["client_idempotency_key"], key.as_str());
            relay.clock.advance(DAY * 8);
            relay.relay.upkeep().await.expect("an upkeep");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_old_key_is_free_also_before_it_is_swept_away() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        relay.clock.set(1_777_111_200_000);
        let first = task_of(&bob.rpc("message/send", keyed("k", to_frank("Hello"))).await);
        relay.clock.advance(DAY * 8);
        let second = bob.rpc("message/send", keyed("k", to_frank("Hello"))).await;
        assert_ne!(task_of(&second), first);
        assert_eq!(bob.rpc("message/send", keyed("k", to_frank("Hello"))).await.text, second.text);
    }
}
