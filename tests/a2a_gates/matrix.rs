//! Every operation, over every binding, by everybody: what comes of it. A stranger is told what it would be told of a task
//! that does not exist, byte for byte.

use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use super::gate::{Binding, OPERATIONS, Raw, call, rows, said_at_once, task, with};
use crate::support::{Agent, TestRelay};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// It sent the task.
    Sender,
    /// It is to do the work, and stands at its own door.
    Recipient,
    /// It has a key and nothing to do with the task.
    Stranger,
    /// It sent the task, and the recipient has blocked it since.
    Blocked,
    /// It sent the task, and was disabled since.
    Disabled,
    NoKey,
    WrongKey,
}

const EVERYBODY: [Who; 7] =
    [Who::Sender, Who::Recipient, Who::Stranger, Who::Blocked, Who::Disabled, Who::NoKey, Who::WrongKey];

/// What comes of a call: `ok`, or the reason of its refusal.
fn expected(operation: &str, who: Who) -> &'static str {
    let push = operation.contains("PushNotificationConfig");
    let names_no_task = operation.starts_with("Send") || ["ListTasks", "GetExtendedAgentCard"].contains(&operation);
    match (who, operation) {
        (Who::NoKey | Who::WrongKey, _) => "unauthenticated",
        (Who::Disabled, _) => "forbidden",

        (Who::Blocked, "SendMessage" | "SendStreamingMessage") => "teammate_blocked",
        // At its own door it reads its inbox, and that is all.
        (Who::Recipient, "SendMessage" | "SendStreamingMessage" | "CancelTask") => "UNSUPPORTED_OPERATION",
        (Who::Recipient, _) if push => "UNSUPPORTED_OPERATION",

        // Sending makes a task of its own here; for what names none there is nothing to find.
        (Who::Stranger, _) if !names_no_task => "TASK_NOT_FOUND",
        // Whom the recipient has blocked still reads and cancels.
        (Who::Sender | Who::Recipient | Who::Blocked | Who::Stranger, _) => "ok",
    }
}

/// Parameters for the operation on this task, which has a push config `c`.
fn params(operation: &str, task: &str) -> Value {
    match operation {
        "SendMessage" | "SendStreamingMessage" => said_at_once("Hello"),
        "ListTasks" | "GetExtendedAgentCard" => json!({}),
        "GetTask" | "CancelTask" | "SubscribeToTask" => json!({"id": task}),
        "CreateTaskPushNotificationConfig" => json!({"taskId": task, "id": "d", "url": "https://example.com/hook"}),
        "ListTaskPushNotificationConfigs" => json!({"taskId": task}),
        _ => json!({"taskId": task, "id": "c"}),
    }
}

/// A relay with everybody in it.
struct Stage {
    relay: TestRelay,
    bob: Agent,
    frank: Agent,
    mallory: Agent,
}

impl Stage {
    async fn new() -> Stage {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mallory = relay.agent("mallory@acme").await;
        Stage { relay, bob, frank, mallory }
    }

    /// A task of Bob's for Frank, with a push config.
    async fn task(&self) -> String {
        let task = task(&self.bob, &self.frank).await;
        let config = json!({
            "taskId": task, "id": "c", "url": "https://example.com/secret-path", "token": "tok-5ecret",
            "authentication": {"scheme": "Bearer", "credentials": "cred-5ecret"},
        });
        let create = call(&self.bob, "CreateTaskPushNotificationConfig", &self.frank.handle, config);
        create.by(Binding::JsonRpc).await.result();
        task
    }

