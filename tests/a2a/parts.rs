//! Parts: what one side sends is what the other reads, byte for byte, whatever the doors.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::{id, new_task, read, take};
use crate::support::a2a::{Client, Door};
use crate::support::{Agent, TestRelay};

const ODD: &str =
    "\u{1}\t\r\n \"quoted\" \\ / \u{7f} \u{feff}\u{2028}\u{2029} é 🦀👩‍👩‍👧 \u{10ffff} <script>&amp; %00 ${x}";

/// All kinds of parts, in A2A's form, with numbers that a double holds.
fn parts() -> Value {
    let bytes: Vec<u8> = (0..=255).collect();
    let nested = json!({
        "number": 42, "fraction": 1.5, "negative": -7, "big": 9_007_199_254_740_991_i64, "none": null, "yes": true,
        "list": [1, "two", [], {}, [[null]]], "": "an empty name", "a.b/c": { "d": { "e": [{ "f": ODD }] } },
    });
    json!([
        { "text": ODD },
        { "text": "# Title", "mediaType": "text/markdown", "filename": "a b/ç.md", "metadata": { "n": 1, "o": { "p": [] } } },
        { "text": "" },
        { "raw": BASE64.encode(&bytes) },
        { "raw": BASE64.encode(&bytes[..255]), "mediaType": "image/png", "filename": "x.png", "metadata": {} },
        { "raw": "" },
        { "url": "https://acme.example/a?b=c&d=%20#é", "mediaType": "application/pdf", "filename": "a.pdf" },
        { "data": nested, "mediaType": "application/json", "metadata": { "schema": "urn:x" } },
        { "data": [1, 2] }, { "data": "text" }, { "data": 42 }, { "data": false }, { "data": {} },
    ])
}

/// The same as AgentRelay has them.
fn own_form(parts: &Value) -> Value {
    let own = |part: &Value| {
        let mut own = part.as_object().expect("an object").clone();
        let kind = ["text", "raw", "url", "data"].into_iter().find(|kind| own.contains_key(*kind)).expect("a kind");
        own.insert("type".to_owned(), json!(kind));
        if let Some(media_type) = own.remove("mediaType") {
            own.insert("media_type".to_owned(), media_type);
        }
        Value::Object(own)
    };
    parts.as_array().expect("parts").iter().map(own).collect()
}

