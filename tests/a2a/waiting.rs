//! Sending messages that are waited for: until the agent has ended the task or asks for something, or it took too long.

use std::time::{Duration, Instant};

use agentrelay::api::Settings;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Step, becomes, endings, pending, read, saying, take, unlimited};
use crate::consistency;
use crate::support::a2a::{Client, Door, Refusal, ask};
use crate::support::{Agent, TestRelay};

/// Sends and waits, while the test goes on.
fn asking(client: &Client, params: Value) -> JoinHandle<Result<Value, Box<Refusal>>> {
    let client = client.clone();
    tokio::spawn(async move { client.send(params).await })
}

/// What a new task comes to when the recipient takes these steps.
async fn outcome(client: &Client, frank: &Agent, steps: &[Step]) -> (String, Value) {
    let asked = asking(client, ask("Work"));
    let task = pending(frank, 1).await.remove(0);
    for step in steps {
        take(frank, &task, step).await;
    }
    (task, asked.await.expect("no panic").expect("an outcome"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_until_the_agent_is_done_or_needs_something() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let (accept, link) = (("accept", json!({})), json!([{ "type": "link", "url": "https://acme.example" }]));
    let cases: [(&str, Vec<Step>, Option<&str>); 7] = [
        ("COMPLETED", vec![accept.clone(), ("complete", json!({ "result_summary": "Done" }))], Some("Done")),
        ("COMPLETED", vec![accept.clone(), ("complete", json!({ "artifacts": link }))], None),
        ("INPUT_REQUIRED", vec![accept.clone(), ("request_input", saying("Which one?"))], Some("Which one?")),
        ("FAILED", vec![accept.clone(), ("fail", saying("No"))], Some("No")),
        ("REJECTED", vec![("reject", json!({ "result_summary": "Not mine" }))], Some("Not mine")),
        ("REJECTED", vec![accept.clone(), ("reject", saying("After all not"))], Some("After all not")),
        (
            "COMPLETED",
            vec![accept, ("say", json!("Soon")), ("progress", saying("Half")), ("complete", json!({}))],
            None,
        ),
    ];
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        for (state, steps, text) in &cases {
            let (task, outcome) = outcome(&client, &frank, steps).await;
            let told = &outcome["task"];
            assert_eq!(told["status"]["state"], format!("TASK_STATE_{state}"), "{door:?} {outcome}");
            assert_eq!(told["status"]["message"]["parts"][0]["text"].as_str(), *text, "{door:?} {steps:?}");
            assert_eq!(*told, read(&client, &task).await, "{door:?}");
        }
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_needed_no_work_is_a_message() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let with = json!({ "message": { "parts": [{ "type": "text", "text": "It is 42" }] } });
        let (task, outcome) = outcome(&client, &frank, &[("answer", with)]).await;
        let message = &outcome["message"];
        assert_eq!(message["role"], "ROLE_AGENT", "{door:?} {outcome}");
        assert_eq!(message["parts"], json!([{ "text": "It is 42" }]), "{door:?}");
        assert_eq!(message["taskId"], task.as_str(), "{door:?}");
        assert!(!message["messageId"].as_str().expect("an id").is_empty() && outcome.get("task").is_none());
        let read = read(&client, &task).await;
        assert_eq!((&read["status"]["state"], &read["status"]["message"]), (&json!("TASK_STATE_COMPLETED"), message));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_artifacts_is_the_task_that_holds_them() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let mut with = saying("See this");
        with["artifacts"] = json!([{ "type": "parts", "artifact_id": "it", "parts": [{ "text": "This" }] }]);
        let (task, outcome) = outcome(&client, &frank, &[("answer", with)]).await;
        assert_eq!(outcome["task"], read(&client, &task).await, "{door:?}");
        assert_eq!(outcome["task"]["artifacts"][0]["parts"], json!([{ "text": "This" }]), "{door:?} {outcome}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_cancelled_elsewhere_ends_the_wait() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let asked = asking(&bob.at(door, &frank), ask("Work"));
        let task = pending(&frank, 1).await.remove(0);
        bob.step(&task, "cancel").await.result();
        let outcome = asked.await.expect("no panic").expect("an outcome");
        assert_eq!(outcome["task"]["status"]["state"], "TASK_STATE_CANCELED", "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_is_waited_for_until_something_new_happened() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let steps = [("accept", json!({})), ("request_input", saying("Which one?"))];
        let (task, first) = outcome(&client, &frank, &steps).await;
        let answering = |text: &str| {
            let mut params = ask(text);
            params["message"]["taskId"] = json!(task);
            params
        };
        let asked = asking(&client, answering("This one"));
        becomes(&frank, &task, "accepted").await;
        take(&frank, &task, &("request_input", saying("And where?"))).await;
        let second = asked.await.expect("no panic").expect("an outcome");
        assert_eq!(second["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{door:?}");
        assert_eq!(second["task"]["status"]["message"]["parts"][0]["text"], "And where?", "{door:?}");
        let asked = asking(&client, answering("There"));
        becomes(&frank, &task, "accepted").await;
        take(&frank, &task, &("complete", json!({ "result_summary": "Done" }))).await;
        let third = asked.await.expect("no panic").expect("an outcome");
        assert_eq!(third["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{door:?}");
        assert_eq!(third["task"]["contextId"], first["task"]["contextId"], "{door:?}");
        let history = third["task"]["history"].as_array().expect("a history");
        let texts: Vec<&Value> = history.iter().map(|message| &message["parts"][0]["text"]).collect();
        assert_eq!(texts, ["Work", "Which one?", "This one", "And where?", "There"], "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waited_long_enough_gets_the_task_as_it_is() {
    let blocking_timeout = Duration::from_millis(300);
    let relay = TestRelay::with(Settings { blocking_timeout, ..unlimited() }).await;
    let (bob, frank) = relay.bob_and_frank().await;
    let start = Instant::now();
    let calls = Door::ALL.map(|door| asking(&bob.at(door, &frank), ask("Work")));
    let accepted = pending(&frank, 3).await.remove(0);
    frank.step(&accepted, "accept").await.result();
    for call in calls {
        let task = call.await.expect("no panic").expect("the task")["task"].clone();
        let state = if task["id"] == accepted.as_str() { "TASK_STATE_WORKING" } else { "TASK_STATE_SUBMITTED" };
        assert_eq!(task["status"]["state"], state);
    }
    assert!(start.elapsed() >= blocking_timeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_when_the_server_stops_gets_the_task_as_it_is() {
    let mut relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let calls = Door::ALL.map(|door| asking(&bob.at(door, &frank), ask("Work")));
    pending(&frank, 3).await;
    let start = Instant::now();
    relay.stop().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    for call in calls {
        let task = call.await.expect("no panic").expect("the task")["task"].clone();
        assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_call_waits_for_the_same_task() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let mut params = ask("Work");
        params["metadata"] = json!({ "client_idempotency_key": format!("waiting by {door:?}") });
        let calls = [asking(&client, params.clone()), asking(&client, params.clone())];
        let task = pending(&frank, 1).await.remove(0);
        for step in &endings()[0].1 {
            take(&frank, &task, step).await;
        }
        for call in calls {
            let outcome = call.await.expect("no panic").expect("an outcome");
            assert_eq!(outcome["task"], read(&client, &task).await, "{door:?}");
        }
        let late = client.send(params).await.expect("an outcome");
        assert_eq!(late["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{door:?}");
    }
    assert_eq!(frank.inbox().await.len(), 3);
}
