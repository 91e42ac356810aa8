//! Streams: the task first, then every update in order, until it has ended or the server stops.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Step, endings, id, new_task, read, saying, take};
use crate::consistency;
use crate::support::a2a::{Client, Door, Update, Updates, ask};
use crate::support::{Agent, TestRelay, message};

/// A thread's life, with everything that can happen in one; true for what the sender does.
pub fn story() -> Vec<(bool, Step)> {
    let piece = |id: &str, text: &str, more: Value| {
        let mut piece = json!({ "type": "parts", "artifact_id": id, "parts": [{ "text": text }] });
        piece.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        piece
    };
    let half = json!({
        "message": message("Half of it"),
        "artifacts": [piece("log", "one", json!({ "last_chunk": false })), piece("plan", "a plan", json!({}))],
    });
    let question =
        json!({ "message": message("Which one?"), "artifacts": [piece("log", "two", json!({ "append": true }))] });
    let rest = json!({ "artifacts": [piece("log", "three", json!({ "append": true, "last_chunk": true }))] });
    let end = json!({
        "result_summary": "Done",
        "artifacts": [piece("plan", "another plan", json!({})), { "type": "link", "url": "https://acme.example" }],
    });
    vec![
        (false, ("accept", json!({}))),
        (false, ("progress", half)),
        (false, ("say", json!("A note"))),
        (true, ("say", json!("By the way"))),
        (false, ("request_input", question)),
        (true, ("say", json!("This one"))),
        (false, ("progress", rest)),
        (false, ("complete", end)),
    ]
}

/// What is told of the story from its beginning, in words.
const TOLD: [&str; 15] = [
    "task SUBMITTED",
    "status WORKING",
    "artifact log",
    "artifact plan",
    "status WORKING: Half of it",
    "status WORKING: A note",
    "status WORKING",
    "artifact log",
    "status INPUT_REQUIRED: Which one?",
    "status WORKING",
    "artifact log",
    "status WORKING",
    "artifact plan",
    "artifact 9-1",
    "status COMPLETED: Done",
];

pub fn words(response: &Value) -> String {
    let status = |status: &Value| {
        let state = status["state"].as_str().expect("a state").trim_start_matches("TASK_STATE_");
        match status["message"]["parts"][0]["text"].as_str() {
            Some(text) => format!("{state}: {text}"),
            None => state.to_owned(),
        }
    };
    if let Some(task) = response.get("task") {
        format!("task {}", status(&task["status"]))
    } else if let Some(update) = response.get("statusUpdate") {
        format!("status {}", status(&update["status"]))
    } else {
        let artifact = &response["artifactUpdate"]["artifact"];
        format!("artifact {}", artifact["artifactId"].as_str().unwrap_or_else(|| panic!("{response}")))
    }
}

pub fn all_words(updates: &[Update]) -> Vec<String> {
    updates.iter().map(|update| words(&update.response)).collect()
}

pub fn responses(updates: &[Update]) -> Vec<&Value> {
    updates.iter().map(|update| &update.response).collect()
}

pub async fn live(bob: &Agent, frank: &Agent, task: &str, story: &[(bool, Step)]) {
    for (by_sender, step) in story {
        take(if *by_sender { bob } else { frank }, task, step).await;
    }
}

