//! Following the mailbox: each thread has somebody of its own, who does the work in it one message after the other.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::relay::{Pauses, Refusal, Relay};
use crate::work;

/// The relay writes into a stream at least every 15 seconds. One that is silent for longer is dead.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// Follows the mailbox until the relay refuses to show it.
pub async fn follow(relay: Relay) -> Result<Infallible, Refusal> {
    let relay = Arc::new(relay);
    let me = relay.get("/agents/me").await?["handle"].clone();
    // The place in the log is taken before the look into the inbox: what is sent in between is seen twice, not never.
    let mut after = relay.get("/events?wait=0").await?["next_after"].as_i64().unwrap_or_default();
    let mut threads = Threads { relay: relay.clone(), bells: HashMap::new() };
    for thread in unfinished(&relay).await? {
        threads.open(&thread);
    }
    let mut pauses = Pauses::default();
    loop {
        match relay.stream("/events", after).await {
            Ok(mut stream) => {
                eprintln!("{me} waits for handoffs");
                pauses = Pauses::default();
                // Each event is one line of data. A line that was cut off comes again.
                let mut received = Vec::new();
                while let Ok(Ok(Some(chunk))) = timeout(SILENCE_MAX, stream.chunk()).await {
                    received.extend_from_slice(&chunk);
                    while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = received.drain(..=end).collect();
                        let Some(data) = line.strip_prefix(b"data:") else { continue };
                        let event: Value = serde_json::from_slice(data).unwrap_or_default();
                        after = event["seq"].as_i64().unwrap_or(after);
                        if event["actor"] != me {
                            threads.hear(&event);
                        }
                    }
                }
                pauses.rest("the event stream ended", None).await;
            }
            Err(refusal) if refusal.passing => pauses.rest(&refusal.message, refusal.wait).await,
            Err(refusal) => return Err(refusal),
        }
    }
}

/// The threads in the inbox that have not ended, oldest first.
async fn unfinished(relay: &Relay) -> Result<Vec<String>, Refusal> {
    let (mut found, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let filter = json!({"status": ["pending", "accepted"]});
        let page = json!({"limit": 200, "cursor": cursor});
        let list = relay.call("tasks/list", json!({"filter": filter, "page": page})).await?;
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.filter_map(|item| item["task_id"].as_str()).map(ToOwned::to_owned));
        cursor = list["next_cursor"].clone();
        if cursor.is_null() {
            found.reverse();
            return Ok(found);
        }
    }
}

/// The threads that are looked after, each with the bell that tells of something new in it.
struct Threads {
    relay: Arc<Relay>,
    bells: HashMap<String, mpsc::Sender<()>>,
}

impl Threads {
    fn hear(&mut self, event: &Value) {
        let thread = event["thread_id"].as_str().unwrap_or_default();
        if event["type"] == "thread.created" {
            self.open(thread);
        } else if let Some(bell) = self.bells.get(thread) {
            let _ = bell.try_send(()); // one that has not been heard yet is enough
        }
    }

    fn open(&mut self, thread: &str) {
        self.bells.retain(|_, bell| !bell.is_closed());
        if !self.bells.contains_key(thread) {
            let (bell, heard) = mpsc::channel(1);
            self.bells.insert(thread.to_owned(), bell);
            tokio::spawn(look_after(self.relay.clone(), thread.to_owned(), heard));
        }
    }
}

/// Looks after one thread until it has ended.
///
/// A worker that starts again plays the thread from its beginning. Steps that it took before are answered as the first
/// time and change nothing, so that it comes to where it was.
async fn look_after(relay: Arc<Relay>, id: String, mut bell: mpsc::Receiver<()>) {
    let mut done = 0; // messages up to this place have had their work
    loop {
        let thread = match relay.call("tasks/get", json!({"task_id": id})).await {
            Ok(thread) => thread,
            Err(refusal) => return eprintln!("{id}: {refusal}"),
        };
        let (status, sender) = (&thread["status"], &thread["sender"]["handle"]);
        if status["state"] == "completed" || status["state"] == "cancelled" {
            return eprintln!("{id} from {sender}: {status}");
        }
        let by_sender = |message: &&Value| message["author_id"] == thread["sender_id"];
        let mut messages = thread["messages"].as_array().into_iter().flatten().filter(by_sender);
        let Some(message) = messages.find(|message| message["sequence_no"].as_i64() > Some(done)) else {
            bell.recv().await;
            continue;
        };
        let place = message["sequence_no"].as_i64().unwrap_or_default();
        let pending = status["state"] == "pending";
        let mut handoff = Handoff { relay: &relay, id: &id, pending, place, taken: 0, asked: place };
        if let Err(refusal) = work(&mut handoff, message).await {
            eprintln!("{id} from {sender}: {refusal}");
        }
        done = handoff.asked;
    }
}

/// A thread, while a message in it is worked on.
pub struct Handoff<'a> {
    relay: &'a Relay,
    id: &'a str,
    /// Whether it waits to be accepted.
    pub pending: bool,
    /// The message's place in the thread.
    place: i64,
    /// How many steps were taken.
    taken: usize,
    /// The place of the question that was asked: the sender's next message after it is the answer.
    asked: i64,
}

impl Handoff<'_> {
    /// Takes a step, once: its key is the same after a restart, and no other step has it.
    pub async fn step(&mut self, transition: &str, mut with: Value) -> Result<(), Refusal> {
        self.taken += 1;
        if transition == "accept" && !self.pending {
            return Ok(());
        }
        let key = format!("{}/{}/{}", self.id, self.place, self.taken);
        with["task_id"] = json!(self.id);
        with["transition"] = json!(transition);
        with["metadata"] = json!({"client_idempotency_key": key});
        match self.relay.call("tasks/update", with).await {
            Ok(answer) if transition == "request_input" => {
                self.asked = answer["sequence_no"].as_i64().unwrap_or(self.place);
            }
            // Taken before a restart, in other words: work need not come to the same result twice.
            Err(refusal) if refusal.symbol != "duplicate_idempotency_key" => return Err(refusal),
            _ => {}
        }
        Ok(())
    }
}
