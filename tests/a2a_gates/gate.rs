//! A call of A2A with nothing hidden: each binding's answer down to its headers and trailers, and what it says in one
//! shape for all three.

use std::fmt;

use a2a_pb::protojson as pb;
use bytes::Bytes;
use data_encoding::{BASE64, BASE64_NOPAD};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use prost::Message;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tonic_types::pb as rpc;

use crate::support::{Agent, TestRelay};
use crate::wire::soon;

/// The three bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl Binding {
    pub const ALL: [Binding; 3] = [Binding::JsonRpc, Binding::HttpJson, Binding::Grpc];
}

/// The eleven operations.
pub const OPERATIONS: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

/// One call, before a binding is chosen.
#[derive(Clone)]
pub struct Call {
    url: String,
    operation: &'static str,
    /// Whose door: in a path or, in gRPC, the tenant.
    door: String,
    params: Value,
    query: String,
    headers: Vec<(String, String)>,
}

/// A call with `caller`'s key, of A2A 1.0, at the door of `handle`.
pub fn call(caller: &Agent, operation: &'static str, handle: &str, params: Value) -> Call {
    let headers = vec![("authorization".to_owned(), format!("Bearer {}", caller.key))];
    let call =
        Call { url: caller.url.clone(), operation, door: handle.to_owned(), params, query: String::new(), headers };
    call.header("a2a-version", "1.0")
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} {}", self.operation, self.door, self.params)
    }
}

impl Call {
    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without_header(mut self, name: &str) -> Call {
        self.headers.retain(|(own, _)| own != name);
        self
    }

    /// Further parameters of the URL, in all bindings.
    pub fn query(mut self, query: &str) -> Call {
        query.clone_into(&mut self.query);
        self
    }

    pub async fn by(&self, binding: Binding) -> Reply {
        match binding {
            Binding::JsonRpc => self.by_json_rpc().await,
            Binding::HttpJson => self.by_http_json().await,
            Binding::Grpc => self.by_grpc().await,
        }
    }

    fn handle_in_path(&self) -> String {
        utf8_percent_encode(&self.door, NON_ALPHANUMERIC).to_string()
    }

    fn header_map(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let name: HeaderName = name.parse().expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        map
    }

    async fn by_json_rpc(&self) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": "call-1", "method": self.operation, "params": self.params});
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let url = format!("{}/a2a/{}{query}", self.url, self.handle_in_path());
        Reply::of_json_rpc(http("POST", &url, self.header_map(), Some(body.to_string())).await)
    }

    async fn by_http_json(&self) -> Reply {
        let mut params = self.params.as_object().cloned().unwrap_or_default();
        let mut take = |name: &str| match params.remove(name) {
            Some(Value::String(text)) => utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string(),
            Some(other) => other.to_string(),
            None => panic!("{}: no {name}", self.operation),
        };
        let (method, path, has_body) = match self.operation {
            "SendMessage" => ("POST", "message:send".to_owned(), true),
            "SendStreamingMessage" => ("POST", "message:stream".to_owned(), true),
            "GetTask" => ("GET", format!("tasks/{}", take("id")), false),
            "ListTasks" => ("GET", "tasks".to_owned(), false),
            "CancelTask" => ("POST", format!("tasks/{}:cancel", take("id")), true),
            "SubscribeToTask" => ("POST", format!("tasks/{}:subscribe", take("id")), true),
            "CreateTaskPushNotificationConfig" => {
                ("POST", format!("tasks/{}/pushNotificationConfigs", take("taskId")), true)
            }
            "GetTaskPushNotificationConfig" => {
                let (task, id) = (take("taskId"), take("id"));
                ("GET", format!("tasks/{task}/pushNotificationConfigs/{id}"), false)
            }
            "ListTaskPushNotificationConfigs" => {
                ("GET", format!("tasks/{}/pushNotificationConfigs", take("taskId")), false)
            }
            "DeleteTaskPushNotificationConfig" => {
                let (task, id) = (take("taskId"), take("id"));
                ("DELETE", format!("tasks/{task}/pushNotificationConfigs/{id}"), false)
            }
            "GetExtendedAgentCard" => ("GET", "extendedAgentCard".to_owned(), false),
            other => panic!("no operation {other}"),
        };
        let mut query = self.query.clone();
        if !has_body {
            for (name, value) in &params {
                let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                query.extend(["&", name, "=", &utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string()]);
            }
        }
        let url = format!("{}/a2a/{}/{path}?{query}", self.url, self.handle_in_path());
        let body = has_body.then(|| Value::Object(params).to_string());
        Reply::of_http_json(http(method, &url, self.header_map(), body).await)
    }

    async fn by_grpc(&self) -> Reply {
        let mut params = self.params.clone();
        params["tenant"] = json!(self.door);
        let message = encoded(self.operation, &params);
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let path = format!("/lf.a2a.v1.A2AService/{}{query}", self.operation);
        let raw = over_http2(&self.url, &path, "application/grpc", self.header_map(), framed(&message)).await;
        Reply::of_grpc(raw, self.operation)
    }
}