/// Opens a stream of a new task; gives its id.
async fn streamed(client: &Client) -> (String, Updates, Update) {
    let mut stream = client.send_streaming(ask("Work")).await.expect("a stream");
    let first = stream.update().await;
    (id(&first.response["task"]), stream, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn begin_with_the_task_and_tell_every_change_with_its_artifacts_before_its_status() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let (task, mut stream, first) = streamed(&client).await;
        live(&bob, &frank, &task, &story()).await;
        let mut told = vec![first];
        told.extend(stream.all().await);
        assert_eq!(all_words(&told), TOLD, "{door:?}");
        let end = read(&client, &task).await;
        for update in &told[1..] {
            let update = update.response.as_object().expect("an object").values().next().expect("a member");
            assert_eq!((&update["taskId"], &update["contextId"]), (&end["id"], &end["contextId"]), "{door:?}");
        }
        let last = &told.last().expect("an update").response["statusUpdate"];
        assert_eq!(last["status"], end["status"], "{door:?}");
        if door != Door::Grpc {
            let mut ids: Vec<_> = told.iter().map(|update| update.id.clone().expect("an id")).collect();
            ids.dedup();
            assert_eq!(ids.len(), told.len(), "{door:?}");
        }
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn end_with_the_task_whatever_its_end() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        for (name, steps) in endings() {
            let (task, mut stream, _) = streamed(&client).await;
            for step in &steps {
                take(&frank, &task, step).await;
            }
            let told = stream.all().await;
            assert_eq!(told.len(), steps.len(), "{door:?}");
            assert_eq!(told.last().expect("one").response["statusUpdate"]["status"]["state"], name, "{door:?}");
            client.subscribe(&task).await.err().expect("refused").is("UNSUPPORTED_OPERATION");
        }
        let (task, mut stream, _) = streamed(&client).await;
        client.cancel(json!({ "id": task })).await.expect("cancelled");
        assert_eq!(all_words(&stream.all().await), ["status CANCELED"], "{door:?}");
        client.subscribe(&task).await.err().expect("refused").is("UNSUPPORTED_OPERATION");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn go_on_while_the_agent_waits_for_an_answer() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let (task, mut stream, _) = streamed(&client).await;
        take(&frank, &task, &("accept", json!({}))).await;
        take(&frank, &task, &("request_input", saying("Which?"))).await;
        assert_eq!(words(&stream.response().await), "status WORKING");
        assert_eq!(words(&stream.response().await), "status INPUT_REQUIRED: Which?");
        // Whoever comes now is told what is asked, and stays as well.
        let mut late = client.subscribe(&task).await.expect("a stream");
        assert_eq!(words(&late.response().await), "task INPUT_REQUIRED: Which?", "{door:?}");
        let mut answer = ask("This one");
        answer["message"]["taskId"] = json!(task);
        let mut answering = client.send_streaming(answer).await.expect("a stream");
        assert_eq!(words(&answering.response().await), "task WORKING", "{door:?}");
        take(&frank, &task, &("complete", json!({}))).await;
        assert_eq!(all_words(&stream.all().await), ["status WORKING", "status COMPLETED"], "{door:?}");
        assert_eq!(all_words(&late.all().await), ["status WORKING", "status COMPLETED"], "{door:?}");
        assert_eq!(all_words(&answering.all().await), ["status COMPLETED"], "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tell_everybody_the_same_in_the_same_order() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let mut streams = Vec::new();
    for door in [Door::ALL, Door::ALL].concat() {
        for reader in [&bob, &frank] {
            streams.push(reader.at(door, &frank).subscribe(&task).await.expect("a stream"));
        }
    }
    let gone = streams.remove(0);
    live(&bob, &frank, &task, &story()[..3]).await;
    drop(gone);
    live(&bob, &frank, &task, &story()[3..]).await;
    let mut told = Vec::new();
    for mut stream in streams {
        let updates = stream.all().await;
        assert_eq!(all_words(&updates), TOLD);
        told.push(updates.into_iter().map(|update| update.response).collect::<Vec<_>>());
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_whoever_reads_slowly() {
    const COUNT: usize = 130;
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let mut streams = Vec::new();
    for door in Door::ALL {
        streams.push(bob.at(door, &frank).subscribe(&task).await.expect("a stream"));
    }
    take(&frank, &task, &("accept", json!({}))).await;
    // More than a connection holds while nobody reads from it.
    let page = "x".repeat(20_000);
    for number in 0..COUNT {
        take(&frank, &task, &("progress", saying(&format!("{number} {page}")))).await;
    }
    take(&frank, &task, &("complete", json!({}))).await;
    for (door, mut stream) in Door::ALL.into_iter().zip(streams) {
        let told = stream.all().await;
        assert_eq!(told.len(), COUNT + 3, "{door:?}");
        for (number, update) in told[2..COUNT + 2].iter().enumerate() {
            let text = &update.response["statusUpdate"]["status"]["message"]["parts"][0]["text"];
            assert!(text.as_str().expect("a text").starts_with(&format!("{number} x")), "{door:?} {number}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn end_with_an_error_when_the_server_stops_and_do_not_hold_it_up() {
    let mut relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let mut streams = Vec::new();
    for number in 0..20 {
        let door = Door::ALL[number % 3];
        let mut stream = bob.at(door, &frank).subscribe(&task).await.expect("a stream");
        stream.response().await;
        streams.push((door, stream));
    }
    let start = Instant::now();
    relay.stop().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    for (door, mut stream) in streams {
        let (updates, refusal) = stream.rest().await;
        assert_eq!(updates, [], "{door:?}");
        let refusal = refusal.unwrap_or_else(|| panic!("{door:?}: an error at the end"));
        match door {
            Door::JsonRpc => assert_eq!(refusal.code, -32603, "{refusal:?}"),
            Door::HttpJson => assert_eq!((refusal.code, &*refusal.status), (503, "UNAVAILABLE"), "{refusal:?}"),
            Door::Grpc => assert_eq!(refusal.status, "UNAVAILABLE", "{refusal:?}"),
        }
        refusal.is_ours("internal");
        assert!(stream.next().await.is_none(), "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn show_as_much_of_the_history_as_the_client_chose() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let task = new_task(&client, "One").await;
        let mut params = ask("Two");
        params["message"]["taskId"] = json!(task);
        params["configuration"] = json!({ "historyLength": 1 });
        let mut stream = client.send_streaming(params).await.expect("a stream");
        let history = stream.response().await["task"]["history"].clone();
        assert_eq!(history.as_array().map(Vec::len), Some(1), "{door:?}");
        assert_eq!(history[0]["parts"][0]["text"], "Two", "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_call_with_a_name_follow_the_one_task_however_often_it_is_made() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let client = bob.at(door, &frank);
        let mut params = ask("Work");
        params["metadata"] = json!({ "client_idempotency_key": format!("streamed by {door:?}") });
        let mut first = client.send_streaming(params.clone()).await.expect("a stream");
        let task = id(&first.response().await["task"]);
        take(&frank, &task, &("accept", json!({}))).await;
        let mut second = client.send_streaming(params.clone()).await.expect("a stream");
        assert_eq!(second.response().await["task"], read(&client, &task).await, "{door:?}");
        take(&frank, &task, &("complete", json!({}))).await;
        assert_eq!(all_words(&first.all().await), ["status WORKING", "status COMPLETED"], "{door:?}");
        assert_eq!(all_words(&second.all().await), ["status COMPLETED"], "{door:?}");
        // After the end there is the task, and no more.
        let mut late = client.send_streaming(params).await.expect("a stream");
        assert_eq!(all_words(&late.all().await), ["task COMPLETED"], "{door:?}");
    }
    assert_eq!(frank.inbox().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn tell_a_key_that_was_replaced_nothing_more() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let mut streams = Vec::new();
    for door in Door::ALL {
        let mut stream = bob.at(door, &frank).subscribe(&task).await.expect("a stream");
        stream.response().await;
        streams.push((door, stream));
    }
    assert_eq!(bob.rest("POST", "/agents/me/keys/rotate").await.status, 200);
    take(&frank, &task, &("reject", saying("A secret reason"))).await;
    for (door, mut stream) in streams {
        let (updates, refusal) = stream.rest().await;
        assert_eq!(updates, [], "{door:?}");
        refusal.unwrap_or_else(|| panic!("{door:?}: an error at the end")).is_ours("unauthenticated");
    }
}
