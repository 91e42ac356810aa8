//! The error table: every symbol is provoked over HTTP, and has the code, the status, the envelope and the headers that
//! the protocol document gives it. The table here is copied from the document by hand.

use std::collections::BTreeSet;

use agentrelay::api::Settings;
use agentrelay::error::Symbol;
use serde_json::{Value, json};

use crate::support::{Answer, TestRelay, message, settings};

/// RPC code, HTTP status, symbol.
const TABLE: [(i32, u16, &str); 18] = [
    (-32700, 400, "parse_error"),
    (-32600, 400, "invalid_request"),
    (-32601, 404, "method_not_found"),
    (-32602, 400, "invalid_params"),
    (-32001, 401, "unauthenticated"),
    (-32002, 403, "forbidden"),
    (-32003, 429, "rate_limited"),
    (-32004, 404, "recipient_not_found"),
    (-32005, 403, "not_a_participant"),
    (-32006, 404, "thread_not_found"),
    (-32007, 409, "thread_terminal"),
    (-32008, 409, "invalid_transition"),
    (-32009, 403, "not_authorized_transition"),
    (-32010, 409, "state_changed"),
    (-32011, 409, "duplicate_idempotency_key"),
    (-32012, 400, "invalid_intent_payload"),
    (-32013, 403, "teammate_blocked"),
    (-32099, 500, "internal"),
];

/// What an unexpected failure says, whatever it was.
const REDACTED: &str =
    "The relay could not finish this request; retry, and look for the request id in its log if that fails";

