//! Batches: up to fifty calls in one array, done in their order and answered in one array.

use agentrelay::api::Settings;
use serde_json::{Value, json};

use crate::support::{Agent, TestRelay, message, settings};

fn call(id: &Value, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn list(id: impl Into<Value>) -> Value {
    call(&id.into(), "tasks/list", &json!({}))
}

fn to_frank(text: &str) -> Value {
    json!({ "recipient": "frank@acme", "message": message(text) })
}

/// Posts the batch, which is answered; gives the answers.
async fn post(caller: &Agent, batch: Value) -> Vec<Value> {
    let answer = caller.post_a2a(batch.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "application/json");
    answer.json().as_array().expect("an array").clone()
}

/// The symbol of each answer; empty for a success.
fn symbols(answers: &[Value]) -> Vec<&str> {
    answers.iter().map(|answer| answer["error"]["data"]["code"].as_str().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_in_its_order_with_each_calls_id() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let ids = [json!("z"), json!(3), json!(null), json!("z"), json!(-1.5)];
    let batch: Vec<Value> = ids.iter().map(|id| list(id.clone())).collect();
    let expected: Vec<Value> = ids
        .iter()
        .map(|id| json!({ "jsonrpc": "2.0", "id": id, "result": { "items": [], "next_cursor": null } }))
        .collect();
    assert_eq!(post(&bob, json!(batch)).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_done_one_after_the_other() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let batch: Vec<Value> =
        (0..20).map(|number| call(&json!(number), "message/send", &to_frank(&number.to_string()))).collect();
    let sent = post(&bob, json!(batch)).await;
    let sent: Vec<&Value> = sent.iter().map(|answer| &answer["result"]["task_id"]).collect();
    let inbox = frank.inbox().await;
    let listed: Vec<&Value> = inbox.iter().rev().map(|item| &item["task_id"]).collect();
    assert_eq!(sent, listed);

    let task = sent[0];
    let step = |transition: &str| json!({ "task_id": task, "transition": transition });
    let batch = json!([
        call(&json!(1), "tasks/update", &step("complete")),
        call(&json!(2), "tasks/update", &step("accept")),
        call(&json!(3), "message/send", &json!({ "task_id": task, "message": message("Done") })),
        call(&json!(4), "tasks/update", &step("complete")),
        call(&json!(5), "tasks/get", &json!({ "task_id": task }))
    ]);
    let answers = post(&frank, batch).await;
    assert_eq!(symbols(&answers), ["invalid_transition", "", "", "", ""]);
    assert_eq!(answers[4]["result"]["messages"][1]["body"], "Done");
    assert_eq!(answers[4]["result"]["status"]["state"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_holds_one_to_fifty_calls() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    assert_eq!(post(&bob, json!([list(1)])).await.len(), 1);
    let many = |count: usize| json!(vec![call(&json!(1), "message/send", &to_frank("Hello")); count]);
    assert_eq!(post(&bob, many(50)).await.len(), 50);
    for refused in [json!([]), many(51), json!(vec![1; 1_000])] {
        let answer = bob.post_a2a(refused.to_string()).await.refused("invalid_request");
        assert_eq!((answer.status, &answer.json()["id"]), (400, &json!(null)));
    }
    let list = frank.rpc("tasks/list", json!({ "page": { "limit": 200 } })).await.result();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(50), "a batch that is too long is not begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_is_refused_in_its_place() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let batch = json!([
        1,
        list("a"),
        null,
        "tasks/list",
        [],
        [list("nested")],
        {},
        { "id": 7 },
        { "jsonrpc": "2.0", "id": "b", "method": 5 },
        { "jsonrpc": "2.0", "id": [], "method": "tasks/list" },
        call(&json!("c"), "tasks/lost", &json!({})),
        call(&json!("d"), "tasks/get", &json!([])),
        call(&json!("e"), "tasks/get", &json!("x")),
        call(&json!("f"), "tasks/get", &json!({ "task_id": "no-id" })),
        list("g")
    ]);
    let answers = post(&bob, batch).await;
    let expected = [
        "invalid_request",
        "",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "method_not_found",
        "invalid_params",
        "invalid_request",
        "thread_not_found",
        "",
    ];
    assert_eq!(symbols(&answers), expected);
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    let expected = json!([null, "a", null, null, null, null, null, 7, "b", null, "c", "d", "e", "f", "g"]);
    assert_eq!(json!(ids), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_done_and_left_out_of_the_answer() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let notification = |text: &str| json!({ "jsonrpc": "2.0", "method": "message/send", "params": to_frank(text) });
    let batch = json!([
        notification("one"),
        list("a"),
        notification("two"),
        { "jsonrpc": "2.0", "method": "tasks/lost" },
        list("b")
    ]);
    let ids: Vec<Value> = post(&bob, batch).await.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, ["a", "b"]);

    let all = json!([notification("three"), { "jsonrpc": "2.0", "method": "tasks/lost" }, notification("four")]);
    let answer = bob.post_a2a(all.to_string()).await;
    assert_eq!((answer.status, &*answer.text), (204, ""));
    let said: Vec<Value> = frank.inbox().await.iter().rev().map(|item| item["summary_preview"].clone()).collect();
    assert_eq!(said, ["one", "two", "three", "four"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_in_a_batch_have_the_whole_envelope_and_one_request_id() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let batch = json!([call(&json!(1), "tasks/get", &json!({})), call(&json!(2), "tasks/lost", &json!({}))]);
    let answer = bob.post_a2a(batch.to_string()).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    for (refused, code) in answers.as_array().expect("an array").iter().zip([-32602, -32601]) {
        assert_eq!(refused["jsonrpc"], "2.0");
        assert_eq!(refused["error"]["code"], code);
        assert_eq!(refused["error"]["data"]["request_id"], answer.header("x-request-id"));
        assert!(refused["error"]["data"]["details"].is_object());
        assert!(refused.get("result").is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_refused_as_a_whole_before_its_calls_are_looked_at() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let batch = json!([list(1), list(2)]).to_string();
    let answer = bob.with_key("wrong").post_a2a(batch.clone()).await.refused("unauthenticated");
    assert_eq!((answer.status, &answer.json()["id"]), (401, &json!(null)));
    let cut = batch[..batch.len() - 1].to_owned();
    assert_eq!(bob.post_a2a(cut).await.refused("parse_error").json()["id"], json!(null));
    let large = format!("{batch}{}", " ".repeat(1 << 20));
    assert_eq!(bob.post_a2a(large).await.refused("invalid_request").status, 413);
    assert_eq!(bob.post_a2a(format!("\n\t {batch} \n")).await.json().as_array().map(Vec::len), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_counts_in_the_rate_limit() {
    let relay = TestRelay::with(Settings { rate_limit: 5, ..settings() }).await;
    let (bob, frank) = relay.bob_and_frank().await;
    let notification = json!({ "jsonrpc": "2.0", "method": "message/send", "params": to_frank("Hello") });
    // What is no call is refused before it is counted.
    let batch = json!([
        list(1),
        1,
        notification,
        list(2),
        {},
        call(&json!(3), "tasks/lost", &json!({})),
        list(4),
        list(5),
        list(6)
    ]);
    let answer = bob.post_a2a(batch.to_string()).await;
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let expected =
        ["", "invalid_request", "", "invalid_request", "method_not_found", "", "rate_limited", "rate_limited"];
    assert_eq!(symbols(answers.as_array().expect("an array")), expected);
    let seconds: u64 = answer.header("retry-after").parse().expect("whole seconds");
    assert!((1..=60).contains(&seconds));
    let refused = &answers[7];
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(6), &json!(-32003)));
    bob.post_a2a(list(7).to_string()).await.refused("rate_limited");
    assert_eq!(frank.inbox().await.len(), 1);
    let within = frank.post_a2a(json!(vec![list(1); 4]).to_string()).await;
    assert_eq!(within.header("retry-after"), "");
    assert_eq!(symbols(within.json().as_array().expect("an array")), [""; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_does_not_take_the_others_along() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    relay.sqlite().execute_batch("ALTER TABLE messages RENAME TO mislaid").expect("a broken file");
    let get = call(&json!(2), "tasks/get", &json!({ "task_id": task }));
    let answers = post(&frank, json!([list(1), get, list(3)])).await;
    assert_eq!(symbols(&answers), ["", "internal", ""]);
}
