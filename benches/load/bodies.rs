//! The JSON-RPC bodies: what agents really say, about 600 bytes of it.

use serde_json::json;

use crate::http::Request;

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

fn call(method: &str, params: &serde_json::Value) -> String {
    json!({"jsonrpc": "2.0", "id": "req-1", "method": method, "params": params}).to_string()
}
