//! A2A clients as people have them: the official SDKs in their newest versions, over each transport that they speak.
//!
//! Each SDK tells the same story, in a program of its own that prints a line for each step. `story` is what they must have
//! found. The agent at the other end is the worker example. What the programs need is installed under `target/sdk`.

mod install;
mod story;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agentrelay::api::Settings;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{TestRelay, settings};
use crate::worker::Worker;

/// Longest that one program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The SDKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdk {
    Python,
    JavaScript,
}

/// A program, ready to run.
struct Program {
    interpreter: PathBuf,
    script: PathBuf,
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_json_rpc() {
    tells_its_story(Sdk::Python, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_http_json() {
    tells_its_story(Sdk::Python, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_over_grpc() {
    tells_its_story(Sdk::Python, "GRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_json_rpc() {
    tells_its_story(Sdk::JavaScript, "JSONRPC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_http_json() {
    tells_its_story(Sdk::JavaScript, "HTTP+JSON").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_over_grpc() {
    tells_its_story(Sdk::JavaScript, "GRPC").await;
}

/// Runs the program against an agent at work, and compares what it prints.
async fn tells_its_story(sdk: Sdk, transport: &str) {
    let program = match sdk {
        Sdk::Python => install::python(),
        Sdk::JavaScript => install::javascript(),
    };
    let relay = TestRelay::with(Settings { rate_limit: 0, allow_private_webhooks: true, ..settings() }).await;
    let (bob, frank) = relay.bob_and_frank().await;
    let (mallory, dora) = (relay.agent("mallory@acme").await, relay.agent("dora@acme").await);
    frank.block(&mallory).await;
    relay.admin("DELETE", &format!("/admin/agents/{}", dora.id), Value::Null).await;
    frank.rest_with("PUT", "/agents/me/card", json!({ "role": "backend" })).await;
    let worker = Worker::start(&relay, &frank);
    worker.says("waits").await;
    let strict = TestRelay::with(Settings { rate_limit: 1, ..settings() }).await;
    let (carol, _) = (strict.agent("carol@acme").await, strict.agent("frank@acme").await);

    let running = Command::new(&program.interpreter)
        .arg(&program.script)
        .env("A2A_URL", format!("{}/a2a/frank@acme", relay.url))
        .env("A2A_TRANSPORT", transport)
        .env("A2A_KEY", &bob.key)
        .env("A2A_KEY_DISABLED", &dora.key)
        .env("A2A_KEY_BLOCKED", &mallory.key)
        .env("A2A_LIMITED_URL", format!("{}/a2a/frank@acme", strict.url))
        .env("A2A_LIMITED_KEY", &carol.key)
        .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, running).await.expect("its end in time").expect("a program");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{sdk:?} over {transport}: {printed}\n{complaint}\nthe worker: {}", worker.log());
    let steps: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    let wanted = story::of(sdk, transport);
    for (step, wanted) in steps.iter().zip(&wanted) {
        assert_eq!(step, wanted, "{sdk:?} over {transport}");
    }
    assert_eq!(steps.len(), wanted.len(), "{sdk:?} over {transport}: {printed}");
}
