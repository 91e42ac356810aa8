//! Sending messages that are not waited for: new tasks, messages into tasks, contexts, and what travels with a message.

use serde_json::{Value, json};

use super::{endings, id, new_task, read, refused, saying, sender, take};
use crate::consistency;
use crate::support::TestRelay;
use crate::support::a2a::{Door, hand};

/// A message into a task that is not waited for.
fn into(task: &str, text: &str) -> Value {
    let mut params = hand(text);
    params["message"]["taskId"] = json!(task);
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_task_is_submitted_with_its_message_as_its_history() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let sent = bob.at(door, &frank).send(hand("Review the parser")).await.expect("sent");
        let task = &sent["task"];
        let (id, context) = (&task["id"], &task["contextId"]);
        assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED", "{door:?}");
        assert!(task["status"].get("message").is_none() && task.get("artifacts").is_none(), "{door:?} {task}");
        let message = json!({
            "messageId": "message of Review the parser",
            "contextId": context,
            "taskId": id,
            "role": "ROLE_USER",
            "parts": [{ "text": "Review the parser" }],
        });
        assert_eq!(task["history"], json!([message]), "{door:?}");
        for other in Door::ALL {
            let read = read(&bob.at(other, &frank), id.as_str().expect("an id")).await;
            assert_eq!(read, *task, "sent by {door:?}, read by {other:?}");
        }
        assert_eq!(frank.get(id.as_str().expect("an id")).await["summary"], "Review the parser");
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_alone_names_its_context_and_another_context_is_refused_without_a_trace() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let first = client.send(hand("First")).await.expect("sent")["task"].clone();
        let task = id(&first);
        let second = client.send(into(&task, "Second")).await.expect("said")["task"].clone();
        assert_eq!((&second["id"], &second["contextId"]), (&first["id"], &first["contextId"]), "{door:?}");
        let texts: Vec<&Value> = second["history"].as_array().expect("a history").iter().map(said).collect();
        assert_eq!(texts, ["First", "Second"], "{door:?}");

        let mut same = into(&task, "Third");
        same["message"]["contextId"] = first["contextId"].clone();
        client.send(same).await.expect("its own context");
        let before = frank.get(&task).await;
        let mut other = into(&task, "Fourth");
        other["message"]["contextId"] = json!("another-one");
        let refusal = refused(client.send(other).await);
        refusal.is("INVALID_PARAMS");
        assert_eq!(refusal.fields(), ["message.contextId"], "{door:?}");
        assert_eq!(frank.get(&task).await, before, "{door:?}");
        assert_eq!(before["messages"].as_array().map(Vec::len), Some(3));
    }
}