/// What came back over HTTP, trailers among the headers.
#[derive(Clone, Debug)]
pub struct Raw {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Raw {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap_or("?"))
    }
}

/// A request over HTTP/1.1. Of a stream the first event is read.
pub async fn http(method: &str, url: &str, headers: HeaderMap, body: Option<String>) -> Raw {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut request = client.request(method.parse().expect("a method"), url);
    if body.is_some() && !headers.contains_key("content-type") {
        request = request.header("content-type", "application/json");
    }
    request = request.headers(headers);
    if let Some(body) = body {
        request = request.body(body);
    }
    let mut response = soon(request.send()).await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let streams = headers.get("content-type").is_some_and(|value| value.as_bytes() == b"text/event-stream");
    let mut body = Vec::new();
    while let Some(chunk) = soon(response.chunk()).await.expect("a body") {
        body.extend_from_slice(&chunk);
        if streams && body.windows(2).any(|two| two == b"\n\n") {
            break;
        }
    }
    Raw { status, headers, body }
}

/// A request over HTTP/2 without TLS. Of a stream the first message is read.
pub async fn over_http2(url: &str, path: &str, content_type: &str, headers: HeaderMap, body: Vec<u8>) -> Raw {
    let authority = url.trim_start_matches("http://");
    let tcp = TcpStream::connect(authority).await.expect("a connection");
    let (client, connection) = h2::client::handshake(tcp).await.expect("HTTP/2");
    let driven = tokio::spawn(connection);
    let mut request = http::Request::post(format!("http://{authority}{path}")).body(()).expect("a request");
    *request.headers_mut() = headers;
    if !content_type.is_empty() {
        request.headers_mut().insert("content-type", HeaderValue::from_str(content_type).expect("a value"));
    }
    request.headers_mut().insert("te", HeaderValue::from_static("trailers"));
    let mut client = soon(client.ready()).await.expect("ready");
    let (response, mut sending) = client.send_request(request, false).expect("sent");
    // A server that refuses early may not want the body.
    let _ = sending.send_data(Bytes::from(body), true);
    let response = soon(response).await.expect("an answer");
    let (status, mut headers) = (response.status().as_u16(), response.headers().clone());
    let mut receiving = response.into_body();
    let mut body = Vec::new();
    let mut whole = true;
    while let Some(chunk) = soon(receiving.data()).await {
        let Ok(chunk) = chunk else { break };
        let _ = receiving.flow_control().release_capacity(chunk.len());
        body.extend_from_slice(&chunk);
        let streams = path.contains("Streaming") || path.contains("Subscribe");
        if streams && unframed(&body).is_some() {
            whole = false;
            break;
        }
    }
    if whole && let Ok(Some(trailers)) = soon(receiving.trailers()).await {
        headers.extend(trailers);
    }
    driven.abort();
    Raw { status, headers, body }
}

/// A message of gRPC with its head: not compressed, and its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a length").to_be_bytes();
    [&[0][..], &length, message].concat()
}

fn unframed(body: &[u8]) -> Option<&[u8]> {
    let (head, rest) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    rest.get(..usize::try_from(length).ok()?)
}

