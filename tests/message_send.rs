//! `message/send`: a new handoff, or a message into a thread. Each field, rule and answer that the protocol document
//! gives it, and what the design adds.

use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay, message};

/// 2026-04-25T10:00:00Z, when the protocol's examples happen.
const TEN: i64 = 1_777_111_200_000;

/// A handoff to Frank, with what `with` holds besides.
async fn to_frank(bob: &Agent, with: Value) -> Answer {
    let mut params = json!({ "recipient": "frank@acme", "message": message("Hello") });
    params.as_object_mut().expect("an object").extend(with.as_object().expect("an object").clone());
    bob.rpc("message/send", params).await
}

/// Sends these parameters, which need not be JSON that a parser here could hold.
async fn send_text(caller: &Agent, params: &str) -> Answer {
    let call = format!(r#"{{"jsonrpc":"2.0","id":"req-1","method":"message/send","params":{params}}}"#);
    caller.post_a2a(call).await
}

/// The text of a thread, as `tasks/get` answers it.
async fn text_of(caller: &Agent, task: &str) -> String {
    let answer = caller.rpc("tasks/get", json!({ "task_id": task })).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

/// The task id in an answer whose other values may be too large for a parser here.
#[track_caller]
fn task_in(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let (_, rest) = answer.text.split_once(r#""task_id":""#).expect("a task id");
    rest[..26].to_owned()
}

/// The paths of the problems in a refusal, in the order of the alphabet.
#[track_caller]
fn problems(answer: Answer) -> Vec<String> {
    let mut paths = answer.refused("invalid_params").issue_paths();
    paths.sort();
    paths
}

mod the_documents_examples {
    use super::*;

    const NEW_HANDOFF: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-1",
      "method": "message/send",
      "params": {
        "task_id": null,
        "recipient": "frank@acme",
        "intent": "inform",
        "message": {
          "role": "user",
          "parts": [
            {"type": "text", "text": "Refactored /users API. New shape: paginated with { items, next_cursor }."}
          ]
        },
        "artifacts": [
          {"type": "file_diff", "path": "src/api/users.py", "diff": "@@ -1,5 +1,8 @@\n..."}
        ],
        "proposed_action": null,
        "metadata": {
          "client_idempotency_key": "550e8400-e29b-41d4-a716-446655440000"
        }
      }
    }"#;

    const APPEND: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-2",
      "method": "message/send",
      "params": {
        "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF",
        "message": {
          "role": "user",
          "parts": [
            {"type": "text", "text": "What's the expected shape for the /search endpoint?"}
          ]
        },
        "metadata": {
          "client_idempotency_key": "660f9500-f39c-52e5-b827-557766551111"
        }
      }
    }"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_new_handoff_and_a_message_into_it() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        relay.clock.set(TEN);

        let answer = bob.post_a2a(NEW_HANDOFF).await;
        let sent = answer.result();
        let task = sent["task_id"].as_str().expect("a task id").to_owned();
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-1",
            "result": {
                "task_id": task,
                "thread_id": task,
                "status": { "state": "pending" },
                "generation": 1,
                "message_id": sent["message_id"],
                "sequence_no": 1,
                "created_at": "2026-04-25T10:00:00.000Z"
            }
        });
        assert_eq!(answer.json(), expected);
        assert_eq!(answer.header("content-type"), "application/json");

        relay.clock.set(TEN + 300_000);
        let answer = bob.post_a2a(APPEND.replace("01HXYZ4K2VNJQP7R8MWDB3CSTF", &task)).await;
        let said = answer.result();
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-2",
            "result": {
                "task_id": task,
                "thread_id": task,
                "status": { "state": "pending" },
                "generation": 2,
                "message_id": said["message_id"],
                "sequence_no": 2,
                "created_at": "2026-04-25T10:05:00.000Z"
            }
        });
        assert_eq!(answer.json(), expected);
        for id in [&sent["task_id"], &sent["message_id"], &said["message_id"]] {
            let id = id.as_str().expect("an id");
            let is_ulid = |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(&byte));
            assert!(id.len() == 26 && id.bytes().all(is_ulid), "{id}");
        }
        assert_ne!(sent["message_id"], said["message_id"]);
    }
}

mod creating {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn only_the_recipient_and_the_message_are_needed() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params =
            json!({ "recipient": "frank@acme", "message": { "parts": [{ "type": "text", "text": "Hello" }] } });
        let sent = bob.rpc("message/send", params).await.result();
        let thread = frank.get(sent["task_id"].as_str().expect("a task id")).await;
        assert_eq!(thread["intent"], "inform");
        assert_eq!(thread["proposed_action"], json!(null));
        assert_eq!(thread["artifacts"], json!([]));
        assert_eq!(thread["metadata"], json!({}));
        assert_eq!(thread["messages"][0]["payload"], json!({}));
        assert_eq!(thread["messages"][0]["role"], "user");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn null_means_absent_for_every_optional_field() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params = json!({
            "task_id": null,
            "recipient": "frank@acme",
            "intent": null,
            "message": {
                "role": null,
                "parts": [{ "type": "text", "text": "Hello", "media_type": null, "filename": null, "metadata": null }]
            },
            "artifacts": null,
            "proposed_action": null,
            "payload": null,
            "metadata": null,
            "expected_generation": null
        });
        let sent = bob.rpc("message/send", params).await.result();
        let task = sent["task_id"].as_str().expect("a task id");
        let thread = frank.get(task).await;
        assert_eq!(thread["intent"], "inform");
        assert_eq!(thread["metadata"], json!({}));

