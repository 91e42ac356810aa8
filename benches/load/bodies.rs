//! The bodies: what agents really say, about 600 bytes of it.

use std::collections::BTreeMap;

use a2a_pb::proto as pb;
use prost_types::value::Kind;
use serde_json::{Value, json};

use crate::http::{Request, ThreadId};

/// One message's text, of a length that makes a new handoff's body about 600 bytes.
pub(crate) const TEXT: &str = "Refactored the /users API: the list is paginated now and answers an object with items \
and next_cursor instead of a bare array. The old shape goes away with the next release, so the dashboard's client needs \
a change: follow next_cursor until it is null. All server tests pass; the dashboard's tests do not yet.";

/// A new handoff to this recipient.
pub(crate) fn create(recipient: &str) -> String {
    call(
        "message/send",
        &json!({
            "recipient": recipient,
            "intent": "inform",
            "message": {"role": "user", "parts": [{"type": "text", "text": TEXT}]},
            "artifacts": [],
            "metadata": {"client_idempotency_key": Request::IDEMPOTENCY_KEY},
        }),
    )
}

/// A message into a thread.
pub(crate) fn append() -> String {
    call(
        "message/send",
        &json!({
            "task_id": Request::THREAD,
            "message": {"role": "user", "parts": [{"type": "text", "text": TEXT}]},
            "metadata": {"client_idempotency_key": Request::IDEMPOTENCY_KEY},
        }),
    )
}

/// A whole thread.
pub(crate) fn get() -> String {
    call("tasks/get", &json!({"task_id": Request::THREAD}))
}

/// A page of the inbox: 50 threads is also the default.
pub(crate) fn list() -> String {
    call("tasks/list", &json!({"page": {"limit": 50}}))
}

/// A page of the inbox, as large as it gets.
pub(crate) fn list_200(cursor: Option<&str>) -> String {
    call("tasks/list", &json!({"page": {"limit": 200, "cursor": cursor}}))
}

/// The recipient takes the handoff.
pub(crate) fn accept() -> String {
    call("tasks/update", &json!({"task_id": Request::THREAD, "transition": "accept", "session_id": "load-1"}))
}

/// The recipient has done it.
pub(crate) fn complete() -> String {
    call(
        "tasks/update",
        &json!({
            "task_id": Request::THREAD,
            "transition": "complete",
            "result_summary": "The client follows next_cursor; all tests pass.",
        }),
    )
}

/// The recipient reports on its work.
pub(crate) fn progress(thread: ThreadId, text: &str) -> String {
    call(
        "tasks/update",
        &json!({
            "task_id": thread.text(),
            "transition": "progress",
            "message": {"role": "agent", "parts": [{"type": "text", "text": text}]},
        }),
    )
}

/// A new handoff by A2A's JSON-RPC binding.
pub(crate) fn a2a_json_rpc() -> String {
    call("SendMessage", &send_message())
}

/// A new handoff by A2A's HTTP+JSON binding.
pub(crate) fn a2a_http_json() -> String {
    send_message().to_string()
}

/// A new handoff to this recipient by A2A's gRPC binding.
pub(crate) fn a2a_grpc(recipient: &str) -> pb::SendMessageRequest {
    let text = pb::Part { content: Some(pb::part::Content::Text(TEXT.to_owned())), ..pb::Part::default() };
    let key = prost_types::Value { kind: Some(Kind::StringValue(Request::IDEMPOTENCY_KEY.to_owned())) };
    pb::SendMessageRequest {
        tenant: recipient.to_owned(),
        message: Some(pb::Message {
            message_id: MESSAGE_ID.to_owned(),
            role: pb::Role::User.into(),
            parts: vec![text],
            ..pb::Message::default()
        }),
        configuration: Some(pb::SendMessageConfiguration {
            return_immediately: true,
            ..pb::SendMessageConfiguration::default()
        }),
        metadata: Some(prost_types::Struct { fields: BTreeMap::from([("client_idempotency_key".to_owned(), key)]) }),
    }
}

/// A client's own id of a message: as long as a UUID. The relay keeps it and nothing depends on it.
const MESSAGE_ID: &str = "0b51c2f0-5c6e-4b7e-9f43-6a1f0c8d2e77";

/// `SendMessageRequest`, not waiting for the agent, as the two JSON bindings have it.
fn send_message() -> Value {
    json!({
        "message": {"messageId": MESSAGE_ID, "role": "ROLE_USER", "parts": [{"text": TEXT}]},
        "configuration": {"returnImmediately": true},
        "metadata": {"client_idempotency_key": Request::IDEMPOTENCY_KEY},
    })
}

fn call(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": "req-1", "method": method, "params": params}).to_string()
}
