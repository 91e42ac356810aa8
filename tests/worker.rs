//! The worker example: an agent behind its mailbox, as a program of its own.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentrelay::api::Settings;
use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::ThreadId;
use agentrelay::domain::intent::Intent;
use agentrelay::domain::message::Draft;
use agentrelay::relay::send::{Append, Handoff};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::operations::caller;
use crate::support::{Agent, TestRelay, example, message, settings};

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// What every message says. It must not be in the worker's log.
const SECRET: &str = "for frank's eyes";

/// The running worker. Ended when dropped, as a power cut would end it.
pub struct Worker {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Worker {
    pub fn start(relay: &TestRelay, agent: &Agent) -> Worker {
        let log = tempfile::NamedTempFile::new().expect("a log");
        let child = Command::new(example("worker"))
            .env("AGENTRELAY_URL", &relay.url)
            .env("AGENTRELAY_KEY", &agent.key)
            .env("NO_PROXY", "127.0.0.1")
            .stdout(Stdio::null())
            .stderr(File::create(log.path()).expect("the log"))
            .spawn()
            .expect("a worker");
        Worker { child, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("the log")
    }

    /// Waits until it has said this.
    pub async fn says(&self, text: &str) {
        until(async || self.log().contains(text).then_some(())).await.unwrap_or_else(|| panic!("{}", self.log()));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `look` finds in the end.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(found) = look().await {
            return Some(found);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

/// The thread, as soon as its sender sees it in this state: `accepted`, or `accepted/input_required`.
#[track_caller]
fn becomes(bob: &Agent, task: &str, wanted: &str) -> impl Future<Output = Value> {
    let place = std::panic::Location::caller();
    async move {
        let thread = until(async || Some(bob.get(task).await).filter(|thread| state(thread) == wanted)).await;
        match thread {
            Some(thread) => thread,
            None => panic!("{place}: not {wanted}: {}", bob.get(task).await),
        }
    }
}

fn state(thread: &Value) -> String {
    let status = &thread["status"];
    let words = [&status["state"], &status["detail"]].into_iter().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join("/")
}

fn draft(message_id: &str) -> Draft {
    let envelope = to_raw_value(&json!({ "message_id": message_id })).expect("JSON");
    Draft { envelope: Some(envelope), ..Draft::text(SECRET) }
}

/// Hands over as an A2A client does, with a name for the message.
async fn hand(relay: &TestRelay, bob: &Agent, message_id: &str) -> String {
    let handoff = Handoff::new(Handle::parse("frank@acme").expect("a handle"), Intent::Inform, draft(message_id));
    relay.relay.send(&caller(&relay.relay, bob), handoff).await.expect("sent").thread.to_string()
}

async fn say(relay: &TestRelay, bob: &Agent, task: &str, message_id: &str) {
    let append = Append::new(ThreadId::parse(task).expect("an id"), draft(message_id));
    relay.relay.append(&caller(&relay.relay, bob), append).await.expect("said");
}

/// What frank said in a thread.
fn said(thread: &Value) -> Vec<&str> {
    let messages = thread["messages"].as_array().expect("messages").iter();
    messages.filter(|message| message["from"] == "frank@acme").filter_map(|message| message["body"].as_str()).collect()
}

/// The parts of what frank attached.
fn parts(thread: &Value) -> Vec<Value> {
    let artifacts = thread["result_artifacts"].as_array().expect("artifacts").iter();
    artifacts.flat_map(|artifact| artifact["parts"].as_array().expect("parts").clone()).collect()
}

/// What frank did in a thread, in order.
async fn done(frank: &Agent, task: &str) -> Vec<String> {
    let events = frank.rest("GET", "/events?wait=0&after=0").await.json()["events"].take();
    let events = events.as_array().expect("events").iter().filter(|event| event["task_id"] == task);
    let done = events.filter(|event| event["actor"] == "frank@acme" && event["type"] != "thread.fetched");
    done.filter_map(|event| event["type"].as_str()?.strip_prefix("thread.")).map(ToOwned::to_owned).collect()
}

fn unlimited() -> Settings {
    Settings { rate_limit: 0, ..settings() }
}

#[tokio::test(flavor = "multi_thread")]
async fn does_what_the_compatibility_kit_asks_for_by_the_id_of_a_message() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let worker = Worker::start(&relay, &frank);
    worker.says("waits").await;

    let file = json!({ "raw": "dGNr", "filename": "output.txt", "media_type": "text/plain" });
    let url = json!({ "url": "https://example.com/output.txt", "filename": "output.txt", "media_type": "text/plain" });
    let (completed, progressed) = (&["accepted", "completed"][..], &["accepted", "progressed", "completed"][..]);
    let cases = [
        ("tck-complete-task", "completed", Some("Hello from TCK"), None, completed),
        ("tck-message-response", "completed", Some("Direct message response"), None, &["answered"][..]),
        ("tck-reject-task", "cancelled/rejected", Some("rejected"), None, &["rejected"][..]),
        ("tck-artifact-text", "completed", None, Some(json!({ "text": "Generated text content" })), completed),
        ("tck-artifact-file", "completed", None, Some(file), completed),
        ("tck-artifact-file-url", "completed", None, Some(url), completed),
        ("tck-artifact-data", "completed", None, Some(json!({ "data": { "key": "value", "count": 42 } })), completed),
        ("tck-stream-001", "completed", None, Some(json!({ "text": "Stream hello from TCK" })), progressed),
        ("tck-stream-002", "completed", Some("Hello from TCK"), None, completed),
        ("tck-stream-003", "completed", None, Some(json!({ "text": "Stream task lifecycle" })), progressed),
        ("tck-stream-ordering-001", "completed", None, Some(json!({ "text": "Ordered output" })), progressed),
        ("something-else", "completed", Some("Hello from TCK"), None, completed),
    ];
    for (kind, wanted, message, part, steps) in cases {
        let start = Instant::now();
        let task = hand(&relay, &bob, &format!("{kind}-0f3a")).await;
        let thread = becomes(&bob, &task, wanted).await;
        assert!(start.elapsed() < Duration::from_secs(5), "{kind}: it was told, and did not find out by itself");
        assert_eq!(said(&thread), Vec::from_iter(message), "{kind}");
        assert_eq!(parts(&thread), Vec::from_iter(part), "{kind}");
        assert_eq!(done(&frank, &task).await, steps, "{kind}");
        worker.says(&task).await;
    }
    // Without an id, as every other client hands over.
    let thread = becomes(&bob, &bob.hand_to(&frank, SECRET).await, "completed").await;
    assert_eq!(said(&thread), ["Hello from TCK"]);
    assert!(!worker.log().contains(SECRET) && !worker.log().contains("ah_live_"), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_and_goes_by_the_answer() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let _worker = Worker::start(&relay, &frank);
    for (kind, wanted, steps) in [
        ("tck-complete-task", "completed", &["accepted", "input_requested", "completed"][..]),
        ("tck-message-response", "completed", &["accepted", "input_requested", "completed"]),
        ("tck-reject-task", "cancelled/rejected", &["accepted", "input_requested", "rejected"]),
        ("tck-input-required", "accepted/input_required", &["accepted", "input_requested", "input_requested"]),
    ] {
        let task = hand(&relay, &bob, "tck-input-required-1").await;
        becomes(&bob, &task, "accepted/input_required").await;
        say(&relay, &bob, &task, kind).await;
        until(async || (done(&frank, &task).await.len() == 3).then_some(())).await.expect("a third step");
        assert_eq!(state(&bob.get(&task).await), wanted, "{kind}");
        assert_eq!(done(&frank, &task).await, steps, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_what_waited_and_lets_no_thread_wait_for_another() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let slow = [hand(&relay, &bob, "tck-delayed-complete").await, hand(&relay, &bob, "tck-delayed-complete").await];
    let _worker = Worker::start(&relay, &frank);
    for task in &slow {
        becomes(&bob, task, "accepted").await;
    }
    let quick = hand(&relay, &bob, "tck-complete-task").await;
    becomes(&bob, &quick, "completed").await;
    for task in &slow {
        let thread = becomes(&bob, task, "completed").await;
        assert_eq!(said(&thread), ["Done after delay"]);
        assert!(thread["completed_at"].as_str() > bob.get(&quick).await["completed_at"].as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survives_a_thread_that_goes_on_without_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let worker = Worker::start(&relay, &frank);
    let cancelled = hand(&relay, &bob, "tck-input-required").await;
    becomes(&bob, &cancelled, "accepted/input_required").await;
    bob.step(&cancelled, "cancel").await.result();
    worker.says(&format!("{cancelled} from \"bob@acme\": {{\"state\":\"cancelled\"}}")).await;

    let rejected = hand(&relay, &bob, "tck-delayed-complete").await;
    becomes(&bob, &rejected, "accepted").await;
    frank.step_with(&rejected, "reject", json!({ "message": message("Somebody else said no.") })).await.result();
    worker.says("(invalid_transition)").await;
    assert_eq!(said(&bob.get(&rejected).await), ["Somebody else said no."]);
    becomes(&bob, &hand(&relay, &bob, "tck-complete-task").await, "completed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_on_after_the_relay_was_away() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let worker = Worker::start(&relay, &frank);
    let asked = hand(&relay, &bob, "tck-input-required").await;
    becomes(&bob, &asked, "accepted/input_required").await;
    let slow = hand(&relay, &bob, "tck-delayed-complete").await;
    becomes(&bob, &slow, "accepted").await;

    let relay = relay.be_away_for(Duration::from_millis(1_500), unlimited()).await;
    // Said before the worker is back: it hears of it when it goes on where it was in the log.
    say(&relay, &bob, &asked, "tck-artifact-text").await;
    let new = hand(&relay, &bob, "tck-complete-task").await;
    for task in [&asked, &slow, &new] {
        becomes(&bob, task, "completed").await;
    }
    assert_eq!(done(&frank, &asked).await, ["accepted", "input_requested", "completed"]);
    assert_eq!(done(&frank, &slow).await, ["accepted", "completed"]);
    assert!(worker.log().contains("again in 1 s"), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn takes_no_step_twice_when_it_is_killed_and_started_again() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let worker = Worker::start(&relay, &frank);
    let slow = hand(&relay, &bob, "tck-delayed-complete").await;
    let [asked, answered] =
        [hand(&relay, &bob, "tck-input-required").await, hand(&relay, &bob, "tck-input-required").await];
    becomes(&bob, &slow, "accepted").await;
    for task in [&asked, &answered] {
        becomes(&bob, task, "accepted/input_required").await;
    }
    drop(worker);
    say(&relay, &bob, &answered, "tck-stream-001").await;
    // One was in the middle when it was killed, and comes to another result the second time.
    let begun = hand(&relay, &bob, "tck-stream-003").await;
    let artifact = json!({ "type": "parts", "artifact_id": "output", "parts": [{ "text": "In other words" }] });
    for (number, step, with) in [(1, "accept", json!({})), (2, "progress", json!({ "artifacts": [artifact] }))] {
        let mut with = with;
        with["metadata"] = json!({ "client_idempotency_key": format!("{begun}/1/{number}") });
        frank.step_with(&begun, step, with).await.result();
    }

    let worker = Worker::start(&relay, &frank);
    for task in [&slow, &answered, &begun] {
        becomes(&bob, task, "completed").await;
    }
    assert_eq!(done(&frank, &slow).await, ["accepted", "completed"]);
    assert_eq!(done(&frank, &answered).await, ["accepted", "input_requested", "progressed", "completed"]);
    assert_eq!(done(&frank, &begun).await, ["accepted", "progressed", "completed"]);
    assert_eq!(parts(&bob.get(&begun).await), [json!({ "text": "In other words" })]);
    assert_eq!(done(&frank, &asked).await, ["accepted", "input_requested"]);
    drop(worker);

    let _worker = Worker::start(&relay, &frank);
    say(&relay, &bob, &asked, "tck-complete-task").await;
    becomes(&bob, &asked, "completed").await;
    assert_eq!(done(&frank, &asked).await, ["accepted", "input_requested", "completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_when_its_key_has_stopped_working() {
    let relay = TestRelay::start().await;
    let (_, frank) = relay.bob_and_frank().await;
    let mut worker = Worker::start(&relay, &frank.with_key(&format!("ah_live_{}", "a".repeat(32))));
    let code = tokio::task::block_in_place(|| worker.child.wait()).expect("its end").code();
    assert_eq!(code, Some(1));
    assert!(worker.log().ends_with("(unauthenticated)\n"), "{}", worker.log());
}
