//! Streams that were cut: whoever goes on from the last update it had gets the task as it was then, and every update since,
//! each once.

use serde_json::{Value, json};

use super::streams::{all_words, live, responses, story};
use super::{Step, read, take, unlimited};
use crate::support::a2a::{Door, Update};
use crate::support::{Agent, RelayProcess, TestRelay, message};
use crate::{consistency, storage};

#[track_caller]
fn id(update: &Update) -> &str {
    update.id.as_deref().unwrap_or_else(|| panic!("no id: {update:?}"))
}

/// What a client knows that put together what it was told: the status and the artifacts.
fn put_together(told: &[Update]) -> (Value, Vec<Value>) {
    let (mut status, mut artifacts) = (Value::Null, Vec::new());
    for update in told {
        let response = &update.response;
        if let Some(task) = response.get("task") {
            status = task["status"].clone();
            artifacts = task["artifacts"].as_array().cloned().unwrap_or_default();
        } else if let Some(update) = response.get("statusUpdate") {
            status = update["status"].clone();
        } else {
            let (artifact, append) = (&response["artifactUpdate"]["artifact"], &response["artifactUpdate"]["append"]);
            let earlier =
                artifacts.iter_mut().find(|earlier: &&mut Value| earlier["artifactId"] == artifact["artifactId"]);
            match earlier {
                Some(earlier) if *append == json!(true) => {
                    let more = artifact["parts"].as_array().expect("parts").clone();
                    earlier["parts"].as_array_mut().expect("parts").extend(more);
                }
                Some(earlier) => *earlier = artifact.clone(),
                None => artifacts.push(artifact.clone()),
            }
        }
    }
    (status, artifacts)
}

fn history(task: &Value) -> &[Value] {
    task["history"].as_array().expect("a history")
}

/// Cuts a stream that told the whole of an ended task after each of its updates, and goes on.
async fn cut_everywhere(bob: &Agent, frank: &Agent, task: &str, told: &[Update]) {
    let end = read(&bob.at(Door::Grpc, frank), task).await;
    for door in Door::JSON {
        for cut in 0..told.len() {
            let client = bob.at(door, frank).resuming(id(&told[cut]));
            let resumed = client.subscribe(task).await.expect("a stream").all().await;
            let place = format!("{door:?} after {cut} of {:#?}", all_words(told));
            assert_eq!(id(&resumed[0]), id(&told[cut]), "{place}");
            assert_eq!(put_together(&resumed[..1]), put_together(&told[..=cut]), "{place}");
            assert_eq!(resumed[1..], told[cut + 1..], "{place}");
            let known = history(&resumed[0].response["task"]);
            assert_eq!(known, &history(&end)[..known.len()], "{place}");
        }
    }
    let artifacts = end["artifacts"].as_array().cloned().unwrap_or_default();
    assert_eq!(put_together(told), (end["status"].clone(), artifacts));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_any_place_they_go_on_with_nothing_lost_and_nothing_twice() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let mut stream = bob.at(Door::HttpJson, &frank).subscribe(&task).await.expect("a stream");
    live(&bob, &frank, &task, &story()).await;
    let told = stream.all().await;
    assert_eq!(told.len(), 15);
    cut_everywhere(&bob, &frank, &task, &told).await;
}

/// A step that somebody tries, by the numbers of chance.
fn attempt(chance: &mut impl FnMut(usize) -> usize) -> (bool, Step) {
    const STEPS: [&str; 10] =
        ["accept", "accept", "progress", "progress", "progress", "request_input", "say", "say", "complete", "fail"];
    // An end is rare.
    let among = if chance(6) == 0 { 10 } else { 8 };
    let transition = STEPS[chance(among)];
    if transition == "say" {
        return (chance(2) == 0, ("say", json!("A word")));
    }
    let mut with = json!({});
    if transition != "accept" {
        if transition == "request_input" || chance(2) == 0 {
            with["message"] = message("So");
        }
        let piece = |number: usize, chance: &mut dyn FnMut(usize) -> usize| {
            let (id, append) = (format!("a{}", chance(3)), chance(2) == 0);
            json!({ "type": "parts", "artifact_id": id, "append": append, "parts": [{ "text": number.to_string() }] })
        };
        with["artifacts"] = (0..chance(4)).map(|number| piece(number, chance)).collect();
    }
    (false, (transition, with))
}