/// The parameters of an operation in the generated type.
pub fn encoded(operation: &str, params: &Value) -> Vec<u8> {
    fn of<T: DeserializeOwned + Message>(params: &Value) -> Vec<u8> {
        T::deserialize(params).unwrap_or_else(|error| panic!("{error}: {params}")).encode_to_vec()
    }
    match operation {
        "SendMessage" | "SendStreamingMessage" => of::<pb::SendMessageRequest>(params),
        "GetTask" => of::<pb::GetTaskRequest>(params),
        "ListTasks" => of::<pb::ListTasksRequest>(params),
        "CancelTask" => of::<pb::CancelTaskRequest>(params),
        "SubscribeToTask" => of::<pb::SubscribeToTaskRequest>(params),
        "CreateTaskPushNotificationConfig" => of::<pb::TaskPushNotificationConfig>(params),
        "GetTaskPushNotificationConfig" => of::<pb::GetTaskPushNotificationConfigRequest>(params),
        "ListTaskPushNotificationConfigs" => of::<pb::ListTaskPushNotificationConfigsRequest>(params),
        "DeleteTaskPushNotificationConfig" => of::<pb::DeleteTaskPushNotificationConfigRequest>(params),
        "GetExtendedAgentCard" => of::<pb::GetExtendedAgentCardRequest>(params),
        other => panic!("no operation {other}"),
    }
}

fn decoded(operation: &str, message: &[u8]) -> Value {
    fn of<T: Serialize + Message + Default>(message: &[u8]) -> Value {
        serde_json::to_value(T::decode(message).expect("the generated type")).expect("JSON")
    }
    match operation {
        "SendMessage" => of::<pb::SendMessageResponse>(message),
        "SendStreamingMessage" | "SubscribeToTask" => of::<pb::StreamResponse>(message),
        "GetTask" | "CancelTask" => of::<pb::Task>(message),
        "ListTasks" => of::<pb::ListTasksResponse>(message),
        "CreateTaskPushNotificationConfig" | "GetTaskPushNotificationConfig" => {
            of::<pb::TaskPushNotificationConfig>(message)
        }
        "ListTaskPushNotificationConfigs" => of::<pb::ListTaskPushNotificationConfigsResponse>(message),
        "GetExtendedAgentCard" => of::<pb::AgentCard>(message),
        _ => json!({}),
    }
}

/// An answer: as it came, and what it says.
#[derive(Clone, Debug)]
pub struct Reply {
    pub raw: Raw,
    /// JSON-RPC's id.
    pub id: Value,
    pub said: Result<Value, Refusal>,
}

/// What a refusal says, in any binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// JSON-RPC's code, the HTTP status, or gRPC's code.
    pub code: i64,
    pub message: String,
    pub reason: String,
    pub domain: String,
    pub metadata: Value,
    pub violations: Vec<(String, String)>,
    /// From `Retry-After` or `google.rpc.RetryInfo`.
    pub retry_after_s: Option<i64>,
}

impl Refusal {
    #[track_caller]
    fn of_details(code: i64, message: &Value, details: &Value, headers: &HeaderMap) -> Refusal {
        let details = details.as_array().unwrap_or_else(|| panic!("no details: {details}"));
        let of_type = |name: &str| {
            let name = format!("type.googleapis.com/google.rpc.{name}");
            let mut found = details.iter().filter(move |detail| detail["@type"] == name.as_str());
            (found.next(), found.next().is_some())
        };
        let (info, more) = of_type("ErrorInfo");
        assert!(!more, "one ErrorInfo: {details:?}");
        let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {details:?}"));
        let (bad_request, _) = of_type("BadRequest");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned();
        let violations = bad_request.map(|detail| detail["fieldViolations"].as_array().expect("violations"));
        let violations = violations.into_iter().flatten();
        let metadata = info.get("metadata").cloned().unwrap_or_else(|| json!({}));
        assert!(metadata.as_object().expect("an object").values().all(Value::is_string), "{metadata}");
        let retry = headers.get("retry-after").map(|value| value.to_str().expect("text").parse().expect("seconds"));
        Refusal {
            code,
            message: text(message),
            reason: text(&info["reason"]),
            domain: text(&info["domain"]),
            metadata,
            violations: violations.map(|one| (text(&one["field"]), text(&one["description"]))).collect(),
            retry_after_s: retry,
        }
    }