/// The text of a message's first part.
fn said(message: &Value) -> &Value {
    &message["parts"][0]["text"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_there_is_not_is_told_like_one_of_somebody_else() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let cleo = relay.agent("cleo@acme").await;
    let of_cleo = cleo.hand_to(&frank, "Not yours").await;
    let with_cleo = bob.hand_to(&cleo, "At another door").await;
    let before = cleo.get(&of_cleo).await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let mut refusals = Vec::new();
        for task in ["01KQ72NEM0M20CVVQKFS27QP3D", "no such task", &of_cleo, &with_cleo] {
            refusals.push(refused(client.send(into(task, "Hello")).await));
            refusals.push(refused(client.get(json!({ "id": task })).await));
            refusals.push(refused(client.cancel(json!({ "id": task })).await));
            refusals.push(client.subscribe(task).await.err().expect("refused"));
        }
        refusals[0].is("TASK_NOT_FOUND");
        refusals.dedup();
        assert_eq!(refusals.len(), 1, "{door:?} {refusals:?}");
    }
    assert_eq!(cleo.get(&of_cleo).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_task_takes_no_more_messages() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let mut ended = Vec::new();
        for (name, steps) in endings() {
            let task = new_task(&client, "Work").await;
            for step in &steps {
                take(&frank, &task, step).await;
            }
            ended.push((name, task));
        }
        let task = new_task(&client, "Work").await;
        client.cancel(json!({ "id": task })).await.expect("cancelled");
        ended.push(("TASK_STATE_CANCELED", task));
        for (name, task) in ended {
            let before = read(&client, &task).await;
            assert_eq!(before["status"]["state"], name, "{door:?}");
            refused(client.send(into(&task, "One more thing")).await).is("UNSUPPORTED_OPERATION");
            let streamed = client.send_streaming(into(&task, "One more thing")).await;
            streamed.err().expect("refused").is("UNSUPPORTED_OPERATION");
            assert_eq!(read(&client, &task).await, before, "{door:?} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_the_clients_and_holds_any_number_of_tasks() {
    let relay = TestRelay::start().await;
    let frank = relay.agent("frank@acme").await;
    for door in Door::ALL {
        let client = sender(&relay, door).await.at(door, &frank);
        let named = |context: &str, text: &str| {
            let mut params = hand(text);
            params["message"]["contextId"] = json!(context);
            params
        };
        let chosen = "Sprint 12 / review ✓";
        let first = client.send(named(chosen, "One")).await.expect("sent")["task"].clone();
        let second = client.send(named(chosen, "Two")).await.expect("sent")["task"].clone();
        assert_eq!((&first["contextId"], &second["contextId"]), (&json!(chosen), &json!(chosen)), "{door:?}");
        assert_ne!(first["id"], second["id"]);
        assert_eq!(read(&client, &id(&first)).await["contextId"], chosen);

        // One that the relay made is as good for the next task.
        let alone = client.send(hand("Three")).await.expect("sent")["task"].clone();
        let made = alone["contextId"].as_str().expect("a context").to_owned();
        assert!(!made.is_empty());
        let joined = client.send(named(&made, "Four")).await.expect("sent")["task"].clone();
        assert_eq!(joined["contextId"], made.as_str());
        for (context, tasks) in [(chosen, [&second, &first]), (&made, [&joined, &alone])] {
            let list = client.list(json!({ "contextId": context })).await.expect("a list");
            let listed: Vec<&Value> = list["tasks"].as_array().expect("tasks").iter().map(|task| &task["id"]).collect();
            assert_eq!(listed, tasks.map(|task| &task["id"]), "{door:?}");
        }
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_around_a_message_is_kept_and_shown_to_both_sides() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let params = json!({
            "message": {
                "messageId": "the same for all",
                "role": "ROLE_USER",
                "parts": [{ "text": "Look at this" }],
                "metadata": { "priority": 3, "tags": ["a", null, { "b": true }] },
                "extensions": ["https://acme.example/ext/1", "urn:other"],
                "referenceTaskIds": ["01KQ72NEM0M20CVVQKFS27QP3D", "a task elsewhere"],
            },
            "metadata": { "ticket": 4711 },
            "configuration": { "returnImmediately": true, "acceptedOutputModes": ["text/plain", "image/*"] },
        });
        let task = client.send(params.clone()).await.expect("sent")["task"].clone();
        let message = &task["history"][0];
        for field in ["messageId", "metadata", "extensions", "referenceTaskIds", "parts", "role"] {
            assert_eq!(message[field], params["message"][field], "{door:?} {field}");
        }
        assert_eq!(task["metadata"], json!({ "ticket": 4711 }), "{door:?}");
        for other in Door::ALL {
            assert_eq!(read(&bob.at(other, &frank), &id(&task)).await, task, "{door:?} {other:?}");
        }
        let thread = frank.get(&id(&task)).await;
        assert_eq!(thread["messages"][0]["payload"], params["message"]["metadata"], "{door:?}");
        let envelope = json!({
            "message_id": "the same for all",
            "reference_task_ids": ["01KQ72NEM0M20CVVQKFS27QP3D", "a task elsewhere"],
            "extensions": ["https://acme.example/ext/1", "urn:other"],
            "accepted_output_modes": ["text/plain", "image/*"],
        });
        assert_eq!(thread["messages"][0]["envelope"], envelope, "{door:?}");
        assert_eq!(thread["metadata"], json!({ "ticket": 4711 }), "{door:?}");

        // The id of a message is no name of the call: the same one again is another message, and another task.
        let mut again = params.clone();
        again["message"]["taskId"] = task["id"].clone();
        let history = client.send(again).await.expect("said")["task"]["history"].clone();
        assert_eq!(history.as_array().map(Vec::len), Some(2), "{door:?}");
        assert_eq!(history[1]["messageId"], "the same for all");
        let other = client.send(params).await.expect("sent")["task"].clone();
        assert_ne!(other["id"], task["id"], "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_a_name_is_made_once_through_whatever_doors_it_comes() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let named = |text: &str, key: String| {
            let mut params = hand(text);
            params["message"]["contextId"] = json!("retries");
            params["metadata"] = json!({ "client_idempotency_key": key, "ticket": 1 });
            params
        };
        let (new, more) = (format!("new by {door:?}"), format!("more by {door:?}"));
        let task = client.send(named("Once", new.clone())).await.expect("sent")["task"].clone();
        assert_eq!(task["metadata"], json!({ "ticket": 1 }), "{door:?}: the key is the caller's business");
        let mut message = named("And more", more.clone());
        message["message"]["taskId"] = task["id"].clone();
        client.send(message.clone()).await.expect("said");
        for again in Door::ALL {
            let client = bob.at(again, &frank);
            let replayed = client.send(named("Once", new.clone())).await.expect("the same answer")["task"].clone();
            assert_eq!(replayed["id"], task["id"], "{door:?} {again:?}");
            let said = client.send(message.clone()).await.expect("the same answer")["task"].clone();
            assert_eq!(said["id"], task["id"], "{door:?} {again:?}");
            let refusal = refused(client.send(named("Something else", new.clone())).await);
            refusal.is_ours("duplicate_idempotency_key");
        }
        assert_eq!(frank.get(&id(&task)).await["messages"].as_array().map(Vec::len), Some(2), "{door:?}");
    }
    assert_eq!(frank.inbox().await.len(), 3);
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_length_of_the_history_is_the_clients_choice() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let limited = |mut params: Value, length: i64| {
            params["configuration"]["historyLength"] = json!(length);
            params
        };
        for (length, shown) in [(0, None), (1, Some(1)), (5, Some(1))] {
            let task = client.send(limited(hand("One"), length)).await.expect("sent")["task"].clone();
            assert_eq!(task.get("history").and_then(Value::as_array).map(Vec::len), shown, "{door:?} {length}");
        }
        let task = new_task(&client, "One").await;
        frank.say(&task, "Two").await.result();
        for (length, shown) in [(0, &[][..]), (1, &["Three"]), (2, &["Two", "Three"]), (9, &["One", "Two", "Three"])] {
            if length == 0 {
                client.send(into(&task, "Three")).await.expect("said");
            }
            let read = client.get(json!({ "id": task, "historyLength": length })).await.expect("read");
            let history = read.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
            assert_eq!(history.iter().map(said).collect::<Vec<_>>(), shown, "{door:?} {length}");
        }
        let sent = client.send(limited(into(&task, "Four"), 2)).await.expect("said")["task"].clone();
        let history = sent["history"].as_array().expect("a history");
        assert_eq!(history.iter().map(said).collect::<Vec<_>>(), ["Three", "Four"], "{door:?}");
        let refusal = refused(client.get(json!({ "id": task, "historyLength": -1 })).await);
        refusal.is("INVALID_PARAMS");
        assert_eq!(refusal.fields(), ["historyLength"], "{door:?}");
        let refusal = refused(client.send(limited(into(&task, "Five"), -1)).await);
        assert_eq!(refusal.fields(), ["configuration.historyLength"], "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_said_last_is_in_the_status_and_later_in_the_history() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let task = new_task(&client, "Work").await;
        take(&frank, &task, &("accept", json!({}))).await;
        take(&frank, &task, &("progress", saying("Half of it"))).await;
        let half = read(&client, &task).await;
        assert_eq!(
            (said(&half["status"]["message"]), &half["status"]["message"]["role"]),
            (&json!("Half of it"), &json!("ROLE_AGENT"))
        );
        assert_eq!(half["history"].as_array().map(Vec::len), Some(1), "{door:?}");
        take(&frank, &task, &("request_input", saying("Which branch?"))).await;
        let asked = read(&client, &task).await;
        assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{door:?}");
        assert_eq!(said(&asked["status"]["message"]), "Which branch?");
        let both: Vec<(&Value, &Value)> =
            asked["history"].as_array().expect("a history").iter().map(|one| (&one["role"], said(one))).collect();
        assert_eq!(both, [(&json!("ROLE_USER"), &json!("Work")), (&json!("ROLE_AGENT"), &json!("Half of it"))]);
        client.send(into(&task, "main")).await.expect("said");
        let answered = read(&client, &task).await;
        assert_eq!(answered["status"]["state"], "TASK_STATE_WORKING", "{door:?}");
        assert!(answered["status"].get("message").is_none(), "{door:?}");
        let texts: Vec<&Value> = answered["history"].as_array().expect("a history").iter().map(said).collect();
        assert_eq!(texts, ["Work", "Half of it", "Which branch?", "main"], "{door:?}");
    }
}
