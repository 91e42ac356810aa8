//! Cancelling: what nobody works on can be taken back, and taking it back again changes nothing.

use serde_json::json;

use super::{endings, new_task, read, refused, saying, take};
use crate::consistency;
use crate::support::TestRelay;
use crate::support::a2a::Door;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_either_side_can_be_cancelled_and_again() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let waiting = new_task(&client, "Work").await;
        let asked = new_task(&client, "Work").await;
        take(&frank, &asked, &("accept", json!({}))).await;
        take(&frank, &asked, &("request_input", saying("Which?"))).await;
        for task in [waiting, asked] {
            let cancelled = client.cancel(json!({ "id": task })).await.expect("cancelled");
            assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{door:?}");
            assert_eq!(cancelled, read(&client, &task).await, "{door:?}");
            let generation = frank.get(&task).await["generation"].clone();
            for again in Door::ALL {
                let again = bob.at(again, &frank).cancel(json!({ "id": task })).await.expect("cancelled");
                assert_eq!(again, cancelled, "{door:?}");
            }
            assert_eq!(frank.get(&task).await["generation"], generation, "{door:?}");
        }
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_worked_on_or_has_ended_cannot_be_cancelled() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let working = ("TASK_STATE_WORKING", vec![("accept", json!({}))]);
        for (name, steps) in endings().into_iter().chain([working]) {
            let task = new_task(&client, "Work").await;
            for step in &steps {
                take(&frank, &task, step).await;
            }
            let before = read(&client, &task).await;
            assert_eq!(before["status"]["state"], name);
            refused(client.cancel(json!({ "id": task })).await).is("TASK_NOT_CANCELABLE");
            assert_eq!(read(&client, &task).await, before, "{door:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_cancels_and_all_are_told_so() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let calls = (0..12).map(|number| {
        let (client, task) = (bob.at(Door::ALL[number % 3], &frank), task.clone());
        tokio::spawn(async move { client.cancel(json!({ "id": task })).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let cancelled = call.await.expect("no panic").expect("cancelled");
        assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
    }
    assert_eq!(frank.get(&task).await["generation"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_cancellation_is_made_once() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let task = new_task(&client, "Work").await;
        let params =
            json!({ "id": task, "metadata": { "client_idempotency_key": format!("cancel {door:?}"), "why": 1 } });
        let cancelled = client.cancel(params.clone()).await.expect("cancelled");
        for again in Door::ALL {
            let again = bob.at(again, &frank).cancel(params.clone()).await.expect("the same answer");
            assert_eq!(again, cancelled, "{door:?}");
        }
    }
}
