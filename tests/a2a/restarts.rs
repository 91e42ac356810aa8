//! Restarts: what a client was told holds on the next server as it did on the one before.

use serde_json::json;

use super::{becomes, id, pending, read, saying, take, unlimited};
use crate::consistency;
use crate::support::a2a::{Door, ask, hand};
use crate::support::{Agent, TestRelay};

#[tokio::test(flavor = "multi_thread")]
async fn tasks_contexts_and_walks_go_on_after_a_restart() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut tasks = Vec::new();
    for number in 0..5 {
        let mut params = hand(&format!("Task {number}"));
        params["message"]["contextId"] = json!("talk");
        let door = Door::ALL[number % 3];
        tasks.push(bob.at(door, &frank).send(params).await.expect("sent")["task"].clone());
    }
    take(&frank, &id(&tasks[0]), &("accept", json!({}))).await;
    take(&frank, &id(&tasks[0]), &("request_input", saying("Which?"))).await;
    let mut before = Vec::new();
    let mut tokens = Vec::new();
    for door in Door::ALL {
        before.push(
            bob.at(door, &frank).list(json!({ "includeArtifacts": true, "historyLength": 9 })).await.expect("a list"),
        );
        let page = bob.at(door, &frank).list(json!({ "pageSize": 2, "contextId": "talk" })).await.expect("a list");
        tokens.push(page["nextPageToken"].clone());
    }

    let relay = relay.restart(unlimited()).await;
    let [bob, frank] = [&bob, &frank].map(|agent| Agent { url: relay.url.clone(), ..agent.clone() });
    for (door, (before, token)) in Door::ALL.into_iter().zip(before.into_iter().zip(tokens)) {
        let client = bob.at(door, &frank);
        let list = client.list(json!({ "includeArtifacts": true, "historyLength": 9 })).await.expect("a list");
        assert_eq!(list, before, "{door:?}");
        for task in &tasks[1..] {
            assert_eq!(read(&client, &id(task)).await, *task, "{door:?}");
        }
        let page = json!({ "pageSize": 2, "contextId": "talk", "pageToken": token });
        let page = client.list(page).await.expect("a list");
        let ids: Vec<String> = page["tasks"].as_array().expect("tasks").iter().map(id).collect();
        assert_eq!(ids, [id(&tasks[3]), id(&tasks[2])], "{door:?}");
    }
    let client = bob.at(Door::Grpc, &frank);
    let mut answer = hand("This one");
    answer["message"]["taskId"] = tasks[0]["id"].clone();
    let answered = client.send(answer).await.expect("said")["task"].clone();
    assert_eq!((&answered["contextId"], &answered["status"]["state"]), (&json!("talk"), &json!("TASK_STATE_WORKING")));
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waited_is_made_again_and_waits_on() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let named = |door: Door| {
        let mut params = ask("Work");
        params["metadata"] = json!({ "client_idempotency_key": format!("waiting by {door:?}") });
        params
    };
    let calling = |bob: &Agent, frank: &Agent| {
        Door::ALL.map(|door| {
            let (client, params) = (bob.at(door, frank), named(door));
            tokio::spawn(async move { client.send(params).await.expect("an outcome") })
        })
    };
    let calls = calling(&bob, &frank);
    let mut tasks = pending(&frank, 3).await;
    let relay = relay.restart(unlimited()).await;
    let mut told = Vec::new();
    for call in calls {
        let task = call.await.expect("no panic")["task"].clone();
        assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
        told.push(id(&task));
    }
    let [bob, frank] = [&bob, &frank].map(|agent| Agent { url: relay.url.clone(), ..agent.clone() });
    let calls = calling(&bob, &frank);
    for task in &told {
        take(&frank, task, &("accept", json!({}))).await;
        take(&frank, task, &("complete", json!({ "result_summary": "Done" }))).await;
        becomes(&frank, task, "completed").await;
    }
    for (call, task) in calls.into_iter().zip(&told) {
        let outcome = call.await.expect("no panic")["task"].clone();
        assert_eq!((id(&outcome), &outcome["status"]["state"]), (task.clone(), &json!("TASK_STATE_COMPLETED")));
    }
    told.sort();
    tasks.sort();
    assert_eq!(told, tasks);
    assert_eq!(frank.inbox().await.len(), 3);
    consistency::check(&relay.sqlite());
}
