//! `tasks/update` and its alias `tasks/cancel`: the state machine, with who may do what, when, and with what.
//!
//! The tables here are copied from the design by hand. They are not the relay's own: a change of its table must fail.

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::support::{Agent, Answer, TestRelay, message};

/// 2026-04-25T10:00:00Z, when the protocol's examples happen.
const TEN: i64 = 1_777_111_200_000;

/// The state machine: transition, from, to, who may.
const TABLE: [(&str, &[&str], &str, &str); 8] = [
    ("accept", &["pending"], "accepted", "recipient"),
    ("complete", &["accepted"], "completed", "recipient"),
    ("answer", &["pending"], "completed", "recipient"),
    ("cancel", &["pending", "input_required"], "cancelled", "sender"),
    ("progress", &["accepted"], "accepted", "recipient"),
    ("request_input", &["accepted"], "input_required", "recipient"),
    ("reject", &["pending", "accepted", "input_required"], "rejected", "recipient"),
    ("fail", &["accepted", "input_required"], "failed", "recipient"),
];

const STATES: [&str; 7] = ["pending", "accepted", "input_required", "completed", "failed", "rejected", "cancelled"];

/// What AgentRelay clients see of a state.
fn status(state: &str) -> Value {
    match state {
        "input_required" => json!({ "state": "accepted", "detail": "input_required" }),
        "failed" => json!({ "state": "completed", "detail": "failed" }),
        "rejected" => json!({ "state": "cancelled", "detail": "rejected" }),
        state => json!({ "state": state }),
    }
}

/// What a refusal says of where the thread stands.
fn standing(state: &str, generation: i64) -> Value {
    let mut details = status(state);
    details["generation"] = json!(generation);
    details
}

/// The least that a transition brings.
fn needed(transition: &str) -> Value {
    match transition {
        "answer" | "progress" | "request_input" => json!({ "message": message("Here") }),
        _ => json!({}),
    }
}

/// A thread from bob to frank in this state.
async fn thread_in(state: &str, bob: &Agent, frank: &Agent) -> String {
    let task = bob.hand_to(frank, "Hello").await;
    let steps: &[&str] = match state {
        "pending" => &[],
        "accepted" => &["accept"],
        "input_required" => &["accept", "request_input"],
        "completed" => &["accept", "complete"],
        "failed" => &["accept", "fail"],
        "rejected" => &["reject"],
        "cancelled" => &["cancel"],
        other => panic!("there is no state {other}"),
    };
    for step in steps {
        let caller = if *step == "cancel" { bob } else { frank };
        caller.step_with(&task, step, needed(step)).await.result();
    }
    task
}

/// `left` and what `right` holds.
fn with(left: &Value, right: &Value) -> Value {
    let members = |value: &Value| value.as_object().expect("an object").clone();
    let both: Map<String, Value> = members(left).into_iter().chain(members(right)).collect();
    json!(both)
}

fn link(url: &str) -> Value {
    json!({ "type": "link", "url": url })
}

/// Does it so many times at once.
async fn at_once<F: Future<Output = Answer> + Send + 'static>(calls: impl IntoIterator<Item = F>) -> Vec<Answer> {
    let calls: JoinSet<Answer> = calls.into_iter().collect();
    calls.join_all().await
}

mod the_documents_examples {
    use super::*;

