//! A relay is killed, again and again, in the middle of its work. What it acknowledged is there, once; nothing is there
//! by half; and whoever got no answer asks again and gets what it wanted, once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Agent, RelayProcess, message};
use crate::{consistency, storage};

/// How often the relay is killed.
const ROUNDS: u64 = 24;
/// How many agents send at the same time.
const SENDERS: usize = 10;

/// A call with an idempotency key, which says in its message who it is: `sender/number`.
#[derive(Clone, Debug)]
struct Call {
    name: String,
    method: &'static str,
    params: Value,
}

/// An agent that sends without end, and remembers what was acknowledged.
struct Sender {
    agent: Agent,
    made: usize,
    /// The thread that it is talking in.
    thread: Option<String>,
    /// What was answered to each call that was.
    acknowledged: HashMap<String, (Call, String)>,
    /// The call that got no answer.
    pending: Option<Call>,
}

impl Sender {
    /// The next call: a handoff, and then messages into its thread.
    fn next_call(&mut self) -> Call {
        self.made += 1;
        let name = format!("{}/{}", self.agent.handle, self.made);
        let mut params = json!({ "message": message(&name), "metadata": { "client_idempotency_key": name } });
        match &self.thread {
            Some(thread) if !self.made.is_multiple_of(4) => params["task_id"] = json!(thread),
            _ => params["recipient"] = json!("frank@acme"),
        }
        Call { name, method: "message/send", params }
    }

    /// Sends until the relay is gone, first of all the call that got no answer.
    async fn send_until_the_end(mut self, url: String, answered: Arc<AtomicUsize>) -> Sender {
        self.agent.url = url;
        loop {
            let call = match self.pending.take() {
                Some(call) => call,
                None => self.next_call(),
            };
            let Some(answer) = self.ask(&call).await else {
                self.pending = Some(call);
                return self;
            };
            let body: Value = serde_json::from_str(&answer).expect("JSON");
            self.thread = body["result"]["task_id"].as_str().map(ToOwned::to_owned);
            assert!(self.thread.is_some(), "{call:?}: {answer}");
            self.acknowledged.insert(call.name.clone(), (call, answer));
            answered.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The whole answer; `None` when the connection broke before it was there.
    async fn ask(&self, call: &Call) -> Option<String> {
        let body = json!({ "jsonrpc": "2.0", "id": "req-1", "method": call.method, "params": call.params });
        let request = self.agent.http.post(format!("{}/a2a", self.agent.url)).bearer_auth(&self.agent.key);
        let answer = request.header("content-type", "application/json").body(body.to_string()).send().await.ok()?;
        let status = answer.status();
        let text = answer.text().await.ok()?;
        assert_eq!(status, 200, "{call:?}: {text}");
        Some(text)
    }
}

/// Senders, and Frank to whom they send, in a file that no relay serves yet.
async fn senders(path: &Path) -> Vec<Sender> {
    let relay = agentrelay::relay::Relay::new(storage::open(path));
    storage::agent(&relay, "frank@acme").await;
    let mut senders = Vec::new();
    for number in 0..SENDERS {
        let agent = storage::agent_with_key(&relay, "", &format!("sender-{number}@acme")).await;
        senders.push(Sender { agent, made: 0, thread: None, acknowledged: HashMap::new(), pending: None });
    }
    senders
}

/// The file as the crash left it, copied so that only a relay ever repairs the original.
fn copy(path: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("after-crash.db");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(path), name(&copy)).expect("a copy");
    }
    let _ = std::fs::remove_file(folder.join("after-crash.db-shm"));
    copy
}

/// The messages in the file by their text: how often each is there, and its thread, id and place.
fn messages(conn: &Connection) -> HashMap<String, (i64, Value)> {
    use agentrelay::domain::id::{MessageId, ThreadId};
    let mut statement = conn
        .prepare(
            "SELECT body, count(*), threads.ulid, messages.ulid, sequence_no
             FROM messages JOIN threads ON threads.id = messages.thread GROUP BY body",
        )
        .expect("a query");
    let rows = statement.query_map([], |row| {
        let (thread, id): (ThreadId, MessageId) = (row.get(2)?, row.get(3)?);
        let place = json!([thread.to_string(), id.to_string(), row.get::<_, i64>(4)?]);
        Ok((row.get(0)?, (row.get(1)?, place)))
    });
    rows.expect("messages").map(|row| row.expect("a message")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_before_a_kill_is_there_once_and_nothing_by_half() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let mut senders = senders(&path).await;
    let mut done_but_unanswered = 0;
    for round in 0..ROUNDS {
        let relay = RelayProcess::start(&path, &[]);
        let answered = Arc::new(AtomicUsize::new(0));
        let mut sending = tokio::task::JoinSet::new();
        for sender in senders.drain(..) {
            sending.spawn(sender.send_until_the_end(relay.url.clone(), answered.clone()));
        }
        // Some rounds end before the first answer, while the file is repaired and calls are asked again; the others at a
        // moment that has nothing to do with what the relay does.
        while round % 5 != 4 && answered.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(round * 83 % 220)).await;
        relay.kill();
        senders = sending.join_all().await;

        let conn = Connection::open(copy(&path, folder.path())).expect("the file after the crash");
        consistency::check(&conn);
        let found = messages(&conn);
        for sender in &senders {
            for (name, (_, answer)) in &sender.acknowledged {
                let result = &serde_json::from_str::<Value>(answer).expect("JSON")["result"];
                let place = json!([result["task_id"], result["message_id"], result["sequence_no"]]);
                assert_eq!(found.get(name), Some(&(1, place)), "{name}, acknowledged in round {round} or before");
            }
            if let Some((times, _)) = sender.pending.as_ref().and_then(|call| found.get(&call.name)) {
                assert_eq!(*times, 1, "{:?}", sender.pending);
                done_but_unanswered += 1;
            }
        }
        let acknowledged: usize = senders.iter().map(|sender| sender.acknowledged.len()).sum();
        let unanswered = senders.iter().filter(|sender| sender.pending.is_some()).count();
        assert!(found.len() <= acknowledged + unanswered, "nothing is there that nobody sent");
    }
    assert!(done_but_unanswered > 0, "no kill came between a commit and its answer, where retries matter most");

    // In the end everybody asks again for everything, and nothing more is made.
    let relay = RelayProcess::start(&path, &[]);
    for sender in &mut senders {
        sender.agent.url.clone_from(&relay.url);
        let call = sender.pending.take().expect("the last call");
        sender.ask(&call).await.expect("an answer");
        let last = sender.acknowledged.values().take(20);
        for (call, answer) in last {
            assert_eq!(sender.ask(call).await.as_ref(), Some(answer), "{call:?}");
        }
    }
    let conn = Connection::open(&path).expect("the file");
    consistency::check(&conn);
    let found = messages(&conn);
    let made: usize = senders.iter().map(|sender| sender.made).sum();
    assert_eq!(found.len(), made, "each call was done");
    assert!(found.values().all(|(times, _)| *times == 1), "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_was_killed_is_ready_again_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let mut senders = senders(&path).await;
    let relay = RelayProcess::start(&path, &[]);
    let mut sender = senders.remove(0);
    sender.agent.url.clone_from(&relay.url);
    let call = sender.next_call();
    let answer = sender.ask(&call).await;
    relay.kill();

    let begun = Instant::now();
    let relay = RelayProcess::start(&path, &[]);
    sender.agent.url.clone_from(&relay.url);
    assert_eq!(sender.ask(&call).await, answer);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
