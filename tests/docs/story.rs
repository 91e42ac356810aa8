//! The examples of the protocol's document, called one after the other on a real relay.
//!
//! A block labelled `call: bob` is what Bob sends: in JSON a body for `POST /a2a`, in HTTP a whole request. With
//! `call: bob 61 times` it is sent so often to a relay of its own, and the last answer counts. The block labelled
//! `answer` that follows is what he gets. A block labelled `shown` is not executed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::error::Symbol;
use agentrelay::relay::Actor;
use serde_json::Value;

use crate::docs::likeness::Likeness;
use crate::docs::page::{Block, Page};
use crate::support::{ADMIN_TOKEN, TestRelay, settings};

/// How long an example may take. The longest wait in the document is shorter.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who acts: name and role.
const CAST: [(&str, &str, Option<&str>); 3] =
    [("bob", "Bob", Some("backend")), ("frank", "Frank", Some("frontend")), ("mallory", "Mallory", None)];

pub struct Story {
    relay: TestRelay,
    keys: BTreeMap<&'static str, String>,
    likeness: Likeness,
    /// Method and path of each call.
    pub calls: Vec<(String, String)>,
    /// JSON-RPC methods, with the transition where there is one.
    pub methods: Vec<String>,
    /// What was not as the document shows it.
    pub differences: String,
}

