//! The recipient's side: at its own door an agent reads what was sent to it, and changes nothing there. Former handles are
//! doors too.

use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::json;

use super::streams::{all_words, live, story};
use super::{id, new_task, read, refused, take};
use crate::support::a2a::{Door, hand};
use crate::support::{Agent, TestRelay};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_and_follows_its_inbox_at_its_own_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let cleo = relay.agent("cleo@acme").await;
    for door in Door::ALL {
        let own = frank.at(door, &frank);
        let tasks = [bob.hand_to(&frank, "From bob").await, cleo.hand_to(&frank, "From cleo").await];
        for (sender, task) in [&bob, &cleo].into_iter().zip(&tasks) {
            assert_eq!(read(&own, task).await, read(&sender.at(door, &frank), task).await, "{door:?}");
        }
        let listed = own.list(json!({ "status": "TASK_STATE_SUBMITTED" })).await.expect("a list");
        let ids: Vec<String> = listed["tasks"].as_array().expect("tasks").iter().map(id).collect();
        assert_eq!(ids, [tasks[1].as_str(), &tasks[0]], "{door:?}");
        let mut stream = own.subscribe(&tasks[0]).await.expect("a stream");
        live(&bob, &frank, &tasks[0], &story()).await;
        let told = all_words(&stream.all().await);
        assert_eq!((told.len(), told[0].as_str()), (15, "task SUBMITTED"), "{door:?}");
        take(&frank, &tasks[1], &("reject", json!({}))).await;
        // What it sent itself is read at the other agent's door.
        let sent = frank.hand_to(&bob, "To bob").await;
        refused(own.get(json!({ "id": sent })).await).is("TASK_NOT_FOUND");
        assert_eq!(read(&frank.at(door, &bob), &sent).await["id"], sent.as_str(), "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_changes_nothing_at_its_own_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let before = frank.get(&task).await;
    let mut message = hand("Hello");
    message["message"]["taskId"] = json!(task);
    for door in Door::ALL {
        let own = frank.at(door, &frank);
        refused(own.send(hand("To myself")).await).is("UNSUPPORTED_OPERATION");
        own.send_streaming(hand("To myself")).await.err().expect("refused").is("UNSUPPORTED_OPERATION");
        refused(own.send(message.clone()).await).is("UNSUPPORTED_OPERATION");
        own.send_streaming(message.clone()).await.err().expect("refused").is("UNSUPPORTED_OPERATION");
        refused(own.cancel(json!({ "id": task })).await).is("UNSUPPORTED_OPERATION");
        let config = json!({ "taskId": task, "id": "c", "url": "https://acme.example/hook" });
        refused(own.create_push_config(config).await).is("UNSUPPORTED_OPERATION");
        let name = json!({ "taskId": task, "id": "c" });
        refused(own.get_push_config(name.clone()).await).is("UNSUPPORTED_OPERATION");
        refused(own.delete_push_config(name).await).is("UNSUPPORTED_OPERATION");
        refused(own.list_push_configs(json!({ "taskId": task })).await).is("UNSUPPORTED_OPERATION");
    }
    assert_eq!(frank.get(&task).await, before);
    assert_eq!(frank.inbox().await.len(), 1);
}

async fn rename(relay: &TestRelay, from: &str, to: &str) {
    let name = AgentName::Handle(Handle::parse(from).expect("a handle"));
    let to = Handle::parse(to).expect("a handle");
    relay.relay.rename_agent(Actor::operator("req_test"), name, to).await.expect("renamed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_handle_is_still_a_door_for_both_sides() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let before = bob.hand_to(&frank, "Before").await;
    rename(&relay, "frank@acme", "francis@acme").await;
    let francis = Agent { handle: "francis@acme".to_owned(), ..frank.clone() };
    for door in Door::ALL {
        for handle in ["frank@acme", "francis@acme"] {
            let client = bob.at_handle(door, handle);
            let task = new_task(&client, "After").await;
            for other in ["frank@acme", "francis@acme"] {
                for task in [&before, &task] {
                    let read = read(&bob.at_handle(door, other), task).await;
                    assert_eq!(read["id"], task.as_str(), "{door:?} {handle} {other}");
                }
            }
            let own = francis.at_handle(door, handle);
            assert_eq!(read(&own, &task).await, read(&client, &task).await, "{door:?} {handle}");
            let inbox = own.list(json!({})).await.expect("a list");
            assert_eq!(inbox, client.list(json!({})).await.expect("a list"), "{door:?} {handle}");
            assert!(inbox["totalSize"].as_i64() > Some(1), "{door:?} {handle}");
            refused(own.cancel(json!({ "id": task })).await).is("UNSUPPORTED_OPERATION");
            refused(own.send(hand("To myself")).await).is("UNSUPPORTED_OPERATION");
            let mut stream = own.subscribe(&task).await.expect("a stream");
            stream.response().await;
            client.cancel(json!({ "id": task })).await.expect("cancelled");
            assert_eq!(all_words(&stream.all().await), ["status CANCELED"], "{door:?} {handle}");
        }
        // A client that took the interface's tenant from the card, old or new, at either URL.
        if door != Door::Grpc {
            for (handle, tenant) in [("frank@acme", "francis@acme"), ("francis@acme", "frank@acme")] {
                let mut params = hand("With a tenant");
                params["tenant"] = json!(tenant);
                bob.at_handle(door, handle).send(params).await.expect("sent");
            }
        }
    }
}
