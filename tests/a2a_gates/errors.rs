//! Every refusal over all three bindings: A2A's own by the specification's table, the relay's with native statuses.

use std::collections::BTreeSet;

use agentrelay::api::Settings;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use super::gate::{Binding, Call, OPERATIONS, Reply, call, said, said_at_once, task, with};
use crate::support::{Agent, TestRelay, settings};

const A2A: &str = "a2a-protocol.org";
const OWN: &str = "agentrelay";

/// A refusal: what it is called, JSON-RPC's code and HTTP status, gRPC's code, HTTP+JSON's status, reason, domain.
type Row = (&'static str, i64, u16, i64, i64, &'static str, &'static str);

/// A2A v1.0.1, section 5.4, copied by hand. gRPC: 3 is `INVALID_ARGUMENT`, 5 `NOT_FOUND`, 9
/// `FAILED_PRECONDITION`, 13 `INTERNAL`.
const A2A_ERRORS: [Row; 9] = [
    ("TaskNotFoundError", -32001, 200, 5, 404, "TASK_NOT_FOUND", A2A),
    ("TaskNotCancelableError", -32002, 200, 9, 400, "TASK_NOT_CANCELABLE", A2A),
    ("PushNotificationNotSupportedError", -32003, 200, 9, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED", A2A),
    ("UnsupportedOperationError", -32004, 200, 9, 400, "UNSUPPORTED_OPERATION", A2A),
    ("ContentTypeNotSupportedError", -32005, 200, 3, 400, "CONTENT_TYPE_NOT_SUPPORTED", A2A),
    ("InvalidAgentResponseError", -32006, 200, 13, 500, "INVALID_AGENT_RESPONSE", A2A),
    ("ExtendedAgentCardNotConfiguredError", -32007, 200, 9, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", A2A),
    ("ExtensionSupportRequiredError", -32008, 200, 9, 400, "EXTENSION_SUPPORT_REQUIRED", A2A),
    ("VersionNotSupportedError", -32009, 200, 9, 400, "VERSION_NOT_SUPPORTED", A2A),
];

/// What is not A2A's own: JSON-RPC has its standard codes and -32000 for the rest. Wrong parameters have the reason and the
/// domain by which the official SDKs know them.
const OWN_ERRORS: [Row; 9] = [
    ("unauthenticated", -32000, 401, 16, 401, "unauthenticated", OWN),
    ("forbidden", -32000, 403, 7, 403, "forbidden", OWN),
    ("rate_limited", -32000, 429, 8, 429, "rate_limited", OWN),
    ("teammate_blocked", -32000, 200, 7, 403, "teammate_blocked", OWN),
    ("recipient_not_found", -32000, 200, 5, 404, "recipient_not_found", OWN),
    ("duplicate_idempotency_key", -32000, 200, 6, 409, "duplicate_idempotency_key", OWN),
    ("invalid_intent_payload", -32602, 200, 3, 400, "invalid_intent_payload", OWN),
    ("invalid_params", -32602, 200, 3, 400, "INVALID_PARAMS", A2A),
    ("internal", -32603, 500, 13, 500, "internal", OWN),
];

#[track_caller]
fn assert_row(reply: &Reply, binding: Binding, row: Row, what: &str) {
    let (name, rpc_code, rpc_http, grpc_code, http, reason, domain) = row;
    let refusal = reply.refusal();
    let code = match binding {
        Binding::JsonRpc => rpc_code,
        Binding::HttpJson => http,
        Binding::Grpc => grpc_code,
    };
    assert_eq!(
        (refusal.code, &*refusal.reason, &*refusal.domain),
        (code, reason, domain),
        "{binding:?} {name} {what}: {refusal:?}"
    );
    if binding == Binding::JsonRpc {
        assert_eq!(reply.raw.status, rpc_http, "{name} {what}");
    }
    assert!(reply.raw.header("x-request-id").starts_with("req_"), "{binding:?} {name} {what}");
    assert!(!refusal.message.is_empty() && refusal.message.is_ascii(), "{refusal:?}");
}

fn row(name: &str) -> Row {
    *A2A_ERRORS.iter().chain(&OWN_ERRORS).find(|row| row.0 == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn the_nine_are_the_specifications() {
    let codes: BTreeSet<i64> = A2A_ERRORS.iter().map(|row| row.1).collect();
    assert_eq!(codes, (-32009..=-32001).collect());
    for (name, .., reason, _) in A2A_ERRORS {
        let snake: String =
            name.trim_end_matches("Error")
                .chars()
                .map(|character| {
                    if character.is_uppercase() {
                        format!("_{character}")
                    } else {
                        character.to_uppercase().to_string()
                    }
                })
                .collect();
        assert_eq!(reason, snake.trim_start_matches('_'));
    }
    // The one place in the sources that has them says the same.
    let source = include_str!("../../src/api/a2a/error.rs");
    for (name, code, _, grpc, http, reason, _) in A2A_ERRORS {
        let status = match grpc {
            3 => "InvalidArgument",
            5 => "NotFound",
            9 => "FailedPrecondition",
            _ => "Internal",
        };
        let start = format!("Kind::{} ", name.trim_end_matches("Error"));
        let line = source.lines().find(|line| line.trim().starts_with(&start) && line.contains("=> row("));
        let line: String = line.unwrap_or_else(|| panic!("no row {name}")).split_whitespace().collect();
        assert!(line.ends_with(&format!("row({code},Status::{status},{http},\"{reason}\"),")), "{line}");
    }
}

/// Calls that are refused with this error, each with the bindings in which it can be.
async fn calls(relay: &TestRelay, name: &str) -> Vec<(Call, &'static [Binding])> {
    let (bob, frank) = relay.bob_and_frank().await;
    let all = &Binding::ALL[..];
    let json = &Binding::ALL[..2];
    let at = |operation, params| (call(&bob, operation, &frank.handle, params), all);
    let unknown = json!({"id": "01HXYZ4K2VNJQP7R8MWDB3CSTF"});
    match name {
        "TaskNotFoundError" => {
            let into = |id: &str| with(&said("x"), "/message/taskId", Some(json!(id)));
            let config = json!({"taskId": "nonexistent", "id": "c", "url": "https://example.com/"});
            let mut calls = vec![
                at("SendMessage", into("nonexistent")),
                at("SendStreamingMessage", into("01HXYZ4K2VNJQP7R8MWDB3CSTF")),
                at("GetTaskPushNotificationConfig", json!({"taskId": task(&bob, &frank).await, "id": "none"})),
                at("ListTaskPushNotificationConfigs", json!({"taskId": "nonexistent"})),
            ];
            for operation in ["GetTask", "CancelTask", "SubscribeToTask"] {
                calls.push(at(operation, unknown.clone()));
                calls.push(at(operation, json!({"id": "nonexistent \u{1f980}"})));
            }
            for operation in ["GetTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"] {
                calls.push(at(operation, json!({"taskId": "nonexistent", "id": "c"})));
            }
            calls.push(at("CreateTaskPushNotificationConfig", config));
            calls
        }
        "TaskNotCancelableError" => {
            let mut calls = Vec::new();
            for steps in [&["accept"][..], &["accept", "complete"], &["accept", "fail"], &["reject"]] {
                let task = task(&bob, &frank).await;
                for step in steps {
                    let with = match *step {
                        "complete" => json!({"result_summary": "Done"}),
                        "fail" | "reject" => json!({"message": crate::support::message("No")}),
                        _ => json!({}),
                    };
                    frank.step_with(&task, step, with).await.result();
                }
                calls.push(at("CancelTask", json!({"id": task})));
            }
            calls
        }
        "UnsupportedOperationError" => {
            let task = task(&bob, &frank).await;
            bob.step(&task, "cancel").await.result();
            let more = with(&said("x"), "/message/taskId", Some(json!(task)));
            let own = |operation, params| (call(&bob, operation, &bob.handle, params), all);
            let waiting = super::gate::task(&frank, &bob).await;
            vec![
                at("SubscribeToTask", json!({"id": task})),
                at("SendMessage", more.clone()),
                at("SendStreamingMessage", more),
                own("SendMessage", said("x")),
                own("SendStreamingMessage", said("x")),
                own("CancelTask", json!({"id": waiting})),
                own("CreateTaskPushNotificationConfig", json!({"taskId": waiting, "url": "https://example.com/"})),
            ]
        }
        "ContentTypeNotSupportedError" => {
            let call = call(&bob, "SendMessage", &frank.handle, said("x")).header("content-type", "text/plain");
            vec![(call, json)]
        }
        "VersionNotSupportedError" => {
            let version = |(call, bindings): (Call, _)| (call.without_header("a2a-version"), bindings);
            OPERATIONS.into_iter().map(|operation| version(at(operation, params_of(operation)))).collect()
        }
        other => own_calls(relay, other, bob, frank).await,
    }
}

/// Calls that are refused with this error of the relay.
async fn own_calls(relay: &TestRelay, name: &str, bob: Agent, frank: Agent) -> Vec<(Call, &'static [Binding])> {
    let all = &Binding::ALL[..];
    let at = |operation, params| (call(&bob, operation, &frank.handle, params), all);
    match name {
        "unauthenticated" => {
            let stranger = bob.with_key("ah_live_wrong");
            OPERATIONS.into_iter().map(|it| (call(&stranger, it, &frank.handle, params_of(it)), all)).collect()
        }
        "forbidden" => {
            let name = AgentName::Id(agentrelay::domain::id::AgentId::parse(&bob.id).expect("an id"));
            relay.relay.disable_agent(Actor::operator("req_test"), name).await.expect("disabled");
            OPERATIONS.into_iter().map(|operation| at(operation, params_of(operation))).collect()
        }
        "teammate_blocked" => {
            let task = task(&bob, &frank).await;
            assert_eq!(frank.block(&bob).await.status, 201);
            let more = with(&said("x"), "/message/taskId", Some(json!(task)));
            vec![at("SendMessage", said("x")), at("SendStreamingMessage", said("x")), at("SendMessage", more)]
        }
        "recipient_not_found" => {
            let ghost = |handle: &str, operation, params| (call(&bob, operation, handle, params), all);
            vec![
                ghost("ghost@acme", "SendMessage", said("x")),
                ghost("ghost@acme", "SendStreamingMessage", said("x")),
                ghost("ghost@acme", "ListTasks", json!({})),
                ghost("ghost@acme", "GetExtendedAgentCard", json!({})),
                ghost("no handle", "SendMessage", said("x")),
                ghost("no handle", "ListTasks", json!({})),
            ]
        }
        "duplicate_idempotency_key" => {
            let keyed =
                |text: &str| with(&said_at_once(text), "/metadata", Some(json!({"client_idempotency_key": "k"})));
            let first = call(&bob, "SendMessage", &frank.handle, keyed("one")).by(Binding::HttpJson).await;
            first.result();
            vec![at("SendMessage", keyed("two")), at("SendStreamingMessage", keyed("three"))]
        }
        "invalid_intent_payload" => {
            let intent =
                |own: Value| with(&said("x"), "/metadata", Some(json!({"urn:agentrelay:a2a:handoff:v1": own})));
            let action = json!({"description": "d", "rationale": "r", "target_files": []});
            vec![
                at("SendMessage", intent(json!({"intent": "propose_action"}))),
                at("SendMessage", intent(json!({"intent": "inform", "proposedAction": action}))),
            ]
        }
        "invalid_params" => vec![
            at("ListTasks", json!({"pageSize": 1000})),
            at("SendMessage", with(&said("x"), "/message/role", Some(json!("ROLE_AGENT")))),
        ],
        "internal" => {
            let task = task(&bob, &frank).await;
            relay.sqlite().execute_batch("ALTER TABLE messages RENAME TO mislaid").expect("a broken file");
            vec![at("GetTask", json!({"id": task})), at("SendMessage", said_at_once("x"))]
        }
        other => panic!("nobody has provoked {other} yet"),
    }
}

/// Parameters with which an operation could succeed or at least begin.
fn params_of(operation: &str) -> Value {
    match operation {
        "SendMessage" | "SendStreamingMessage" => said("x"),
        "GetTask" | "CancelTask" | "SubscribeToTask" => json!({"id": "01HXYZ4K2VNJQP7R8MWDB3CSTF"}),
        "ListTasks" | "GetExtendedAgentCard" => json!({}),
        _ => json!({"taskId": "01HXYZ4K2VNJQP7R8MWDB3CSTF", "id": "c", "url": "https://example.com/"}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_that_can_occur_has_its_three_mappings() {
    // The relay has push notifications and an extended card, requires no extension, and is no go-between of other agents.
    let never = [
        "PushNotificationNotSupportedError",
        "InvalidAgentResponseError",
        "ExtendedAgentCardNotConfiguredError",
        "ExtensionSupportRequiredError",
    ];
    for row in A2A_ERRORS.into_iter().chain(OWN_ERRORS) {
        // The rate limit has a test of its own.
        if never.contains(&row.0) || row.0 == "rate_limited" {
            continue;
        }
        let relay = TestRelay::start().await;
        for (call, bindings) in calls(&relay, row.0).await {
            let mut texts = BTreeSet::new();
            for binding in bindings {
                let reply = call.by(*binding).await;
                assert_row(&reply, *binding, row, &call.to_string());
                let refusal = reply.refusal().clone();
                texts.insert(format!("{} {} {:?}", refusal.message, refusal.metadata, refusal.violations));
                let challenge = reply.raw.header("www-authenticate");
                let wanted = if row.0 == "unauthenticated" && *binding != Binding::Grpc { "Bearer" } else { "" };
                assert_eq!(challenge, wanted, "{binding:?} {}", row.0);
                assert_eq!(!refusal.violations.is_empty(), row.0 == "invalid_params", "{refusal:?}");
            }
            assert_eq!(texts.len(), 1, "one text for all bindings: {texts:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_too_often_is_told_when_to_come_back() {
    let relay = TestRelay::with(Settings { rate_limit: 3, ..settings() }).await;
    for (binding, handle) in Binding::ALL.into_iter().zip(["bob@acme", "carol@acme", "dave@acme"]) {
        let caller: Agent = relay.agent(handle).await;
        let call = call(&caller, "ListTasks", handle, json!({}));
        // All bindings count together.
        for binding in Binding::ALL {
            call.by(binding).await.result();
        }
        let reply = call.by(binding).await;
        assert_row(&reply, binding, row("rate_limited"), "");
        let seconds = reply.refusal().retry_after_s.expect("when to come back");
        assert!((1..=60).contains(&seconds), "{seconds}");
    }
    // Cards are no calls.
    for _ in 0..5 {
        let answer = relay.request("GET", "/a2a/bob@acme/.well-known/agent-card.json").await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_repeats_no_key_and_no_message() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let secret = "correct horse battery staple";
    let mut params = said(secret);
    params["message"]["parts"] = json!([{"text": secret}, {"raw": format!("{secret}!")}]);
    params["configuration"] = json!({"taskPushNotificationConfig": {
        "url": "ftp://example.com", "token": format!("{secret}\n"),
        "authentication": {"scheme": "Bearer", "credentials": format!("{secret}\n")},
    }});
    for binding in [Binding::JsonRpc, Binding::HttpJson] {
        let reply = call(&bob, "SendMessage", &frank.handle, params.clone()).by(binding).await;
        assert_eq!(reply.refusal().fields().len(), 4, "{:?}", reply.refusal());
        let text = reply.raw.text();
        assert!(!text.contains("horse") && !text.contains(&bob.key), "{text}");
    }
    for binding in Binding::ALL {
        let wrong = bob.with_key(&format!("{}x", bob.key));
        let reply = call(&wrong, "SendMessage", &frank.handle, said(secret)).by(binding).await;
        let raw = format!("{:?} {}", reply.raw.headers, reply.raw.text());
        assert!(!raw.contains("horse") && !raw.contains("ah_live_"), "{raw}");
    }
}