/// What an example says of a request or an answer.
struct Message {
    start: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Story {
    /// Runs every example of the page.
    pub async fn of(page: &Page) -> Story {
        let mut story = Story::begin(TestRelay::start().await).await;
        let mut answer = None;
        for block in page.blocks() {
            let at = format!("{}:{} ({})", page.name, block.line, block.heading);
            match block.label.split_whitespace().collect::<Vec<_>>()[..] {
                ["call:", who] => answer = Some((who.to_owned(), story.call(who, &block).await)),
                ["call:", who, count, "times"] => {
                    let mut apart = Story::begin(TestRelay::with(settings()).await).await;
                    for _ in 0..count.parse().expect("a number") {
                        answer = Some((who.to_owned(), apart.call(who, &block).await));
                    }
                }
                ["answer"] => {
                    let (who, answer) = answer.take().unwrap_or_else(|| panic!("{at}: an answer without a call"));
                    let answer = story.expect(&at, &block, answer).await;
                    story.take_new_key(&who, &answer);
                }
                ["shown"] => {}
                _ if matches!(&*block.language, "json" | "http") => panic!("{at}: the example has no label"),
                _ => {}
            }
        }
        story
    }

    async fn begin(relay: TestRelay) -> Story {
        let mut keys = BTreeMap::new();
        for (who, name, role) in CAST {
            let handle = Handle::parse(&format!("{who}@acme")).expect("a handle");
            let role = role.map(ToOwned::to_owned);
            let agent = NewAgent { handle, name: Some(name.to_owned()), email: None, role };
            let made = relay.relay.create_agent(Actor::operator("req_docs"), agent, KeyOptions::default()).await;
            keys.insert(who, made.expect("an agent").1.key.reveal().to_owned());
        }
        keys.insert("operator", ADMIN_TOKEN.to_owned());
        let (calls, methods) = (Vec::new(), Vec::new());
        let address = relay.url.strip_prefix("http://").expect("an address");
        let likeness = Likeness::default().stands_for("127.0.0.1:7420", address);
        Story { relay, keys, likeness, calls, methods, differences: String::new() }
    }

    async fn call(&mut self, who: &str, block: &Block) -> reqwest::Response {
        let text = self.likeness.translate(&block.text);
        let request = match &*block.language {
            "http" => Message::parse(&text),
            _ => Message { start: "POST /a2a HTTP/1.1".to_owned(), headers: Vec::new(), body: text },
        };
        let [method, path, _] = request.start.split(' ').collect::<Vec<_>>()[..] else {
            panic!("no request: {}", request.start);
        };
        self.calls.push((method.to_owned(), path.split('?').next().unwrap_or_default().to_owned()));
        self.note_methods(&request.body);
        let mut builder = self.relay.http.request(method.parse().expect("a method"), self.relay.url.clone() + path);
        for (name, value) in &request.headers {
            // The keys in the document open nothing.
            if name != "authorization" {
                builder = builder.header(name, value);
            }
        }
        if let Some(key) = self.keys.get(who) {
            builder = builder.bearer_auth(key);
        } else {
            assert_eq!(who, "nobody");
        }
        builder.body(request.body).send().await.expect("an answer")
    }

    fn note_methods(&mut self, body: &str) {
        let Ok(body) = serde_json::from_str::<Value>(body) else {
            return;
        };
        let calls = body.as_array().cloned().unwrap_or_else(|| vec![body]);
        for call in calls {
            let transition = call["params"]["transition"].as_str().map(|name| format!(" {name}"));
            let method = call["method"].as_str().unwrap_or_default();
            self.methods.push(format!("{method}{}", transition.unwrap_or_default()));
        }
    }

    /// Compares the answer with the one in the document; its body, when that is JSON.
    async fn expect(&mut self, at: &str, block: &Block, mut response: reqwest::Response) -> Value {
        let expected = match &*block.language {
            "http" => Message::parse(&block.text),
            _ => Message::of_json(&block.text),
        };
        let status = response.status().as_u16();
        let wanted = expected.start.split(' ').nth(1).unwrap_or_default();
        self.check(at, wanted == status.to_string(), &format!("{wanted}, not {status}"));
        for (name, value) in &expected.headers {
            let found = response.headers().get(name).map_or("", |value| value.to_str().expect("text")).to_owned();
            let same = match &**name {
                "retry-after" => found.parse::<u64>().is_ok_and(|seconds| seconds > 0),
                _ => self.likeness.same_text(name, value, &found),
            };
            self.check(at, same, &format!("{name}: {value}, not {found}"));
        }
        if expected.headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())) {
            self.expect_stream(at, &expected.body, &mut response).await;
            return Value::Null;
        }
        let found = tokio::time::timeout(PATIENCE, response.text()).await.expect("in time").expect("a body");
        if expected.body.trim().is_empty() {
            self.check(at, found.is_empty(), &format!("no body, not {found}"));
            return Value::Null;
        }
        let expected = serde_json::from_str(&expected.body).unwrap_or_else(|error| panic!("{at}: {error}"));
        let found: Value = serde_json::from_str(&found).unwrap_or_else(|error| panic!("{at}: {error}: {found}"));
        let differences = self.likeness.compare(&expected, &found);
        self.check(at, differences.is_empty(), &format!("{}\nthe answer: {found:#}", differences.join("\n")));
        found
    }

    /// A stream never ends: as many lines of it are read as the document has.
    async fn expect_stream(&mut self, at: &str, expected: &str, response: &mut reqwest::Response) {
        let mut found = String::new();
        while found.lines().count() < expected.lines().count() {
            let chunk = tokio::time::timeout(PATIENCE, response.chunk()).await.expect("in time").expect("a stream");
            found.push_str(std::str::from_utf8(&chunk.expect("more of the stream")).expect("text"));
        }
        for (expected, found) in expected.lines().zip(found.lines()) {
            let same = match (expected.split_once(": "), found.split_once(": ")) {
                (Some(("data", expected)), Some(("data", found))) => {
                    let (expected, found) = (serde_json::from_str(expected), serde_json::from_str(found));
                    self.likeness.compare(&expected.expect("JSON"), &found.expect("JSON")).is_empty()
                }
                (Some(("id", expected)), Some(("id", found))) if expected != found => {
                    self.likeness.same_place(expected.parse().ok(), found.parse().ok())
                }
                _ => expected == found,
            };
            self.check(at, same, &format!("the line '{expected}', not '{found}'"));
        }
    }

    /// Whoever rotated its key calls with the new one from then on.
    fn take_new_key(&mut self, who: &str, answer: &Value) {
        let own = self.keys.get_mut(who).filter(|_| who != "operator");
        if let (Some(own), Some(key)) = (own, answer["api_key"].as_str()) {
            key.clone_into(own);
        }
    }

    fn check(&mut self, at: &str, sound: bool, difference: &str) {
        if !sound {
            writeln!(self.differences, "{at}: {difference}").expect("memory");
        }
    }
}

impl Message {
    fn parse(text: &str) -> Message {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let start = lines.next().unwrap_or_default().to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Message { start, headers, body: body.to_owned() }
    }

    /// The answer of JSON-RPC: its status follows from its error.
    fn of_json(text: &str) -> Message {
        let body: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let symbol = body["error"]["data"]["code"].as_str();
        let symbol = symbol.map(|name| Symbol::ALL.into_iter().find(|symbol| symbol.name() == name).expect("a symbol"));
        let status = symbol.map_or(200, |symbol| symbol.row().http_status);
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Message { start: format!("HTTP/1.1 {status}"), headers, body: text.to_owned() }
    }
}