    const ACCEPT: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-5",
      "method": "tasks/update",
      "params": {
        "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF",
        "transition": "accept",
        "session_id": "claude-1234"
      }
    }"#;

    const COMPLETE: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-6",
      "method": "tasks/update",
      "params": {
        "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF",
        "transition": "complete",
        "result_summary": "Updated API client to handle paginated response; all tests pass."
      }
    }"#;

    const CANCEL: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-7",
      "method": "tasks/cancel",
      "params": {
        "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF"
      }
    }"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn accept_complete_and_cancel() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        relay.clock.set(TEN);
        let task = bob.hand_to(&frank, "Hello").await;
        let call = |example: &str, task: &str| example.replace("01HXYZ4K2VNJQP7R8MWDB3CSTF", task);
        relay.clock.set(TEN + 180_000);
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-5",
            "result": {
                "thread_id": task,
                "task_id": task,
                "status": { "state": "accepted" },
                "generation": 2,
                "accepted_at": "2026-04-25T10:03:00.000Z",
                "completed_at": null,
                "cancelled_at": null,
                "updated_at": "2026-04-25T10:03:00.000Z"
            }
        });
        assert_eq!(frank.post_a2a(call(ACCEPT, &task)).await.json(), expected);
        relay.clock.set(TEN + 600_000);
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-6",
            "result": {
                "thread_id": task,
                "task_id": task,
                "status": { "state": "completed" },
                "generation": 3,
                "accepted_at": "2026-04-25T10:03:00.000Z",
                "completed_at": "2026-04-25T10:10:00.000Z",
                "cancelled_at": null,
                "updated_at": "2026-04-25T10:10:00.000Z"
            }
        });
        assert_eq!(frank.post_a2a(call(COMPLETE, &task)).await.json(), expected);

        let task = bob.hand_to(&frank, "Never mind").await;
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-7",
            "result": {
                "thread_id": task,
                "task_id": task,
                "status": { "state": "cancelled" },
                "generation": 2,
                "accepted_at": null,
                "completed_at": null,
                "cancelled_at": "2026-04-25T10:10:00.000Z",
                "updated_at": "2026-04-25T10:10:00.000Z"
            }
        });
        assert_eq!(bob.post_a2a(call(CANCEL, &task)).await.json(), expected);
    }
}