#[tokio::test(flavor = "multi_thread")]
async fn at_any_place_of_any_story_too() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut state = 7_u64;
    let mut chance = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("a number") % below
    };
    let mut longest = 0;
    for _ in 0..12 {
        let task = bob.hand_to(&frank, "Work").await;
        let mut streams = Vec::new();
        for door in Door::ALL {
            streams.push(bob.at(door, &frank).subscribe(&task).await.expect("a stream"));
        }
        for _ in 0..14 {
            let (by_sender, (transition, with)) = attempt(&mut chance);
            // What is not possible now is refused, and nothing happened.
            if transition == "say" {
                let speaker = if by_sender { &bob } else { &frank };
                speaker.say(&task, with.as_str().expect("a text")).await;
            } else {
                frank.step_with(&task, transition, with).await;
            }
        }
        frank.step(&task, "reject").await;
        let mut told = Vec::new();
        for stream in &mut streams {
            told.push(stream.all().await);
        }
        let [rpc, http, grpc] = <[Vec<Update>; 3]>::try_from(told).expect("three");
        assert_eq!(rpc, http);
        assert_eq!(responses(&rpc), responses(&grpc));
        cut_everywhere(&bob, &frank, &task, &rpc).await;
        longest = longest.max(rpc.len());
    }
    assert!(longest > 15, "{longest}");
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_cut_off_after_every_update_hears_the_whole_story() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::JSON {
        let task = bob.hand_to(&frank, "Work").await;
        let client = bob.at(door, &frank);
        let mut whole = client.subscribe(&task).await.expect("a stream");
        let mut told = vec![client.subscribe(&task).await.expect("a stream").update().await];
        let story = tokio::spawn({
            let (bob, frank, task) = (bob.clone(), frank.clone(), task.clone());
            async move { live(&bob, &frank, &task, &story()).await }
        });
        loop {
            let mut stream = client.resuming(id(&told[told.len() - 1])).subscribe(&task).await.expect("a stream");
            let snapshot = stream.update().await;
            assert_eq!(put_together(&[snapshot]), put_together(&told), "{door:?}");
            match stream.next().await {
                Some(update) => told.push(update.expect("an update")),
                None => break,
            }
        }
        story.await.expect("no panic");
        assert_eq!(told, whole.all().await, "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_the_task_does_not_have_begins_anew() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    take(&frank, &task, &("accept", json!({}))).await;
    for door in Door::JSON {
        for odd in ["", "1", "x.y", "0.0", "-1.0", "99.0", "1.x", "99999999999999999999.0", "2.0.0", "1.-1"] {
            let client = bob.at(door, &frank).resuming(odd);
            let mut stream = client.subscribe(&task).await.expect("a stream");
            assert_eq!(all_words(&[stream.update().await]), ["task WORKING"], "{door:?} {odd}");
        }
        let other = bob.at(door, &frank).resuming("1.0");
        let mut stream = other.subscribe(&task).await.expect("a stream");
        let told = [stream.update().await, stream.update().await];
        assert_eq!(all_words(&told), ["task SUBMITTED", "status WORKING"], "{door:?}");
    }
    take(&frank, &task, &("complete", json!({}))).await;
    for door in Door::JSON {
        let client = bob.at(door, &frank).resuming("99.0");
        client.subscribe(&task).await.err().expect("refused").is("UNSUPPORTED_OPERATION");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_updates_that_a_change_does_not_have_loses_none_of_the_changes_after_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    live(&bob, &frank, &task, &story()).await;
    for door in Door::JSON {
        let mut stream = bob.at(door, &frank).resuming("1.77").subscribe(&task).await.expect("a stream");
        let told = all_words(&stream.all().await);
        assert_eq!(told.last().map(String::as_str), Some("status COMPLETED: Done"), "{door:?} {told:?}");
        assert!(told.contains(&"status WORKING: Half of it".to_owned()), "{door:?} {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_in_the_middle_loses_nothing() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut tasks = Vec::new();
    for door in Door::ALL {
        let task = bob.hand_to(&frank, "Work").await;
        let mut stream = bob.at(door, &frank).subscribe(&task).await.expect("a stream");
        live(&bob, &frank, &task, &story()[..4]).await;
        let mut told = Vec::new();
        for _ in 0..4 {
            told.push(stream.update().await);
        }
        tasks.push((door, task, stream, told));
    }
    let relay = relay.restart(unlimited()).await;
    let [bob, frank] = [&bob, &frank].map(|agent| Agent { url: relay.url.clone(), ..agent.clone() });
    for (door, task, mut stream, mut told) in tasks {
        let (rest, refusal) = stream.rest().await;
        told.extend(rest);
        assert!(refusal.is_some(), "{door:?}");
        live(&bob, &frank, &task, &story()[4..5]).await;
        let client = bob.at(door, &frank);
        let mut stream = match &told[told.len() - 1].id {
            Some(id) => client.resuming(id).subscribe(&task).await,
            None => client.subscribe(&task).await,
        }
        .expect("a stream");
        live(&bob, &frank, &task, &story()[5..]).await;
        let resumed = stream.all().await;
        if door == Door::Grpc {
            // Without ids there is the task as it is, and every update after that.
            told = resumed;
        } else {
            assert_eq!(put_together(&resumed[..1]), put_together(&told), "{door:?}");
            told.extend_from_slice(&resumed[1..]);
            assert_eq!(told.len(), 15, "{door:?} {:?}", all_words(&told));
            let again = client.resuming(id(&told[0])).subscribe(&task).await.expect("a stream").all().await;
            assert_eq!(responses(&told[1..]), responses(&again[1..]), "{door:?}");
        }
        let end = read(&client, &task).await;
        assert_eq!(put_together(&told).0, end["status"], "{door:?}");
        assert_eq!(json!(put_together(&told).1), end["artifacts"], "{door:?}");
    }
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let prepared = agentrelay::relay::Relay::new(storage::open(&path));
    let [bob, frank] = [
        storage::agent_with_key(&prepared, "", "bob@acme").await,
        storage::agent_with_key(&prepared, "", "frank@acme").await,
    ];
    drop(prepared);

    let at = |relay: &RelayProcess| [&bob, &frank].map(|agent| Agent { url: relay.url.clone(), ..agent.clone() });
    let mut relay = RelayProcess::start(&path, &[]);
    let task = {
        let [bob, frank] = at(&relay);
        bob.hand_to(&frank, "Work").await
    };
    let story = story();
    let mut told: Vec<Update> = Vec::new();
    for (round, step) in story.iter().enumerate() {
        let [bob, frank] = at(&relay);
        let client = bob.at(Door::JSON[round % 2], &frank);
        let client = told.last().map_or_else(|| client.clone(), |last| client.resuming(id(last)));
        let mut stream = client.subscribe(&task).await.expect("a stream");
        let first = stream.update().await;
        if told.is_empty() {
            told.push(first);
        } else {
            assert_eq!(put_together(&[first]), put_together(&told));
        }
        live(&bob, &frank, &task, std::slice::from_ref(step)).await;
        // One update, if there are several, and the server is gone.
        told.push(stream.update().await);
        if round % 3 == 2 {
            relay.kill();
            relay = RelayProcess::start(&path, &[]);
        }
    }
    let [bob, frank] = at(&relay);
    let client = bob.at(Door::HttpJson, &frank);
    let rest = client.resuming(id(&told[told.len() - 1])).subscribe(&task).await.expect("a stream").all().await;
    told.extend_from_slice(&rest[1..]);
    let whole = client.resuming(id(&told[0])).subscribe(&task).await.expect("a stream").all().await;
    assert_eq!(told[1..], whole[1..]);
    assert_eq!(told.len(), 15);
    consistency::check(&rusqlite::Connection::open(&path).expect("the file"));
}
