//! Two agents through one handoff, against a running relay.
//!
//! ```text
//! agentrelay serve                                       # in another terminal
//! export BOB_KEY=$(agentrelay agent create bob@acme)
//! export FRANK_KEY=$(agentrelay agent create frank@acme)
//! cargo run --example handoff
//! ```
//!
//! `RELAY_URL` names a relay that is elsewhere than at `http://127.0.0.1:7420`. Bob and Frank are one program here so
//! that the story can be read from top to bottom; in life each is a coding agent on its own machine.

use std::env;
use std::error::Error;

use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::var("RELAY_URL").unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let bob = Agent::new(&url, &env::var("BOB_KEY").map_err(|_| "set BOB_KEY to the key of the agent that sends")?);
    let frank = Agent::new(&url, &env::var("FRANK_KEY").map_err(|_| "set FRANK_KEY to the key of the other agent")?);

    // A key says who is calling: nobody has to name itself.
    let (bobs_handle, franks_handle) = (bob.handle().await?, frank.handle().await?);
    println!("{bobs_handle} hands something to {franks_handle}");

    // Bob sends a handoff. Once this is answered it is on the relay's disk and waits for Frank, whether or not he is
    // there. The idempotency key makes it safe to send again after a lost answer.
    let message = text("GET /orders answers in pages now. Please move the web client over.");
    let sent = bob
        .call(
            "message/send",
            json!({
                "recipient": franks_handle,
                "message": message,
                "artifacts": [{"type": "file_diff", "path": "api/orders.py", "diff": "@@ -12 +12 @@\n-rows\n+page\n"}],
                "metadata": {"client_idempotency_key": format!("handoff-{}", std::process::id())},
            }),
        )
        .await?;
    let task = sent["task_id"].clone();
    println!("sent: {}", state(&sent));

    // Frank finds it in his inbox, newest first, and accepts it: from now on Bob knows that somebody works on it.
    let inbox = frank.call("tasks/list", json!({"filter": {"status": ["pending"]}, "page": {"limit": 1}})).await?;
    println!("in Frank's inbox: {}", words(&inbox["items"][0]["summary_preview"]));
    let accepted = frank.step(&task, "accept", json!({"session_id": "example"})).await?;
    println!("accepted: {}", state(&accepted));

    // Frank needs to know something. The thread waits for Bob, and Bob's answer sets it going again.
    let asked = frank.step(&task, "request_input", json!({"message": text("How many rows has a page?")})).await?;
    println!("asked: {}", state(&asked));
    let answered = bob.call("message/send", json!({"task_id": task, "message": text("Fifty.")})).await?;
    println!("answered: {}", state(&answered));

    // Frank is done. The summary and the artifacts are for Bob.
    let result = json!({
        "result_summary": "The web client reads pages; all tests pass.",
        "artifacts": [{"type": "link", "url": "https://git.example/web/pull/88"}],
    });
    let completed = frank.step(&task, "complete", result).await?;
    println!("completed: {}", state(&completed));

    // Bob reads the whole thread.
    let thread = bob.call("tasks/get", json!({"task_id": task})).await?;
    for message in thread["messages"].as_array().into_iter().flatten() {
        println!("  {} {}: {}", message["sequence_no"], words(&message["from"]), words(&message["body"]));
    }
    println!("  result: {}", words(&thread["completed_summary"]));
    Ok(())
}

/// One side of the story: whoever holds the key.
struct Agent {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl Agent {
    fn new(url: &str, key: &str) -> Agent {
        Agent { http: reqwest::Client::new(), url: url.to_owned(), key: key.to_owned() }
    }

    async fn handle(&self) -> Result<String> {
        let request = self.http.get(format!("{}/agents/me", self.url)).bearer_auth(&self.key);
        let me: Value = request.send().await?.error_for_status()?.json().await?;
        Ok(words(&me["handle"]).to_owned())
    }

    /// Calls a method of the relay; its result.
    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.http.post(format!("{}/a2a", self.url)).bearer_auth(&self.key).json(&call);
        let mut answer: Value = request.send().await?.json().await?;
        // The symbol is what a program decides by; the message is for people and may change.
        if let Some(error) = answer.get("error") {
            return Err(format!("{method}: {} ({})", error["message"], error["data"]["code"]).into());
        }
        Ok(answer["result"].take())
    }

    /// Takes a step in a thread.
    async fn step(&self, task: &Value, transition: &str, with: Value) -> Result<Value> {
        let mut params = with;
        params["task_id"] = task.clone();
        params["transition"] = json!(transition);
        self.call("tasks/update", params).await
    }
}

/// A message of one text.
fn text(text: &str) -> Value {
    json!({"role": "user", "parts": [{"type": "text", "text": text}]})
}

/// Where the thread stands: one of four states, and a detail where it says more.
fn state(answer: &Value) -> String {
    let status = &answer["status"];
    let detail = status["detail"].as_str().map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{}{detail}", words(&status["state"]))
}

fn words(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
