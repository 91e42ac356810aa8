//! `tasks/get`: a whole thread, for those who are in it, and the only thing that counts as reading it.

use agentrelay::domain::agent::Handle;
use agentrelay::domain::intent::Intent;
use agentrelay::domain::message::Draft;
use agentrelay::relay::send::{Append, Handoff};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::operations::caller;
use crate::support::{Agent, TestRelay, message};

/// 2026-04-25T10:00:00Z, when the protocol's examples happen.
const TEN: i64 = 1_777_111_200_000;

/// A thread that frank has accepted.
async fn accepted(bob: &Agent, frank: &Agent) -> String {
    let task = bob.hand_to(frank, "Hello").await;
    frank.step(&task, "accept").await.result();
    task
}

/// How many messages wait for this agent in the thread, as its list says.
async fn unread(reader: &Agent, role: &str, task: &str) -> i64 {
    let list = reader.rpc("tasks/list", json!({ "filter": { "role": role } })).await.result();
    let items = list["items"].as_array().expect("items");
    let item = items.iter().find(|item| item["task_id"] == task).expect("the thread");
    item["unread_messages"].as_i64().expect("a number")
}

fn link(url: &str) -> Value {
    json!({ "type": "link", "url": url })
}

mod the_answer {
    use super::*;

    const EXAMPLE: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-3",
      "method": "tasks/get",
      "params": {
        "task_id": "01HXYZ4K2VNJQP7R8MWDB3CSTF"
      }
    }"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn has_everything_that_was_said_and_done() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        bob.rest_with("PUT", "/agents/me/card", json!({ "role": "backend" })).await.json();
        let action =
            json!({ "description": "Page", "target_files": ["src/client.ts"], "rationale": "The API pages now" });

        relay.clock.set(TEN);
        let params = json!({
            "recipient": "frank@acme",
            "intent": "propose_action",
            "proposed_action": action,
            "message": message("Refactored /users API."),
            "artifacts": [link("first")],
            "payload": { "p": 1 },
            "metadata": { "ticket": 42, "client_idempotency_key": "k" }
        });
        let sent = bob.rpc("message/send", params).await.result();
        let task = sent["task_id"].as_str().expect("a task id").to_owned();
        relay.clock.set(TEN + 1_000);
        frank.step_with(&task, "accept", json!({ "session_id": "claude-1234" })).await.result();
        relay.clock.set(TEN + 2_000);
        let params = json!({ "task_id": task, "message": message("And /search?"), "artifacts": [link("second")] });
        let asked = bob.rpc("message/send", params).await.result();
        relay.clock.set(TEN + 3_000);
        let with = json!({ "message": message("Half done"), "artifacts": [link("third")] });
        let progressed = frank.step_with(&task, "progress", with).await.result();
        relay.clock.set(TEN + 4_500);
        let with = json!({ "result_summary": "All tests pass.", "artifacts": [link("fourth"), link("fifth")] });
        frank.step_with(&task, "complete", with).await.result();
        relay.clock.set(TEN + 9_000);

        let messages = json!([
            {
                "id": sent["message_id"],
                "sequence_no": 1,
                "from": "bob@acme",
                "author_id": bob.id,
                "role": "user",
                "body": "Refactored /users API.",
                "payload": { "p": 1 },
                "artifacts": [link("first")],
                "created_at": "2026-04-25T10:00:00.000Z"
            },
            {
                "id": asked["message_id"],
                "sequence_no": 2,
                "from": "bob@acme",
                "author_id": bob.id,
                "role": "user",
                "body": "And /search?",
                "payload": {},
                "artifacts": [link("second")],
                "created_at": "2026-04-25T10:00:02.000Z"
            },
            {
                "id": progressed["message_id"],
                "sequence_no": 3,
                "from": "frank@acme",
                "author_id": frank.id,
                "role": "user",
                "body": "Half done",
                "payload": {},
                "artifacts": [link("third")],
                "created_at": "2026-04-25T10:00:03.000Z"
            }
        ]);
        let mut expected = json!({
            "jsonrpc": "2.0",
            "id": "req-3",
            "result": {
                "thread_id": task,
                "task_id": task,
                "status": { "state": "completed" },
                "generation": 5,
                "sender": { "handle": "bob@acme", "name": "bob", "role": "backend" },
                "recipient": { "handle": "frank@acme", "name": "frank", "role": null },
                "sender_id": bob.id,
                "recipient_id": frank.id,
                "summary": "Refactored /users API.",
                "intent": "propose_action",
                "artifacts": [link("first")],
                "proposed_action": action,
                "metadata": { "ticket": 42, "client_idempotency_key": "k" },
                "messages": messages,
                "history": messages,
                "completed_summary": "All tests pass.",
                "completion_artifacts": [link("fourth"), link("fifth")],
                "result_artifacts": [link("third"), link("fourth"), link("fifth")],
                "session_id": "claude-1234",
                "accepted_at": "2026-04-25T10:00:01.000Z",
                "completed_at": "2026-04-25T10:00:04.500Z",
                "cancelled_at": null,
                "created_at": "2026-04-25T10:00:00.000Z",
                "updated_at": "2026-04-25T10:00:04.500Z"
            }
        });
        let example = EXAMPLE.replace("01HXYZ4K2VNJQP7R8MWDB3CSTF", &task);
        assert_eq!(bob.post_a2a(example.clone()).await.json(), expected);
        expected["result"]["metadata"] = json!({ "ticket": 42 });
        assert_eq!(frank.post_a2a(example).await.json(), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn has_the_same_fields_when_nothing_has_happened_yet() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let pending = frank.get(&bob.hand_to(&frank, "Hello").await).await;
        for field in
            ["proposed_action", "completed_summary", "session_id", "accepted_at", "completed_at", "cancelled_at"]
        {
            assert_eq!(pending.get(field), Some(&json!(null)), "{field}");
        }
        for field in ["artifacts", "completion_artifacts", "result_artifacts"] {
            assert_eq!(pending.get(field), Some(&json!([])), "{field}");
        }
        let keys = |thread: &Value| thread.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        let task = accepted(&bob, &frank).await;
        frank.step(&task, "complete").await.result();
        assert_eq!(keys(&frank.get(&task).await), keys(&pending));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shows_parts_only_for_messages_that_have_more_than_text() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let parts = json!([{ "type": "text", "text": "see" }, { "type": "data", "data": { "rows": 3 } }]);
        let params = json!({ "task_id": task, "message": { "parts": parts } });
        bob.rpc("message/send", params).await.result();
        let thread = frank.get(&task).await;
        assert_eq!(thread["messages"][0].get("parts"), None);
        assert_eq!(thread["messages"][1]["parts"], parts);
        assert_eq!(thread["messages"][1]["body"], "see");
        assert_eq!(thread["history"], thread["messages"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shows_what_the_authors_protocol_said_around_a_message_where_it_said_something() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let envelope = r#"{"message_id":"m-1","extensions":[],"x":9007199254740993,"a":1.0}"#;
        let enveloped = |text: &str| {
            let envelope = RawValue::from_string(envelope.to_owned()).expect("JSON");
            Draft { envelope: Some(envelope), ..Draft::text(text) }
        };
        let sender = caller(&relay.relay, &bob);
        let handoff = Handoff::new(Handle::parse("frank@acme").expect("a handle"), Intent::Inform, enveloped("1"));
        let thread = relay.relay.send(&sender, handoff).await.expect("sent").thread;
        relay.relay.append(&sender, Append::new(thread, enveloped("2"))).await.expect("said");
        frank.say(&thread.to_string(), "3").await.result();

        for reader in [&bob, &frank] {
            let answer = reader.rpc("tasks/get", json!({ "task_id": thread.to_string() })).await;
            assert_eq!(answer.text.matches(&format!("\"envelope\":{envelope}")).count(), 4, "{}", answer.text);
            let read = answer.result();
            let messages = read["messages"].as_array().expect("messages");
            let with: Vec<bool> = messages.iter().map(|message| message.get("envelope").is_some()).collect();
            assert_eq!(with, [true, true, false]);
            assert_eq!(read["history"], read["messages"]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tells_how_a_thread_ended_and_what_came_with_the_end() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (summary, artifacts) = (json!("It went so."), json!([link("result")]));
        let both = json!({ "result_summary": summary, "artifacts": artifacts, "message": message("Here") });
        let only_summary = json!({ "result_summary": summary });
        let nothing = json!({});
        for (accept, by, transition, with, status, ended) in [
            (true, &frank, "complete", &both, json!({ "state": "completed" }), "completed_at"),
            (false, &frank, "answer", &both, json!({ "state": "completed" }), "completed_at"),
            (true, &frank, "fail", &both, json!({ "state": "completed", "detail": "failed" }), "completed_at"),
            (
                true,
                &frank,
                "reject",
                &only_summary,
                json!({ "state": "cancelled", "detail": "rejected" }),
                "cancelled_at",
            ),
            (false, &bob, "cancel", &nothing, json!({ "state": "cancelled" }), "cancelled_at"),
            (true, &frank, "complete", &nothing, json!({ "state": "completed" }), "completed_at"),
        ] {
            let task = bob.hand_to(&frank, "Hello").await;
            let early = json!({ "task_id": task, "message": message("Early"), "artifacts": [link("early")] });
            if accept {
                frank.step(&task, "accept").await.result();
            }
            frank.rpc("message/send", early).await.result();
            let before = bob.get(&task).await;
            assert_eq!(before["completed_summary"], json!(null));
            assert_eq!(before["completion_artifacts"], json!([]));
            assert_eq!(before["result_artifacts"], json!([link("early")]));

            by.step_with(&task, transition, with.clone()).await.result();
            let thread = bob.get(&task).await;
            let came = with["artifacts"].as_array().cloned().unwrap_or_default();
            assert_eq!(thread["status"], status, "{transition}");
            assert_eq!(thread["completed_summary"], with["result_summary"], "{transition}");
            assert_eq!(thread["completion_artifacts"], json!(came), "{transition}");
            let all: Vec<Value> = [link("early")].into_iter().chain(came).collect();
            assert_eq!(thread["result_artifacts"], json!(all), "{transition}");
            let other = if ended == "completed_at" { "cancelled_at" } else { "completed_at" };
            assert_eq!(thread[ended], thread["updated_at"], "{transition}");
            assert_eq!(thread[other], json!(null), "{transition}");
            assert_eq!(thread["accepted_at"].is_string(), accept, "{transition}");
            assert_eq!(thread["artifacts"], json!([]), "those of the handoff");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_the_session_that_accepted() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        assert_eq!(frank.get(&task).await["session_id"], json!(null));
        frank.step_with(&task, "accept", json!({ "session_id": "claude-1234" })).await.result();
        frank.step_with(&task, "complete", json!({ "session_id": "codex-5" })).await.result();
        assert_eq!(bob.get(&task).await["session_id"], "claude-1234");
        assert_eq!(bob.get(&accepted(&bob, &frank).await).await["session_id"], json!(null));
    }
}

mod who_may_read {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn its_sender_and_its_recipient_and_nobody_else() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        let task = bob.hand_to(&frank, "For your eyes").await;
        bob.get(&task).await;
        frank.get(&task).await;
        let refused = mallory.rpc("tasks/get", json!({ "task_id": task })).await.refused("not_a_participant");
        assert_eq!(refused.error()["details"], json!({}));
        assert!(!refused.text.contains("eyes") && !refused.text.contains("bob"), "{}", refused.text);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn also_behind_a_block_and_when_the_other_side_is_disabled() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        assert_eq!((bob.block(&frank).await.status, frank.block(&bob).await.status), (201, 201));
        assert_eq!(bob.get(&task).await["summary"], "Hello");
        assert_eq!(frank.get(&task).await["summary"], "Hello");
        relay.admin("DELETE", &format!("/admin/agents/{}", frank.id), json!({})).await;
        assert_eq!(bob.get(&task).await["recipient"]["handle"], "frank@acme");
    }
}

mod the_id {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_read_in_either_case() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        assert_eq!(frank.get(&task.to_lowercase()).await["task_id"], task.as_str());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_no_thread_is_not_found_whatever_it_looks_like() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "Hello").await;
        let long = "0".repeat(100_000);
        for id in [
            "01HXYZ4K2VNJQP7R8MWDB3CSTF",
            "",
            "0",
            &task[..25],
            &format!("{task}0"),
            &format!(" {task}"),
            &task.replace('0', "O"),
            "550e8400-e29b-41d4-a716-446655440000",
            "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "🦀",
            "\u{0}",
            "' OR 1=1 --",
            &long,
        ] {
            let refused = frank.rpc("tasks/get", json!({ "task_id": id })).await.refused("thread_not_found");
            assert_eq!(refused.error()["details"], json!({}));
            assert!(refused.text.len() < 1_000, "an answer does not repeat {} characters", id.len());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn must_be_there_and_be_a_string() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for params in [json!({}), json!({ "task_id": null }), json!({ "task_id": 5 }), json!({ "task_id": ["a"] })] {
            let refused = bob.rpc("tasks/get", params).await.refused("invalid_params");
            assert_eq!(refused.issue_paths(), ["task_id"]);
        }
    }
}

mod reading {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_the_other_sides_messages_after_the_first_one() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "1").await;
        assert_eq!(unread(&frank, "recipient", &task).await, 0, "the first message is the handoff itself");
        bob.say(&task, "2").await.result();
        bob.say(&task, "3").await.result();
        frank.say(&task, "4").await.result();
        assert_eq!(unread(&frank, "recipient", &task).await, 2);
        assert_eq!(unread(&bob, "sender", &task).await, 1);

        frank.get(&task).await;
        assert_eq!(unread(&frank, "recipient", &task).await, 0);
        assert_eq!(unread(&bob, "sender", &task).await, 1, "each side has a cursor of its own");
        bob.get(&task).await;
        assert_eq!(unread(&bob, "sender", &task).await, 0);

        bob.say(&task, "5").await.result();
        assert_eq!(unread(&frank, "recipient", &task).await, 1);
        assert_eq!(unread(&bob, "sender", &task).await, 0, "one's own messages are read");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_messages_that_come_with_a_transition() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = accepted(&bob, &frank).await;
        assert_eq!(unread(&bob, "sender", &task).await, 0, "accepting says nothing");
        let with = json!({ "message": message("Half done") });
        frank.step_with(&task, "progress", with.clone()).await.result();
        frank.step_with(&task, "progress", json!({ "artifacts": [link("a")] })).await.result();
        frank.step_with(&task, "request_input", with.clone()).await.result();
        assert_eq!(unread(&bob, "sender", &task).await, 2);
        bob.say(&task, "Go on").await.result();
        frank.step_with(&task, "complete", with).await.result();
        assert_eq!(unread(&bob, "sender", &task).await, 3);
        assert_eq!(unread(&frank, "recipient", &task).await, 1);
        bob.get(&task).await;
        assert_eq!(unread(&bob, "sender", &task).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_but_tasks_get_moves_the_cursor() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "1").await;
        bob.say(&task, "2").await.result();

        frank.inbox().await;
        frank.say(&task, "3").await.result();
        let params = json!({
            "task_id": task,
            "message": message("4"),
            "metadata": { "client_idempotency_key": "k" }
        });
        frank.rpc("message/send", params.clone()).await.result();
        frank.rpc("message/send", params).await.result();
        frank.step(&task, "accept").await.result();
        frank.step(&task, "accept").await.result();
        frank.step_with(&task, "progress", json!({ "message": message("5") })).await.result();
        frank.step(&task, "cancel").await.refused("not_authorized_transition");
        let request = frank.http.get(format!("{}/events?after=0&wait=1", frank.url)).bearer_auth(&frank.key);
        let events = request.header("accept", "application/json").send().await.expect("an answer");
        assert!(events.text().await.expect("a body").contains(&task), "frank was told");
        assert_eq!(frank.rest("GET", "/agents/me/audit").await.status, 200);
        assert_eq!(unread(&frank, "recipient", &task).await, 1);

        bob.get(&task).await;
        assert_eq!(unread(&frank, "recipient", &task).await, 1, "what bob reads is bob's reading");
        frank.get(&task).await;
        assert_eq!(unread(&frank, "recipient", &task).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_not_answered_is_not_read() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "1").await;
        bob.say(&task, "2").await.result();
        let call = json!({ "jsonrpc": "2.0", "method": "tasks/get", "params": { "task_id": task } });
        assert_eq!(frank.post_a2a(call.to_string()).await.status, 204);
        assert_eq!(unread(&frank, "recipient", &task).await, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_refused_look_reads_nothing() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        let task = bob.hand_to(&frank, "1").await;
        bob.say(&task, "2").await.result();
        mallory.rpc("tasks/get", json!({ "task_id": task })).await.refused("not_a_participant");
        assert_eq!(unread(&frank, "recipient", &task).await, 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_no_change_of_the_thread() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let task = bob.hand_to(&frank, "1").await;
        bob.say(&task, "2").await.result();
        let listed = bob.rpc("tasks/list", json!({ "filter": { "role": "sender" } })).await.result();
        let before = frank.get(&task).await;
        frank.get(&task).await;
        assert_eq!(frank.get(&task).await, before);
        assert_eq!(bob.rpc("tasks/list", json!({ "filter": { "role": "sender" } })).await.result(), listed);
        frank.step_with(&task, "accept", json!({ "expected_generation": 2 })).await.result();
    }
}
