//! A real relay on a real file, and people who call it over HTTP.

pub mod a2a;
mod answer;
mod process;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use agentrelay::api::{self, AdminToken, Settings};
use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::{Clock, Timestamp};
use agentrelay::relay::{Actor, Relay};
use agentrelay::store::{Store, StoreOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use self::answer::Answer;
pub use self::process::{RelayProcess, command, example, operate};

pub const ADMIN_TOKEN: &str = "an-admin-token-for-tests";

/// A relay that serves on a port of its own until it is dropped.
pub struct TestRelay {
    pub url: String,
    pub relay: Relay,
    pub http: reqwest::Client,
    /// What the relay's clock says, in milliseconds, when it was stopped with [`TestRelay::at`].
    pub clock: TestClock,
    folder: Arc<tempfile::TempDir>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

/// The system's clock until somebody sets it.
#[derive(Clone, Default)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        let now = self.clock().now().ms();
        self.set(now + i64::try_from(by.as_millis()).expect("a duration"));
    }

    fn clock(&self) -> Clock {
        let (fixed, system) = (self.0.clone(), Clock::system());
        Clock::new(move || match fixed.load(Ordering::SeqCst) {
            0 => system.now(),
            ms => Timestamp::from_ms(ms),
        })
    }
}

impl TestRelay {
    /// A relay without a rate limit, which most tests would run into.
    pub async fn start() -> TestRelay {
        TestRelay::with(Settings { rate_limit: 0, ..settings() }).await
    }

    pub async fn with(settings: Settings) -> TestRelay {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        TestRelay::on(folder, settings, TestClock::default(), "127.0.0.1:0").await
    }

    async fn on(folder: Arc<tempfile::TempDir>, settings: Settings, clock: TestClock, listen: &str) -> TestRelay {
        let options = StoreOptions { clock: clock.clock(), ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("relay.db"), options).expect("a data file");
        let relay = Relay::new(store);
        let listener = tokio::net::TcpListener::bind(listen).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move { drop(stopped.await) };
        let served = tokio::spawn(api::serve(listener, relay.clone(), settings, shutdown));
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        TestRelay { url, relay, http, clock, folder, stop: Some(stop), served: Some(served) }
    }

    /// Stops the server and starts another one on the same file.
    pub async fn restart(mut self, settings: Settings) -> TestRelay {
        let (folder, clock) = (self.folder.clone(), self.clock.clone());
        self.stop().await;
        drop(self);
        TestRelay::on(folder, settings, clock, "127.0.0.1:0").await
    }

    /// Stops the server for this long and starts another one on the same file, at the same address.
    pub async fn be_away_for(mut self, pause: Duration, settings: Settings) -> TestRelay {
        let (folder, clock, url) = (self.folder.clone(), self.clock.clone(), self.url.clone());
        self.stop().await;
        drop(self);
        tokio::time::sleep(pause).await;
        TestRelay::on(folder, settings, clock, url.trim_start_matches("http://")).await
    }

    /// Stops the server as SIGTERM does, and waits for it.
    pub async fn stop(&mut self) {
        self.stop.take();
        if let Some(served) = self.served.take() {
            served.await.expect("no panic").expect("a clean stop");
        }
    }

    pub fn data_file(&self) -> PathBuf {
        self.folder.path().join("relay.db")
    }

    /// A second connection to the data file, as another program would open it.
    pub fn sqlite(&self) -> rusqlite::Connection {
        let conn = rusqlite::Connection::open(self.data_file()).expect("the data file");
        conn.busy_timeout(Duration::from_secs(10)).expect("a timeout");
        conn
    }

    /// An agent with a key, and its person's verbs.
    pub async fn agent(&self, handle: &str) -> Agent {
        let new = NewAgent::with_handle(Handle::parse(handle).expect("a handle"));
        let actor = Actor::operator("req_test");
        let (agent, minted) = self.relay.create_agent(actor, new, KeyOptions::default()).await.expect("an agent");
        Agent {
            handle: handle.to_owned(),
            id: agent.id.to_string(),
            key: minted.key.reveal().to_owned(),
            url: self.url.clone(),
            http: self.http.clone(),
        }
    }

