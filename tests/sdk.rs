//! A2A clients as people have them: the official SDKs in their newest versions, over each transport that they speak.
//!
//! Each tells the same story, step by step; `story` is what they must have found. Python's and JavaScript's are programs of
//! their own that print a line for each step, and what they need is installed under `target/sdk`. The agent at the other
//! end is the worker example.

mod documented;
mod install;
mod story;
mod rust;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agentrelay::api::Settings;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Agent, TestRelay, settings};
use crate::worker::Worker;

/// Longest that one story may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The SDKs that have programs of their own.
#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    JavaScript,
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_json_rpc() {
    the_program_tells_its_story(Sdk::Python, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_http_json() {
    the_program_tells_its_story(Sdk::Python, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_grpc() {
    the_program_tells_its_story(Sdk::Python, "GRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_json_rpc() {
    the_program_tells_its_story(Sdk::JavaScript, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_http_json() {
    the_program_tells_its_story(Sdk::JavaScript, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_grpc() {
    the_program_tells_its_story(Sdk::JavaScript, "GRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_over_json_rpc() {
    the_rust_client_tells_its_story("JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_over_http_json() {
    the_rust_client_tells_its_story("HTTP+JSON").await;
}

async fn the_program_tells_its_story(sdk: Sdk, transport: &str) {
    let program = match sdk {
        Sdk::Python => install::python(),
        Sdk::JavaScript => install::javascript(),
    };
    let steps = Stage::set().await.run(program, transport).await;
    compare(&steps, &story::of(story::refusals(sdk, transport)));
}

async fn the_rust_client_tells_its_story(transport: &str) {
    let stage = Stage::set().await;
    let telling = rust::tell(&stage.url, &stage.bob.key, transport);
    let steps = tokio::time::timeout(PATIENCE, telling).await.expect("its end in time");
    let mut wanted = story::of([""; 4]);
    wanted.retain(|step| ["parts", "webhooks", "told", "refusals"].iter().all(|other| step["step"] != *other));
    compare(&steps, &wanted);
}

#[track_caller]
fn compare(steps: &[Value], wanted: &[Value]) {
    for (step, wanted) in steps.iter().zip(wanted) {
        assert_eq!(step, wanted);
    }
    assert_eq!(steps.len(), wanted.len());
}

/// A program, ready to run.
struct Program {
    interpreter: PathBuf,
    script: PathBuf,
}

/// Frank at work, and those who call him.
struct Stage {
    /// Frank's base URL.
    url: String,
    bob: Agent,
    worker: Worker,
    /// Whom the relay turns away, by the names that the programs know.
    turned_away: [(&'static str, String); 4],
    _relays: [TestRelay; 2],
}

impl Stage {
    async fn set() -> Stage {
        let relay = TestRelay::with(Settings { rate_limit: 0, allow_private_webhooks: true, ..settings() }).await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (mallory, dora) = (relay.agent("mallory@acme").await, relay.agent("dora@acme").await);
        frank.rest_with("PUT", "/agents/me/card", json!({ "role": "backend" })).await;
        frank.block(&mallory).await;
        relay.admin("DELETE", &format!("/admin/agents/{}", dora.id), Value::Null).await;
        let strict = TestRelay::with(Settings { rate_limit: 1, ..settings() }).await;
        let (carol, _) = (strict.agent("carol@acme").await, strict.agent("frank@acme").await);
        let worker = Worker::start(&relay, &frank);
        worker.says("waits").await;
        let url = |relay: &TestRelay| format!("{}/a2a/frank@acme", relay.url);
        let turned_away = [
            ("A2A_KEY_DISABLED", dora.key),
            ("A2A_KEY_BLOCKED", mallory.key),
            ("A2A_LIMITED_URL", url(&strict)),
            ("A2A_LIMITED_KEY", carol.key),
        ];
        Stage { url: url(&relay), bob, worker, turned_away, _relays: [relay, strict] }
    }

    /// Runs a program to its end; gives the steps that it printed.
    async fn run(&self, program: &Program, transport: &str) -> Vec<Value> {
        let running = Command::new(&program.interpreter)
            .arg(&program.script)
            .envs([("A2A_URL", &*self.url), ("A2A_KEY", &*self.bob.key), ("A2A_TRANSPORT", transport)])
            .envs(self.turned_away.iter().map(|(name, value)| (name, value)))
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, running).await.expect("its end in time").expect("a program");
        let [printed, complaint] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{printed}\n{complaint}\nthe worker: {}", self.worker.log());
        printed.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
    }
}
