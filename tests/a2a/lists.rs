//! Lists of tasks: their order, filters, pages and totals.

use std::time::Duration;

use agentrelay::domain::time::Timestamp;
use serde_json::{Value, json};

use super::{hand, new_task, refused, saying, sender, take};
use crate::consistency;
use crate::support::a2a::{Client, Door};
use crate::support::{Agent, TestRelay};

/// A moment.
const TEN: i64 = 1_777_111_200_000;

fn at(ms: i64) -> String {
    Timestamp::from_ms(ms).to_string()
}

async fn list(client: &Client, params: Value) -> Value {
    let list = client.list(params).await.expect("a list");
    for field in ["tasks", "nextPageToken", "pageSize", "totalSize"] {
        assert!(list.get(field).is_some(), "{field} is not there: {list}");
    }
    list
}

#[track_caller]
fn ids(list: &Value) -> Vec<&str> {
    list["tasks"].as_array().expect("tasks").iter().map(|task| task["id"].as_str().expect("an id")).collect()
}

/// A relay whose clock stands, with a sender for a door and five tasks of its, a millisecond after each other.
async fn five(relay: &TestRelay, door: Door) -> (Agent, Client, Vec<String>) {
    relay.clock.set(TEN);
    let frank = relay.agent(&format!("frank-{door:?}@acme").to_lowercase()).await;
    let client = sender(relay, door).await.at(door, &frank);
    let mut tasks = Vec::new();
    for number in 0..5 {
        relay.clock.set(TEN + number);
        tasks.push(new_task(&client, &format!("Task {number}")).await);
    }
    (frank, client, tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn begin_with_what_changed_last() {
    let relay = TestRelay::start().await;
    for door in Door::ALL {
        let (frank, client, tasks) = five(&relay, door).await;
        let listed = list(&client, json!({})).await;
        let newest: Vec<&String> = tasks.iter().rev().collect();
        assert_eq!(ids(&listed), newest, "{door:?}");
        assert_eq!((&listed["totalSize"], &listed["pageSize"]), (&json!(5), &json!(50)), "{door:?}");
        assert_eq!(listed["nextPageToken"], "", "{door:?}");
        relay.clock.set(TEN + 10);
        take(&frank, &tasks[1], &("accept", json!({}))).await;
        relay.clock.set(TEN + 11);
        take(&frank, &tasks[3], &("reject", json!({}))).await;
        let listed = list(&client, json!({})).await;
        assert_eq!(ids(&listed), [3, 1, 4, 2, 0].map(|place: usize| tasks[place].as_str()), "{door:?}");
        assert_eq!(listed["tasks"][1]["status"], json!({ "state": "TASK_STATE_WORKING", "timestamp": at(TEN + 10) }));
        // The agent at its own door sees the same.
        assert_eq!(list(&frank.at(door, &frank), json!({})).await, listed, "{door:?}");
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn show_nobody_elses_tasks_and_none_of_another_agent() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let cleo = relay.agent("cleo@acme").await;
    let task = bob.hand_to(&frank, "From bob").await;
    bob.hand_to(&cleo, "To cleo").await;
    cleo.hand_to(&frank, "From cleo").await;
    frank.hand_to(&bob, "From frank").await;
    for door in Door::ALL {
        let listed = list(&bob.at(door, &frank), json!({})).await;
        assert_eq!((ids(&listed), &listed["totalSize"]), (vec![task.as_str()], &json!(1)), "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn are_walked_page_by_page_while_tasks_change() {
    let relay = TestRelay::start().await;
    for door in Door::ALL {
        let (frank, client, tasks) = five(&relay, door).await;
        let first = list(&client, json!({ "pageSize": 2 })).await;
        assert_eq!(ids(&first), [&*tasks[4], &*tasks[3]], "{door:?}");
        assert_eq!((&first["totalSize"], &first["pageSize"]), (&json!(5), &json!(2)), "{door:?}");
        // One that was shown, one that was not, and a new one.
        relay.clock.set(TEN + 20);
        take(&frank, &tasks[4], &("accept", json!({}))).await;
        take(&frank, &tasks[1], &("accept", json!({}))).await;
        new_task(&client, "New").await;
        let mut token = first["nextPageToken"].as_str().expect("a token").to_owned();
        let mut rest = Vec::new();
        while !token.is_empty() {
            let page = list(&client, json!({ "pageSize": 2, "pageToken": token })).await;
            rest.extend(ids(&page).into_iter().map(ToOwned::to_owned));
            page["nextPageToken"].as_str().expect("a token").clone_into(&mut token);
        }
        assert_eq!(rest, [&*tasks[2], &*tasks[1], &*tasks[0]], "{door:?}: each once, none missed, none new");
        // A token is one door's as well as another's.
        for other in Door::ALL {
            let client = client.through(other);
            let page = list(&client, json!({ "pageSize": 2, "pageToken": first["nextPageToken"] })).await;
            assert_eq!(ids(&page), [&*tasks[2], &*tasks[1]], "{door:?} {other:?}");
        }
        for made_up in ["nonsense", "AAAA", &tasks[0]] {
            let refusal = refused(client.list(json!({ "pageToken": made_up })).await);
            refusal.is("INVALID_PARAMS");
            assert_eq!(refusal.fields(), ["pageToken"], "{door:?}");
        }
        let foreign = json!({ "pageToken": first["nextPageToken"], "contextId": "another list" });
        assert_eq!(refused(client.list(foreign).await).fields(), ["pageToken"], "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn are_filtered_by_state_moment_and_context() {
    let relay = TestRelay::start().await;
    for door in Door::ALL {
        let (frank, client, tasks) = five(&relay, door).await;
        relay.clock.set(TEN + 10);
        take(&frank, &tasks[0], &("accept", json!({}))).await;
        take(&frank, &tasks[1], &("accept", json!({}))).await;
        take(&frank, &tasks[1], &("request_input", saying("Which?"))).await;
        take(&frank, &tasks[2], &("reject", json!({}))).await;
        client.cancel(json!({ "id": tasks[3] })).await.expect("cancelled");
        let mut talk = hand("In a talk");
        talk["message"]["contextId"] = json!("talk");
        let talk = super::id(&client.send(talk).await.expect("sent")["task"]);
        for (params, shown) in [
            (json!({ "status": "TASK_STATE_SUBMITTED" }), vec![&talk, &tasks[4]]),
            (json!({ "status": "TASK_STATE_WORKING" }), vec![&tasks[0]]),
            (json!({ "status": "TASK_STATE_INPUT_REQUIRED" }), vec![&tasks[1]]),
            (json!({ "status": "TASK_STATE_REJECTED" }), vec![&tasks[2]]),
            (json!({ "status": "TASK_STATE_CANCELED" }), vec![&tasks[3]]),
            (json!({ "status": "TASK_STATE_COMPLETED" }), vec![]),
            (json!({ "status": "TASK_STATE_FAILED" }), vec![]),
            (json!({ "status": "TASK_STATE_AUTH_REQUIRED" }), vec![]),
            (json!({ "status": "TASK_STATE_SUBMITTED", "contextId": "talk" }), vec![&talk]),
            (json!({ "contextId": "talk" }), vec![&talk]),
            (json!({ "contextId": tasks[4] }), vec![&tasks[4]]),
            (json!({ "contextId": "nobody's" }), vec![]),
            (json!({ "statusTimestampAfter": at(TEN + 11) }), vec![]),
            (json!({ "statusTimestampAfter": at(TEN + 10), "status": "TASK_STATE_WORKING" }), vec![&tasks[0]]),
            (
                json!({ "statusTimestampAfter": "2026-04-25T12:00:00.004+02:00", "status": "TASK_STATE_SUBMITTED" }),
                vec![&talk, &tasks[4]],
            ),
            (json!({ "statusTimestampAfter": at(TEN + 5), "status": "TASK_STATE_SUBMITTED" }), vec![&talk]),
        ] {
            let listed = list(&client, params.clone()).await;
            assert_eq!(ids(&listed), shown, "{door:?} {params}");
            assert_eq!(listed["totalSize"], json!(shown.len()), "{door:?} {params}");
        }
        let everything =
            list(&client, json!({ "status": "TASK_STATE_UNSPECIFIED", "statusTimestampAfter": at(TEN) })).await;
        assert_eq!(everything["totalSize"], 6, "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn show_artifacts_and_messages_only_when_asked() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let bare = bob.hand_to(&frank, "Nothing yet").await;
    let task = bob.hand_to(&frank, "Work").await;
    bob.say(&task, "And more").await.result();
    let artifact = json!({ "type": "parts", "artifact_id": "a", "parts": [{ "text": "Made" }] });
    take(&frank, &task, &("accept", json!({}))).await;
    take(&frank, &task, &("complete", json!({ "artifacts": [artifact], "result_summary": "Done" }))).await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        for params in [json!({}), json!({ "includeArtifacts": false, "historyLength": 0 })] {
            let listed = list(&client, params).await;
            assert_eq!(ids(&listed), [&*task, &*bare], "{door:?}");
            for shown in listed["tasks"].as_array().expect("tasks") {
                assert!(shown.get("artifacts").is_none() && shown.get("history").is_none(), "{door:?} {shown}");
            }
            assert_eq!(listed["tasks"][0]["status"]["message"]["parts"], json!([{ "text": "Done" }]), "{door:?}");
        }
        let listed = list(&client, json!({ "includeArtifacts": true, "historyLength": 1 })).await;
        let [done, waiting] = [&listed["tasks"][0], &listed["tasks"][1]];
        assert_eq!(done["artifacts"], json!([{ "artifactId": "a", "parts": [{ "text": "Made" }] }]), "{door:?}");
        assert_eq!(done["history"][0]["parts"][0]["text"], "And more", "{door:?}");
        assert_eq!(done["history"].as_array().map(Vec::len), Some(1), "{door:?}");
        // Asked for, and there are none: an empty list, which Protocol Buffers do not tell from no list.
        let none = if door == Door::Grpc { None } else { Some(&json!([])) };
        assert_eq!(waiting.get("artifacts"), none, "{door:?}");
        let all = list(&client, json!({ "includeArtifacts": true, "historyLength": 10 })).await;
        assert_eq!(all["tasks"][0], super::read(&client, &task).await, "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn have_pages_of_one_to_a_hundred_tasks() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        for size in [0, 101, -1] {
            let refusal = refused(client.list(json!({ "pageSize": size })).await);
            refusal.is("INVALID_PARAMS");
            assert_eq!(refusal.fields(), ["pageSize"], "{door:?} {size}");
        }
        for size in [1, 100] {
            assert_eq!(list(&client, json!({ "pageSize": size })).await["pageSize"], size, "{door:?}");
        }
        assert_eq!(refused(client.list(json!({ "historyLength": -1 })).await).fields(), ["historyLength"], "{door:?}");
    }
    for door in Door::JSON {
        let client = bob.at(door, &frank);
        for (name, value) in
            [("status", json!("DONE")), ("statusTimestampAfter", json!("yesterday")), ("includeArtifacts", json!("so"))]
        {
            let refusal = refused(client.list(json!({ name: value })).await);
            assert_eq!(refusal.fields(), [name], "{door:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn have_a_page_of_fifty_when_no_size_is_given() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    relay.clock.set(TEN);
    for _ in 0..51 {
        relay.clock.advance(Duration::from_millis(1));
        bob.hand_to(&frank, "One of many").await;
    }
    for door in Door::ALL {
        let first = list(&bob.at(door, &frank), json!({})).await;
        assert_eq!((ids(&first).len(), &first["totalSize"]), (50, &json!(51)), "{door:?}");
        let last = list(&bob.at(door, &frank), json!({ "pageToken": first["nextPageToken"] })).await;
        assert_eq!((ids(&last).len(), &last["totalSize"]), (1, &json!(51)), "{door:?}");
        assert_eq!(last["nextPageToken"], "", "{door:?}");
    }
}
