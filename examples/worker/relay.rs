//! The relay, as the holder of a key sees it: calls that are made until there is an answer.

use std::fmt;
use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Longest wait for the answer to a call.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Most calls at once.
const CALLS_MAX: usize = 32;
/// The pauses between attempts, in seconds. The last one repeats.
const PAUSES_S: [u64; 6] = [1, 2, 4, 8, 16, 30];

pub struct Relay {
    http: reqwest::Client,
    url: String,
    key: String,
    turns: Semaphore,
}

impl Relay {
    pub fn new(url: &str, key: &str) -> Relay {
        let (url, key) = (url.trim_end_matches('/').to_owned(), key.trim().to_owned());
        Relay { http: reqwest::Client::new(), url, key, turns: Semaphore::new(CALLS_MAX) }
    }

    /// Calls a method; its result.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, Refusal> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self.ask(|| self.http.post(format!("{}/a2a", self.url)).json(&call)).await?;
        Ok(answer["result"].clone())
    }

    /// Reads a document.
    pub async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.ask(|| self.http.get(format!("{}{path}", self.url))).await
    }

    /// Opens a stream of what comes after the event with this id.
    pub async fn stream(&self, path: &str, after: i64) -> Result<Response, Refusal> {
        self.send(self.http.get(format!("{}{path}", self.url)).header("last-event-id", after)).await
    }

    async fn ask(&self, request: impl Fn() -> RequestBuilder) -> Result<Value, Refusal> {
        let ask_once = async || {
            let _turn = self.turns.acquire().await;
            Ok(self.send(request().timeout(ANSWER_MAX)).await?.json().await?)
        };
        let mut pauses = Pauses::default();
        loop {
            match ask_once().await {
                Err(Refusal { passing: true, message, wait, .. }) => pauses.rest(&message, wait).await,
                answer => return answer,
            }
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Refusal> {
        let answer = request.bearer_auth(&self.key).send().await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let passing = status.is_server_error() || status == 429;
        let wait = answer.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse().ok());
        // A call has its symbol in `error.data`, everything else at the top.
        let body: Value = answer.json().await.unwrap_or_default();
        let error = body.get("error").unwrap_or(&body);
        let symbol = error["data"]["code"].as_str().or(error["code"].as_str()).unwrap_or(status.as_str()).to_owned();
        let message = error["message"].as_str().unwrap_or("the relay refused").to_owned();
        Err(Refusal { symbol, message, passing, wait: wait.map(Duration::from_secs) })
    }
}

/// Why there is no answer, or why it is no.
pub struct Refusal {
    /// What a program decides by.
    pub symbol: String,
    /// The same for people.
    pub message: String,
    /// Whether it may work later: after `wait`, when the relay said so.
    pub passing: bool,
    pub wait: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.symbol)
    }
}

impl From<reqwest::Error> for Refusal {
    fn from(error: reqwest::Error) -> Refusal {
        let passing = !error.is_builder();
        Refusal { symbol: "no_answer".to_owned(), message: error.to_string(), passing, wait: None }
    }
}

/// The growing pauses between attempts.
#[derive(Default)]
pub struct Pauses(usize);

impl Pauses {
    pub async fn rest(&mut self, why: &str, wait: Option<Duration>) {
        let pause = wait.unwrap_or(Duration::from_secs(PAUSES_S[self.0.min(PAUSES_S.len() - 1)]));
        self.0 += 1;
        eprintln!("{why}; again in {} s", pause.as_secs());
        sleep(pause).await;
    }
}