fn sending(parts: &Value) -> Value {
    json!({
        "message": { "messageId": "m", "role": "ROLE_USER", "parts": parts },
        "configuration": { "returnImmediately": true },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sent_through_any_door_are_read_through_every_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let parts = parts();
    for door in Door::ALL {
        let sent = bob.at(door, &frank).send(sending(&parts)).await.expect("sent")["task"].clone();
        assert_eq!(sent["history"][0]["parts"], parts, "{door:?}");
        let task = id(&sent);
        for other in Door::ALL {
            for reader in [&bob, &frank] {
                let read = read(&reader.at(other, &frank), &task).await;
                assert_eq!(read["history"][0]["parts"], parts, "sent by {door:?}, read by {other:?}");
            }
        }
        let thread = frank.get(&task).await;
        assert_eq!(thread["messages"][0]["parts"], own_form(&parts), "{door:?}");
        assert_eq!(thread["messages"][0]["body"], format!("{ODD}\n# Title\n"), "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn that_the_agent_sends_are_read_through_every_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Work").await;
    let parts = parts();
    take(&frank, &task, &("accept", json!({}))).await;
    let with = json!({
        "message": { "parts": own_form(&parts) },
        "artifacts": [{ "type": "parts", "artifact_id": "all", "parts": own_form(&parts) }],
    });
    let mut streams = Vec::new();
    for door in Door::ALL {
        let mut stream = bob.at(door, &frank).subscribe(&task).await.expect("a stream");
        stream.response().await;
        streams.push(stream);
    }
    take(&frank, &task, &("progress", with)).await;
    for (door, mut stream) in Door::ALL.into_iter().zip(streams) {
        let read = read(&bob.at(door, &frank), &task).await;
        assert_eq!(read["artifacts"][0]["parts"], parts, "{door:?}");
        assert_eq!(read["status"]["message"]["parts"], parts, "{door:?}");
        assert_eq!(stream.response().await["artifactUpdate"]["artifact"]["parts"], parts, "{door:?}");
        assert_eq!(stream.response().await["statusUpdate"]["status"]["message"]["parts"], parts, "{door:?}");
    }
}

/// Documents that no JSON library of doubles would leave as they are.
const EXACT: &str =
    r#"{"z":42,"a":[9007199254740993,1.10,1e400,-0,0.1E-7,1.0],"m":null,"a2":{"y":1,"x":2},"é":"\u00e9\/"}"#;

fn exact_params(task: Option<&str>) -> String {
    let task = task.map(|task| format!(r#""taskId":"{task}","#)).unwrap_or_default();
    format!(
        r#"{{"message":{{{task}"messageId":"m","role":"ROLE_USER","metadata":{EXACT},
            "parts":[{{"data":{EXACT},"metadata":{EXACT}}},{{"data":1e400}},{{"data":null}}]}},
            "metadata":{EXACT},"configuration":{{"returnImmediately":true}}}}"#
    )
}

async fn text(client: &Client, task: &str) -> String {
    client.call_with_text("GetTask", &format!(r#"{{"id":"{task}"}}"#)).await.text
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_their_numbers_as_they_were_written_from_one_json_door_to_another() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let parts = format!(r#""parts":[{{"data":{EXACT},"metadata":{EXACT}}},{{"data":1e400}},{{"data":null}}]"#);
    let metadata = format!(r#""metadata":{EXACT}"#);
    for door in Door::JSON {
        let client = bob.at(door, &frank);
        let sent = client.call_with_text("SendMessage", &exact_params(None)).await;
        let task = task_of(&sent.text);
        let mut texts = vec![sent.text];
        for reader in Door::JSON {
            texts.push(text(&bob.at(reader, &frank), &task).await);
            texts.push(text(&frank.at(reader, &frank), &task).await);
        }
        for text in &texts {
            assert!(text.contains(&parts), "{door:?} {text}");
            // The message's, the part's and the task's.
            assert_eq!(text.matches(&metadata).count(), 3, "{door:?} {text}");
        }
        let said = client.call_with_text("SendMessage", &exact_params(Some(&task))).await.text;
        assert_eq!(said.matches(&parts).count(), 2, "{door:?} {said}");

        // The other way.
        let artifact =
            format!(r#"{{"type":"parts","artifact_id":"a","parts":[{{"data":{EXACT}}}],"metadata":{EXACT}}}"#);
        frank.step(&task, "accept").await.result();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{{"task_id":"{task}","transition":"progress","artifacts":[{artifact}]}}}}"#
        );
        assert_eq!(frank.post_a2a(body).await.status, 200);
        for reader in Door::JSON {
            let text = text(&bob.at(reader, &frank), &task).await;
            let artifact = format!(r#"{{"artifactId":"a","parts":[{{"data":{EXACT}}}],"metadata":{EXACT}}}"#);
            assert!(text.contains(&artifact), "{reader:?} {text}");
        }
    }
}

/// The task that an answer's text names: a number in it may be too large for a parser.
fn task_of(text: &str) -> String {
    let at = text.find(r#""id":"01"#).unwrap_or_else(|| panic!("no task: {text}")) + 6;
    text[at..at + 26].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn come_through_grpc_as_doubles_and_whole_numbers_stay_whole() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let grpc = bob.at(Door::Grpc, &frank);
    let data =
        json!([{ "data": { "n": 42, "f": 1.5, "big": 1e300, "small": -1e-9, "exact": 9_007_199_254_740_992_i64 } }]);
    let task = id(&grpc.send(sending(&data)).await.expect("sent")["task"]);
    for door in Door::JSON {
        let text = text(&bob.at(door, &frank), &task).await;
        assert!(text.contains(r#""n":42"#) && !text.contains("42.0"), "{text}");
        assert!(text.contains(r#""exact":9007199254740992"#), "{text}");
        assert_eq!(read(&bob.at(door, &frank), &task).await["history"][0]["parts"], data, "{door:?}");
    }
    // What no double holds is shown all the same, as near as may be.
    let sent = bob.at(Door::JsonRpc, &frank).call_with_text("SendMessage", &exact_params(None)).await.text;
    let shown = read(&grpc, &task_of(&sent)).await;
    assert_eq!(shown["history"][0]["parts"].as_array().map(Vec::len), Some(3), "{shown}");
    let params = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":[9007199254740993,1.10]}]},
        "configuration":{"returnImmediately":true}}"#;
    let sent = bob.at(Door::JsonRpc, &frank).call_with_text("SendMessage", params).await.text;
    let shown = read(&grpc, &task_of(&sent)).await;
    assert_eq!(shown["history"][0]["parts"][0]["data"][1], json!(1.1));
    assert_eq!(shown["history"][0]["parts"][0]["data"][0].as_f64(), Some(9_007_199_254_740_992.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_bytes_may_be_written_in_either_alphabet_and_are_shown_in_one() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::JSON {
        let parts = json!([{ "raw": "-_-_" }, { "raw": "+/+/" }, { "raw": "YQ" }, { "raw": "YQ==" }, { "raw": "-w" }]);
        let sent = bob.at(door, &frank).send(sending(&parts)).await.expect("sent");
        let shown =
            json!([{ "raw": "+/+/" }, { "raw": "+/+/" }, { "raw": "YQ==" }, { "raw": "YQ==" }, { "raw": "+w==" }]);
        assert_eq!(sent["task"]["history"][0]["parts"], shown, "{door:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn that_hold_nothing_or_two_things_are_refused_with_their_place() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::JSON {
        let faulty = json!([{ "text": "fine" }, {}, { "text": "a", "url": "b" }, { "raw": "?" }, { "url": 1 }, 5]);
        let refusal = bob.at(door, &frank).send(sending(&faulty)).await.expect_err("refused");
        refusal.is("INVALID_PARAMS");
        let places =
            ["message.parts.1", "message.parts.2", "message.parts.3.raw", "message.parts.4.url", "message.parts.5"];
        let fields = refusal.fields().join(" ").replace('[', ".").replace(']', "");
        assert_eq!(fields, places.join(" "), "{door:?}");
    }
    let refusal =
        bob.at(Door::Grpc, &frank).send(sending(&json!([{ "text": "fine" }, {}]))).await.expect_err("refused");
    assert_eq!((refusal.reason.as_str(), refusal.violations.len()), ("INVALID_PARAMS", 1));
    for door in Door::ALL {
        let refusal = bob.at(door, &frank).send(sending(&json!([]))).await.expect_err("refused");
        assert_eq!(refusal.fields(), ["message.parts"], "{door:?}");
    }
    assert_eq!(frank.inbox().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_plain_text_need_nothing_more_than_the_text() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let check = async |bob: &Agent, task: &str| {
        for door in Door::ALL {
            let read = read(&bob.at(door, &frank), task).await;
            assert_eq!(read["history"][0]["parts"], json!([{ "text": ODD }]), "{door:?}");
        }
    };
    check(&bob, &bob.hand_to(&frank, ODD).await).await;
    for door in Door::ALL {
        check(&bob, &new_task(&bob.at(door, &frank), ODD.trim_start_matches(' ')).await).await;
    }
}