    /// Bob and Frank, who are in every story.
    pub async fn bob_and_frank(&self) -> (Agent, Agent) {
        (self.agent("bob@acme").await, self.agent("frank@acme").await)
    }

    /// A request without a key.
    pub async fn request(&self, method: &str, path: &str) -> Answer {
        let method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{}{path}", self.url));
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// A request with the admin token.
    pub async fn admin(&self, method: &str, path: &str, body: Value) -> Answer {
        let method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(ADMIN_TOKEN).json(&body);
        Answer::of(request.send().await.expect("an answer")).await
    }
}

/// Settings with an admin token.
pub fn settings() -> Settings {
    Settings { admin_token: Some(AdminToken::new(ADMIN_TOKEN)), ..Settings::default() }
}

/// Somebody with a key.
#[derive(Clone)]
pub struct Agent {
    pub handle: String,
    pub id: String,
    pub key: String,
    pub url: String,
    pub http: reqwest::Client,
}

impl Agent {
    /// The same agent with another key.
    pub fn with_key(&self, key: &str) -> Agent {
        Agent { key: key.to_owned(), ..self.clone() }
    }

    /// Calls a method of the AgentRelay protocol.
    pub async fn rpc(&self, method: &str, params: Value) -> Answer {
        self.post_a2a(json!({ "jsonrpc": "2.0", "id": "req-1", "method": method, "params": params }).to_string()).await
    }

    /// Posts a body to `/a2a` as it is.
    pub async fn post_a2a(&self, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.post(format!("{}/a2a", self.url)).bearer_auth(&self.key);
        let request = request.header("content-type", "application/json").body(body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// A REST request without a body.
    pub async fn rest(&self, method: &str, path: &str) -> Answer {
        let method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// A REST request with a body.
    pub async fn rest_with(&self, method: &str, path: &str, body: Value) -> Answer {
        let method = method.parse().expect("a method");
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key).json(&body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// Sends a new handoff; gives its task id.
    pub async fn hand_to(&self, recipient: &Agent, text: &str) -> String {
        let params = json!({ "recipient": recipient.handle, "message": message(text) });
        self.rpc("message/send", params).await.result()["task_id"].as_str().expect("a task id").to_owned()
    }

    /// Adds a message to a thread.
    pub async fn say(&self, task_id: &str, text: &str) -> Answer {
        self.rpc("message/send", json!({ "task_id": task_id, "message": message(text) })).await
    }

    /// Takes a step that carries nothing.
    pub async fn step(&self, task_id: &str, transition: &str) -> Answer {
        self.rpc("tasks/update", json!({ "task_id": task_id, "transition": transition })).await
    }

    /// Takes a step that carries what `with` holds.
    pub async fn step_with(&self, task_id: &str, transition: &str, with: Value) -> Answer {
        let mut params = json!({ "task_id": task_id, "transition": transition });
        let with = with.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(with);
        self.rpc("tasks/update", params).await
    }

    /// Reads a whole thread.
    pub async fn get(&self, task_id: &str) -> Value {
        self.rpc("tasks/get", json!({ "task_id": task_id })).await.result()
    }

    /// The first page of the inbox.
    pub async fn inbox(&self) -> Vec<Value> {
        self.rpc("tasks/list", json!({})).await.result()["items"].as_array().expect("items").clone()
    }

    pub async fn block(&self, other: &Agent) -> Answer {
        self.rest_with("POST", "/agents/me/block", json!({ "handle": other.handle })).await
    }
}

/// A message of one text part.
pub fn message(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// Metadata with an idempotency key that nobody else has.
pub fn fresh_key() -> Value {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    json!({ "client_idempotency_key": format!("key-{}", COUNT.fetch_add(1, Ordering::Relaxed)) })
}
