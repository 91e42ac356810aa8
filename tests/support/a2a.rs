//! One scenario, every door: an A2A client of an agent, over JSON-RPC, HTTP+JSON or gRPC. Requests and answers are A2A's JSON
//! at each of them, so that a story is told once.
//!
//! gRPC's messages are made from JSON and read into it by the official crate's ProtoJSON types, not by any code of ours.

use std::collections::VecDeque;
use std::time::Duration;

use a2a_pb::proto::a2a_service_client::A2aServiceClient;
use a2a_pb::{proto, protojson};
use agentrelay::domain::time::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

use super::{Agent, Answer};

/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// One of A2A's bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Door {
    JsonRpc,
    HttpJson,
    Grpc,
}

impl Door {
    pub const ALL: [Door; 3] = [Door::JsonRpc, Door::HttpJson, Door::Grpc];
    /// Those whose streams are server-sent events, and whose documents are text.
    pub const JSON: [Door; 2] = [Door::JsonRpc, Door::HttpJson];
}

/// Why a call was refused, in one shape for all bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As the binding has it: JSON-RPC's `error.code`, the HTTP status in the body of HTTP+JSON, gRPC's status code.
    pub code: i64,
    /// The canonical status, such as `NOT_FOUND`; empty in JSON-RPC, which has none.
    pub status: String,
    /// Of `google.rpc.ErrorInfo`.
    pub reason: String,
    pub domain: String,
    pub metadata: Value,
    /// Of `google.rpc.BadRequest`: the fields, each with what is wrong.
    pub violations: Vec<(String, String)>,
    pub message: String,
    /// 200 for gRPC, and in a stream that had begun.
    pub http_status: u16,
}