    /// The paths of the fields that are wrong.
    pub fn fields(&self) -> Vec<&str> {
        self.violations.iter().map(|(field, _)| &**field).collect()
    }
}

impl Reply {
    /// The result; panics when it was refused.
    #[track_caller]
    pub fn result(&self) -> &Value {
        match &self.said {
            Ok(value) => value,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    #[track_caller]
    pub fn refusal(&self) -> &Refusal {
        match &self.said {
            Ok(value) => panic!("not refused: {value}"),
            Err(refusal) => refusal,
        }
    }

    /// JSON-RPC's shape, strictly: an envelope with either result or error, an error of code, message and details.
    #[track_caller]
    pub fn of_json_rpc(raw: Raw) -> Reply {
        if raw.header("content-type") == "text/event-stream" {
            let event = first_event(&raw.body);
            return Reply { id: event["id"].clone(), said: Ok(event["result"].clone()), raw };
        }
        assert_eq!(raw.header("content-type"), "application/json", "{}", raw.text());
        let body: Value = serde_json::from_slice(&raw.body).unwrap_or_else(|error| panic!("{error}: {}", raw.text()));
        assert_eq!(body["jsonrpc"], "2.0", "{body}");
        let id = body.get("id").unwrap_or_else(|| panic!("no id: {body}")).clone();
        let said = match body.get("error") {
            None => {
                assert_eq!(keys(&body), ["id", "jsonrpc", "result"], "{body}");
                Ok(body["result"].clone())
            }
            Some(error) => {
                assert_eq!(keys(&body), ["error", "id", "jsonrpc"], "{body}");
                assert_eq!(keys(error), ["code", "data", "message"], "{body}");
                let code = error["code"].as_i64().expect("a code");
                Err(Refusal::of_details(code, &error["message"], &error["data"], &raw.headers))
            }
        };
        Reply { raw, id, said }
    }

    /// HTTP+JSON's shape, strictly: `google.rpc.Status` with the HTTP status as its code.
    #[track_caller]
    pub fn of_http_json(raw: Raw) -> Reply {
        let id = Value::Null;
        if raw.header("content-type") == "text/event-stream" {
            return Reply { said: Ok(first_event(&raw.body)), raw, id };
        }
        assert!(
            ["application/json", "application/a2a+json"].contains(&raw.header("content-type")),
            "{:?} {}",
            raw.headers,
            raw.text()
        );
        let body: Value = serde_json::from_slice(&raw.body).unwrap_or_else(|error| panic!("{error}: {}", raw.text()));
        if raw.status == 200 {
            return Reply { raw, id, said: Ok(body) };
        }
        assert_eq!(keys(&body), ["error"], "{body}");
        let error = &body["error"];
        assert_eq!(keys(error), ["code", "details", "message", "status"], "{body}");
        assert_eq!(error["code"], raw.status, "{body}");
        let refusal = Refusal::of_details(i64::from(raw.status), &error["message"], &error["details"], &raw.headers);
        let statuses: &[&str] = match raw.status {
            400 => &["INVALID_ARGUMENT", "FAILED_PRECONDITION"],
            401 => &["UNAUTHENTICATED"],
            403 => &["PERMISSION_DENIED"],
            404 => &["NOT_FOUND", "UNIMPLEMENTED"],
            405 | 413 => &["INVALID_ARGUMENT"],
            409 => &["ABORTED", "ALREADY_EXISTS"],
            429 => &["RESOURCE_EXHAUSTED"],
            500 => &["INTERNAL"],
            503 => &["UNAVAILABLE"],
            other => panic!("nobody expects {other}: {body}"),
        };
        assert!(statuses.iter().any(|status| error["status"] == *status), "{body}");
        Reply { raw, id, said: Err(refusal) }
    }

    /// gRPC's shape: HTTP 200, a status in the trailers, and in its details the same code and message.
    #[track_caller]
    pub fn of_grpc(raw: Raw, operation: &str) -> Reply {
        let id = Value::Null;
        assert_eq!(raw.status, 200, "{:?} {}", raw.headers, raw.text());
        assert!(raw.header("content-type").starts_with("application/grpc"), "{:?}", raw.headers);
        let code: i64 = match raw.header("grpc-status") {
            "" => 0,
            code => code.parse().expect("a code"),
        };
        if code == 0 {
            let message = unframed(&raw.body).unwrap_or_else(|| panic!("no message: {:?}", raw.headers));
            return Reply { id, said: Ok(decoded(operation, message)), raw };
        }
        let message = percent_decode_str(raw.header("grpc-message")).decode_utf8().expect("UTF-8").into_owned();
        let bytes = raw.header("grpc-status-details-bin").as_bytes();
        let bytes = BASE64.decode(bytes).or_else(|_| BASE64_NOPAD.decode(bytes)).expect("base64");
        let status = rpc::Status::decode(&*bytes).expect("google.rpc.Status");
        assert_eq!(i64::from(status.code), code, "the Python SDK insists");
        assert_eq!(status.message, message, "the Python SDK insists");
        let mut headers = HeaderMap::new();
        let details: Vec<Value> = status
            .details
            .iter()
            .map(|detail| match detail.type_url.rsplit('.').next().expect("a name") {
                "ErrorInfo" => {
                    let info = rpc::ErrorInfo::decode(&*detail.value).expect("ErrorInfo");
                    let metadata: Map<String, Value> =
                        info.metadata.into_iter().map(|(key, text)| (key, json!(text))).collect();
                    json!({"@type": detail.type_url, "reason": info.reason, "domain": info.domain, "metadata": metadata})
                }
                "BadRequest" => {
                    let bad = rpc::BadRequest::decode(&*detail.value).expect("BadRequest");
                    let violations = bad.field_violations.into_iter();
                    let violations: Vec<Value> =
                        violations.map(|one| json!({"field": one.field, "description": one.description})).collect();
                    json!({"@type": detail.type_url, "fieldViolations": violations})
                }
                "RetryInfo" => {
                    let retry = rpc::RetryInfo::decode(&*detail.value).expect("RetryInfo");
                    let seconds = retry.retry_delay.expect("a delay").seconds;
                    headers.insert("retry-after", HeaderValue::from(seconds));
                    json!({"@type": detail.type_url})
                }
                other => panic!("nobody expects {other}"),
            })
            .collect();
        let refusal = Refusal::of_details(code, &json!(message), &json!(details), &headers);
        Reply { raw, id, said: Err(refusal) }
    }
}

fn first_event(body: &[u8]) -> Value {
    let text = String::from_utf8_lossy(body);
    let data = text.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or_else(|| panic!("no event: {text}"));
    serde_json::from_str(data.trim()).expect("JSON")
}

/// The names in an object, in order.
pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(|key| &**key).collect();
    keys.sort_unstable();
    keys
}

/// A message of one text.
pub fn said(text: &str) -> Value {
    json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// The same, for an answer at once.
pub fn said_at_once(text: &str) -> Value {
    let mut params = said(text);
    params["configuration"] = json!({"returnImmediately": true});
    params
}

/// A new task of `sender`'s at the door of `recipient`; gives its id.
pub async fn task(sender: &Agent, recipient: &Agent) -> String {
    let reply = call(sender, "SendMessage", &recipient.handle, said_at_once("Hello")).by(Binding::JsonRpc).await;
    reply.result()["task"]["id"].as_str().expect("an id").to_owned()
}

/// How many rows the tables have that a call may write to.
pub fn rows(relay: &TestRelay) -> Vec<(String, i64)> {
    let conn = relay.sqlite();
    let tables = ["threads", "messages", "artifacts", "events"];
    let count = |table: &str| conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0));
    tables.map(|table| (table.to_owned(), count(table).expect("a count"))).to_vec()
}

/// `body` with the value at `pointer` replaced, or taken out.
pub fn with(body: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut body = body.clone();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {pointer}"));
    match (parent, value) {
        (Value::Object(members), Some(value)) => drop(members.insert(key.to_owned(), value)),
        (Value::Object(members), None) => drop(members.remove(key)),
        (Value::Array(elements), Some(value)) => elements[key.parse::<usize>().expect("an index")] = value,
        _ => panic!("nothing at {pointer}"),
    }
    body
}