mod the_state_machine {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn lets_each_participant_do_in_each_state_what_the_table_says() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        for state in STATES {
            relay.clock.set(TEN);
            let stays = thread_in(state, &bob, &frank).await;
            let before = bob.get(&stays).await;
            let generation = before["generation"].as_i64().expect("a number");
            relay.clock.set(TEN + 5_000);
            for (transition, from, to, who) in TABLE {
                for (caller, role) in [(&bob, "sender"), (&frank, "recipient"), (&mallory, "stranger")] {
                    let case = format!("{transition} of a thread that is {state} by its {role}");
                    if role == who && from.contains(&state) {
                        relay.clock.set(TEN);
                        let task = thread_in(state, &bob, &frank).await;
                        relay.clock.set(TEN + 5_000);
                        let answer = caller.step_with(&task, transition, needed(transition)).await.result();
                        assert_eq!(answer, moved(&before, &task, transition, to, &answer), "{case}");
                        let after = bob.get(&task).await;
                        for field in
                            ["status", "generation", "accepted_at", "completed_at", "cancelled_at", "updated_at"]
                        {
                            assert_eq!(after[field], answer[field], "{case}: {field}");
                        }
                        continue;
                    }
                    let answer = caller.step_with(&stays, transition, needed(transition)).await;
                    if role == "stranger" {
                        assert_eq!(answer.refused("not_a_participant").error()["details"], json!({}), "{case}");
                    } else if role != who {
                        answer.refused("not_authorized_transition");
                    } else if (transition, state) == ("accept", "accepted") {
                        let first = answer.result();
                        assert_eq!(first["generation"], 2, "{case}");
                        assert_eq!(first["updated_at"], "2026-04-25T10:00:00.000Z", "{case}");
                    } else {
                        let details = answer.refused("invalid_transition").error()["details"].clone();
                        assert_eq!(details, standing(state, generation), "{case}");
                    }
                }
            }
            assert_eq!(bob.get(&stays).await, before, "no refusal changes a thread that is {state}");
        }
    }

    /// The answer to a transition that takes a thread like `before` to the state `to`, five seconds after it was made.
    fn moved(before: &Value, task: &str, transition: &str, to: &str, answer: &Value) -> Value {
        let now = json!("2026-04-25T10:00:05.000Z");
        let mut expected = json!({
            "thread_id": task,
            "task_id": task,
            "status": status(to),
            "generation": before["generation"].as_i64().expect("a number") + 1,
            "accepted_at": before["accepted_at"],
            "completed_at": null,
            "cancelled_at": null,
            "updated_at": now
        });
        match to {
            "accepted" if before["accepted_at"].is_null() => expected["accepted_at"] = now,
            "completed" | "failed" => expected["completed_at"] = now,
            "cancelled" | "rejected" => expected["cancelled_at"] = now,
            _ => {}
        }
        if needed(transition) != json!({}) {
            assert_eq!(answer["message_id"].as_str().map(str::len), Some(26));
            expected["message_id"] = answer["message_id"].clone();
            expected["sequence_no"] = json!(before["messages"].as_array().expect("messages").len() + 1);
        }
        expected
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tasks_cancel_is_tasks_update_with_cancel() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        let cancel = async |caller: &Agent, task: &str| caller.rpc("tasks/cancel", json!({ "task_id": task })).await;
        for state in STATES {
            let task = thread_in(state, &bob, &frank).await;
            cancel(&mallory, &task).await.refused("not_a_participant");
            cancel(&frank, &task).await.refused("not_authorized_transition");
            let answer = cancel(&bob, &task).await;
            if ["pending", "input_required"].contains(&state) {
                let mut result = answer.result();
                assert_eq!(result["status"], json!({ "state": "cancelled" }));
                assert_eq!(result["cancelled_at"], result["updated_at"]);
                result.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
                let thread = frank.get(&task).await;
                for (field, value) in result.as_object().expect("an object") {
                    assert_eq!(thread[field], *value, "{field}");
                }
            } else {
                answer.refused("invalid_transition");
            }
        }
        cancel(&bob, "01HXYZ4K2VNJQP7R8MWDB3CSTF").await.refused("thread_not_found");
        for params in [json!({}), json!({ "task_id": null }), json!({ "task_id": 5 })] {
            assert_eq!(bob.rpc("tasks/cancel", params).await.refused("invalid_params").issue_paths(), ["task_id"]);
        }
        let task = bob.hand_to(&frank, "Hello").await;
        let other_words = json!({ "task_id": task, "transition": "accept", "session_id": 5, "message": 5 });
        assert_eq!(bob.rpc("tasks/cancel", other_words).await.result()["status"]["state"], "cancelled");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_message_by_the_sender_ends_the_wait_for_input() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("input_required", &bob, &frank).await;
        assert_eq!(bob.get(&task).await["status"], status("input_required"));

        let said = frank.say(&task, "I am still waiting").await.result();
        assert_eq!(said["status"], status("input_required"), "not one by the recipient");
        let said = bob.say(&task, "Take the second one").await.result();
        assert_eq!(said["status"], status("accepted"));
        let thread = frank.get(&task).await;
        assert_eq!(thread["status"], status("accepted"));
        assert_eq!(thread["generation"], said["generation"]);
        frank.step(&task, "complete").await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_message_leaves_a_thread_in_any_other_state_where_it_is() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for state in ["pending", "accepted"] {
            let task = thread_in(state, &bob, &frank).await;
            for author in [&bob, &frank] {
                assert_eq!(author.say(&task, "Hm").await.result()["status"], status(state));
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_ended_thread_takes_no_more() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for state in ["completed", "failed", "rejected", "cancelled"] {
            let task = thread_in(state, &bob, &frank).await;
            let before = bob.get(&task).await;
            let generation = before["generation"].as_i64().expect("a number");
            for author in [&bob, &frank] {
                let refused = author.say(&task, "One more thing").await.refused("thread_terminal");
                assert_eq!(refused.error()["details"], standing(state, generation));
            }
            assert_eq!(bob.get(&task).await, before);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_long_talk_goes_back_and_forth() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        for _ in 0..3 {
            frank.step_with(&task, "request_input", needed("request_input")).await.result();
            frank.step_with(&task, "request_input", needed("request_input")).await.refused("invalid_transition");
            bob.say(&task, "So and so").await.result();
            frank.step_with(&task, "progress", needed("progress")).await.result();
        }
        let thread = bob.get(&task).await;
        assert_eq!(thread["generation"], 11);
        assert_eq!(thread["messages"].as_array().map(Vec::len), Some(10));
    }
}

mod the_parameters {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_the_wrong_shape_are_named() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        for (fault, path) in [
            (json!({ "task_id": null }), "task_id"),
            (json!({ "task_id": 5 }), "task_id"),
            (json!({ "transition": null }), "transition"),
            (json!({ "transition": 5 }), "transition"),
            (json!({ "transition": "finish" }), "transition"),
            (json!({ "transition": "Complete" }), "transition"),
            (json!({ "transition": "" }), "transition"),
            (json!({ "session_id": 5 }), "session_id"),
            (json!({ "session_id": "" }), "session_id"),
            (json!({ "session_id": "s".repeat(256) }), "session_id"),
            (json!({ "result_summary": 5 }), "result_summary"),
            (json!({ "result_summary": ["done"] }), "result_summary"),
            (json!({ "message": "done" }), "message"),
            (json!({ "message": { "parts": [] } }), "message.parts"),
            (json!({ "message": { "parts": [{ "type": "text" }] } }), "message.parts.0.text"),
            (json!({ "artifacts": {} }), "artifacts"),
            (json!({ "artifacts": [{ "type": "poem" }] }), "artifacts.0.type"),
            (json!({ "artifacts": vec![link("a"); 101] }), "artifacts"),
            (json!({ "expected_generation": "2" }), "expected_generation"),
            (json!({ "expected_generation": 2.5 }), "expected_generation"),
            (json!({ "expected_generation": true }), "expected_generation"),
            (json!({ "metadata": "m" }), "metadata"),
            (json!({ "metadata": { "client_idempotency_key": "" } }), "metadata.client_idempotency_key"),
        ] {
            let params = with(&json!({ "task_id": task, "transition": "complete" }), &fault);
            let refused = frank.rpc("tasks/update", params).await.refused("invalid_params");
            assert_eq!(refused.issue_paths(), [path], "{fault}");
        }
        let mut paths = frank.rpc("tasks/update", json!({})).await.refused("invalid_params").issue_paths();
        paths.sort();
        assert_eq!(paths, ["task_id", "transition"]);
        assert_eq!(bob.get(&task).await["status"], status("accepted"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn that_are_null_or_unknown_count_as_absent() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let more = json!({
            "session_id": null,
            "result_summary": null,
            "message": null,
            "artifacts": null,
            "expected_generation": null,
            "metadata": null,
            "reason": "because"
        });
        frank.step_with(&task, "accept", more).await.result();
        frank.step_with(&task, "reject", json!({ "artifacts": [] })).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_all_looked_at_when_several_are_wrong() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let faults = json!({ "session_id": 5, "message": message("Hi"), "result_summary": "Done", "metadata": [] });
        let mut paths = frank.step_with(&task, "accept", faults).await.refused("invalid_params").issue_paths();
        paths.sort();
        assert_eq!(paths, ["message", "metadata", "result_summary", "session_id"]);
    }
}

mod what_a_transition_brings {
    use super::*;

    const FIELDS: [&str; 3] = ["message", "artifacts", "result_summary"];

    /// Message, artifacts, result summary: `!` it must bring one, `?` it may, `-` it does not.
    const BRINGS: [(&str, &str, &str); 8] = [
        ("accept", "pending", "---"),
        ("progress", "accepted", "??-"),
        ("request_input", "accepted", "!?-"),
        ("complete", "accepted", "???"),
        ("answer", "pending", "!??"),
        ("fail", "accepted", "???"),
        ("reject", "pending", "?-?"),
        ("cancel", "pending", "---"),
    ];

    fn content(field: &str) -> Value {
        match field {
            "message" => json!({ "message": message("Here is more") }),
            "artifacts" => json!({ "artifacts": [link("one"), link("two")] }),
            _ => json!({ "result_summary": "It is done." }),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_required_optional_or_refused_by_the_table() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for (transition, state, brings) in BRINGS {
            let caller = if transition == "cancel" { &bob } else { &frank };
            let stays = thread_in(state, &bob, &frank).await;
            for (field, brings) in FIELDS.into_iter().zip(brings.chars()) {
                let case = format!("{transition} with {field}");
                let given = with(&needed(transition), &content(field));
                match brings {
                    '-' => {
                        let refused = caller.step_with(&stays, transition, given).await.refused("invalid_params");
                        assert_eq!(refused.issue_paths(), [field], "{case}");
                    }
                    '?' => {
                        let task = thread_in(state, &bob, &frank).await;
                        let answer = caller.step_with(&task, transition, given.clone()).await.result();
                        shows(&bob.get(&task).await, &given, &answer, &case);
                    }
                    _ => {
                        let refused = caller.step(&stays, transition).await.refused("invalid_params");
                        assert_eq!(refused.issue_paths(), [field], "{case}");
                    }
                }
            }
            let all = FIELDS.into_iter().zip(brings.chars()).filter(|(_, brings)| *brings != '-');
            let all = all.fold(json!({}), |all, (field, _)| with(&all, &content(field)));
            let answer = caller.step_with(&stays, transition, all.clone()).await.result();
            shows(&bob.get(&stays).await, &all, &answer, transition);
        }
    }

    /// The thread shows what was brought, and nothing else.
    fn shows(thread: &Value, brought: &Value, answer: &Value, case: &str) {
        let messages = thread["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        if let Some(said) = brought.get("message") {
            assert_eq!(last["body"], said["parts"][0]["text"], "{case}");
            assert_eq!(last["id"], answer["message_id"], "{case}");
            assert_eq!(answer["sequence_no"], messages.len(), "{case}");
            assert_eq!(last["artifacts"], brought.get("artifacts").cloned().unwrap_or(json!([])), "{case}");
        } else {
            assert_eq!((answer.get("message_id"), answer.get("sequence_no")), (None, None), "{case}");
        }
        assert_eq!(thread["result_artifacts"], brought.get("artifacts").cloned().unwrap_or(json!([])), "{case}");
        assert_eq!(thread["completed_summary"], brought["result_summary"], "{case}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shows_its_metadata_as_the_payload_of_its_message() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        let metadata = json!({ "tests": 42, "client_idempotency_key": "secret-key" });
        let progress = json!({ "message": message("Half done"), "metadata": metadata });
        frank.step_with(&task, "progress", progress).await.result();
        let only_metadata = json!({ "metadata": { "tests": 43 } });
        frank.step_with(&task, "complete", only_metadata).await.result();
        let thread = bob.get(&task).await;
        assert_eq!(thread["messages"][1]["payload"], json!({ "tests": 42 }));
        assert_eq!(thread["metadata"], json!({}), "the handoff's own");
        assert!(!thread.to_string().contains("secret-key"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_never_nothing_at_all_with_progress() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        for nothing in [json!({}), json!({ "artifacts": [] }), json!({ "message": null, "artifacts": null })] {
            let refused = frank.step_with(&task, "progress", nothing).await.refused("invalid_params");
            assert_eq!(refused.issue_paths(), ["message"]);
        }
        frank.step_with(&task, "progress", json!({ "artifacts": [link("a")] })).await.result();
        frank.step_with(&task, "progress", json!({ "message": message("Half done") })).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn may_come_in_chunks() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        let chunks = [
            json!({ "type": "parts", "artifact_id": "log", "name": "Log", "parts": [{ "text": "1" }] }),
            json!({ "type": "parts", "artifact_id": "log", "append": true, "parts": [{ "text": "2" }, { "text": "3" }] }),
            json!({ "type": "parts", "artifact_id": "log", "append": true, "last_chunk": true, "parts": [{ "text": "4" }] }),
        ];
        for chunk in &chunks {
            frank.step_with(&task, "progress", json!({ "artifacts": [chunk] })).await.result();
        }
        frank.step(&task, "complete").await.result();
        let thread = bob.get(&task).await;
        assert_eq!(thread["result_artifacts"], json!(chunks), "each as it came, in order");
        assert_eq!(thread["completion_artifacts"], json!([]));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_looked_at_before_the_thread_is() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let fault = json!({ "message": message("Hi") });
        let unknown = "01HXYZ4K2VNJQP7R8MWDB3CSTF";
        bob.step_with(unknown, "accept", fault).await.refused("invalid_params");
        bob.step(unknown, "answer").await.refused("invalid_params");
        bob.step(unknown, "accept").await.refused("thread_not_found");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_looked_at_before_an_id_that_is_none() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        bob.step("no-id", "answer").await.refused("invalid_params");
        bob.step("no-id", "accept").await.refused("thread_not_found");
    }
}

mod accepting_again {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn by_the_same_session_answers_as_the_first_time() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for session in [json!({}), json!({ "session_id": "claude-1234" })] {
            relay.clock.set(TEN);
            let task = bob.hand_to(&frank, "Hello").await;
            let first = frank.step_with(&task, "accept", session.clone()).await;
            first.result();
            relay.clock.set(TEN + 60_000);
            assert_eq!(frank.step_with(&task, "accept", session.clone()).await.text, first.text);
            frank.step_with(&task, "progress", needed("progress")).await.result();
            assert_eq!(frank.step_with(&task, "accept", session.clone()).await.text, first.text);
            let meant_for_the_first = with(&session, &json!({ "expected_generation": 1 }));
            assert_eq!(frank.step_with(&task, "accept", meant_for_the_first).await.text, first.text);
            frank.step_with(&task, "request_input", needed("request_input")).await.result();
            frank.step_with(&task, "accept", session.clone()).await.refused("invalid_transition");
            bob.say(&task, "So").await.result();
            assert_eq!(frank.step_with(&task, "accept", session.clone()).await.text, first.text);
            assert_eq!(bob.get(&task).await["generation"], 5, "it changed nothing");
            frank.step(&task, "complete").await.result();
            frank.step_with(&task, "accept", session).await.refused("invalid_transition");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn by_another_session_comes_too_late() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (none, one, other) = (json!({}), json!({ "session_id": "a" }), json!({ "session_id": "A" }));
        for (first, second) in [(&one, &other), (&one, &none), (&none, &one)] {
            let task = bob.hand_to(&frank, "Hello").await;
            frank.step_with(&task, "accept", first.clone()).await.result();
            let refused = frank.step_with(&task, "accept", second.clone()).await.refused("state_changed");
            assert_eq!(refused.error()["details"], standing("accepted", 2));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn any_session_may_complete() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        frank.step_with(&task, "accept", json!({ "session_id": "a" })).await.result();
        frank.step_with(&task, "complete", json!({ "session_id": "b" })).await.result();
    }
}

mod expected_generation {
    use super::*;

    /// An operation on a thread by the one who may, meant for this version.
    async fn meant_for(version: i64, operation: &str, task: &str, bob: &Agent, frank: &Agent) -> Answer {
        let expected = json!({ "expected_generation": version });
        let params = with(&json!({ "task_id": task }), &expected);
        match operation {
            "append" => bob.rpc("message/send", with(&params, &json!({ "message": message("Hm") }))).await,
            "tasks/cancel" => bob.rpc("tasks/cancel", params).await,
            "cancel" => bob.step_with(task, "cancel", expected).await,
            step => frank.step_with(task, step, with(&needed(step), &expected)).await,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn that_is_not_the_threads_is_a_conflict_that_says_where_the_thread_stands() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for (operation, state) in [
            ("append", "pending"),
            ("append", "accepted"),
            ("append", "input_required"),
            ("tasks/cancel", "pending"),
            ("tasks/cancel", "input_required"),
            ("cancel", "pending"),
            ("accept", "pending"),
            ("answer", "pending"),
            ("reject", "input_required"),
            ("fail", "input_required"),
            ("progress", "accepted"),
            ("request_input", "accepted"),
            ("complete", "accepted"),
        ] {
            let task = thread_in(state, &bob, &frank).await;
            let before = bob.get(&task).await;
            let generation = before["generation"].as_i64().expect("a number");
            for other in [generation - 1, generation + 1, 0, -1, i64::MAX, i64::MIN] {
                let refused = meant_for(other, operation, &task, &bob, &frank).await.refused("state_changed");
                assert_eq!(refused.error()["details"], standing(state, generation), "{operation} {state} {other}");
            }
            assert_eq!(bob.get(&task).await, before);
            let done = meant_for(generation, operation, &task, &bob, &frank).await.result();
            assert_eq!(done["generation"], generation + 1, "{operation} {state}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lets_one_of_many_at_once_through() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let calls = (0..20).map(|_| {
            let (task, bob, frank) = (task.clone(), bob.clone(), frank.clone());
            async move { meant_for(1, "append", &task, &bob, &frank).await }
        });
        let answers = at_once(calls).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        assert_eq!(answers.iter().filter(|answer| answer.symbol() == "state_changed").count(), 19);
        assert_eq!(bob.get(&task).await["messages"].as_array().map(Vec::len), Some(2));
    }
}

mod refusals_in_their_order {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_faults_on_a_thread_the_first_in_the_list_is_told() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        let used = json!({ "metadata": { "client_idempotency_key": "used" } });
        let stale = json!({ "expected_generation": 77 });
        for caller in [&bob, &frank, &mallory] {
            let other = if caller.handle == bob.handle { &frank } else { &bob };
            let params = json!({ "recipient": other.handle, "message": message("Hello") });
            caller.rpc("message/send", with(&params, &used)).await.result();
        }
        let pending = thread_in("pending", &bob, &frank).await;
        let accepted = thread_in("accepted", &bob, &frank).await;
        let completed = thread_in("completed", &bob, &frank).await;
        assert_eq!((bob.block(&frank).await.status, frank.block(&bob).await.status), (201, 201));

        let say = |task: &str, more: &Value| with(&json!({ "task_id": task, "message": message("Hm") }), more);
        let update = |task: &str, transition: &str, more: &Value| {
            with(&json!({ "task_id": task, "transition": transition }), &with(&needed(transition), more))
        };
        let unknown = "01HXYZ4K2VNJQP7R8MWDB3CSTF";
        let none = json!({});
        for (caller, method, params, symbol) in [
            // unknown thread before an idempotency key that is known for something else,
            (&bob, "message/send", say(unknown, &used), "thread_not_found"),
            (&frank, "tasks/update", update(unknown, "accept", &used), "thread_not_found"),
            (&bob, "tasks/cancel", with(&json!({ "task_id": unknown }), &used), "thread_not_found"),
            // not a participant before that, the wrong state and the end,
            (&mallory, "message/send", say(&pending, &used), "not_a_participant"),
            (&mallory, "message/send", say(&completed, &stale), "not_a_participant"),
            (&mallory, "tasks/update", update(&completed, "accept", &used), "not_a_participant"),
            // the key before not authorized, the wrong state, the end and the block,
            (&bob, "tasks/update", update(&pending, "accept", &used), "duplicate_idempotency_key"),
            (&frank, "tasks/update", update(&pending, "complete", &used), "duplicate_idempotency_key"),
            (&frank, "tasks/update", update(&pending, "accept", &with(&used, &stale)), "duplicate_idempotency_key"),
            (&frank, "message/send", say(&completed, &used), "duplicate_idempotency_key"),
            (&bob, "message/send", say(&pending, &used), "duplicate_idempotency_key"),
            // not authorized before the wrong state, the block and a lost race,
            (&bob, "tasks/update", update(&completed, "complete", &none), "not_authorized_transition"),
            (&bob, "tasks/update", update(&pending, "accept", &stale), "not_authorized_transition"),
            (&frank, "tasks/update", update(&completed, "cancel", &stale), "not_authorized_transition"),
            // the wrong state or the end before the block and a lost race,
            (&frank, "tasks/update", update(&pending, "complete", &none), "invalid_transition"),
            (&frank, "tasks/update", update(&completed, "complete", &stale), "invalid_transition"),
            (&bob, "tasks/update", update(&accepted, "cancel", &stale), "invalid_transition"),
            (&bob, "message/send", say(&completed, &none), "thread_terminal"),
            (&frank, "message/send", say(&completed, &stale), "thread_terminal"),
            // the block before a lost race,
            (&bob, "message/send", say(&pending, &stale), "teammate_blocked"),
            (&frank, "message/send", say(&accepted, &stale), "teammate_blocked"),
            (&frank, "tasks/update", update(&pending, "accept", &stale), "teammate_blocked"),
            (&frank, "tasks/update", update(&accepted, "complete", &stale), "teammate_blocked"),
            // and a lost race last.
            (&bob, "tasks/cancel", with(&json!({ "task_id": pending }), &stale), "state_changed"),
        ] {
            let answer = caller.rpc(method, params.clone()).await;
            assert_eq!(answer.symbol(), symbol, "{method} {params} by {}", caller.handle);
            answer.refused(symbol);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_second_session_of_a_blocked_recipient_is_told_of_the_block() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = thread_in("accepted", &bob, &frank).await;
        assert_eq!(bob.block(&frank).await.status, 201);
        frank.step_with(&task, "accept", json!({ "session_id": "another" })).await.refused("teammate_blocked");
    }
}

mod blocks {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_who_blocked_the_recipient_hears_nothing_more_of_it() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut threads = Vec::new();
        for (transition, from, to, who) in TABLE {
            for state in from.iter().filter(|_| who == "recipient") {
                threads.push((transition, thread_in(state, &bob, &frank).await, *state, to));
            }
        }
        assert_eq!(bob.block(&frank).await.status, 201);
        for (transition, task, state, _) in &threads {
            let before = frank.get(task).await;
            frank.step_with(task, transition, needed(transition)).await.refused("teammate_blocked");
            frank.say(task, "Hello?").await.refused("teammate_blocked");
            assert_eq!(frank.get(task).await, before, "{transition} from {state}");
        }
        assert_eq!(frank.inbox().await.len(), threads.len(), "reading stays possible");
        bob.say(&threads[0].1, "I can still talk").await.result();

        assert_eq!(bob.rest("DELETE", "/agents/me/block/frank@acme").await.status, 204);
        for (transition, task, _, to) in &threads {
            let done = frank.step_with(task, transition, needed(transition)).await.result();
            assert_eq!(done["status"], status(to), "{transition}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_sender_may_cancel_behind_any_block() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut threads = Vec::new();
        for state in ["pending", "input_required"] {
            for method in ["tasks/update", "tasks/cancel"] {
                threads.push((method, thread_in(state, &bob, &frank).await));
            }
        }
        assert_eq!((bob.block(&frank).await.status, frank.block(&bob).await.status), (201, 201));
        for (method, task) in threads {
            bob.say(&task, "Never mind").await.refused("teammate_blocked");
            bob.get(&task).await;
            let cancelled = bob.rpc(method, json!({ "task_id": task, "transition": "cancel" })).await.result();
            assert_eq!(cancelled["status"], status("cancelled"));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_recipient_who_blocked_the_sender_may_go_on() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut threads = Vec::new();
        for (transition, from, to, who) in TABLE {
            for state in from.iter().filter(|_| who == "recipient") {
                threads.push((transition, thread_in(state, &bob, &frank).await, to));
            }
        }
        assert_eq!(frank.block(&bob).await.status, 201);
        for (transition, task, to) in threads {
            frank.say(&task, "Still here").await.result();
            let done = frank.step_with(&task, transition, needed(transition)).await.result();
            assert_eq!(done["status"], status(to), "{transition}");
        }
    }
}

mod races {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_sixteen_sessions_that_accept_one_wins() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let calls = (0..16).map(|number| {
            let (task, frank) = (task.clone(), frank.clone());
            let session = json!({ "session_id": format!("session-{number}") });
            async move { frank.step_with(&task, "accept", session).await }
        });
        let answers = at_once(calls).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            assert_eq!(answer.refused("state_changed").error()["details"], standing("accepted", 2));
        }
        let thread = bob.get(&task).await;
        assert_eq!(thread["generation"], 2);
        assert!(thread["session_id"].is_string());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_one_session_that_accepts_sixteen_times_all_win_alike() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let calls = (0..16).map(|_| {
            let (task, frank) = (task.clone(), frank.clone());
            async move { frank.step_with(&task, "accept", json!({ "session_id": "claude-1234" })).await }
        });
        let answers = at_once(calls).await;
        answers[0].result();
        assert!(answers.iter().all(|answer| answer.text == answers[0].text));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thread_ends_once_whoever_ends_it() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        for _ in 0..100 {
            let task = bob.hand_to(&frank, "Hello").await;
            let calls = [(&frank, "accept"), (&bob, "cancel"), (&frank, "complete")].map(|(caller, transition)| {
                let (task, caller) = (task.clone(), caller.clone());
                async move { caller.step(&task, transition).await }
            });
            let answers = at_once(calls).await;
            let ended: Vec<Value> = answers
                .iter()
                .filter(|answer| answer.status == 200)
                .map(|answer| answer.result()["status"]["state"].clone())
                .filter(|state| state != "accepted")
                .collect();
            for answer in answers.into_iter().filter(|answer| answer.status != 200) {
                assert!(["invalid_transition", "state_changed"].contains(&&*answer.symbol()), "{}", answer.text);
            }
            let state = bob.get(&task).await["status"]["state"].clone();
            match ended.as_slice() {
                [end] => assert_eq!(state, *end),
                [] => {
                    assert_eq!(state, "accepted", "accepted before the cancel, after the complete");
                    frank.step(&task, "complete").await.result();
                }
                more => panic!("ended as {more:?}"),
            }
        }
        let conn = relay.sqlite();
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
        let ends = "FROM events WHERE kind IN ('thread.completed', 'thread.cancelled')";
        assert_eq!(count(&format!("SELECT count(*) {ends}")), 100);
        assert_eq!(count(&format!("SELECT count(DISTINCT thread) {ends}")), 100);
        assert_eq!(count("SELECT count(*) FROM threads WHERE state IN ('completed', 'cancelled')"), 100);
    }
}