    fn caller(&self, who: Who) -> Agent {
        match who {
            Who::Sender | Who::Blocked | Who::Disabled | Who::NoKey => self.bob.clone(),
            Who::Recipient => self.frank.clone(),
            Who::Stranger => self.mallory.clone(),
            Who::WrongKey => self.bob.with_key("ah_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        }
    }

    async fn become_true(&self, who: Who) {
        match who {
            Who::Blocked => assert_eq!(self.frank.block(&self.bob).await.status, 201),
            Who::Disabled => {
                let id = agentrelay::domain::id::AgentId::parse(&self.bob.id).expect("an id");
                let actor = Actor::operator("req_test");
                self.relay.relay.disable_agent(actor, AgentName::Id(id)).await.expect("disabled");
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_by_everybody_comes_to_what_the_table_says() {
    let mut differences = Vec::new();
    let mut count = 0;
    for who in EVERYBODY {
        let stage = Stage::new().await;
        let mut tasks = Vec::new();
        for _ in 0..OPERATIONS.len() * Binding::ALL.len() {
            tasks.push(stage.task().await);
        }
        stage.become_true(who).await;
        for operation in OPERATIONS {
            for binding in Binding::ALL {
                let task = tasks.pop().expect("a task");
                let before = rows(&stage.relay);
                let mut call = call(&stage.caller(who), operation, &stage.frank.handle, params(operation, &task));
                if who == Who::NoKey {
                    call = call.without_header("authorization");
                }
                let reply = call.by(binding).await;
                let found = reply.said.as_ref().map_or_else(|refusal| refusal.reason.clone(), |_| "ok".to_owned());
                let wanted = expected(operation, who);
                if found != wanted {
                    differences.push(format!("{operation} {binding:?} {who:?}: {found}, not {wanted}"));
                }
                if wanted != "ok" && rows(&stage.relay) != before {
                    differences.push(format!("{operation} {binding:?} {who:?}: something was written"));
                }
                count += 1;
            }
        }
    }
    assert_eq!(count, 11 * 3 * 7);
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// What a client could compare: status, headers and body, but for what differs from call to call.
fn comparable(raw: &Raw) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let mut headers: Vec<(String, String)> = raw
        .headers
        .iter()
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    (raw.status, headers, raw.body.clone())
}

/// Makes an operation's parameters for a task.
type Make<'a> = Box<dyn Fn(&str) -> Value + 'a>;

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_told_the_same_as_of_a_task_that_does_not_exist() {
    let stage = Stage::new().await;
    let task = stage.task().await;
    let ended = stage.task().await;
    stage.bob.step(&ended, "cancel").await.result();
    let accepted = stage.task().await;
    stage.frank.step(&accepted, "accept").await.result();
    let missing = "01HXYZ4K2VNJQP7R8MWDB3CSTF";
    let carol = stage.relay.agent("carol@acme").await;
    let grace = stage.relay.agent("grace@acme").await;
    grace.block(&stage.mallory).await;
    stage.frank.block(&carol).await;
    let into = |task: &str| with(&said_at_once("x"), "/message/taskId", Some(json!(task)));
    let mut calls: Vec<(&'static str, Make<'_>)> = vec![
        ("SendMessage", Box::new(into)),
        ("SendStreamingMessage", Box::new(into)),
        ("SendMessage", Box::new(move |task| with(&into(task), "/message/contextId", Some(json!("c"))))),
        (
            "SendMessage",
            Box::new(move |task| {
                let config = json!({"url": "https://example.com/"});
                with(&into(task), "/configuration/taskPushNotificationConfig", Some(config))
            }),
        ),
        ("GetTask", Box::new(|task| json!({"id": task, "historyLength": 0}))),
    ];
    for operation in OPERATIONS {
        if !params(operation, "").to_string().contains("\"\"") {
            continue;
        }
        calls.push((operation, Box::new(move |task| params(operation, task))));
        if operation.contains("PushNotificationConfig") && operation != "ListTaskPushNotificationConfigs" {
            // A config that is not there, of a task that is.
            calls.push((operation, Box::new(move |task| with(&params(operation, task), "/id", Some(json!("none"))))));
        }
    }
    assert!(calls.len() > 14, "{}", calls.len());
    // A stranger; one whom the recipient has blocked; the recipient and the sender at a third agent's door.
    let strangers = [
        (&stage.mallory, &stage.frank.handle),
        (&carol, &stage.frank.handle),
        (&stage.bob, &grace.handle),
        (&stage.frank, &grace.handle),
        (&stage.mallory, &grace.handle),
    ];
    for (stranger, door) in strangers {
        for (operation, params) in &calls {
            for binding in Binding::ALL {
                let reference = call(stranger, operation, door, params(missing)).by(binding).await;
                let refusal = reference.refusal();
                // Who may not send here at all is told so, whatever the task.
                assert_eq!(refusal.reason, "TASK_NOT_FOUND", "{operation} {binding:?} {} at {door}", stranger.handle);
                for known in [&task, &ended, &accepted, &task.to_lowercase()] {
                    let reply = call(stranger, operation, door, params(known)).by(binding).await;
                    assert_eq!(
                        comparable(&reply.raw),
                        comparable(&reference.raw),
                        "{operation} {binding:?} {} at {door}",
                        stranger.handle
                    );
                }
                // Nor does it differ from what is no id at all.
                let reply = call(stranger, operation, door, params("no-id")).by(binding).await;
                assert_eq!(comparable(&reply.raw), comparable(&reference.raw), "{operation} {binding:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_another_agents_tasks_is_listed() {
    let stage = Stage::new().await;
    stage.task().await;
    let context = with(&said_at_once("x"), "/message/contextId", Some(json!("shared-context")));
    call(&stage.bob, "SendMessage", &stage.frank.handle, context.clone()).by(Binding::Grpc).await.result();
    let grace = stage.relay.agent("grace@acme").await;
    call(&stage.bob, "SendMessage", &grace.handle, context).by(Binding::Grpc).await.result();
    for binding in Binding::ALL {
        for (caller, door, count) in [
            (&stage.mallory, &stage.frank, 0),
            (&stage.mallory, &stage.mallory, 0),
            (&stage.bob, &stage.bob, 0),
            (&stage.bob, &stage.frank, 2),
            (&stage.bob, &grace, 1),
            (&stage.frank, &stage.frank, 2),
            (&stage.frank, &grace, 0),
            (&grace, &grace, 1),
        ] {
            let reply = call(caller, "ListTasks", &door.handle, json!({})).by(binding).await;
            // ProtoJSON leaves out what is 0.
            let total = reply.result()["totalSize"].as_i64().unwrap_or(0);
            assert_eq!(total, count, "{binding:?} {} at {}", caller.handle, door.handle);
        }
        // A context's name opens nothing.
        let params = json!({"contextId": "shared-context"});
        let reply = call(&stage.mallory, "ListTasks", &stage.frank.handle, params.clone()).by(binding).await;
        assert_eq!(reply.result()["totalSize"].as_i64().unwrap_or(0), 0);
        let reply = call(&stage.bob, "ListTasks", &stage.frank.handle, params).by(binding).await;
        assert_eq!(reply.result()["totalSize"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_push_config_was_entrusted_with_is_never_shown() {
    let stage = Stage::new().await;
    let task = stage.task().await;
    for binding in Binding::ALL {
        for operation in OPERATIONS.into_iter().filter(|name| name.contains("PushNotificationConfig")) {
            if operation.starts_with("Delete") {
                continue;
            }
            let mut params = params(operation, &task);
            if operation.starts_with("Create") {
                params["token"] = json!("tok-5ecret");
                params["authentication"] = json!({"scheme": "Bearer", "credentials": "cred-5ecret"});
            }
            let sender = call(&stage.bob, operation, &stage.frank.handle, params.clone()).by(binding).await;
            let shown = sender.result().to_string();
            assert!(shown.contains("https://example.com/"), "{shown}");
            let raw = sender.raw.text();
            assert!(!raw.contains("5ecret"), "{binding:?} {operation}: {raw}");
            for other in [&stage.mallory, &stage.frank] {
                let reply = call(other, operation, &stage.frank.handle, params.clone()).by(binding).await;
                let text = reply.raw.text();
                assert!(reply.said.is_err() && !text.contains("secret") && !text.contains("5ecret"), "{text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_agents_door_takes_nothing_new_and_keeps_what_was_there() {
    let stage = Stage::new().await;
    for binding in Binding::ALL {
        let task = stage.task().await;
        let id = agentrelay::domain::id::AgentId::parse(&stage.frank.id).expect("an id");
        let actor = Actor::operator("req_test");
        stage.relay.relay.disable_agent(actor.clone(), AgentName::Id(id)).await.expect("disabled");
        for operation in OPERATIONS {
            let reply = call(&stage.bob, operation, &stage.frank.handle, params(operation, &task)).by(binding).await;
            let found = reply.said.as_ref().map_or_else(|refusal| refusal.reason.clone(), |_| "ok".to_owned());
            let wanted = match operation {
                "SendMessage" | "SendStreamingMessage" | "GetExtendedAgentCard" => "recipient_not_found",
                // The one before has cancelled it.
                "SubscribeToTask" => "UNSUPPORTED_OPERATION",
                _ => "ok",
            };
            assert_eq!(found, wanted, "{operation} {binding:?}");
        }
        stage.relay.relay.enable_agent(actor, AgentName::Id(id)).await.expect("enabled");
    }
}
