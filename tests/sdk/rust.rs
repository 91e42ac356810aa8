//! The story told with the official Rust client, which needs no program of its own: without the steps about webhooks, parts
//! and those who are turned away.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2a::{A2AError, StreamResponse, Task, error_code, new_message_id};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::auth::AuthInterceptor;
use a2a_client::{A2AClient, A2AClientFactory, BoxStream, Transport};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Client = A2AClient<Box<dyn Transport>>;
type Stream = BoxStream<'static, Result<StreamResponse, A2AError>>;

/// Tells the story; gives its steps.
pub async fn tell(url: &str, key: &str, transport: &str) -> Vec<Value> {
    let frank = connect(url, key, transport).await;
    let mut steps = card(&frank, url).await.to_vec();
    steps.extend(sending(&frank).await);
    steps.extend(streams(&frank, &connect(url, key, transport).await).await);
    steps.push(lists(&frank).await);
    steps.extend(questions(&frank).await);
    steps.push(cancelling(&frank).await);
    steps.push(errors(&frank).await);
    steps
}

async fn connect(url: &str, key: &str, transport: &str) -> Client {
    let card = AgentCardResolver::new(None).resolve(url).await.expect("a card");
    let factory = A2AClientFactory::builder()
        .preferred_bindings(vec![transport.to_owned()])
        .with_interceptor(Arc::new(AuthInterceptor::bearer(key)))
        .build();
    let (client, interface) = factory.create_from_card_with_interface(&card).await.expect("a client");
    assert_eq!(interface.protocol_binding, transport);
    client
}

/// A request, by its fields.
fn request<T: DeserializeOwned>(fields: Value) -> T {
    serde_json::from_value(fields).expect("a request")
}

/// A message, with what more it holds.
fn message(kind: &str, more: &Value) -> Value {
    let text = json!([{ "text": "Please do your work." }]);
    let mut message =
        json!({ "messageId": format!("{kind}-{}", new_message_id()), "role": "ROLE_USER", "parts": text });
    message.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    message
}

/// Sends a message and waits for the agent; gives the task, or the answer itself.
async fn send(frank: &Client, message: Value) -> Result<Value, A2AError> {
    let answer = frank.send_message(&request(json!({ "message": message }))).await?;
    let answer = serde_json::to_value(answer).expect("JSON");
    Ok(answer.as_object().and_then(|answer| answer.values().next()).expect("an answer").clone())
}

fn state(task: &Value) -> String {
    let state = task["status"]["state"].as_str().expect("a state");
    state.trim_start_matches("TASK_STATE_").to_lowercase()
}

fn text(message: &Value) -> &str {
    message["parts"][0]["text"].as_str().expect("a text")
}

/// Reads a stream to its end: how it began, what it brought, how the task stood at last.
async fn follow(mut stream: Stream) -> Value {
    let (mut first, mut artifacts, mut last) = (None, BTreeMap::new(), None);
    while let Some(response) = stream.next().await {
        let response = serde_json::to_value(response.expect("an event")).expect("JSON");
        let (kind, event) = response.as_object().and_then(|response| response.iter().next()).expect("an event");
        let brought = event["artifacts"].as_array().into_iter().flatten().chain(event.get("artifact"));
        artifacts.extend(brought.map(|brought| (brought["artifactId"].to_string(), text(brought).to_owned())));
        if event.get("status").is_some() {
            last = Some(state(event));
        }
        first = first.or(Some(kind.clone()));
    }
    let artifacts: BTreeMap<&str, String> =
        artifacts.iter().map(|(id, text)| (id.trim_matches('"'), text.clone())).collect();
    json!({ "first": first, "artifacts": artifacts, "last": last })
}

async fn card(frank: &Client, url: &str) -> [Value; 2] {
    let card = AgentCardResolver::new(None).resolve(url).await.expect("a card");
    let extended = frank.get_extended_agent_card(&request(json!({}))).await.expect("the extended card");
    let extensions = extended.capabilities.extensions.expect("extensions");
    let params = extensions[0].params.as_ref().expect("params");
    let bindings: Vec<String> = card.supported_interfaces.into_iter().map(|each| each.protocol_binding).collect();
    [
        json!({
            "step": "card",
            "name": card.name,
            "bindings": bindings,
            "streaming": card.capabilities.streaming,
            "push": card.capabilities.push_notifications,
        }),
        json!({ "step": "extended card", "handle": params["handle"], "role": params["role"] }),
    ]
}

async fn sending(frank: &Client) -> [Value; 3] {
    let at_once = json!({
        "message": message("tck-complete-task", &json!({})),
        "configuration": { "returnImmediately": true },
    });
    let sent = serde_json::to_value(frank.send_message(&request(at_once)).await.expect("sent")).expect("JSON");
    let done = send(frank, message("tck-complete-task", &json!({}))).await.expect("done");
    let answer = send(frank, message("tck-message-response", &json!({}))).await.expect("an answer");
    [
        json!({ "step": "send without waiting", "state": state(&sent["task"]) }),
        json!({ "step": "send and wait", "state": state(&done), "said": text(&done["status"]["message"]) }),
        json!({ "step": "direct answer", "role": answer["role"], "said": text(&answer) }),
    ]
}

