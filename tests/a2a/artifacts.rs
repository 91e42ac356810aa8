//! Artifacts: what the agent made, whole or chunk by chunk; what the sender attached; and the summary of the result.

use serde_json::{Value, json};

use super::{read, saying, take};
use crate::support::a2a::{Door, Update};
use crate::support::{Agent, TestRelay, message};

const OWN: &str = "application/vnd.agentrelay.artifact+json";

/// A piece of an artifact.
fn piece(id: &str, text: &str, flags: &Value) -> Value {
    let mut piece = json!({ "type": "parts", "artifact_id": id, "parts": [{ "text": text }] });
    piece.as_object_mut().expect("an object").extend(flags.as_object().expect("an object").clone());
    piece
}

/// Follows a task through every door while `frank` adds these artifacts, change by change; gives what every door told
/// alike, without the statuses, and the artifacts that it shows in the end.
async fn progressed(bob: &Agent, frank: &Agent, changes: Vec<Value>) -> (Vec<Value>, Value) {
    let task = bob.hand_to(frank, "Work").await;
    take(frank, &task, &("accept", json!({}))).await;
    let mut streams = Vec::new();
    for door in Door::ALL {
        streams.push(bob.at(door, frank).subscribe(&task).await.expect("a stream"));
    }
    for artifacts in changes {
        take(frank, &task, &("progress", json!({ "artifacts": artifacts }))).await;
    }
    take(frank, &task, &("complete", json!({}))).await;
    let mut told: Vec<(Vec<Value>, Value)> = Vec::new();
    for (door, mut stream) in Door::ALL.into_iter().zip(streams) {
        let updates = stream.all().await;
        let updates = updates.into_iter().filter_map(|Update { mut response, .. }| {
            response.get_mut("artifactUpdate").map(Value::take).map(|mut update| {
                let update = update.as_object_mut().expect("an object");
                update.remove("taskId");
                update.remove("contextId");
                Value::Object(std::mem::take(update))
            })
        });
        told.push((updates.collect(), read(&bob.at(door, frank), &task).await["artifacts"].clone()));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "every door tells the same: {told:#?}");
    told.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_chunks_are_one_in_the_end() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let first = piece("log", "one ", &json!({ "last_chunk": false, "name": "The log", "metadata": { "a": 1 } }));
    let second = piece("log", "two ", &json!({ "append": true, "description": "Grows" }));
    let third = piece("log", "three", &json!({ "append": true, "last_chunk": true }));
    let other = piece("other", "whole", &json!({}));
    let changes = vec![json!([first]), json!([other, second]), json!([third])];
    let (told, shown) = progressed(&bob, &frank, changes).await;
    let update = |artifact: Value, append: bool, last: bool| json!({ "artifact": artifact, "append": append, "lastChunk": last });
    assert_eq!(
        told,
        [
            update(
                json!({ "artifactId": "log", "name": "The log", "parts": [{ "text": "one " }], "metadata": { "a": 1 } }),
                false,
                false
            ),
            update(json!({ "artifactId": "other", "parts": [{ "text": "whole" }] }), false, true),
            update(json!({ "artifactId": "log", "description": "Grows", "parts": [{ "text": "two " }] }), true, false),
            update(json!({ "artifactId": "log", "parts": [{ "text": "three" }] }), true, true),
        ]
    );
    let log = json!({
        "artifactId": "log",
        "name": "The log",
        "description": "Grows",
        "parts": [{ "text": "one " }, { "text": "two " }, { "text": "three" }],
        "metadata": { "a": 1 },
    });
    assert_eq!(shown, json!([log, { "artifactId": "other", "parts": [{ "text": "whole" }] }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_same_id_take_each_others_place_and_keep_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let changes = vec![
        json!([piece("a", "old", &json!({ "name": "Old" })), piece("b", "stays", &json!({}))]),
        json!([piece("a", "new", &json!({}))]),
        json!([piece("a", " and more", &json!({ "append": true }))]),
    ];
    let (told, shown) = progressed(&bob, &frank, changes).await;
    assert_eq!(told.len(), 4);
    let a = json!({ "artifactId": "a", "parts": [{ "text": "new" }, { "text": " and more" }] });
    assert_eq!(shown, json!([a, { "artifactId": "b", "parts": [{ "text": "stays" }] }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_id_get_one_of_their_own_each() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let anonymous = |text: &str| json!({ "type": "parts", "parts": [{ "text": text }] });
    let changes = vec![json!([anonymous("one"), anonymous("two")]), json!([anonymous("three")])];
    let (told, shown) = progressed(&bob, &frank, changes).await;
    let ids: Vec<&Value> = told.iter().map(|update| &update["artifact"]["artifactId"]).collect();
    let shown_ids: Vec<&Value> =
        shown.as_array().expect("artifacts").iter().map(|artifact| &artifact["artifactId"]).collect();
    assert_eq!(ids, shown_ids);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

/// The documented types, with further fields.
fn documented() -> [Value; 5] {
    [
        json!({ "type": "file_diff", "path": "src/a.rs", "diff": "@@ -1 +1 @@\n-a\n+b\n" }),
        json!({ "type": "file_ref", "path": "src/b.rs", "git_sha": "abc", "lines": [1, 9], "more": true }),
        json!({ "type": "test_command", "command": "cargo test", "cwd": "." }),
        json!({ "type": "api_contract", "inline": { "openapi": "3.1.0" } }),
        json!({ "type": "link", "url": "https://acme.example", "title": "Here" }),
    ]
}

fn as_data(artifact: &Value) -> Value {
    json!({ "data": artifact, "mediaType": OWN })
}

fn diff_as_text() -> Value {
    json!({ "text": "@@ -1 +1 @@\n-a\n+b\n", "filename": "src/a.rs", "mediaType": "text/x-diff" })
}

#[tokio::test(flavor = "multi_thread")]
async fn of_agentrelays_own_types_are_data_and_a_diff_is_text_too() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let own = documented();
    let (told, shown) = progressed(&bob, &frank, vec![json!(own)]).await;
    let shown = shown.as_array().expect("artifacts");
    assert_eq!((told.len(), shown.len()), (5, 5));
    let names = ["src/a.rs", "src/b.rs", "cargo test", "", "Here"];
    for (place, (artifact, name)) in own.iter().zip(names).enumerate() {
        let mut parts = vec![as_data(artifact)];
        if place == 0 {
            parts.push(diff_as_text());
        }
        assert_eq!(shown[place]["parts"], json!(parts));
        assert_eq!(shown[place]["name"].as_str().unwrap_or_default(), name);
        assert_eq!(told[place]["artifact"], shown[place]);
        assert_eq!((&told[place]["append"], &told[place]["lastChunk"]), (&json!(false), &json!(true)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_sender_are_further_parts_of_its_message() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let params = json!({ "recipient": "frank@acme", "message": message("Look"), "artifacts": documented() });
    let task = bob.rpc("message/send", params).await.result()["task_id"].as_str().expect("an id").to_owned();
    let more = json!([piece("x", "attached", &json!({ "name": "X" }))]);
    let params = json!({ "task_id": task, "message": message("More"), "artifacts": more });
    bob.rpc("message/send", params).await.result();
    let mut parts = vec![json!({ "text": "Look" }), as_data(&documented()[0]), diff_as_text()];
    parts.extend(documented()[1..].iter().map(as_data));
    for door in Door::ALL {
        let read = read(&bob.at(door, &frank), &task).await;
        assert_eq!(read["history"][0]["parts"], json!(parts), "{door:?}");
        assert_eq!(read["history"][1]["parts"], json!([{ "text": "More" }, { "text": "attached" }]), "{door:?}");
        assert!(read.get("artifacts").is_none(), "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn are_followed_by_the_summary_which_is_what_the_agent_said_last() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for (with, texts) in [
        (json!({ "result_summary": "All green" }), &["All green"][..]),
        (json!({ "result_summary": "All green", "message": message("Have a look") }), &["Have a look", "All green"]),
        (saying("Have a look"), &["Have a look"]),
    ] {
        let task = bob.hand_to(&frank, "Work").await;
        let mut streams = Vec::new();
        for door in Door::ALL {
            streams.push(bob.at(door, &frank).subscribe(&task).await.expect("a stream"));
        }
        take(&frank, &task, &("accept", json!({}))).await;
        take(&frank, &task, &("complete", with)).await;
        for (door, mut stream) in Door::ALL.into_iter().zip(streams) {
            let status = read(&bob.at(door, &frank), &task).await["status"].clone();
            let parts: Vec<&Value> =
                status["message"]["parts"].as_array().expect("parts").iter().map(|part| &part["text"]).collect();
            assert_eq!(parts, texts, "{door:?}");
            assert_eq!(status["message"]["role"], "ROLE_AGENT");
            let last = stream.all().await.pop().expect("an update");
            assert_eq!(last.response["statusUpdate"]["status"], status, "{door:?}");
        }
    }
}
