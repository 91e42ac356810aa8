//! A2A: what a task goes through, each scenario told once and run through every door. The agent behind the doors works with
//! AgentRelay's own methods.

mod sending;
mod waiting;
mod parts;
mod artifacts;
mod lists;
mod cancelling;
mod streams;
mod resuming;
mod recipient;
mod restarts;

use std::time::{Duration, Instant};

use agentrelay::api::Settings;
use serde_json::{Value, json};

use crate::support::a2a::{Client, Door, Refusal, hand};
use crate::support::{Agent, TestRelay, message, settings};

/// No limit of calls, and the wait of blocking calls as a user has it.
fn unlimited() -> Settings {
    Settings { rate_limit: 0, ..settings() }
}

/// Somebody who sends through this door alone, so that no door sees another one's tasks.
async fn sender(relay: &TestRelay, door: Door) -> Agent {
    relay.agent(&format!("{door:?}@acme").to_lowercase()).await
}

/// Sends a new task; gives its id.
async fn new_task(client: &Client, text: &str) -> String {
    id(&client.send(hand(text)).await.expect("sent")["task"])
}

#[track_caller]
fn id(task: &Value) -> String {
    task["id"].as_str().unwrap_or_else(|| panic!("no task: {task}")).to_owned()
}

/// The task as a client reads it.
async fn read(client: &Client, task: &str) -> Value {
    client.get(json!({ "id": task })).await.expect("a task")
}

/// What is refused, whatever it would have come to.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Box<Refusal>>) -> Box<Refusal> {
    result.expect_err("refused")
}

/// What `look` finds in the end.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it never came");
}

/// A thread's state in AgentRelay's words, such as `accepted/input_required`.
fn state(thread: &Value) -> String {
    let status = &thread["status"];
    let words = [&status["state"], &status["detail"]].into_iter().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join("/")
}

/// Waits until the thread is in this state.
async fn becomes(agent: &Agent, task: &str, wanted: &str) {
    until(async || (state(&agent.get(task).await) == wanted).then_some(())).await;
}

/// What waits in somebody's inbox, when there is so much of it.
async fn pending(agent: &Agent, count: usize) -> Vec<String> {
    until(async || {
        let inbox = agent.inbox().await;
        let pending = inbox.iter().filter(|item| item["status"]["state"] == "pending");
        let ids: Vec<String> = pending.map(|item| item["task_id"].as_str().expect("an id").to_owned()).collect();
        (ids.len() == count).then_some(ids)
    })
    .await
}

/// A step of a thread's life: the transition, and what goes with it. `say` is a message without a transition.
type Step = (&'static str, Value);

/// Takes a recipient's step.
async fn take(agent: &Agent, task: &str, (transition, with): &Step) {
    let answer = match *transition {
        "say" => agent.say(task, with.as_str().expect("a text")).await,
        transition => agent.step_with(task, transition, with.clone()).await,
    };
    assert_eq!(answer.status, 200, "{transition}: {}", answer.text);
}

fn saying(text: &str) -> Value {
    json!({ "message": message(text) })
}

/// Ways in which a thread ends, with what A2A calls the end.
fn endings() -> [(&'static str, Vec<Step>); 4] {
    [
        ("TASK_STATE_COMPLETED", vec![("accept", json!({})), ("complete", json!({ "result_summary": "Done" }))]),
        ("TASK_STATE_FAILED", vec![("accept", json!({})), ("fail", json!({ "result_summary": "It rained" }))]),
        ("TASK_STATE_REJECTED", vec![("reject", saying("Not mine"))]),
        ("TASK_STATE_COMPLETED", vec![("answer", saying("It is 42"))]),
    ]
}