async fn streams(frank: &Client, again: &Client) -> [Value; 2] {
    let sent = request(json!({ "message": message("tck-stream-001", &json!({})) }));
    let mut whole = json!({ "step": "stream" });
    let found = follow(frank.send_streaming_message(&sent).await.expect("a stream")).await;
    whole.as_object_mut().expect("an object").extend(found.as_object().expect("an object").clone());

    // Cut off while the agent waits for an answer: the stream is dropped in its middle.
    let context_id = new_message_id();
    let sent = message("tck-input-required", &json!({ "contextId": context_id }));
    let mut stream = frank.send_streaming_message(&request(json!({ "message": sent }))).await.expect("a stream");
    loop {
        let response = serde_json::to_value(stream.next().await.expect("an event").expect("an event")).expect("JSON");
        if ["task", "statusUpdate"].iter().any(|kind| response[kind]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED")
        {
            break;
        }
    }
    drop(stream);
    let list = again.list_tasks(&request(json!({ "contextId": context_id }))).await.expect("a list");
    let mut stream = again.subscribe_to_task(&request(json!({ "id": list.tasks[0].id }))).await.expect("a stream");
    let Some(Ok(StreamResponse::Task(task))) = stream.next().await else { panic!("a task comes first") };
    let more = json!({ "message": message("tck-artifact-text", &json!({ "taskId": task.id })) });
    again.send_message(&request(more)).await.expect("sent");
    let task = serde_json::to_value(task).expect("JSON");
    [whole, json!({ "step": "subscribe again", "state": state(&task), "then": follow(stream).await })]
}

async fn lists(frank: &Client) -> Value {
    let context_id = new_message_id();
    let mut sent = Vec::new();
    for _ in 0..5 {
        let task = send(frank, message("tck-complete-task", &json!({ "contextId": context_id }))).await.expect("sent");
        sent.push(task["id"].as_str().expect("an id").to_owned());
    }
    let (mut listed, mut pages, mut token) = (Vec::new(), Vec::new(), None);
    while token.as_deref() != Some("") {
        let asked = json!({ "contextId": context_id, "pageSize": 2, "pageToken": token });
        let page = frank.list_tasks(&request(asked)).await.expect("a page");
        assert_eq!((page.page_size, page.total_size), (2, 5));
        pages.push(page.tasks.len());
        listed.extend(page.tasks.into_iter().map(|task| task.id));
        token = Some(page.next_page_token);
    }
    sent.reverse();
    assert_eq!(listed, sent);
    json!({ "step": "list", "pages": pages })
}

async fn questions(frank: &Client) -> [Value; 2] {
    let asked = send(frank, message("tck-input-required", &json!({}))).await.expect("a question");
    let answer = json!({ "taskId": asked["id"], "contextId": asked["contextId"] });
    let done = send(frank, message("tck-complete-task", &answer)).await.expect("done");
    let mut lengths = BTreeMap::new();
    for (name, length) in [("none", None), ("2", Some(2)), ("0", Some(0))] {
        let asked = request(json!({ "id": done["id"], "historyLength": length }));
        let task: Task = frank.get_task(&asked).await.expect("the task");
        let roles: Vec<_> = task.history.unwrap_or_default().into_iter().map(|message| message.role).collect();
        lengths.insert(name, roles);
    }
    let said = text(&asked["status"]["message"]);
    [
        json!({ "step": "question", "state": state(&asked), "said": said, "then": state(&done) }),
        json!({ "step": "history", "lengths": lengths }),
    ]
}

async fn cancelling(frank: &Client) -> Value {
    let asked = send(frank, message("tck-input-required", &json!({}))).await.expect("a question");
    let mut states = Vec::new();
    for _ in 0..2 {
        let task = frank.cancel_task(&request(json!({ "id": asked["id"] }))).await.expect("cancelled");
        states.push(state(&serde_json::to_value(task).expect("JSON")));
    }
    json!({ "step": "cancel twice", "states": states })
}

async fn errors(frank: &Client) -> Value {
    use error_code::{INVALID_PARAMS, TASK_NOT_CANCELABLE, TASK_NOT_FOUND, UNSUPPORTED_OPERATION};

    let done = send(frank, message("tck-complete-task", &json!({}))).await.expect("done");
    let (it, missing) = (json!({ "id": done["id"] }), json!({ "id": "01J00000000000000000000000" }));
    let more = message("tck-complete-task", &json!({ "taskId": done["id"] }));
    let cases = [
        ("a missing task", TASK_NOT_FOUND, frank.get_task(&request(missing)).await.err()),
        ("no task id", TASK_NOT_FOUND, frank.get_task(&request(json!({ "id": "nope" }))).await.err()),
        ("cancelling what has ended", TASK_NOT_CANCELABLE, frank.cancel_task(&request(it.clone())).await.err()),
        ("a message to what has ended", UNSUPPORTED_OPERATION, send(frank, more.clone()).await.err()),
        (
            "subscribing to what has ended",
            UNSUPPORTED_OPERATION,
            refused(frank.subscribe_to_task(&request(it)).await).await,
        ),
        (
            "a stream of what has ended",
            UNSUPPORTED_OPERATION,
            refused(frank.send_streaming_message(&request(json!({ "message": more }))).await).await,
        ),
        ("an impossible page", INVALID_PARAMS, frank.list_tasks(&request(json!({ "pageSize": 1000 }))).await.err()),
    ];
    let mapped = cases.into_iter().map(|(name, code, error)| {
        assert_eq!(error.as_ref().map(|error| error.code), Some(code), "{name}: {error:?}");
        name
    });
    // The client has no way to speak another version.
    json!({ "step": "errors", "mapped": mapped.chain(["another version"]).collect::<Vec<_>>() })
}

/// Why there is no stream.
async fn refused(opened: Result<Stream, A2AError>) -> Option<A2AError> {
    match opened {
        Ok(mut stream) => stream.next().await?.err(),
        Err(error) => Some(error),
    }
}
