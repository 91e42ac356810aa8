//! What cannot be read: every field that is wrong is named by its path, in the binding's own shape, and nothing is
//! written.

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::gate::{Binding, Raw, Reply, call, framed, http, over_http2, rows, said, said_at_once, task, with};
use crate::support::{Agent, TestRelay};
use crate::wire::raw;

/// What a refusal must be: JSON-RPC's code, HTTP+JSON's status, reason, domain.
type Expected = (i64, i64, &'static str, &'static str);

const A2A: &str = "a2a-protocol.org";
const OWN: &str = "agentrelay";
const INVALID_PARAMS: Expected = (-32602, 400, "INVALID_PARAMS", A2A);
const INVALID_REQUEST: Expected = (-32600, 400, "invalid_request", OWN);
const PARSE_ERROR: Expected = (-32700, 400, "parse_error", OWN);
const CONTENT_TYPE: Expected = (-32005, 400, "CONTENT_TYPE_NOT_SUPPORTED", A2A);

fn headers(caller: &Agent, content_type: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let bearer = HeaderValue::from_str(&format!("Bearer {}", caller.key)).expect("a value");
    headers.insert("authorization", bearer);
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    if let Some(content_type) = content_type {
        headers.insert("content-type", HeaderValue::from_str(content_type).expect("a value"));
    }
    headers
}

/// What one binding's answer must be; collects what is otherwise.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn check(&mut self, what: &str, binding: Binding, reply: &Reply, expected: Expected, fields: &[&str]) {
        let code = match binding {
            Binding::JsonRpc => expected.0,
            _ => expected.1,
        };
        let Err(refusal) = &reply.said else {
            self.0.push(format!("{binding:?} {what}: accepted: {}", reply.raw.text()));
            return;
        };
        let found = (refusal.code, &*refusal.reason, &*refusal.domain, refusal.fields());
        let wanted = (code, expected.2, expected.3, fields.to_vec());
        if found != wanted {
            self.0.push(format!(
                "{binding:?} {what}:\n     wanted {wanted:?}\n      found {found:?} {}",
                refusal.message
            ));
        }
        if binding == Binding::JsonRpc && !matches!(reply.raw.status, 200 | 413) {
            self.0.push(format!("{binding:?} {what}: HTTP {}", reply.raw.status));
        }
        if refusal.message.is_empty() || refusal.violations.iter().any(|(_, description)| description.is_empty()) {
            self.0.push(format!("{binding:?} {what}: says nothing: {refusal:?}"));
        }
    }

    #[track_caller]
    fn assert_none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0.join("\n"));
    }
}

/// Deeper than any request may be: `levels` arrays.
pub fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// A message with everything in it.
fn full() -> Value {
    json!({
        "message": {
            "messageId": "m-1",
            "role": "ROLE_USER",
            "parts": [
                {"text": "Hello", "mediaType": "text/plain", "filename": "a.txt", "metadata": {"a": 1}},
                {"raw": "AAEC"},
                {"url": "https://example.com/x"},
                {"data": {"n": 42}},
            ],
            "extensions": ["urn:x"],
            "referenceTaskIds": ["t-1"],
            "metadata": {"b": 2},
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "historyLength": 1,
            "returnImmediately": true,
        },
        "metadata": {"c": 3},
    })
}

