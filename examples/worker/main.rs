//! An agent behind its mailbox: a template for your own.
//!
//! ```text
//! agentrelay serve                                            # in another terminal
//! export AGENTRELAY_KEY=$(agentrelay agent create frank@acme)
//! cargo run --example worker
//! ```
//!
//! `AGENTRELAY_URL` names a relay that is elsewhere than at `http://127.0.0.1:7420`. Replace [`work`], which says what this
//! agent does with what it is sent, and keep the rest: `mailbox.rs` follows the mailbox and lets no thread wait for
//! another, and `relay.rs` makes the calls. They go on where they were after a cut, a restart of the relay, or their own.
//!
//! The work here is what the official A2A compatibility kit expects. The kit says what by how its messages' ids begin.

mod mailbox;
mod relay;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mailbox::{Handoff, follow};
use crate::relay::{Refusal, Relay};

#[tokio::main]
async fn main() -> ExitCode {
    let url = env::var("AGENTRELAY_URL").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let Ok(key) = env::var("AGENTRELAY_KEY") else {
        eprintln!("set AGENTRELAY_KEY to the key of the agent that works here");
        return ExitCode::from(2);
    };
    let Err(refusal) = follow(Relay::new(&url, &key)).await;
    eprintln!("{refusal}");
    ExitCode::FAILURE
}

/// What this agent does with a message: the first one of a thread, or the answer to a question that it asked there. It
/// may take its time; other threads go on meanwhile. A step that is refused ends it, for the thread has moved on.
pub async fn work(thread: &mut Handoff<'_>, message: &Value) -> Result<(), Refusal> {
    let id = message["envelope"]["message_id"].as_str().unwrap_or_default();
    let is = |kind: &str| id.starts_with(kind);

    // A reply that needs no work ends the thread at once, and so does a refusal.
    if is("tck-message-response") && thread.pending {
        return thread.step("answer", json!({"message": text("Direct message response")})).await;
    }
    if is("tck-reject-task") {
        return thread.step("reject", json!({"message": text("rejected")})).await;
    }
    thread.step("accept", json!({})).await?;
    if is("tck-input-required") {
        return thread.step("request_input", json!({"message": text("What else should I know?")})).await;
    }
    if let Some(part) = output(id) {
        let artifact = json!({"type": "parts", "artifact_id": "output", "name": "Output", "parts": [part]});
        if !is("tck-stream") {
            return thread.step("complete", json!({"artifacts": [artifact]})).await;
        }
        // What there is can be shown while the work goes on.
        thread.step("progress", json!({"artifacts": [artifact]})).await?;
        return thread.step("complete", json!({})).await;
    }
    if is("tck-delayed-complete") {
        tokio::time::sleep(Duration::from_secs(2)).await;
        return thread.step("complete", json!({"message": text("Done after delay")})).await;
    }
    let said = if is("tck-message-response") { "Direct message response" } else { "Hello from TCK" };
    thread.step("complete", json!({"message": text(said)})).await
}

/// What a message asks for, as a part of an artifact.
fn output(id: &str) -> Option<Value> {
    let file = json!({"raw": "dGNr", "filename": "output.txt", "media_type": "text/plain"});
    let url = json!({"url": "https://example.com/output.txt", "filename": "output.txt", "media_type": "text/plain"});
    // Of those that begin alike the longest stands first.
    let outputs = [
        ("tck-artifact-text", json!({"text": "Generated text content"})),
        ("tck-artifact-file-url", url),
        ("tck-artifact-file", file.clone()),
        ("tck-artifact-data", json!({"data": {"key": "value", "count": 42}})),
        ("tck-stream-001", json!({"text": "Stream hello from TCK"})),
        ("tck-stream-003", json!({"text": "Stream task lifecycle"})),
        ("tck-stream-ordering-001", json!({"text": "Ordered output"})),
        ("tck-stream-artifact-text", json!({"text": "Streamed text content"})),
        ("tck-stream-artifact-file", file),
    ];
    outputs.into_iter().find(|(kind, _)| id.starts_with(kind)).map(|(_, part)| part)
}

/// A message of one text.
fn text(text: &str) -> Value {
    json!({"parts": [{"type": "text", "text": text}]})
}