impl Refusal {
    /// From `error` in a body of the JSON bindings.
    fn of(error: &Value, http_status: u16) -> Box<Refusal> {
        let details = error["data"].as_array().or_else(|| error["details"].as_array()).cloned().unwrap_or_default();
        let detail = |name: &str| {
            let kind = format!("type.googleapis.com/google.rpc.{name}");
            details.iter().find(|detail| detail["@type"] == kind).cloned().unwrap_or_default()
        };
        let (info, request) = (detail("ErrorInfo"), detail("BadRequest"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let violations = request["fieldViolations"].as_array().cloned().unwrap_or_default();
        Box::new(Refusal {
            code: error["code"].as_i64().unwrap_or_else(|| panic!("no error: {error}")),
            status: text(&error["status"]),
            reason: text(&info["reason"]),
            domain: text(&info["domain"]),
            metadata: info["metadata"].clone(),
            violations: violations.iter().map(|one| (text(&one["field"]), text(&one["description"]))).collect(),
            message: text(&error["message"]),
            http_status,
        })
    }

    fn of_grpc(status: &tonic::Status) -> Box<Refusal> {
        let details = status.get_error_details();
        let info = details.error_info().cloned();
        let violations = details.bad_request().map(|request| request.field_violations.clone()).unwrap_or_default();
        let metadata = info.as_ref().map(|info| json!(info.metadata)).filter(|metadata| *metadata != json!({}));
        Box::new(Refusal {
            code: i32::from(status.code()).into(),
            status: canonical(status.code()),
            reason: info.as_ref().map(|info| info.reason.clone()).unwrap_or_default(),
            domain: info.map(|info| info.domain).unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
            violations: violations.into_iter().map(|one| (one.field, one.description)).collect(),
            message: status.message().to_owned(),
            http_status: 200,
        })
    }

    /// The fields that are wrong.
    pub fn fields(&self) -> Vec<&str> {
        self.violations.iter().map(|(field, _)| field.as_str()).collect()
    }

    /// One of A2A's nine errors, by its reason, such as `TASK_NOT_FOUND`.
    #[track_caller]
    pub fn is(&self, reason: &str) {
        assert_eq!((self.reason.as_str(), self.domain.as_str()), (reason, "a2a-protocol.org"), "{self:?}");
        assert!(!self.message.is_empty(), "{self:?}");
    }

    /// One of the relay's own, by its symbol.
    #[track_caller]
    pub fn is_ours(&self, symbol: &str) {
        assert_eq!((self.reason.as_str(), self.domain.as_str()), (symbol, "agentrelay"), "{self:?}");
        assert!(!self.message.is_empty(), "{self:?}");
    }
}

/// `NotFound` as `NOT_FOUND`.
fn canonical(code: tonic::Code) -> String {
    let mut name = String::new();
    for character in format!("{code:?}").chars() {
        if character.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(character.to_uppercase());
    }
    name
}

/// An A2A client of one agent at another one's door.
#[derive(Clone)]
pub struct Client {
    pub door: Door,
    /// Whose door, as the client calls it.
    pub handle: String,
    url: String,
    http: reqwest::Client,
    channel: Channel,
    /// What every request says beside its parameters: HTTP headers or gRPC metadata, names in lower case.
    headers: Vec<(String, String)>,
}

impl Agent {
    /// This agent as a client at the door of another one.
    pub fn at(&self, door: Door, other: &Agent) -> Client {
        self.at_handle(door, &other.handle)
    }

    /// The same, by the handle; in gRPC the empty one is the default agent's.
    pub fn at_handle(&self, door: Door, handle: &str) -> Client {
        let channel = Endpoint::from_shared(self.url.clone()).expect("a URL").connect_lazy();
        let headers = [("a2a-version", "1.0"), ("authorization", &format!("Bearer {}", self.key))];
        Client {
            door,
            handle: handle.to_owned(),
            url: self.url.clone(),
            http: self.http.clone(),
            channel,
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        }
    }
}

/// What is encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'@');

impl Client {
    /// The same client, which says something else in a header.
    pub fn with(&self, name: &str, value: &str) -> Client {
        let mut client = self.without(name);
        client.headers.push((name.to_lowercase(), value.to_owned()));
        client
    }

    /// The same client without a header.
    pub fn without(&self, name: &str) -> Client {
        let mut client = self.clone();
        client.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        client
    }

    /// The same client at another door of the same agent.
    pub fn through(&self, door: Door) -> Client {
        Client { door, ..self.clone() }
    }

    /// The same client, which goes on from an update of a stream that was cut.
    pub fn resuming(&self, last_event_id: &str) -> Client {
        self.with("last-event-id", last_event_id)
    }

    pub async fn send(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("SendMessage", params).await
    }

    pub async fn get(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("GetTask", params).await
    }

    pub async fn list(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("ListTasks", params).await
    }

    pub async fn cancel(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("CancelTask", params).await
    }

    pub async fn send_streaming(&self, params: Value) -> Result<Updates, Box<Refusal>> {
        self.open("SendStreamingMessage", params).await
    }

    pub async fn subscribe(&self, id: &str) -> Result<Updates, Box<Refusal>> {
        self.open("SubscribeToTask", json!({ "id": id })).await
    }

    pub async fn create_push_config(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("CreateTaskPushNotificationConfig", params).await
    }

    pub async fn get_push_config(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("GetTaskPushNotificationConfig", params).await
    }

    pub async fn list_push_configs(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("ListTaskPushNotificationConfigs", params).await
    }

    pub async fn delete_push_config(&self, params: Value) -> Result<Value, Box<Refusal>> {
        self.call("DeleteTaskPushNotificationConfig", params).await
    }

    /// Any operation that is answered once, by its name.
    pub async fn call(&self, operation: &str, params: Value) -> Result<Value, Box<Refusal>> {
        let answered = async {
            if self.door == Door::Grpc {
                return self.call_grpc(operation, params).await;
            }
            self.judge(&Answer::of(self.post(operation, &params).await).await)
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("{operation} was never answered"))
    }

    /// As [`Client::call`] at one of the JSON doors, with a body as it is written here; gives the answer as it is.
    pub async fn call_with_text(&self, operation: &str, params: &str) -> Answer {
        let (method, path, body) = match self.door {
            Door::JsonRpc => {
                let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{operation}","params":{params}}}"#);
                (reqwest::Method::POST, String::new(), body)
            }
            Door::HttpJson => {
                let (method, path, _) = http_target(operation, &serde_json::from_str(params).unwrap_or_default());
                (method, path, params.to_owned())
            }
            Door::Grpc => panic!("gRPC has no text"),
        };
        let request = self.request(method, &path).header("content-type", "application/json").body(body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// Any operation that is answered with a stream, by its name.
    pub async fn open(&self, operation: &str, params: Value) -> Result<Updates, Box<Refusal>> {
        let opened = async {
            if self.door == Door::Grpc {
                return Ok(Updates(Source::Grpc(Box::new(self.open_grpc(operation, params).await?))));
            }
            let response = self.post(operation, &params).await;
            let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            if !kind.starts_with("text/event-stream") {
                let refused = self.judge(&Answer::of(response).await);
                return Err(refused.expect_err("an answer that is no stream is a refusal"));
            }
            assert_eq!(response.status(), 200);
            Ok(Updates(Source::Sse(Box::new(Sse { door: self.door, response, parser: Parser::default() }))))
        };
        tokio::time::timeout(PATIENCE, opened).await.unwrap_or_else(|_| panic!("{operation} was never answered"))
    }

    fn request(&self, method: reqwest::Method, below: &str) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("{}/a2a/{}{below}", self.url, self.handle));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
    }

    async fn post(&self, operation: &str, params: &Value) -> reqwest::Response {
        let request = if self.door == Door::JsonRpc {
            let call = json!({ "jsonrpc": "2.0", "id": "call", "method": operation, "params": params });
            self.request(reqwest::Method::POST, "").json(&call)
        } else {
            let (method, path, rest) = http_target(operation, params);
            let request = self.request(method.clone(), &path);
            if method == reqwest::Method::POST && !rest.as_object().is_some_and(Map::is_empty) {
                request.json(&rest)
            } else {
                request
            }
        };
        request.send().await.expect("an answer")
    }

    /// What an answer of a JSON binding says.
    #[track_caller]
    pub fn judge(&self, answer: &Answer) -> Result<Value, Box<Refusal>> {
        let body = answer.json();
        if self.door == Door::JsonRpc {
            assert_eq!(body["jsonrpc"], "2.0", "{}", answer.text);
            assert!(body.get("id").is_some(), "{}", answer.text);
        }
        let Some(error) = body.get("error") else {
            assert_eq!(answer.status, 200, "{}", answer.text);
            return Ok(if self.door == Door::JsonRpc { body["result"].clone() } else { body });
        };
        assert!(answer.status >= 400 || self.door == Door::JsonRpc, "{} {}", answer.status, answer.text);
        Err(Refusal::of(error, answer.status))
    }

    fn grpc(&self) -> A2aServiceClient<Channel> {
        A2aServiceClient::new(self.channel.clone())
    }

    /// A request in the generated type `P`, whose ProtoJSON is read by `J`.
    fn to_grpc<J: DeserializeOwned + prost::Message, P: prost::Message + Default>(
        &self,
        mut params: Value,
    ) -> tonic::Request<P> {
        let members = params.as_object_mut().expect("an object");
        members.entry("tenant").or_insert_with(|| json!(self.handle));
        let read: J = serde_json::from_value(with_doubles(params)).expect("ProtoJSON of this request");
        let mut request = tonic::Request::new(P::decode(&*read.encode_to_vec()).expect("the same message"));
        *request.metadata_mut() = self.metadata();
        request
    }

    fn metadata(&self) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        for (name, value) in &self.headers {
            let name = MetadataKey::from_bytes(name.as_bytes()).expect("a key");
            metadata.append(name, value.parse().expect("a visible value"));
        }
        metadata
    }

    async fn call_grpc(&self, operation: &str, params: Value) -> Result<Value, Box<Refusal>> {
        use protojson as j;
        let mut client = self.grpc();
        let refused = |status: tonic::Status| Refusal::of_grpc(&status);
        match operation {
            "SendMessage" => {
                let request = self.to_grpc::<j::SendMessageRequest, _>(params);
                let sent = client.send_message(request).await.map_err(refused)?;
                Ok(to_json::<j::SendMessageResponse>(sent.get_ref()))
            }
            "GetTask" => {
                let request = self.to_grpc::<j::GetTaskRequest, _>(params);
                Ok(to_json::<j::Task>(client.get_task(request).await.map_err(refused)?.get_ref()))
            }
            "ListTasks" => {
                let request = self.to_grpc::<j::ListTasksRequest, _>(params);
                let listed = client.list_tasks(request).await.map_err(refused)?;
                let mut list = to_json::<j::ListTasksResponse>(listed.get_ref());
                // Protocol Buffers do not send what is empty.
                for (name, empty) in [
                    ("tasks", json!([])),
                    ("nextPageToken", json!("")),
                    ("pageSize", json!(0)),
                    ("totalSize", json!(0)),
                ] {
                    list.as_object_mut().expect("an object").entry(name).or_insert(empty);
                }
                Ok(list)
            }
            "CancelTask" => {
                let request = self.to_grpc::<j::CancelTaskRequest, _>(params);
                Ok(to_json::<j::Task>(client.cancel_task(request).await.map_err(refused)?.get_ref()))
            }
            "CreateTaskPushNotificationConfig" => {
                let request = self.to_grpc::<j::TaskPushNotificationConfig, _>(params);
                let config = client.create_task_push_notification_config(request).await.map_err(refused)?;
                Ok(to_json::<j::TaskPushNotificationConfig>(config.get_ref()))
            }
            "GetTaskPushNotificationConfig" => {
                let request = self.to_grpc::<j::GetTaskPushNotificationConfigRequest, _>(params);
                let config = client.get_task_push_notification_config(request).await.map_err(refused)?;
                Ok(to_json::<j::TaskPushNotificationConfig>(config.get_ref()))
            }
            "ListTaskPushNotificationConfigs" => {
                let request = self.to_grpc::<j::ListTaskPushNotificationConfigsRequest, _>(params);
                let listed = client.list_task_push_notification_configs(request).await.map_err(refused)?;
                let mut list = to_json::<j::ListTaskPushNotificationConfigsResponse>(listed.get_ref());
                for (name, empty) in [("configs", json!([])), ("nextPageToken", json!(""))] {
                    list.as_object_mut().expect("an object").entry(name).or_insert(empty);
                }
                Ok(list)
            }
            "DeleteTaskPushNotificationConfig" => {
                let request = self.to_grpc::<j::DeleteTaskPushNotificationConfigRequest, _>(params);
                client.delete_task_push_notification_config(request).await.map_err(refused)?;
                Ok(json!({}))
            }
            "GetExtendedAgentCard" => {
                let request = self.to_grpc::<j::GetExtendedAgentCardRequest, _>(params);
                let card = client.get_extended_agent_card(request).await.map_err(refused)?;
                Ok(to_json::<j::AgentCard>(card.get_ref()))
            }
            other => panic!("{other} is no operation that is answered once"),
        }
    }

    async fn open_grpc(
        &self,
        operation: &str,
        params: Value,
    ) -> Result<tonic::Streaming<proto::StreamResponse>, Box<Refusal>> {
        let mut client = self.grpc();
        let opened = match operation {
            "SendStreamingMessage" => {
                client.send_streaming_message(self.to_grpc::<protojson::SendMessageRequest, _>(params)).await
            }
            "SubscribeToTask" => {
                client.subscribe_to_task(self.to_grpc::<protojson::SubscribeToTaskRequest, _>(params)).await
            }
            other => panic!("{other} has no stream"),
        };
        opened.map(tonic::Response::into_inner).map_err(|status| Refusal::of_grpc(&status))
    }
}

/// A message's ProtoJSON, which is written by `J`.
fn to_json<J: Serialize + prost::Message + Default>(message: &impl prost::Message) -> Value {
    let read = J::decode(&*message.encode_to_vec()).expect("the same message");
    canonical_json(serde_json::to_value(read).expect("ProtoJSON"))
}

/// The crate reads no whole number beyond 32 bits as the double that it will be.
fn with_doubles(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_i64().filter(|number| i32::try_from(*number).is_err()) {
            Some(_) => json!(number.as_f64()),
            None => Value::Number(number),
        },
        Value::Array(elements) => elements.into_iter().map(with_doubles).collect(),
        Value::Object(members) => members.into_iter().map(|(key, member)| (key, with_doubles(member))).collect(),
        other => other,
    }
}

