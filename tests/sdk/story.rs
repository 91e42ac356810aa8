//! What every SDK finds, step by step. Only those who are turned away see it differently.

use serde_json::{Value, json};

use super::Sdk;

/// The story, with what is shown of those who are turned away.
pub fn of([wrong_key, disabled, blocked, too_many]: [&str; 4]) -> Vec<Value> {
    vec![
        json!({
            "step": "card",
            "name": "frank",
            "bindings": ["JSONRPC", "HTTP+JSON", "GRPC"],
            "streaming": true,
            "push": true,
        }),
        json!({ "step": "extended card", "handle": "frank@acme", "role": "backend" }),
        json!({ "step": "send without waiting", "state": "submitted" }),
        json!({ "step": "send and wait", "state": "completed", "said": "Hello from TCK" }),
        json!({ "step": "direct answer", "role": "ROLE_AGENT", "said": "Direct message response" }),
        json!({
            "step": "stream",
            "first": "task",
            "artifacts": { "output": "Stream hello from TCK" },
            "last": "completed",
        }),
        json!({
            "step": "subscribe again",
            "state": "input_required",
            "then": {
                "first": "statusUpdate",
                "artifacts": { "output": "Generated text content" },
                "last": "completed",
            },
        }),
        json!({ "step": "list", "pages": [2, 2, 1] }),
        json!({
            "step": "question",
            "state": "input_required",
            "said": "What else should I know?",
            "then": "completed",
        }),
        json!({
            "step": "history",
            "lengths": {
                "none": ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"],
                "2": ["ROLE_AGENT", "ROLE_USER"],
                "0": [],
            },
        }),
        json!({
            "step": "parts",
            "sent": ["text", "raw", "url", "data"],
            "output": ["tck", "output.txt", "text/plain"],
        }),
        json!({ "step": "cancel twice", "states": ["canceled", "canceled"] }),
        json!({
            "step": "webhooks",
            "kept": [["first", true, true, "Bearer"], ["second", true, true, "Bearer"]],
            "listed": ["first", "second"],
            "left": ["second"],
        }),
        json!({
            "step": "told",
            "kinds": ["statusUpdate", "artifactUpdate", "statusUpdate"],
            "last": "completed",
            "secrets": ["Bearer credentials of second", "token-second"],
        }),
        json!({
            "step": "errors",
            "mapped": [
                "a missing task",
                "no task id",
                "cancelling what has ended",
                "a message to what has ended",
                "subscribing to what has ended",
                "a stream of what has ended",
                "an impossible page",
                "another version",
            ],
        }),
        json!({
            "step": "refusals",
            "shown": {
                "a wrong key": wrong_key,
                "a disabled agent": disabled,
                "a blocked sender": blocked,
                "too many calls": too_many,
            },
        }),
    ]
}

/// What an SDK shows of a wrong key, a disabled agent, a blocked sender, and too many calls.
pub fn refusals(sdk: Sdk, transport: &str) -> [&'static str; 4] {
    match (sdk, transport) {
        (_, "GRPC") => ["UNAUTHENTICATED", "PERMISSION_DENIED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED"],
        (_, "HTTP+JSON") => ["401", "403", "403", "429"],
        // It reads the body of an answer only when HTTP says that all is well.
        (Sdk::Python, _) => ["401", "403", "-32000", "429"],
        (Sdk::JavaScript, _) => ["unauthenticated", "forbidden", "teammate_blocked", "rate_limited"],
    }
}