        let artifacts = json!([
            { "type": "file_ref", "path": "a", "git_sha": null, "lines": null },
            { "type": "test_command", "command": "a", "cwd": null },
            { "type": "api_contract", "schema_url": "https://acme.example/api", "inline": null },
            { "type": "api_contract", "schema_url": null, "inline": {} },
            { "type": "link", "url": "https://acme.example", "title": null },
            {
                "type": "parts", "artifact_id": null, "name": null, "description": null, "append": null,
                "last_chunk": null, "metadata": null,
                "parts": [{ "type": null, "text": "a", "media_type": null, "filename": null, "metadata": null }]
            }
        ]);
        to_frank(&bob, json!({ "artifacts": artifacts })).await.result();
        let action = json!({ "description": "d", "target_files": [], "rationale": "r", "suggested_diff": null });
        to_frank(&bob, json!({ "intent": "propose_action", "proposed_action": action })).await.result();
        let key = json!({ "metadata": { "client_idempotency_key": null } });
        let first = to_frank(&bob, key.clone()).await.result();
        assert_ne!(to_frank(&bob, key).await.result()["task_id"], first["task_id"], "null is no key");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_part_of_an_artifact_may_say_null_for_what_it_does_not_hold() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let part = json!({ "text": "a", "raw": null, "url": null });
        to_frank(&bob, json!({ "artifacts": [{ "type": "parts", "parts": [part] }] })).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_missing_or_wrong_is_named_with_its_path() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let parts = |parts: Value| json!({ "message": { "parts": parts } });
        for (with, paths) in [
            (json!({ "recipient": null }), vec!["recipient"]),
            (json!({ "recipient": 5 }), vec!["recipient"]),
            (json!({ "message": null }), vec!["message"]),
            (json!({ "message": "Hello" }), vec!["message"]),
            (json!({ "message": ["Hello"] }), vec!["message"]),
            (json!({ "message": {} }), vec!["message.parts"]),
            (json!({ "message": { "role": 1, "parts": [{ "type": "text", "text": "Hello" }] } }), vec!["message.role"]),
            (parts(json!(null)), vec!["message.parts"]),
            (parts(json!([])), vec!["message.parts"]),
            (parts(json!({})), vec!["message.parts"]),
            (parts(json!(["Hello"])), vec!["message.parts.0"]),
            (parts(json!([null])), vec!["message.parts.0"]),
            (parts(json!([{ "text": "Hello" }])), vec!["message.parts.0.type"]),
            (parts(json!([{ "type": "text" }])), vec!["message.parts.0.text"]),
            (parts(json!([{ "type": "text", "text": null }])), vec!["message.parts.0.text"]),
            (parts(json!([{ "type": "text", "text": 5 }])), vec!["message.parts.0.text"]),
            (parts(json!([{ "type": "video", "text": "Hello" }])), vec!["message.parts.0.type"]),
            (parts(json!([{ "type": 1, "text": "Hello" }])), vec!["message.parts.0.type"]),
            (json!({ "artifacts": {} }), vec!["artifacts"]),
            (json!({ "artifacts": "none" }), vec!["artifacts"]),
            (json!({ "artifacts": ["none"] }), vec!["artifacts.0"]),
            (json!({ "artifacts": [null] }), vec!["artifacts.0"]),
            (json!({ "intent": 5 }), vec!["intent"]),
            (json!({ "intent": "shout" }), vec!["intent"]),
            (json!({ "intent": "Inform" }), vec!["intent"]),
            (json!({ "intent": "" }), vec!["intent"]),
            (json!({ "payload": [] }), vec!["payload"]),
            (json!({ "payload": "x" }), vec!["payload"]),
            (json!({ "payload": 5 }), vec!["payload"]),
            (json!({ "metadata": [] }), vec!["metadata"]),
            (json!({ "metadata": "x" }), vec!["metadata"]),
            (json!({ "metadata": { "client_idempotency_key": "" } }), vec!["metadata.client_idempotency_key"]),
            (json!({ "metadata": { "client_idempotency_key": 5 } }), vec!["metadata.client_idempotency_key"]),
            (json!({ "metadata": { "client_idempotency_key": {} } }), vec!["metadata.client_idempotency_key"]),
            (json!({ "task_id": 5 }), vec!["task_id"]),
            (json!({ "task_id": {} }), vec!["task_id"]),
        ] {
            assert_eq!(problems(to_frank(&bob, with.clone()).await), paths, "{with}");
        }
        assert_eq!(problems(bob.rpc("message/send", json!({})).await), ["message", "recipient"]);
        assert!(bob.rpc("tasks/list", json!({ "filter": { "role": "sender" } })).await.result()["items"] == json!([]));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_issues_say_where_what_and_of_which_kind() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let params = json!({ "recipient": 5, "message": { "parts": [] }, "intent": "shout" });
        let error = bob.rpc("message/send", params).await.refused("invalid_params").error();
        let issues = error["details"]["issues"].as_array().expect("issues");
        let mut short: Vec<Value> = issues.iter().map(|issue| json!([issue["path"], issue["code"]])).collect();
        short.sort_by_key(ToString::to_string);
        let expected = json!([
            [["intent"], "invalid_value"],
            [["message", "parts"], "too_small"],
            [["recipient"], "invalid_type"]
        ]);
        assert_eq!(json!(short), expected);
        for issue in issues {
            let mut keys: Vec<_> = issue.as_object().expect("an object").keys().collect();
            keys.sort();
            assert_eq!(keys, ["code", "message", "path"]);
            assert!(!issue["message"].as_str().expect("a sentence").is_empty());
        }
        assert_eq!(error["details"].as_object().map(serde_json::Map::len), Some(1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn problems_in_different_fields_are_all_named() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let params = json!({
            "recipient": "nobody",
            "intent": "shout",
            "message": { "role": 5, "parts": [] },
            "artifacts": [{ "type": "link" }, { "type": "poem" }, { "type": "file_diff" }],
            "proposed_action": { "description": 1, "target_files": ["a", 2, 3] },
            "payload": [],
            "metadata": { "client_idempotency_key": 7 }
        });
        let expected = [
            "artifacts.0.url",
            "artifacts.1.type",
            "artifacts.2.diff",
            "artifacts.2.path",
            "intent",
            "message.parts",
            "message.role",
            "metadata.client_idempotency_key",
            "payload",
            "proposed_action.description",
            "proposed_action.rationale",
            "proposed_action.target_files.1",
            "proposed_action.target_files.2",
            "recipient",
        ];
        assert_eq!(problems(bob.rpc("message/send", params).await), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn problems_within_a_field_are_all_named() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let parts = json!([{ "type": "text" }, { "type": "video" }, { "type": "raw", "raw": "!", "media_type": 5 }]);
        let params = json!({
            "recipient": "frank@acme",
            "message": { "parts": parts },
            "artifacts": [{ "type": "file_ref", "path": "a", "lines": ["1", "2"] }],
            "proposed_action": { "description": "d", "rationale": "r", "suggested_diff": 5 }
        });
        let expected = [
            "artifacts.0.lines.0",
            "artifacts.0.lines.1",
            "message.parts.0.text",
            "message.parts.1.type",
            "message.parts.2.media_type",
            "message.parts.2.raw",
            "proposed_action.suggested_diff",
            "proposed_action.target_files",
        ];
        assert_eq!(problems(bob.rpc("message/send", params).await), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_members_of_one_name_the_last_one_counts() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (first, last) = (message("First"), message("Last"));
        let params =
            format!(r#"{{"recipient":"ghost@acme","message":{first},"recipient":"frank@acme","message":{last}}}"#);
        assert_eq!(frank.get(&task_in(&send_text(&bob, &params).await)).await["summary"], "Last");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unknown_fields_are_ignored() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let sent = to_frank(&bob, json!({ "priority": "high", "sender": "mallory@acme", "state": "completed" })).await;
        let thread = frank.get(&task_in(&sent)).await;
        assert_eq!(thread["sender"]["handle"], "bob@acme");
        assert_eq!(thread["status"], json!({ "state": "pending" }));
    }
}

mod intent_and_proposed_action {
    use super::*;

    fn action() -> Value {
        json!({ "description": "Use next_cursor", "target_files": ["src/client.ts"], "rationale": "The API pages now" })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn they_must_go_together() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let intents = [None, Some(json!(null)), Some(json!("inform")), Some(json!("ask_question"))];
        for intent in intents.into_iter().chain([Some(json!("propose_action"))]) {
            for proposed in [None, Some(json!(null)), Some(action())] {
                let mut with = json!({});
                if let Some(intent) = &intent {
                    with["intent"] = intent.clone();
                }
                if let Some(proposed) = &proposed {
                    with["proposed_action"] = proposed.clone();
                }
                let answer = to_frank(&bob, with.clone()).await;
                let wants_one = intent == Some(json!("propose_action"));
                let has_one = proposed == Some(action());
                if wants_one != has_one {
                    answer.refused("invalid_intent_payload");
                    continue;
                }
                let thread = frank.get(&task_in(&answer)).await;
                let name = intent.clone().filter(|intent| !intent.is_null()).unwrap_or(json!("inform"));
                assert_eq!(thread["intent"], name, "{with}");
                assert_eq!(thread["proposed_action"], proposed.unwrap_or(json!(null)), "{with}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_proposed_action_of_the_wrong_shape_is_invalid_params() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let with = |key: &str, value: Value| {
            let mut action = action();
            action[key] = value;
            action
        };
        for (action, paths) in [
            (json!("do it"), vec!["proposed_action"]),
            (json!([]), vec!["proposed_action"]),
            (json!(true), vec!["proposed_action"]),
            (
                json!({}),
                vec!["proposed_action.description", "proposed_action.rationale", "proposed_action.target_files"],
            ),
            (with("description", json!(null)), vec!["proposed_action.description"]),
            (with("description", json!(5)), vec!["proposed_action.description"]),
            (with("rationale", json!({})), vec!["proposed_action.rationale"]),
            (with("target_files", json!("src/client.ts")), vec!["proposed_action.target_files"]),
            (with("target_files", json!(["a", 1])), vec!["proposed_action.target_files.1"]),
            (with("target_files", json!([null])), vec!["proposed_action.target_files.0"]),
            (with("suggested_diff", json!(["@@"])), vec!["proposed_action.suggested_diff"]),
        ] {
            for intent in ["propose_action", "inform"] {
                let answer = to_frank(&bob, json!({ "intent": intent, "proposed_action": action })).await;
                assert_eq!(problems(answer), paths, "{intent} {action}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_proposed_action_travels_as_it_came() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let action = r#"{"rationale":"r","target_files":[],"zeta":1e400,"description":"d","suggested_diff":"@@","effort":9007199254740993}"#;
        let hello = message("Please");
        let params = format!(
            r#"{{"recipient":"frank@acme","intent":"propose_action","proposed_action":{action},"message":{hello}}}"#
        );
        let text = text_of(&frank, &task_in(&send_text(&bob, &params).await)).await;
        assert!(text.contains(&format!(r#""proposed_action":{action},"#)), "{text}");
    }
}

mod message_parts {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_text_parts_joined_by_newlines_are_the_summary_and_the_body() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let parts = json!([{ "type": "text", "text": "one" }, { "type": "text", "text": "" }, { "type": "text", "text": "three\n" }]);
        let sent = to_frank(&bob, json!({ "message": { "parts": parts } })).await;
        let thread = frank.get(&task_in(&sent)).await;
        assert_eq!(thread["summary"], "one\n\nthree\n");
        assert_eq!(thread["messages"][0]["body"], "one\n\nthree\n");
        assert_eq!(thread["messages"][0].get("parts"), None, "there are no others");
        assert_eq!(frank.inbox().await[0]["summary_preview"], "one\n\nthree\n");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn raw_url_and_data_parts_travel_as_they_came() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let parts = concat!(
            r#"[{"type":"text","text":"look: \u00e9","note":1.0},"#,
            r#"{"type":"raw","raw":"iVBORw0KGgo=","media_type":"image/png","filename":"a b.png"},"#,
            r#"{"filename":"spec","type":"url","url":"https://acme.example/spec?x=1#y","metadata":{"z":1,"a":2}},"#,
            r#"{"type":"data","data":{"z":42,"a":9007199254740993,"huge":1e400,"deep":[1.0,-0,{"y":[],"b":null}]}},"#,
            r#"{"type":"data","data":null},{"type":"data","data":42},{"type":"data","data":[ 1, 2 ]},"#,
            r#"{"type":"raw","raw":""},{"type":"text","text":"and this"}]"#
        );
        let sent = send_text(&bob, &format!(r#"{{"recipient":"frank@acme","message":{{"parts":{parts}}}}}"#)).await;
        let text = text_of(&frank, &task_in(&sent)).await;
        assert_eq!(text.matches(&format!(r#""parts":{parts},"#)).count(), 2, "in messages and in history: {text}");
        assert!(text.contains(r#""summary":"look: é\nand this","#), "{text}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_message_without_text_has_an_empty_summary() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let part = json!({ "type": "url", "url": "https://acme.example" });
        let sent = to_frank(&bob, json!({ "message": { "parts": [part] } })).await;
        let thread = frank.get(&task_in(&sent)).await;
        assert_eq!(thread["summary"], "");
        assert_eq!(thread["messages"][0]["parts"], json!([part]));
        assert_eq!(frank.inbox().await[0]["summary_preview"], "");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn other_parts_of_the_wrong_shape_are_named() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for (part, path) in [
            (json!({ "type": "raw" }), "raw"),
            (json!({ "type": "raw", "raw": 5 }), "raw"),
            (json!({ "type": "raw", "raw": "not base64" }), "raw"),
            (json!({ "type": "raw", "raw": "YQ" }), "raw"),
            (json!({ "type": "url" }), "url"),
            (json!({ "type": "url", "url": 5 }), "url"),
            (json!({ "type": "url", "url": "" }), "url"),
            (json!({ "type": "data" }), "data"),
            (json!({ "type": "data", "data": 1, "media_type": 5 }), "media_type"),
            (json!({ "type": "text", "text": "a", "filename": 5 }), "filename"),
            (json!({ "type": "text", "text": "a", "metadata": [] }), "metadata"),
        ] {
            let answer = to_frank(&bob, json!({ "message": { "parts": [part] } })).await;
            assert_eq!(problems(answer), [format!("message.parts.0.{path}")], "{part}");
        }
    }
}

mod artifacts {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn each_type_travels_as_it_came_further_fields_and_all() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let artifacts = [
            r#"{"type":"file_diff","path":"src/api/users.py","diff":"@@ -1,5 +1,8 @@\n..."}"#,
            r#"{"path":"../../etc/passwd","type":"file_diff","diff":"","z":1e400,"a":{"y":9007199254740993,"b":1.0}}"#,
            r#"{"type":"file_ref","path":"src/lib.rs"}"#,
            r#"{"type":"file_ref","path":"src/lib.rs","git_sha":"c7167fd","lines":[1,1]}"#,
            r#"{"type":"file_ref","path":"","lines":[10,200]}"#,
            r#"{"type":"test_command","command":"cargo test","cwd":"/work","timeout":42}"#,
            r#"{"type":"test_command","command":"make"}"#,
            r#"{"type":"api_contract","schema_url":"https://acme.example/openapi.json"}"#,
            r#"{"type":"api_contract","inline":{"z":0,"openapi":"3.1.0","a":[ 1 ]}}"#,
            r#"{"type":"api_contract","inline":"type Query { users: [User] }"}"#,
            r#"{"type":"link","url":"https://acme.example","title":"\u00fcber"}"#,
            r#"{"type":"parts","parts":[{"text":"a"}]}"#,
            r#"{"type":"parts","artifact_id":"log","name":"Log","description":"of the run","append":false,"last_chunk":true,"metadata":{"z":1,"a":9007199254740993},"parts":[{"raw":"YQ==","media_type":"text/plain","filename":"a"},{"url":"https://acme.example"},{"data":{"z":1e400}},{"type":"text","text":"a","metadata":{"k":1}}]}"#,
            r#"{"type":"parts","artifact_id":"log","append":true,"parts":[{"data":null}]}"#,
        ];
        let list = format!("[{}]", artifacts.join(","));
        let params = format!(r#"{{"recipient":"frank@acme","message":{},"artifacts":{list}}}"#, message("Hello"));
        let task = task_in(&send_text(&bob, &params).await);
        let text = text_of(&frank, &task).await;
        assert!(text.contains(&format!(r#""intent":"inform","artifacts":{list},"#)), "{text}");
        assert_eq!(text.matches(&format!(r#""artifacts":{list},"#)).count(), 3, "with the message and in history too");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn wrong_shapes_and_unknown_types_are_named() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let parts = |with: Value| {
            let mut artifact = json!({ "type": "parts", "parts": [{ "text": "a" }] });
            artifact.as_object_mut().expect("an object").extend(with.as_object().expect("an object").clone());
            artifact
        };
        let file_ref = |lines: Value| json!({ "type": "file_ref", "path": "a", "lines": lines });
        for (artifact, paths) in [
            (json!({}), vec!["type"]),
            (json!({ "type": null }), vec!["type"]),
            (json!({ "type": 5 }), vec!["type"]),
            (json!({ "type": "" }), vec!["type"]),
            (json!({ "type": "FILE_DIFF", "path": "a", "diff": "" }), vec!["type"]),
            (json!({ "type": "image", "url": "https://acme.example" }), vec!["type"]),
            (json!({ "type": "file_diff" }), vec!["diff", "path"]),
            (json!({ "type": "file_diff", "path": "a" }), vec!["diff"]),
            (json!({ "type": "file_diff", "path": 5, "diff": "" }), vec!["path"]),
            (json!({ "type": "file_diff", "path": "a", "diff": ["@@"] }), vec!["diff"]),
            (json!({ "type": "file_ref" }), vec!["path"]),
            (json!({ "type": "file_ref", "path": "a", "git_sha": 5 }), vec!["git_sha"]),
            (file_ref(json!("1-2")), vec!["lines"]),
            (file_ref(json!(1)), vec!["lines"]),
            (file_ref(json!([])), vec!["lines"]),
            (file_ref(json!([1])), vec!["lines"]),
            (file_ref(json!([1, 2, 3])), vec!["lines"]),
            (file_ref(json!([2, 1])), vec!["lines"]),
            (file_ref(json!([0, 1])), vec!["lines"]),
            (file_ref(json!([-1, 1])), vec!["lines"]),
            (file_ref(json!([1, "2"])), vec!["lines.1"]),
            (file_ref(json!([1.5, 2])), vec!["lines.0"]),
            (json!({ "type": "test_command" }), vec!["command"]),
            (json!({ "type": "test_command", "command": ["make"] }), vec!["command"]),
            (json!({ "type": "test_command", "command": "make", "cwd": 5 }), vec!["cwd"]),
            (json!({ "type": "api_contract" }), vec!["schema_url"]),
            (json!({ "type": "api_contract", "schema_url": "a", "inline": {} }), vec!["schema_url"]),
            (json!({ "type": "api_contract", "schema_url": 5 }), vec!["schema_url"]),
            (json!({ "type": "link" }), vec!["url"]),
            (json!({ "type": "link", "url": 5 }), vec!["url"]),
            (json!({ "type": "link", "url": "a", "title": 5 }), vec!["title"]),
            (json!({ "type": "parts" }), vec!["parts"]),
            (parts(json!({ "parts": [] })), vec!["parts"]),
            (parts(json!({ "parts": "a" })), vec!["parts"]),
            (parts(json!({ "parts": ["a"] })), vec!["parts.0"]),
            (parts(json!({ "parts": [{}] })), vec!["parts.0.type"]),
            (parts(json!({ "parts": [{ "text": "a", "url": "b" }] })), vec!["parts.0.type"]),
            (parts(json!({ "parts": [{ "text": 5 }] })), vec!["parts.0.text"]),
            (parts(json!({ "parts": [{ "raw": "!" }] })), vec!["parts.0.raw"]),
            (parts(json!({ "parts": [{ "type": "video", "text": "a" }] })), vec!["parts.0.type"]),
            (parts(json!({ "parts": [{ "text": "a" }, { "url": "" }] })), vec!["parts.1.url"]),
            (parts(json!({ "artifact_id": 5 })), vec!["artifact_id"]),
            (parts(json!({ "name": 5, "description": [] })), vec!["description", "name"]),
            (parts(json!({ "append": "yes" })), vec!["append"]),
            (parts(json!({ "last_chunk": 1 })), vec!["last_chunk"]),
            (parts(json!({ "append": true })), vec!["artifact_id"]),
            (parts(json!({ "metadata": "m" })), vec!["metadata"]),
        ] {
            let answer = to_frank(&bob, json!({ "artifacts": [{ "type": "link", "url": "a" }, artifact] })).await;
            let paths: Vec<String> = paths.into_iter().map(|path| format!("artifacts.1.{path}")).collect();
            assert_eq!(problems(answer), paths, "{artifact}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_path_is_data_and_is_never_opened() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let artifact = json!({ "type": "file_ref", "path": "/etc/hostname", "lines": [1, 1] });
        let sent = to_frank(&bob, json!({ "artifacts": [artifact] })).await;
        assert_eq!(frank.get(&task_in(&sent)).await["artifacts"], json!([artifact]));
    }
}

mod payload_and_metadata {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_payload_is_kept_on_the_message_as_it_came() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let payload = r#"{"z":42,"a":9007199254740993,"n":1e400,"o":{"y":1.0,"b":[ ]},"t":"\u00e9"}"#;
        let params = format!(
            r#"{{"recipient":"frank@acme","message":{},"payload":{payload},"metadata":{{"ticket":1}}}}"#,
            message("Hello")
        );
        let text = text_of(&frank, &task_in(&send_text(&bob, &params).await)).await;
        assert_eq!(text.matches(&format!(r#""payload":{payload},"#)).count(), 2, "{text}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_metadata_of_a_handoff_is_no_payload_of_its_message() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let sent = to_frank(&bob, json!({ "metadata": { "ticket": 42 } })).await;
        let thread = frank.get(&task_in(&sent)).await;
        assert_eq!(thread["messages"][0]["payload"], json!({}));
        assert_eq!(thread["metadata"], json!({ "ticket": 42 }));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_append_without_a_payload_shows_its_metadata_less_the_key() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let metadata = json!({ "client_idempotency_key": "secret-key", "ticket": 42 });
        for with in [
            json!({ "metadata": metadata }),
            json!({ "metadata": metadata, "payload": { "p": 1 } }),
            json!({ "metadata": { "client_idempotency_key": "another-key" } }),
            json!({ "metadata": { "ticket": 43 }, "payload": {} }),
            json!({ "metadata": { "ticket": 44 }, "payload": null }),
            json!({}),
        ] {
            let mut params = json!({ "task_id": task, "message": message("More") });
            params.as_object_mut().expect("an object").extend(with.as_object().expect("an object").clone());
            // The second one repeats the first one's key.
            if with["payload"]["p"] == 1 {
                bob.rpc("message/send", params.clone()).await.refused("duplicate_idempotency_key");
                params["metadata"]["client_idempotency_key"] = json!("a-third-key");
            }
            bob.rpc("message/send", params).await.result();
        }
        for reader in [&frank, &bob] {
            let thread = reader.get(&task).await;
            let payloads: Vec<&Value> =
                thread["messages"].as_array().expect("messages").iter().map(|message| &message["payload"]).collect();
            let expected = [
                json!({}),
                json!({ "ticket": 42 }),
                json!({ "p": 1 }),
                json!({}),
                json!({}),
                json!({ "ticket": 44 }),
                json!({}),
            ];
            assert_eq!(payloads, expected.iter().collect::<Vec<_>>());
            assert!(!thread.to_string().contains("-key"), "{thread}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_idempotency_key_is_shown_to_its_setter_alone() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let metadata = json!({ "ticket": 42, "client_idempotency_key": "secret-key" });
        let task = task_in(&to_frank(&bob, json!({ "metadata": metadata })).await);
        assert_eq!(bob.get(&task).await["metadata"], metadata);
        assert_eq!(frank.get(&task).await["metadata"], json!({ "ticket": 42 }));
        assert!(!text_of(&frank, &task).await.contains("secret-key"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn metadata_keeps_its_order_and_its_numbers() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let rest = r#""z":42,"a":9007199254740993,"n":1e400,"o":{"y":1.0,"b":[ ]},"t":"\u00e9","nul":null"#;
        let params = format!(
            r#"{{"recipient":"frank@acme","message":{},"metadata":{{"client_idempotency_key":"k",{rest}}}}}"#,
            message("Hello")
        );
        let task = task_in(&send_text(&bob, &params).await);
        let text = text_of(&frank, &task).await;
        assert!(text.contains(&format!(r#""metadata":{{{rest}}},"#)), "{text}");
        let text = text_of(&bob, &task).await;
        assert!(text.contains(&format!(r#""metadata":{{{rest},"client_idempotency_key":"k"}},"#)), "{text}");
    }
}

mod recipients {
    use super::*;

    async fn to(bob: &Agent, recipient: &str) -> Answer {
        bob.rpc("message/send", json!({ "recipient": recipient, "message": message("Hello") })).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_has_the_handle() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let error = to(&bob, "ghost@acme").await.refused("recipient_not_found").error();
        assert!(error["message"].as_str().expect("a sentence").contains("'ghost@acme'"), "{error}");
        assert_eq!(error["details"], json!({}));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_disabled_agent_is_as_one_that_is_not_there() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Before").await;
        assert_eq!(relay.admin("DELETE", &format!("/admin/agents/{}", frank.id), json!({})).await.status, 204);
        to(&bob, "frank@acme").await.refused("recipient_not_found");
        assert_eq!(bob.get(&task).await["recipient"]["handle"], "frank@acme", "its threads stay");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_disabled_agent_can_still_be_written_to_in_the_threads_that_there_are() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Before").await;
        relay.admin("DELETE", &format!("/admin/agents/{}", frank.id), json!({})).await;
        bob.say(&task, "For when you are back").await.result();
        bob.step(&task, "cancel").await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_agent_that_was_renamed_is_reached_by_both_handles() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (was, is) = (Handle::parse("frank@acme"), Handle::parse("franklin@acme"));
        let (was, is) = (AgentName::Handle(was.expect("a handle")), is.expect("a handle"));
        relay.relay.rename_agent(Actor::operator("req_test"), was, is).await.expect("a rename");
        for recipient in ["frank@acme", "franklin@acme"] {
            let task = task_in(&to(&bob, recipient).await);
            assert_eq!(frank.get(&task).await["recipient"]["handle"], "franklin@acme");
        }
        assert_eq!(frank.inbox().await.len(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_hands_anything_to_oneself() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for recipient in ["bob@acme", "Bob@ACME"] {
            assert_eq!(problems(to(&bob, recipient).await), ["recipient"]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn upper_case_is_folded() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = task_in(&to(&bob, "FRANK@Acme").await);
        assert_eq!(frank.get(&task).await["recipient"]["handle"], "frank@acme");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn anything_else_is_refused_with_the_reason() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let long = format!("{}@acme", "f".repeat(116));
        for recipient in [
            "",
            "frank",
            "@acme",
            "frank@",
            "frank@acme@acme",
            " frank@acme",
            "frank@acme ",
            "fr ank@acme",
            "frank@acme\n",
            "fränk@acme",
            "frаnk@acme",
            "frank@acme/",
            ".frank@acme",
            "frank@acme.",
            "fr..ank@acme",
            "%66rank@acme",
            "frank@acme\u{0}",
            &long,
        ] {
            let answer = to(&bob, recipient).await.refused("invalid_params");
            assert_eq!(answer.issue_paths(), ["recipient"], "{recipient:?}");
            let reason = answer.error()["details"]["issues"][0]["message"].as_str().expect("a reason").to_owned();
            assert!(reason.starts_with("a handle is name@team: "), "{reason}");
        }
        to(&bob, &long[1..]).await.refused("recipient_not_found");
    }
}

mod limits {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_message_holds_a_hundred_parts() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let parts = |count: usize| vec![json!({ "type": "text", "text": "x" }); count];
        let sent = to_frank(&bob, json!({ "message": { "parts": parts(100) } })).await;
        assert_eq!(frank.get(&task_in(&sent)).await["summary"].as_str().map(str::len), Some(199));
        let answer = to_frank(&bob, json!({ "message": { "parts": parts(101) } })).await;
        assert_eq!(problems(answer), ["message.parts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_artifact_holds_a_hundred_parts() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let artifact = |count: usize| json!([{ "type": "parts", "parts": vec![json!({ "text": "x" }); count] }]);
        to_frank(&bob, json!({ "artifacts": artifact(100) })).await.result();
        assert_eq!(problems(to_frank(&bob, json!({ "artifacts": artifact(101) })).await), ["artifacts.0.parts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_brings_a_hundred_artifacts() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let artifacts = |count: usize| -> Vec<Value> {
            (0..count).map(|number| json!({ "type": "link", "url": number.to_string() })).collect()
        };
        let sent = to_frank(&bob, json!({ "artifacts": artifacts(100) })).await;
        assert_eq!(frank.get(&task_in(&sent)).await["artifacts"], json!(artifacts(100)), "all, in order");
        assert_eq!(problems(to_frank(&bob, json!({ "artifacts": artifacts(101) })).await), ["artifacts"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_idempotency_key_has_255_characters() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let metadata = |key: String| json!({ "metadata": { "client_idempotency_key": key } });
        let first = to_frank(&bob, metadata("🦀".repeat(255))).await.result();
        assert_eq!(to_frank(&bob, metadata("🦀".repeat(255))).await.result(), first);
        let answer = to_frank(&bob, metadata("k".repeat(256))).await;
        assert_eq!(problems(answer), ["metadata.client_idempotency_key"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_role_has_60_characters() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let with =
            |role: String| json!({ "message": { "role": role, "parts": [{ "type": "text", "text": "Hello" }] } });
        to_frank(&bob, with("é".repeat(60))).await.result();
        for role in [String::new(), "r".repeat(61)] {
            assert_eq!(problems(to_frank(&bob, with(role)).await), ["message.role"]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_document_is_nested_64_deep() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        // Around the array: the call, its params, its metadata.
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels - 3), "]".repeat(levels - 3));
        let params = |levels: usize| {
            let (message, deep) = (message("Hello [[[[[[[["), deep(levels));
            format!(r#"{{"recipient":"frank@acme","message":{message},"metadata":{{"deep":{deep}}}}}"#)
        };
        let task = task_in(&send_text(&bob, &params(64)).await);
        assert!(text_of(&frank, &task).await.contains(&deep(64)));
        let answer = send_text(&bob, &params(65)).await.refused("invalid_request");
        assert_eq!(answer.status, 400);
        send_text(&bob, &params(10_000)).await.refused("invalid_request");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_body_has_a_mebibyte() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let body = |bytes: usize| {
            let call = |text: &str| {
                let params = json!({ "recipient": "frank@acme", "message": message(text) });
                json!({ "jsonrpc": "2.0", "id": "req-1", "method": "message/send", "params": params }).to_string()
            };
            call(&"x".repeat(bytes - call("").len()))
        };
        assert_eq!(body(1 << 20).len(), 1 << 20);
        let task = task_in(&bob.post_a2a(body(1 << 20)).await);
        assert!(frank.get(&task).await["summary"].as_str().map(str::len) > Some((1 << 20) - 300));
        let answer = bob.post_a2a(body((1 << 20) + 1)).await.refused("invalid_request");
        assert_eq!(answer.status, 413);
        assert_eq!(answer.json()["error"]["code"], -32600);
        assert_eq!(frank.inbox().await.len(), 1);
    }
}

mod texts {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn any_unicode_comes_back_as_it_was() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for text in [
            "",
            " \t\r\n ",
            "🦀👩‍👩‍👧‍👦🏳️‍🌈",
            "e\u{301} is not é, nor is Å Å",
            "שלום עולם \u{202e}txet desrever\u{202c}",
            "مرحبا",
            "before\u{0}after",
            "\u{1}\u{1b}[31mred\u{7f}\u{85}\u{2028}\u{2029}",
            "\u{feff}bom",
            "\u{fffd}\u{fffe}\u{ffff}\u{10ffff}",
            r#"quotes " and \ and \u0000 and </script>"#,
            "'; DROP TABLE threads; --",
        ] {
            let artifact = json!({ "type": "link", "url": text, "title": text });
            let with = json!({
                "message": message(text),
                "artifacts": [artifact],
                "payload": { text: text },
                "metadata": { "said": text }
            });
            let thread = frank.get(&task_in(&to_frank(&bob, with).await)).await;
            assert_eq!(thread["summary"], text);
            assert_eq!(thread["messages"][0]["body"], text);
            assert_eq!(thread["messages"][0]["payload"], json!({ text: text }));
            assert_eq!(thread["artifacts"], json!([artifact]));
            assert_eq!(thread["metadata"]["said"], text);
            assert_eq!(frank.inbox().await[0]["summary_preview"], text);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_surrogate_pair_is_one_character() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let pair = r#"{"recipient":"frank@acme","message":{"parts":[{"type":"text","text":"\ud83e\udd80"}]}}"#;
        assert_eq!(frank.get(&task_in(&send_text(&bob, pair).await)).await["summary"], "🦀");
    }

    // Many parsers refuse a document with one whole: such a message would make its thread unreadable.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lone_surrogate_is_refused_wherever_it_stands() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let hello = message("Hello");
        for with in [
            r#""message":{"parts":[{"type":"text","text":"a\ud800b"}]}"#,
            r#""recipient":"\ud800@acme""#,
            r#""metadata":{"client_idempotency_key":"\ud800"}"#,
            r#""metadata":{"note":"\ud800"}"#,
            r#""metadata":{"deep":{"\udfff":1}}"#,
            r#""payload":{"note":["\ud800"]}"#,
            r#""payload":{"\ud800":1}"#,
            r#""artifacts":[{"type":"link","url":"a","note":"\ud800"}]"#,
            r#""artifacts":[{"type":"api_contract","inline":"\ud800"}]"#,
            r#""artifacts":[{"type":"parts","parts":[{"data":"\ud800"}]}]"#,
            r#""message":{"parts":[{"type":"data","data":{"note":"\ud800"}}]}"#,
            r#""intent":"propose_action","proposed_action":{"description":"","rationale":"","target_files":[],"x":"\ud800"}"#,
        ] {
            let answer = send_text(&bob, &format!(r#"{{"recipient":"frank@acme","message":{hello},{with}}}"#)).await;
            answer.refused("parse_error");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_huge_text_comes_back_as_it_was() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let text = "Grüße, 世界 🦀\n\"".repeat(41_500);
        assert!(text.len() > 900_000, "{}", text.len());
        let thread = frank.get(&bob.hand_to(&frank, &text).await).await;
        assert!(thread["summary"] == text.as_str());
        assert!(thread["messages"][0]["body"] == text.as_str());
        assert!(thread["history"] == thread["messages"]);
        bob.say(thread["task_id"].as_str().expect("an id"), &text).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_preview_is_the_first_240_characters() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for text in ["x".repeat(239), "x".repeat(240), "x".repeat(241), "🦀é".repeat(200), "\u{301}".repeat(241)] {
            bob.hand_to(&frank, &text).await;
            let preview: String = text.chars().take(240).collect();
            assert_eq!(frank.inbox().await[0]["summary_preview"], preview);
        }
    }
}

mod appending {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn both_sides_talk_in_turn_and_out_of_turn() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "1").await;
        for (number, author) in [(2, &frank), (3, &frank), (4, &bob), (5, &frank), (6, &bob)] {
            let said = author.say(&task, &number.to_string()).await.result();
            assert_eq!(said["sequence_no"], number);
            assert_eq!(said["generation"], number);
            assert_eq!(said["status"], json!({ "state": "pending" }));
        }
        let thread = bob.get(&task).await;
        let messages = thread["messages"].as_array().expect("messages");
        let told: Vec<Value> =
            messages.iter().map(|message| json!([message["sequence_no"], message["from"], message["body"]])).collect();
        let expected = json!([
            [1, "bob@acme", "1"],
            [2, "frank@acme", "2"],
            [3, "frank@acme", "3"],
            [4, "bob@acme", "4"],
            [5, "frank@acme", "5"],
            [6, "bob@acme", "6"]
        ]);
        assert_eq!(json!(told), expected);
        assert_eq!(thread["summary"], "1", "the first message");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_role_is_kept_as_it_was_given() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        for role in [json!("assistant"), json!(null)] {
            let part = json!({ "type": "text", "text": "Hi" });
            let params = json!({ "task_id": task, "message": { "role": role, "parts": [part] } });
            frank.rpc("message/send", params).await.result();
        }
        let thread = bob.get(&task).await;
        let roles: Vec<&Value> =
            thread["messages"].as_array().expect("messages").iter().map(|message| &message["role"]).collect();
        assert_eq!(roles, [&json!("user"), &json!("assistant"), &json!("agent")]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn artifacts_come_with_their_message() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let first = json!([{ "type": "link", "url": "first" }]);
        let task = task_in(&to_frank(&bob, json!({ "artifacts": first })).await);
        let more = json!([{ "type": "link", "url": "second" }, { "type": "link", "url": "third" }]);
        let params = json!({ "task_id": task, "message": message("More"), "artifacts": more });
        bob.rpc("message/send", params).await.result();
        let thread = frank.get(&task).await;
        assert_eq!(thread["artifacts"], first, "what the handoff came with");
        assert_eq!(thread["messages"][0]["artifacts"], first);
        assert_eq!(thread["messages"][1]["artifacts"], more);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_lower_case_id_is_the_same_id() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        assert_eq!(frank.say(&task.to_lowercase(), "Hi").await.result()["task_id"], task.as_str());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_participants_of_a_thread_that_exists_may() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        let task = bob.hand_to(&frank, "Hello").await;
        mallory.say(&task, "Hi").await.refused("not_a_participant");
        for id in ["01HXYZ4K2VNJQP7R8MWDB3CSTF", "no-id", "", &task[1..]] {
            mallory.say(id, "Hi").await.refused("thread_not_found");
        }
        let params = json!({ "task_id": "no-id", "message": {} });
        assert_eq!(problems(bob.rpc("message/send", params).await), ["message.parts"]);
        assert_eq!(bob.get(&task).await["generation"], 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thread_that_has_ended_takes_no_message() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        frank.step(&task, "accept").await.result();
        frank.step(&task, "complete").await.result();
        for author in [&bob, &frank] {
            author.say(&task, "One more thing").await.refused("thread_terminal");
        }
    }
}

mod blocks {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_block_stops_what_the_blocked_one_sends_and_nothing_else() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Before").await;
        assert_eq!(frank.block(&bob).await.status, 201);
        to_frank(&bob, json!({})).await.refused("teammate_blocked");
        bob.say(&task, "Hello?").await.refused("teammate_blocked");

        frank.say(&task, "I am busy").await.result();
        frank.hand_to(&bob, "Later").await;
        let carol = relay.agent("carol@acme").await;
        bob.hand_to(&carol, "Hello").await;
        carol.hand_to(&frank, "Hello").await;

        assert_eq!(frank.rest("DELETE", "/agents/me/block/bob@acme").await.status, 204);
        bob.say(&task, "Hello").await.result();
        to_frank(&bob, json!({})).await.result();
    }
}

mod refusals_in_their_order {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_faults_of_a_new_handoff_the_first_in_the_list_is_told() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let gone = relay.agent("gone@acme").await;
        assert_eq!(gone.block(&bob).await.status, 201);
        assert_eq!(relay.admin("DELETE", &format!("/admin/agents/{}", gone.id), json!({})).await.status, 204);
        let used = json!({ "client_idempotency_key": "used" });
        to_frank(&bob, json!({ "metadata": used })).await.result();
        assert_eq!(frank.block(&bob).await.status, 201);

        for (with, symbol) in [
            // params before intent and proposed action,
            (json!({ "intent": "propose_action", "metadata": 5 }), "invalid_params"),
            (json!({ "intent": "propose_action", "recipient": "nobody" }), "invalid_params"),
            // those before the replay,
            (json!({ "intent": "propose_action", "metadata": used }), "invalid_intent_payload"),
            (json!({ "intent": "propose_action", "recipient": "ghost@acme" }), "invalid_intent_payload"),
            (json!({ "intent": "propose_action", "recipient": "bob@acme" }), "invalid_intent_payload"),
            // the replay before the recipient,
            (json!({ "recipient": "ghost@acme", "metadata": used }), "duplicate_idempotency_key"),
            (json!({ "recipient": "bob@acme", "metadata": used }), "duplicate_idempotency_key"),
            (json!({ "message": message("Another"), "metadata": used }), "duplicate_idempotency_key"),
            // an unknown or disabled one before the block,
            (json!({ "recipient": "gone@acme" }), "recipient_not_found"),
            // and the block last.
            (json!({}), "teammate_blocked"),
        ] {
            to_frank(&bob, with.clone()).await.refused(symbol);
        }
        to_frank(&bob, json!({ "metadata": used })).await.result();
    }
}