/// 2^53: above it, not every whole number is a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Canonical ProtoJSON writes a double that is a whole number without a fraction, and the zone of a time as `Z`; the crate
/// does not.
fn canonical_json(value: Value) -> Value {
    match value {
        Value::String(text) if text.ends_with("+00:00") => {
            let moment = Timestamp::parse(&text);
            Value::String(moment.map_or(text, |moment| moment.to_string()))
        }
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
            Some(double) if double.fract() == 0.0 && double.abs() <= EXACT_MAX => json!(double as i64),
            _ => Value::Number(number),
        },
        Value::Array(elements) => elements.into_iter().map(canonical_json).collect(),
        Value::Object(members) => members.into_iter().map(|(key, member)| (key, canonical_json(member))).collect(),
        other => other,
    }
}

/// Where an operation is in the HTTP+JSON binding, and what of its parameters does not stand in the path.
fn http_target(operation: &str, params: &Value) -> (reqwest::Method, String, Value) {
    use reqwest::Method;
    let mut rest = params.as_object().cloned().unwrap_or_default();
    let mut segment = |name: &str| {
        let value = rest.remove(name).unwrap_or_default();
        utf8_percent_encode(value.as_str().unwrap_or_default(), SEGMENT).to_string()
    };
    let (method, path) = match operation {
        "SendMessage" => (Method::POST, "/message:send".to_owned()),
        "SendStreamingMessage" => (Method::POST, "/message:stream".to_owned()),
        "GetTask" => (Method::GET, format!("/tasks/{}", segment("id"))),
        "ListTasks" => (Method::GET, "/tasks".to_owned()),
        "CancelTask" => (Method::POST, format!("/tasks/{}:cancel", segment("id"))),
        "SubscribeToTask" => (Method::POST, format!("/tasks/{}:subscribe", segment("id"))),
        "CreateTaskPushNotificationConfig" => {
            (Method::POST, format!("/tasks/{}/pushNotificationConfigs", segment("taskId")))
        }
        "ListTaskPushNotificationConfigs" => {
            (Method::GET, format!("/tasks/{}/pushNotificationConfigs", segment("taskId")))
        }
        "GetTaskPushNotificationConfig" => {
            (Method::GET, format!("/tasks/{}/pushNotificationConfigs/{}", segment("taskId"), segment("id")))
        }
        "DeleteTaskPushNotificationConfig" => {
            (Method::DELETE, format!("/tasks/{}/pushNotificationConfigs/{}", segment("taskId"), segment("id")))
        }
        "GetExtendedAgentCard" => (Method::GET, "/extendedAgentCard".to_owned()),
        other => panic!("{other} is no operation"),
    };
    if method == Method::POST || rest.is_empty() {
        return (method, path, rest.into());
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in &rest {
        query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
    }
    (method, format!("{path}?{}", query.finish()), json!({}))
}

/// One element of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The id of the server-sent event; gRPC has none.
    pub id: Option<String>,
    /// The `StreamResponse`.
    pub response: Value,
}

