//! What a client library hides: requests as bytes, streams event by event, and answers with their ids and times
//! taken out, so that the whole of an answer can be compared.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Agent, Answer};

/// Nothing here takes this long; a test that waits for more has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Completes with the work, which must be done before patience ends.
#[track_caller]
pub fn soon<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("{caller}: nothing came for {PATIENCE:?}"))
    }
}

/// The value with each id, time and key replaced by a word for what it is.
pub fn masked(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(masked_text(text)),
        Value::Array(elements) => elements.iter().map(masked).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), masked(value))).collect(),
        other => other.clone(),
    }
}

fn masked_text(text: &str) -> &str {
    if is_ulid(text) {
        "ID"
    } else if is_time(text) {
        "TIME"
    } else if text.strip_prefix("req_").is_some_and(is_ulid) {
        "REQUEST"
    } else if is_key(text) {
        "KEY"
    } else {
        text
    }
}

/// 26 characters of Crockford's alphabet, upper case.
pub fn is_ulid(text: &str) -> bool {
    let crockford = |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(&byte));
    text.len() == 26 && text.bytes().all(crockford)
}

/// RFC 3339 with milliseconds and `Z`.
pub fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    shape == "0000-00-00T00:00:00.000Z"
}

/// `ah_live_` and 32 characters of base32.
pub fn is_key(text: &str) -> bool {
    let base32 = |byte: u8| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte);
    text.strip_prefix("ah_live_").is_some_and(|secret| secret.len() == 32 && secret.bytes().all(base32))
}

/// Connects to the relay at `url`.
pub async fn connect(url: &str) -> TcpStream {
    TcpStream::connect(url.trim_start_matches("http://")).await.expect("a connection")
}

/// Sends these bytes and reads the answer. They ask for the connection to be closed after it.
pub async fn raw(url: &str, request: impl AsRef<[u8]>) -> Answer {
    let mut tcp = connect(url).await;
    tcp.write_all(request.as_ref()).await.expect("sent");
    read_answer(tcp).await
}

/// A request without a body, whose path goes out as it is: client libraries tidy `..` and `%2e` away.
pub async fn bare(url: &str, method: &str, path: &str, key: &str) -> Answer {
    raw(
        url,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        ),
    )
    .await
}

/// Reads an answer after which the relay closes the connection.
pub async fn read_answer(mut tcp: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A relay that refuses a body which it did not read may reset the connection after its answer.
    let _ = soon(tcp.read_to_end(&mut bytes)).await;
    parse_answer(&String::from_utf8(bytes).expect("text"))
}

/// Reads `HTTP/1.1 200 OK`, headers and a body that has a length or ends with the connection.
fn parse_answer(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers: HeaderMap = lines.map(header).collect();
    assert!(headers.get("transfer-encoding").is_none(), "{head}");
    Answer { status: status.expect("a status"), headers, text: body.to_owned() }
}

fn header(line: &str) -> (HeaderName, HeaderValue) {
    let (name, value) = line.split_once(": ").expect("a header");
    (name.parse().expect("a name"), value.parse().expect("a value"))
}

/// An event of a stream (HTML, section 9.2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamEvent {
    pub id: Option<i64>,
    pub kind: String,
    pub data: Value,
    /// What the client is told in comments and `retry`.
    pub aside: Vec<String>,
}

/// A stream of events, read as far as somebody asked.
pub struct EventStream {
    response: reqwest::Response,
    buffer: Buffer,
}

impl EventStream {
    /// Follows `path` from the event `after` on, as a client that connects again.
    pub async fn open(agent: &Agent, path: &str, after: Option<i64>) -> EventStream {
        let mut request = agent.http.get(format!("{}{path}", agent.url)).bearer_auth(&agent.key);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let response = soon(request.send()).await.expect("an answer");
        assert_eq!(response.status(), 200);
        EventStream { response, buffer: Buffer::default() }
    }

    /// The next event or aside; `None` at the end of the stream.
    pub async fn next_any(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.buffer.next() {
                return Some(event);
            }
            let chunk = soon(self.response.chunk()).await.expect("a stream that ends as it should")?;
            self.buffer.0.extend_from_slice(&chunk);
        }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            let event = self.next_any().await?;
            if !event.kind.is_empty() {
                return Some(event);
            }
        }
    }

    /// So many events.
    pub async fn take(&mut self, count: usize) -> Vec<StreamEvent> {
        let mut events = Vec::with_capacity(count);
        while events.len() < count {
            events.push(self.next().await.expect("a stream that goes on"));
        }
        events
    }

    /// Everything to the end of the stream.
    pub async fn rest(mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// The bytes of a stream that belong to no event yet.
#[derive(Default)]
pub struct Buffer(pub Vec<u8>);

impl Buffer {
    /// The next event that is whole.
    pub fn next(&mut self) -> Option<StreamEvent> {
        let end = self.0.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.0.drain(..end + 2).collect();
        let mut event = StreamEvent::default();
        for line in String::from_utf8(block).expect("text").lines().filter(|line| !line.is_empty()) {
            match line.split_once(": ").unwrap_or((line, "")) {
                ("id", id) => event.id = Some(id.parse().expect("a number")),
                ("event", kind) => kind.clone_into(&mut event.kind),
                ("data", data) => event.data = serde_json::from_str(data).expect("JSON"),
                _ => event.aside.push(line.to_owned()),
            }
        }
        Some(event)
    }
}