/// Wrong values in a `SendMessageRequest`: where, what (nothing: the field is missing), and the fields to be named.
fn wrong_messages() -> Vec<(&'static str, Option<Value>, Vec<&'static str>)> {
    let long = "x".repeat(256);
    let many: Vec<Value> = (0..101).map(|_| json!({"text": "x"})).collect();
    let names: Vec<Value> = (0..101).map(|number| json!(format!("n{number}"))).collect();
    vec![
        ("/message", None, vec!["message"]),
        ("/message", Some(json!(null)), vec!["message"]),
        ("/message", Some(json!("hello")), vec!["message"]),
        ("/message", Some(json!([])), vec!["message"]),
        ("/message", Some(json!({})), vec!["message.messageId", "message.role", "message.parts"]),
        ("/message/messageId", None, vec!["message.messageId"]),
        ("/message/messageId", Some(json!("")), vec!["message.messageId"]),
        ("/message/messageId", Some(json!(7)), vec!["message.messageId"]),
        ("/message/messageId", Some(json!(long)), vec!["message.messageId"]),
        ("/message/role", None, vec!["message.role"]),
        ("/message/role", Some(json!("ROLE_AGENT")), vec!["message.role"]),
        ("/message/role", Some(json!("ROLE_UNSPECIFIED")), vec!["message.role"]),
        ("/message/role", Some(json!("user")), vec!["message.role"]),
        ("/message/role", Some(json!("ROLE_OWNER")), vec!["message.role"]),
        ("/message/role", Some(json!(2)), vec!["message.role"]),
        ("/message/role", Some(json!(9)), vec!["message.role"]),
        ("/message/role", Some(json!(["ROLE_USER"])), vec!["message.role"]),
        ("/message/parts", None, vec!["message.parts"]),
        ("/message/parts", Some(json!([])), vec!["message.parts"]),
        ("/message/parts", Some(json!({"text": "x"})), vec!["message.parts"]),
        ("/message/parts", Some(json!("x")), vec!["message.parts"]),
        ("/message/parts", Some(json!(many)), vec!["message.parts"]),
        ("/message/parts/0", Some(json!("x")), vec!["message.parts[0]"]),
        ("/message/parts/0", Some(json!(null)), vec!["message.parts[0]"]),
        ("/message/parts/0", Some(json!({})), vec!["message.parts[0]"]),
        ("/message/parts/0", Some(json!({"kind": "text"})), vec!["message.parts[0]"]),
        ("/message/parts/1", Some(json!({"text": "x", "raw": "AAEC"})), vec!["message.parts[1]"]),
        ("/message/parts/1", Some(json!({"url": "https://x", "data": 1})), vec!["message.parts[1]"]),
        ("/message/parts/0/text", Some(json!(7)), vec!["message.parts[0].text"]),
        ("/message/parts/0/mediaType", Some(json!(7)), vec!["message.parts[0].mediaType"]),
        ("/message/parts/0/filename", Some(json!({})), vec!["message.parts[0].filename"]),
        ("/message/parts/0/metadata", Some(json!("x")), vec!["message.parts[0].metadata"]),
        ("/message/parts/1/raw", Some(json!("not base64!")), vec!["message.parts[1].raw"]),
        ("/message/parts/1/raw", Some(json!("A")), vec!["message.parts[1].raw"]),
        ("/message/parts/1/raw", Some(json!("AA==AA==")), vec!["message.parts[1].raw"]),
        ("/message/parts/1/raw", Some(json!([1, 2])), vec!["message.parts[1].raw"]),
        ("/message/parts/2/url", Some(json!("")), vec!["message.parts[2].url"]),
        ("/message/parts/2/url", Some(json!(1)), vec!["message.parts[2].url"]),
        ("/message/taskId", Some(json!(7)), vec!["message.taskId"]),
        ("/message/contextId", Some(json!({})), vec!["message.contextId"]),
        ("/message/contextId", Some(json!("x".repeat(256))), vec!["message.contextId"]),
        ("/message/metadata", Some(json!([])), vec!["message.metadata"]),
        ("/message/extensions", Some(json!("urn:x")), vec!["message.extensions"]),
        ("/message/extensions", Some(json!([1, ""])), vec!["message.extensions[0]", "message.extensions[1]"]),
        ("/message/extensions", Some(json!(names)), vec!["message.extensions"]),
        ("/message/referenceTaskIds", Some(json!([null])), vec!["message.referenceTaskIds[0]"]),
        ("/configuration", Some(json!([])), vec!["configuration"]),
        ("/configuration/acceptedOutputModes", Some(json!("text")), vec!["configuration.acceptedOutputModes"]),
        ("/configuration/acceptedOutputModes", Some(json!([7])), vec!["configuration.acceptedOutputModes[0]"]),
        ("/configuration/historyLength", Some(json!(-1)), vec!["configuration.historyLength"]),
        ("/configuration/historyLength", Some(json!(1.5)), vec!["configuration.historyLength"]),
        ("/configuration/historyLength", Some(json!("many")), vec!["configuration.historyLength"]),
        ("/configuration/historyLength", Some(json!(2_147_483_648_i64)), vec!["configuration.historyLength"]),
        ("/configuration/historyLength", Some(json!([1])), vec!["configuration.historyLength"]),
        ("/configuration/returnImmediately", Some(json!("yes")), vec!["configuration.returnImmediately"]),
        ("/configuration/returnImmediately", Some(json!(1)), vec!["configuration.returnImmediately"]),
        (
            "/configuration/taskPushNotificationConfig",
            Some(json!("https://example.com")),
            vec!["configuration.taskPushNotificationConfig"],
        ),
        (
            "/configuration/taskPushNotificationConfig",
            Some(json!({"id": 1, "authentication": {"credentials": 7}})),
            vec![
                "configuration.taskPushNotificationConfig.id",
                "configuration.taskPushNotificationConfig.url",
                "configuration.taskPushNotificationConfig.authentication.credentials",
                "configuration.taskPushNotificationConfig.authentication.scheme",
            ],
        ),
        ("/metadata", Some(json!("x")), vec!["metadata"]),
        ("/metadata", Some(json!({"client_idempotency_key": ""})), vec!["metadata.client_idempotency_key"]),
        ("/metadata", Some(json!({"client_idempotency_key": 7})), vec!["metadata.client_idempotency_key"]),
        ("/metadata", Some(json!({"client_idempotency_key": long})), vec!["metadata.client_idempotency_key"]),
        ("/tenant", Some(json!("mallory@acme")), vec!["tenant"]),
        ("/tenant", Some(json!("not a handle")), vec!["tenant"]),
        ("/tenant", Some(json!(7)), vec!["tenant"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_field_of_a_message_is_named_and_nothing_is_written() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    relay.agent("mallory@acme").await;
    call(&bob, "SendMessage", &frank.handle, full()).by(Binding::JsonRpc).await.result();
    let before = rows(&relay);
    let mut findings = Findings::default();
    for (pointer, value, fields) in wrong_messages() {
        let what = format!("{pointer} {}", value.as_ref().map_or_else(|| "missing".to_owned(), Value::to_string));
        let what: String = what.chars().take(120).collect();
        let params = with(&full(), pointer, value);
        for operation in ["SendMessage", "SendStreamingMessage"] {
            let call = call(&bob, operation, &frank.handle, params.clone());
            for binding in [Binding::JsonRpc, Binding::HttpJson] {
                let reply = call.by(binding).await;
                findings.check(&format!("{operation} {what}"), binding, &reply, INVALID_PARAMS, &fields);
                if binding == Binding::JsonRpc {
                    assert_eq!(reply.id, "call-1", "{what}");
                }
            }
        }
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_wrong_fields_are_named_at_once() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let params = json!({
        "message": {
            "messageId": 1,
            "role": "ROLE_AGENT",
            "contextId": 2,
            "parts": [{"text": "fine"}, {"raw": "!"}, {}, {"text": "x", "url": "y"}, {"data": null}, {"text": []}],
            "metadata": 3,
        },
        "configuration": {"historyLength": -1, "returnImmediately": 0},
        "metadata": {"client_idempotency_key": 7},
    });
    let call = call(&bob, "SendMessage", &frank.handle, params);
    for binding in [Binding::JsonRpc, Binding::HttpJson] {
        let reply = call.by(binding).await;
        let mut fields = reply.refusal().fields();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "configuration.historyLength",
                "configuration.returnImmediately",
                "message.contextId",
                "message.messageId",
                "message.metadata",
                "message.parts[1].raw",
                "message.parts[2]",
                "message.parts[3]",
                "message.parts[5].text",
                "message.role",
                "metadata.client_idempotency_key",
            ],
            "{binding:?}"
        );
    }
}

/// Wrong parameters of the other operations; `TASK` stands for a task of the caller's.
fn wrong_params() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let config = |rest: Value| {
        let mut config = json!({"taskId": "TASK", "url": "https://example.com/hook"});
        config.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        config
    };
    vec![
        ("GetTask", json!({"id": "TASK", "historyLength": -1}), vec!["historyLength"]),
        ("GetTask", json!({"id": "TASK", "historyLength": 0.5}), vec!["historyLength"]),
        ("GetTask", json!({"id": "TASK", "historyLength": "x"}), vec!["historyLength"]),
        ("GetTask", json!({"id": "TASK", "historyLength": 2_147_483_648_i64}), vec!["historyLength"]),
        ("GetTask", json!({"id": "TASK", "historyLength": 99_999_999_999_999_999_999_f64}), vec!["historyLength"]),
        ("GetTask", json!({"id": "TASK", "tenant": "bob@acme"}), vec!["tenant"]),
        ("ListTasks", json!({"pageSize": 0}), vec!["pageSize"]),
        ("ListTasks", json!({"pageSize": -1}), vec!["pageSize"]),
        ("ListTasks", json!({"pageSize": 101}), vec!["pageSize"]),
        ("ListTasks", json!({"pageSize": "ten"}), vec!["pageSize"]),
        ("ListTasks", json!({"pageSize": 1.5}), vec!["pageSize"]),
        ("ListTasks", json!({"pageSize": 4_294_967_297_i64}), vec!["pageSize"]),
        ("ListTasks", json!({"pageToken": "nonsense"}), vec!["pageToken"]),
        ("ListTasks", json!({"pageToken": "\u{0}"}), vec!["pageToken"]),
        ("ListTasks", json!({"pageToken": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}), vec!["pageToken"]),
        ("ListTasks", json!({"status": "TASK_STATE_LOST"}), vec!["status"]),
        ("ListTasks", json!({"status": "working"}), vec!["status"]),
        ("ListTasks", json!({"status": 17}), vec!["status"]),
        ("ListTasks", json!({"status": -1}), vec!["status"]),
        ("ListTasks", json!({"statusTimestampAfter": "2027-10-27T10:00:00"}), vec!["statusTimestampAfter"]),
        ("ListTasks", json!({"statusTimestampAfter": "yesterday"}), vec!["statusTimestampAfter"]),
        ("ListTasks", json!({"statusTimestampAfter": "2027-13-27T10:00:00Z"}), vec!["statusTimestampAfter"]),
        ("ListTasks", json!({"statusTimestampAfter": 1_700_000_000}), vec!["statusTimestampAfter"]),
        ("ListTasks", json!({"historyLength": -3}), vec!["historyLength"]),
        ("ListTasks", json!({"includeArtifacts": "maybe"}), vec!["includeArtifacts"]),
        (
            "ListTasks",
            json!({"pageSize": 0, "status": "X", "historyLength": -1, "statusTimestampAfter": "x"}),
            vec!["historyLength", "pageSize", "status", "statusTimestampAfter"],
        ),
        ("CancelTask", json!({"id": "TASK", "metadata": []}), vec!["metadata"]),
        ("CancelTask", json!({"id": "TASK", "tenant": "x"}), vec!["tenant"]),
        ("SubscribeToTask", json!({"id": "TASK", "tenant": "x"}), vec!["tenant"]),
        ("CreateTaskPushNotificationConfig", config(json!({"url": ""})), vec!["url"]),
        ("CreateTaskPushNotificationConfig", config(json!({"url": null})), vec!["url"]),
        ("CreateTaskPushNotificationConfig", config(json!({"url": 7})), vec!["url"]),
        ("CreateTaskPushNotificationConfig", config(json!({"token": 7})), vec!["token"]),
        ("CreateTaskPushNotificationConfig", config(json!({"id": []})), vec!["id"]),
        ("CreateTaskPushNotificationConfig", config(json!({"authentication": "Bearer"})), vec!["authentication"]),
        ("CreateTaskPushNotificationConfig", config(json!({"authentication": {}})), vec!["authentication.scheme"]),
        (
            "CreateTaskPushNotificationConfig",
            config(json!({"authentication": {"scheme": 1, "credentials": 2}})),
            vec!["authentication.credentials", "authentication.scheme"],
        ),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "TASK", "pageSize": -1}), vec!["pageSize"]),
        ("ListTaskPushNotificationConfigs", json!({"taskId": "TASK", "pageSize": "x"}), vec!["pageSize"]),
        ("GetExtendedAgentCard", json!({"tenant": "mallory@acme"}), vec!["tenant"]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_parameter_of_the_other_operations_is_named() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    let before = rows(&relay);
    let mut findings = Findings::default();
    for (operation, params, fields) in wrong_params() {
        let params: Value =
            serde_json::from_str(&params.to_string().replace("TASK\"", &format!("{task}\""))).expect("JSON");
        let call = call(&bob, operation, &frank.handle, params.clone());
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            let mut reply = call.by(binding).await;
            if let Err(refusal) = &mut reply.said {
                refusal.violations.sort();
            }
            findings.check(&format!("{operation} {params}"), binding, &reply, INVALID_PARAMS, &fields);
        }
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_text_and_must_be_there() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut findings = Findings::default();
    // In HTTP+JSON they are segments of the path: there they are always text.
    for (operation, names) in [
        ("GetTask", &["id"][..]),
        ("CancelTask", &["id"]),
        ("SubscribeToTask", &["id"]),
        ("CreateTaskPushNotificationConfig", &["taskId", "url"]),
        ("GetTaskPushNotificationConfig", &["taskId", "id"]),
        ("ListTaskPushNotificationConfigs", &["taskId"]),
        ("DeleteTaskPushNotificationConfig", &["taskId", "id"]),
    ] {
        for value in [None, Some(json!(null)), Some(json!("")), Some(json!(7)), Some(json!({})), Some(json!(["x"]))] {
            let params: serde_json::Map<String, Value> =
                names.iter().filter_map(|name| Some(((*name).to_owned(), value.clone()?))).collect();
            let what = format!("{operation} {value:?}");
            let reply = call(&bob, operation, &frank.handle, params.into()).by(Binding::JsonRpc).await;
            findings.check(&what, Binding::JsonRpc, &reply, INVALID_PARAMS, names);
        }
    }
    findings.assert_none();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_document_is_refused_in_the_bindings_shape() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let before = rows(&relay);
    let deep = with(&said_at_once("x"), "/metadata", Some(json!({"deep": nested(80)}))).to_string();
    let fine = said_at_once("x").to_string();
    let large = said_at_once(&"x".repeat(1 << 20)).to_string();
    let rows_of_table: Vec<(&str, Vec<u8>, Option<&str>, Expected)> = vec![
        ("half an object", b"{\"message\": ".to_vec(), None, PARSE_ERROR),
        ("words", b"hello there".to_vec(), None, PARSE_ERROR),
        ("Python", b"{'message': None}".to_vec(), None, PARSE_ERROR),
        ("a trailing comma", b"{\"message\": {},}".to_vec(), None, PARSE_ERROR),
        ("two documents", b"{} {}".to_vec(), None, PARSE_ERROR),
        ("NaN", b"{\"message\": NaN}".to_vec(), None, PARSE_ERROR),
        ("a number too much", b"{\"metadata\": {\"n\": 01}}".to_vec(), None, PARSE_ERROR),
        ("half a character", b"{\"x\": \"\xff\"}".to_vec(), None, PARSE_ERROR),
        ("a BOM", b"\xef\xbb\xbf{}".to_vec(), None, PARSE_ERROR),
        ("a raw line break", b"{\"x\": \"a\nb\"}".to_vec(), None, PARSE_ERROR),
        ("a lone surrogate", br#"{"message": {"messageId": "\ud800"}}"#.to_vec(), None, PARSE_ERROR),
        ("surrogates the wrong way", br#"{"x": "\udc00\ud800"}"#.to_vec(), None, PARSE_ERROR),
        ("too deep", deep.into_bytes(), None, INVALID_REQUEST),
        ("too large", large.into_bytes(), None, (-32600, 413, "invalid_request", OWN)),
        ("text/plain", fine.clone().into_bytes(), Some("text/plain"), CONTENT_TYPE),
        ("a form", b"message=x".to_vec(), Some("application/x-www-form-urlencoded"), CONTENT_TYPE),
        ("XML", b"<message/>".to_vec(), Some("application/xml"), CONTENT_TYPE),
        ("JSON's neighbour", fine.clone().into_bytes(), Some("application/json5"), CONTENT_TYPE),
        ("another vendor's JSON", fine.clone().into_bytes(), Some("application/ld+json"), CONTENT_TYPE),
        ("no type at all", fine.into_bytes(), Some(""), CONTENT_TYPE),
    ];
    let mut findings = Findings::default();
    for (what, body, content_type, expected) in rows_of_table {
        let mut call = headers(&bob, content_type);
        if content_type.is_none() {
            call.insert("content-type", HeaderValue::from_static("application/json"));
        }
        for (binding, path) in [(Binding::JsonRpc, ""), (Binding::HttpJson, "/message:send")] {
            let url = format!("{}/a2a/{}{path}", relay.url, frank.handle);
            let raw = http_bytes(&url, call.clone(), body.clone()).await;
            let reply = if binding == Binding::JsonRpc { Reply::of_json_rpc(raw) } else { Reply::of_http_json(raw) };
            findings.check(what, binding, &reply, expected, &[]);
            assert_eq!(reply.id, Value::Null, "{what}");
        }
    }
    // What is JSON but no object.
    for body in ["[]", "1", "\"x\"", "null", "true"] {
        let url = format!("{}/a2a/{}/message:send", relay.url, frank.handle);
        let reply = Reply::of_http_json(
            http_bytes(&url, headers(&bob, Some("application/json")), body.as_bytes().to_vec()).await,
        );
        findings.check(body, Binding::HttpJson, &reply, INVALID_PARAMS, &[""]);
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
}

async fn http_bytes(url: &str, headers: HeaderMap, body: Vec<u8>) -> Raw {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let response = client.post(url).headers(headers).body(body).send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Raw { status, headers, body: response.bytes().await.expect("a body").to_vec() }
}

/// Envelopes of JSON-RPC that are none: the body, the id that is echoed, and the code with its reason.
fn wrong_envelopes() -> Vec<(Value, Value, Expected)> {
    let unknown_method = (-32601, 0, "method_not_found", OWN);
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "x"}});
    let without = |key: &str| with(&call, &format!("/{key}"), None);
    let changed = |key: &str, value: Value| with(&call, &format!("/{key}"), Some(value));
    vec![
        (json!([]), json!(null), INVALID_REQUEST),
        (json!([call]), json!(null), INVALID_REQUEST),
        (json!([call, call]), json!(null), INVALID_REQUEST),
        (json!(7), json!(null), INVALID_REQUEST),
        (json!("GetTask"), json!(null), INVALID_REQUEST),
        (json!(null), json!(null), INVALID_REQUEST),
        (json!({}), json!(null), INVALID_REQUEST),
        (without("id"), json!(null), INVALID_REQUEST),
        (changed("id", json!({})), json!(null), INVALID_REQUEST),
        (changed("id", json!([1])), json!(null), INVALID_REQUEST),
        (changed("id", json!(true)), json!(null), INVALID_REQUEST),
        (without("jsonrpc"), json!(7), INVALID_REQUEST),
        (changed("jsonrpc", json!("1.0")), json!(7), INVALID_REQUEST),
        (changed("jsonrpc", json!(2.0)), json!(7), INVALID_REQUEST),
        (changed("jsonrpc", json!(null)), json!(7), INVALID_REQUEST),
        (without("method"), json!(7), INVALID_REQUEST),
        (changed("method", json!(7)), json!(7), INVALID_REQUEST),
        (changed("method", json!("")), json!(7), unknown_method),
        (changed("method", json!("NonExistentMethod")), json!(7), unknown_method),
        (changed("method", json!("gettask")), json!(7), unknown_method),
        (changed("method", json!("message/send")), json!(7), unknown_method),
        (changed("method", json!("tasks/get")), json!(7), unknown_method),
        (changed("method", json!("GetTask ")), json!(7), unknown_method),
        (changed("params", json!("x")), json!(7), INVALID_REQUEST),
        (changed("params", json!(7)), json!(7), INVALID_REQUEST),
        (changed("params", json!([{"id": "x"}])), json!(7), INVALID_PARAMS),
        (changed("params", json!([])), json!(7), INVALID_PARAMS),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_that_is_none_is_refused_with_the_id_where_there_is_one() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let before = rows(&relay);
    let url = format!("{}/a2a/{}", relay.url, frank.handle);
    let mut findings = Findings::default();
    for (body, id, expected) in wrong_envelopes() {
        let raw = http("POST", &url, headers(&bob, Some("application/json")), Some(body.to_string())).await;
        let reply = Reply::of_json_rpc(raw);
        let fields: &[&str] = if expected == INVALID_PARAMS { &[""] } else { &[] };
        findings.check(&body.to_string(), Binding::JsonRpc, &reply, expected, fields);
        if reply.id != id {
            findings.0.push(format!("{body}: id {}", reply.id));
        }
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
    // A call without an id would be a notification: it is not executed either.
    let body = json!({"jsonrpc": "2.0", "method": "SendMessage", "params": said_at_once("x")});
    let raw = http("POST", &url, headers(&bob, Some("application/json")), Some(body.to_string())).await;
    assert_eq!(Reply::of_json_rpc(raw).refusal().code, -32600);
    assert_eq!(rows(&relay), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_comes_back_as_it_was_sent() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let url = format!("{}/a2a/{}", relay.url, frank.handle);
    for id in ["7", "\"seven\"", "null", "0", "-1", "1.50", "9007199254740993", "\"\\u00e9\"", "\"\"", "1e3"] {
        for params in [r#"{"pageSize":1}"#, r#"{"pageSize":0}"#] {
            let body = format!(r#"{{"params":{params},"method":"ListTasks","id":{id},"jsonrpc":"2.0"}}"#);
            let raw = http("POST", &url, headers(&bob, Some("application/json")), Some(body)).await;
            assert!(raw.text().contains(&format!(r#""id":{id},"#)), "{id}: {}", raw.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_that_lead_nowhere_have_the_bindings_shape() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    for path in [
        "message:sendx",
        "message",
        "message:",
        "Message:send",
        "message:send/",
        "tasks/",
        "tasks//",
        "tasks/{task}/",
        "tasks/{task}:start",
        "tasks/{task}:cancel/x",
        "tasks/{task}:cancel:cancel",
        "tasks/:cancel",
        "tasks/{task}/pushNotificationConfig",
        "tasks/{task}/pushNotificationConfigs/",
        "tasks/{task}/pushNotificationConfigs/a/b",
        "tasks//pushNotificationConfigs",
        "extendedAgentCard/x",
        "extendedagentcard",
        "card",
        ".well-known/agent.json",
        "%FF",
        "tasks/%ff",
        "x/y/tasks/z",
    ] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            let path = format!("/a2a/{}/{}", frank.handle, path.replace("{task}", &task));
            let reply = Reply::of_http_json(bare(&relay, method, &path, &bob.key).await);
            let refusal = reply.refusal();
            assert_eq!(
                (refusal.code, &*refusal.reason, &*refusal.domain),
                (404, "method_not_found", OWN),
                "{method} {path}"
            );
        }
    }
    let all = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"];
    for (path, allowed) in [
        ("", &["POST"][..]),
        ("/", &["POST"]),
        ("/message:send", &["POST"]),
        ("/message:stream", &["POST"]),
        ("/tasks", &["GET"]),
        ("/tasks/{task}", &["GET"]),
        ("/tasks/{task}:cancel", &["POST"]),
        ("/tasks/{task}:subscribe", &["POST", "GET"]),
        ("/tasks/{task}/pushNotificationConfigs", &["POST", "GET"]),
        ("/tasks/{task}/pushNotificationConfigs/c", &["GET", "DELETE"]),
        ("/extendedAgentCard", &["GET"]),
        ("/frank@acme/message:send", &["POST"]),
        ("/.well-known/agent-card.json", &["GET", "HEAD"]),
    ] {
        for method in all.iter().filter(|method| !allowed.contains(method)) {
            let path = format!("/a2a/{}{}", frank.handle, path.replace("{task}", &task));
            let reply = Reply::of_http_json(bare(&relay, method, &path, &bob.key).await);
            let refusal = reply.refusal();
            assert_eq!(
                (refusal.code, &*refusal.reason, &*refusal.domain),
                (405, "invalid_request", OWN),
                "{method} {path}"
            );
            let mut told: Vec<&str> = reply.raw.header("allow").split(',').map(str::trim).collect();
            let mut allowed = allowed.to_vec();
            told.sort_unstable();
            allowed.sort_unstable();
            assert_eq!(told, allowed, "{method} {path}");
        }
    }
}

/// A request without a body, whose path goes out as it is.
pub async fn bare(relay: &TestRelay, method: &str, path: &str, key: &str) -> Raw {
    let answer = raw(
        &relay.url,
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nA2A-Version: 1.0\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        ),
    )
    .await;
    Raw { status: answer.status, headers: answer.headers, body: answer.text.into_bytes() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_read_as_strictly_as_a_body() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    let mut findings = Findings::default();
    for (path, fields) in [
        ("tasks?pageSize=1&pageSize=2", &["pageSize"][..]),
        ("tasks?status=TASK_STATE_WORKING&status=TASK_STATE_FAILED", &["status"]),
        ("tasks?pageSize=+5", &["pageSize"]),
        ("tasks?pageSize=5%20", &["pageSize"]),
        ("tasks?pageSize=0x10", &["pageSize"]),
        ("tasks?includeArtifacts=True", &["includeArtifacts"]),
        ("tasks?includeArtifacts=1", &["includeArtifacts"]),
        ("tasks?historyLength=-1", &["historyLength"]),
        ("tasks?statusTimestampAfter=2027-10-27", &["statusTimestampAfter"]),
        ("tasks?tenant=mallory@acme", &["tenant"]),
        ("tasks/{task}?historyLength=1&historyLength=1", &["historyLength"]),
        ("tasks/{task}?historyLength=one", &["historyLength"]),
        ("extendedAgentCard?tenant=x", &["tenant"]),
    ] {
        let path = format!("/a2a/{}/{}", frank.handle, path.replace("{task}", &task));
        let reply = Reply::of_http_json(bare(&relay, "GET", &path, &bob.key).await);
        findings.check(&path, Binding::HttpJson, &reply, INVALID_PARAMS, fields);
    }
    findings.assert_none();
    for path in [
        "tasks?pageSize=&status=&pageToken=&contextId=&statusTimestampAfter=&includeArtifacts=&historyLength=",
        "tasks?",
        "tasks?unknown=1&unknown2=2",
        "tasks?page_size=1&include_artifacts=true&history_length=1&context_id=c&status_timestamp_after=2020-01-01T00:00:00Z",
        "tasks?statusTimestampAfter=2020-01-01T00:00:00+01:00",
        "tasks?status=1&pageSize=001",
        "tasks?A2A-Version=1.0&a2a-extensions=x",
        "tasks/{task}?tenant=frank@acme",
        "tasks/{task}?historyLength=0",
        "frank@acme/tasks/{task}",
        "frank%40acme/tasks",
    ] {
        let path = format!("/a2a/{}/{}", frank.handle, path.replace("{task}", &task));
        let reply = Reply::of_http_json(bare(&relay, "GET", &path, &bob.key).await);
        assert!(reply.said.is_ok(), "{path}: {:?}", reply.said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_proto_json_allows_is_taken() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut findings = Vec::new();
    for (pointer, value) in [
        ("/message/role", json!(1)),
        ("/message/unknownField", json!({"x": [1]})),
        ("/unknownField", json!(42)),
        ("/message/taskId", json!("")),
        ("/message/contextId", json!("")),
        ("/message/contextId", json!(null)),
        ("/message/metadata", json!(null)),
        ("/message/parts/0", json!({"text": ""})),
        ("/message/parts/0", json!({"text": "x", "raw": null, "url": null, "data": null})),
        ("/message/parts/0", json!({"data": null})),
        ("/message/parts/0", json!({"data": [1, "x", null, {}]})),
        ("/message/parts/0", json!({"raw": ""})),
        ("/message/parts/0", json!({"raw": "-_8"})),
        ("/message/parts/0", json!({"raw": "-_8="})),
        ("/message/parts/0", json!({"raw": "+/8"})),
        ("/message/parts/0", json!({"text": "x", "mediaType": "", "filename": null})),
        ("/message/parts/0", json!({"text": "x", "media_type": "text/markdown"})),
        ("/configuration", json!(null)),
        ("/configuration", json!({"historyLength": "3", "returnImmediately": true})),
        ("/configuration", json!({"history_length": 3, "return_immediately": true, "accepted_output_modes": ["x"]})),
        ("/configuration", json!({"historyLength": 3.0, "returnImmediately": true})),
        ("/configuration", json!({"historyLength": 2_147_483_647, "returnImmediately": true})),
        ("/metadata", json!({})),
        ("/tenant", json!("frank@acme")),
        ("/tenant", json!("FRANK@acme")),
        ("/tenant", json!("")),
    ] {
        let mut params = with(&said("x"), pointer, Some(value.clone()));
        if pointer != "/configuration" || value.is_null() {
            params["configuration"] = json!({"returnImmediately": true});
        }
        let call = call(&bob, "SendMessage", &frank.handle, params);
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            let reply = call.by(binding).await;
            if let Err(refusal) = &reply.said {
                findings.push(format!("{binding:?} {pointer} {value}: {refusal:?}"));
            }
        }
    }
    for content_type in
        ["application/json", "application/a2a+json", "application/json; charset=utf-8", "Application/JSON ; x=y"]
    {
        let call = call(&bob, "SendMessage", &frank.handle, said_at_once("x")).header("content-type", content_type);
        for binding in [Binding::JsonRpc, Binding::HttpJson] {
            call.by(binding).await.result();
        }
    }
    // Snake case all the way.
    let snake = json!({
        "message": {
            "message_id": "m-1", "role": "ROLE_USER", "context_id": "c", "reference_task_ids": ["t"],
            "parts": [{"text": "x"}],
        },
        "configuration": {"return_immediately": true},
    });
    for binding in [Binding::JsonRpc, Binding::HttpJson] {
        let reply = call(&bob, "SendMessage", &frank.handle, snake.clone()).by(binding).await;
        let message = &reply.result()["task"]["history"][0];
        assert_eq!(message["contextId"], "c");
        assert_eq!(message["referenceTaskIds"], json!(["t"]));
        assert_eq!(message["messageId"], "m-1");
    }
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_config_is_looked_at_before_it_is_taken() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    let before = rows(&relay);
    let mut findings = Findings::default();
    for (config, fields) in [
        (json!({"url": "ftp://example.com"}), &["url"][..]),
        (json!({"url": "example.com/hook"}), &["url"]),
        (json!({"url": "https://"}), &["url"]),
        (json!({"url": "https://user:pass@example.com"}), &["url"]),
        (json!({"url": "https://example.com/#here"}), &["url"]),
        (json!({"url": " https://example.com"}), &["url"]),
        (json!({"url": "file:///etc/passwd"}), &["url"]),
        (json!({"url": "https://example.com", "id": "x".repeat(256)}), &["id"]),
        (json!({"url": "https://example.com", "token": "a\nb"}), &["token"]),
        (json!({"url": "https://example.com", "authentication": {"scheme": "Two words"}}), &["authentication.scheme"]),
        (
            json!({"url": "https://example.com", "authentication": {"scheme": "Bearer", "credentials": "a\r\nX: y"}}),
            &["authentication.credentials"],
        ),
    ] {
        let inline: Vec<String> =
            fields.iter().map(|field| format!("configuration.taskPushNotificationConfig.{field}")).collect();
        let inline: Vec<&str> = inline.iter().map(String::as_str).collect();
        let message = with(&said_at_once("x"), "/configuration/taskPushNotificationConfig", Some(config.clone()));
        let own = with(&config, "/taskId", Some(json!(task)));
        for binding in Binding::ALL {
            let reply = call(&bob, "CreateTaskPushNotificationConfig", &frank.handle, own.clone()).by(binding).await;
            let expected =
                if binding == Binding::Grpc { (0, 3, INVALID_PARAMS.2, INVALID_PARAMS.3) } else { INVALID_PARAMS };
            findings.check(&config.to_string(), binding, &reply, expected, fields);
            let reply = call(&bob, "SendMessage", &frank.handle, message.clone()).by(binding).await;
            findings.check(&config.to_string(), binding, &reply, expected, &inline);
        }
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
    // One too many.
    for number in 0..20 {
        let config = json!({"taskId": task, "id": format!("c{number}"), "url": "https://example.com"});
        call(&bob, "CreateTaskPushNotificationConfig", &frank.handle, config).by(Binding::JsonRpc).await.result();
    }
    for (operation, params, field) in [
        ("CreateTaskPushNotificationConfig", json!({"taskId": task, "url": "https://example.com"}), "id"),
        (
            "SendMessage",
            json!({
                "message": {"messageId": "m", "taskId": task, "role": "ROLE_USER", "parts": [{"text": "x"}]},
                "configuration": {"taskPushNotificationConfig": {"url": "https://example.com"}},
            }),
            "configuration.taskPushNotificationConfig.id",
        ),
    ] {
        for binding in Binding::ALL {
            let reply = call(&bob, operation, &frank.handle, params.clone()).by(binding).await;
            assert_eq!(reply.refusal().fields(), [field], "{operation} {binding:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_names_the_fields_too() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let before = rows(&relay);
    let mut findings = Findings::default();
    let expected = (0, 3, INVALID_PARAMS.2, INVALID_PARAMS.3);
    let full = full();
    for (pointer, value, fields) in [
        ("/message", json!({}), &["message.messageId", "message.role", "message.parts"][..]),
        ("/message/messageId", json!(""), &["message.messageId"]),
        ("/message/role", json!("ROLE_AGENT"), &["message.role"]),
        ("/message/role", json!(0), &["message.role"]),
        ("/message/parts", json!([]), &["message.parts"]),
        ("/message/parts/1", json!({}), &["message.parts[1]"]),
        ("/message/contextId", json!("x".repeat(256)), &["message.contextId"]),
        ("/message/extensions", json!(["", "urn:x"]), &["message.extensions[0]"]),
        ("/configuration/historyLength", json!(-1), &["configuration.historyLength"]),
        ("/metadata", json!({"client_idempotency_key": 7}), &["metadata.client_idempotency_key"]),
    ] {
        for operation in ["SendMessage", "SendStreamingMessage"] {
            let call = call(&bob, operation, &frank.handle, with(&full, pointer, Some(value.clone())));
            findings.check(
                &format!("{pointer} {value}"),
                Binding::Grpc,
                &call.by(Binding::Grpc).await,
                expected,
                fields,
            );
        }
    }
    for (operation, params, fields) in [
        ("GetTask", json!({}), &["id"][..]),
        ("GetTask", json!({"id": "x", "historyLength": -1}), &["historyLength"]),
        ("ListTasks", json!({"pageSize": 0, "historyLength": -1}), &["historyLength", "pageSize"]),
        ("ListTasks", json!({"pageToken": "x"}), &["pageToken"]),
        ("CancelTask", json!({}), &["id"]),
        ("SubscribeToTask", json!({}), &["id"]),
        ("CreateTaskPushNotificationConfig", json!({}), &["taskId", "url"]),
        ("GetTaskPushNotificationConfig", json!({}), &["id", "taskId"]),
        ("ListTaskPushNotificationConfigs", json!({}), &["taskId"]),
        ("DeleteTaskPushNotificationConfig", json!({}), &["id", "taskId"]),
    ] {
        let mut reply = call(&bob, operation, &frank.handle, params.clone()).by(Binding::Grpc).await;
        if let Err(refusal) = &mut reply.said {
            refusal.violations.sort();
        }
        findings.check(&format!("{operation} {params}"), Binding::Grpc, &reply, expected, fields);
    }
    // Numbers that JSON does not know.
    for data in [f64::NAN, f64::INFINITY] {
        let request = a2a_pb::proto::SendMessageRequest {
            tenant: frank.handle.clone(),
            message: Some(a2a_pb::proto::Message {
                message_id: "m".to_owned(),
                role: 1,
                parts: vec![a2a_pb::proto::Part {
                    content: Some(a2a_pb::proto::part::Content::Data(prost_types::Value::from(data))),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            ..Default::default()
        };
        let body = framed(&prost::Message::encode_to_vec(&request));
        let path = "/lf.a2a.v1.A2AService/SendMessage";
        let raw = over_http2(&relay.url, path, "application/grpc", headers(&bob, None), body).await;
        let reply = Reply::of_grpc(raw, "SendMessage");
        assert_eq!((reply.refusal().code, &*reply.refusal().reason), (3, INVALID_PARAMS.2), "{data}");
    }
    findings.assert_none();
    assert_eq!(rows(&relay), before, "nothing was written");
}