/// A stream of a task's updates.
pub struct Updates(Source);

enum Source {
    Sse(Box<Sse>),
    Grpc(Box<tonic::Streaming<proto::StreamResponse>>),
}

impl Updates {
    /// The next element; an error is the last one, and `None` comes after the last one.
    pub async fn next(&mut self) -> Option<Result<Update, Box<Refusal>>> {
        let next = async {
            match &mut self.0 {
                Source::Sse(events) => events.next().await,
                Source::Grpc(stream) => match stream.message().await {
                    Ok(None) => None,
                    Ok(Some(message)) => {
                        let mut response = to_json::<protojson::StreamResponse>(&message);
                        if let Some(update) = response.get_mut("artifactUpdate").and_then(Value::as_object_mut) {
                            for flag in ["append", "lastChunk"] {
                                update.entry(flag).or_insert(json!(false));
                            }
                        }
                        Some(Ok(Update { id: None, response }))
                    }
                    Err(status) => Some(Err(Refusal::of_grpc(&status))),
                },
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("an update, or the end")
    }

    /// The next element, which there is.
    pub async fn update(&mut self) -> Update {
        self.next().await.expect("another update").expect("an update")
    }

    /// What the next element says, which there is.
    pub async fn response(&mut self) -> Value {
        self.update().await.response
    }

    /// All elements to the end, and the error that was the last one.
    pub async fn rest(&mut self) -> (Vec<Update>, Option<Box<Refusal>>) {
        let mut updates = Vec::new();
        while let Some(next) = self.next().await {
            match next {
                Ok(update) => updates.push(update),
                Err(refusal) => return (updates, Some(refusal)),
            }
        }
        (updates, None)
    }

    /// All elements to an end without an error.
    pub async fn all(&mut self) -> Vec<Update> {
        let (updates, refusal) = self.rest().await;
        assert_eq!(refusal, None, "{updates:?}");
        updates
    }
}

struct Sse {
    door: Door,
    response: reqwest::Response,
    parser: Parser,
}

impl Sse {
    async fn next(&mut self) -> Option<Result<Update, Box<Refusal>>> {
        let event = loop {
            if let Some(event) = self.parser.events.pop_front() {
                break event;
            }
            // A server that was killed ends a stream in the middle; that is the end for its reader too.
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.parser.push(&chunk);
        };
        let data: Value = serde_json::from_str(&event.data).unwrap_or_else(|error| panic!("{error}: {event:?}"));
        if event.name == "error" {
            return Some(Err(Refusal::of(&data["error"], 200)));
        }
        assert_eq!(event.name, "", "{event:?}");
        if self.door == Door::HttpJson {
            return Some(Ok(Update { id: event.id, response: data }));
        }
        assert_eq!((&data["jsonrpc"], &data["id"]), (&json!("2.0"), &json!("call")), "{event:?}");
        Some(Ok(Update { id: event.id, response: data["result"].clone() }))
    }
}

/// A server-sent event.
#[derive(Debug, Default)]
struct Event {
    id: Option<String>,
    name: String,
    data: String,
}

/// Reads server-sent events as the HTML standard has it: fields by line, an event by blank line, comments ignored.
#[derive(Default)]
struct Parser {
    bytes: Vec<u8>,
    event: Event,
    has_data: bool,
    events: VecDeque<Event>,
}

impl Parser {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8(line).expect("UTF-8");
            self.line(line.trim_end_matches(['\n', '\r']));
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) {
                self.events.push_back(event);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
    }
}

/// The parameters of `SendMessage` for a message of one text part that is not waited for.
pub fn hand(text: &str) -> Value {
    json!({ "message": user_message(text), "configuration": { "returnImmediately": true } })
}

/// The parameters of `SendMessage` for a message of one text part that is waited for.
pub fn ask(text: &str) -> Value {
    json!({ "message": user_message(text) })
}

/// A message of one text part by a client.
pub fn user_message(text: &str) -> Value {
    json!({ "messageId": format!("message of {text}"), "role": "ROLE_USER", "parts": [{ "text": text }] })
}