/// Makes the relay refuse something with this symbol.
async fn provoke(symbol: &str) -> Answer {
    let relay = TestRelay::with(Settings { rate_limit: 8, ..settings() }).await;
    let (bob, frank) = relay.bob_and_frank().await;
    let to_frank = json!({ "recipient": "frank@acme", "message": message("Hello") });
    match symbol {
        "parse_error" => bob.post_a2a("{").await,
        "invalid_request" => bob.post_a2a(r#"{"jsonrpc":"2.0","id":"req-1"}"#).await,
        "method_not_found" => bob.rpc("tasks/lost", json!({})).await,
        "invalid_params" => bob.rpc("tasks/get", json!({})).await,
        "unauthenticated" => bob.with_key("ah_live_wrong").rpc("tasks/list", json!({})).await,
        "forbidden" => {
            relay.admin("DELETE", &format!("/admin/agents/{}", bob.id), json!({})).await;
            bob.rpc("tasks/list", json!({})).await
        }
        "rate_limited" => {
            for _ in 0..8 {
                bob.rpc("tasks/list", json!({})).await.result();
            }
            bob.rpc("tasks/list", json!({})).await
        }
        "recipient_not_found" => {
            bob.rpc("message/send", json!({ "recipient": "ghost@acme", "message": message("Hello") })).await
        }
        "not_a_participant" => {
            let mallory = relay.agent("mallory@acme").await;
            mallory.rpc("tasks/get", json!({ "task_id": bob.hand_to(&frank, "Hello").await })).await
        }
        "thread_not_found" => bob.rpc("tasks/get", json!({ "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF" })).await,
        "thread_terminal" => {
            let task = bob.hand_to(&frank, "Hello").await;
            bob.step(&task, "cancel").await.result();
            bob.say(&task, "Or not").await
        }
        "invalid_transition" => frank.step(&bob.hand_to(&frank, "Hello").await, "complete").await,
        "not_authorized_transition" => bob.step(&bob.hand_to(&frank, "Hello").await, "accept").await,
        "state_changed" => {
            let task = bob.hand_to(&frank, "Hello").await;
            frank.step_with(&task, "accept", json!({ "expected_generation": 2 })).await
        }
        "duplicate_idempotency_key" => {
            let mut params = to_frank;
            params["metadata"] = json!({ "client_idempotency_key": "k" });
            bob.rpc("message/send", params.clone()).await.result();
            params["message"] = message("Something else");
            bob.rpc("message/send", params).await
        }
        "invalid_intent_payload" => {
            let mut params = to_frank;
            params["intent"] = json!("propose_action");
            bob.rpc("message/send", params).await
        }
        "teammate_blocked" => {
            assert_eq!(frank.block(&bob).await.status, 201);
            bob.rpc("message/send", to_frank).await
        }
        "internal" => {
            let task = bob.hand_to(&frank, "Hello").await;
            relay.sqlite().execute_batch("ALTER TABLE messages RENAME TO mislaid").expect("a broken file");
            bob.rpc("tasks/get", json!({ "task_id": task })).await
        }
        other => panic!("nobody has provoked {other} yet"),
    }
}

fn names(value: &Value) -> Vec<&String> {
    let mut names: Vec<_> = value.as_object().expect("an object").keys().collect();
    names.sort();
    names
}

#[test]
fn the_relays_table_is_the_documents_table() {
    let ours: Vec<_> = Symbol::ALL.iter().map(|symbol| symbol.row()).collect();
    let ours: Vec<_> = ours.iter().map(|row| (row.rpc_code, row.http_status, row.name)).collect();
    assert_eq!(ours, TABLE);
    assert_eq!(TABLE.iter().map(|row| row.0).collect::<BTreeSet<_>>().len(), TABLE.len(), "each code once");
    assert_eq!(TABLE.iter().map(|row| row.2).collect::<BTreeSet<_>>().len(), TABLE.len(), "each symbol once");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_symbol_is_answered_as_the_table_says() {
    for symbol in Symbol::ALL {
        let symbol = symbol.name();
        let (code, status, _) = *TABLE.iter().find(|row| row.2 == symbol).expect("a row for each symbol");
        let answer = provoke(symbol).await;
        assert_eq!(answer.status, status, "{symbol}: {}", answer.text);

        let body = answer.json();
        assert_eq!(names(&body), ["error", "id", "jsonrpc"], "{symbol}");
        assert_eq!(body["jsonrpc"], "2.0", "{symbol}");
        assert_eq!(body["id"], if symbol == "parse_error" { json!(null) } else { json!("req-1") }, "{symbol}");
        let error = &body["error"];
        assert_eq!(names(error), ["code", "data", "message"], "{symbol}");
        assert_eq!(error["code"], code, "{symbol}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{symbol}");
        let data = &error["data"];
        assert_eq!(names(data), ["code", "details", "request_id"], "{symbol}");
        assert_eq!(data["code"], symbol);
        assert!(data["details"].is_object(), "{symbol}");
        let request_id = data["request_id"].as_str().expect("a request id");
        assert!(request_id.starts_with("req_") && request_id.len() == 30, "{symbol}: {request_id}");

        assert_eq!(answer.header("x-request-id"), request_id, "{symbol}");
        assert_eq!(answer.header("content-type"), "application/json", "{symbol}");
        assert_eq!(answer.header("www-authenticate"), if status == 401 { "Bearer" } else { "" }, "{symbol}");
        match answer.header("retry-after").parse::<u64>() {
            Ok(seconds) => assert!(status == 429 && (1..=60).contains(&seconds), "{symbol}: {seconds}"),
            Err(_) => assert!(status != 429 && answer.header("retry-after").is_empty(), "{symbol}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_says_what_it_is_about() {
    for (symbol, words) in [
        ("recipient_not_found", "No agent with handle 'ghost@acme'"),
        ("thread_not_found", "01HXYZ4K2VNJQP7R8MWDB3CSTF"),
        ("invalid_transition", "pending"),
        ("not_authorized_transition", "recipient"),
        ("thread_terminal", "cancelled"),
        ("invalid_intent_payload", "proposed_action"),
        ("invalid_params", "task_id"),
    ] {
        let message = provoke(symbol).await.error()["message"].as_str().expect("a sentence").to_owned();
        assert!(message.contains(words), "{symbol}: {message}");
    }
}

mod details {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn say_where_a_thread_stands_when_that_is_the_reason() {
        for (symbol, details) in [
            ("thread_terminal", json!({ "state": "cancelled", "generation": 2 })),
            ("invalid_transition", json!({ "state": "pending", "generation": 1 })),
            ("state_changed", json!({ "state": "pending", "generation": 1 })),
        ] {
            assert_eq!(provoke(symbol).await.error()["details"], details, "{symbol}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_empty_where_there_is_nothing_to_add() {
        for symbol in [
            "parse_error",
            "invalid_request",
            "method_not_found",
            "unauthenticated",
            "forbidden",
            "recipient_not_found",
            "not_a_participant",
            "thread_not_found",
            "not_authorized_transition",
            "duplicate_idempotency_key",
            "invalid_intent_payload",
            "teammate_blocked",
            "internal",
        ] {
            assert_eq!(provoke(symbol).await.error()["details"], json!({}), "{symbol}");
        }
    }
}

mod internal {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn tells_nothing_of_what_went_wrong() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        for (table, method, params) in [
            ("messages", "tasks/get", json!({ "task_id": task })),
            ("threads", "tasks/list", json!({})),
            ("agents", "agents/list", json!({})),
            ("events", "message/send", json!({ "task_id": task, "message": message("Hm") })),
            ("keys", "tasks/list", json!({})),
        ] {
            let rename = |from: &str, to: &str| {
                relay.sqlite().execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).expect("a renamed table");
            };
            rename(table, "mislaid");
            let answer = bob.rpc(method, params.clone()).await.refused("internal");
            rename("mislaid", table);
            assert_eq!((answer.status, &answer.error()["message"]), (500, &json!(REDACTED)), "{table}");
            for leak in ["mislaid", table, "SQL", "no such", "src/", "relay.db", "Hello"] {
                assert!(!answer.text.contains(leak), "{table}: {leak} in {}", answer.text);
            }
            let again = bob.rpc(method, params).await;
            assert_eq!(again.status, 200, "{table}: {}", again.text);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn leaves_nothing_half_done() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let key = json!({ "client_idempotency_key": "k" });
        let before = bob.get(&task).await;
        // Each of these is written after the thread was.
        for table in ["messages", "artifacts", "events", "audience", "idempotency"] {
            let rename = |from: &str, to: &str| {
                relay.sqlite().execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).expect("a renamed table");
            };
            let artifacts = json!([{ "type": "link", "url": "a" }]);
            let create = json!({
                "recipient": "frank@acme", "message": message("Hm"), "artifacts": artifacts, "metadata": key
            });
            let append = json!({ "task_id": task, "message": message("Hm"), "artifacts": artifacts, "metadata": key });
            rename(table, "mislaid");
            bob.rpc("message/send", create).await.refused("internal");
            bob.rpc("message/send", append).await.refused("internal");
            rename("mislaid", table);
            assert_eq!(bob.get(&task).await, before, "{table}");
            assert_eq!(frank.inbox().await.len(), 1, "{table}");
        }
        let append = json!({ "task_id": task, "message": message("Hm"), "metadata": key });
        assert_eq!(bob.rpc("message/send", append).await.result()["sequence_no"], 2, "the key is still free");
    }
}
