//! `GET /events`: what happens in an agent's threads, as a stream and as a long poll. Cut anywhere, nothing is lost.

use std::time::{Duration, Instant};

use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use agentrelay::store::READERS;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Agent, Answer, TestRelay, message};
use crate::wire::{Buffer, EventStream, connect, masked, raw, soon};

/// The two ways to follow.
trait Follower {
    async fn follow(&self, after: Option<i64>) -> EventStream;
    async fn poll(&self, query: &str) -> Value;
    async fn last_seq(&self) -> i64;
}

impl Follower for Agent {
    async fn follow(&self, after: Option<i64>) -> EventStream {
        EventStream::open(self, "/events", after).await
    }

    async fn poll(&self, query: &str) -> Value {
        let answer = soon(self.rest("GET", &format!("/events?{query}"))).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{}", answer.text);
        answer.json()
    }

    async fn last_seq(&self) -> i64 {
        self.poll("wait=0").await["next_after"].as_i64().expect("a place")
    }
}

/// `GET /events` with this `Accept` header.
async fn accept(agent: &Agent, query: &str, accept: &str) -> reqwest::Response {
    let request = agent.http.get(format!("{}/events?{query}", agent.url)).bearer_auth(&agent.key);
    soon(request.header("accept", accept).send()).await.expect("an answer")
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

fn seqs(events: &[Value]) -> Vec<i64> {
    events.iter().map(|event| event["seq"].as_i64().expect("a place")).collect()
}

/// The places of all events in an agent's threads, as the data file has them.
fn truth(relay: &TestRelay, agent: &Agent) -> Vec<i64> {
    let conn = relay.sqlite();
    let sql =
        "SELECT e.seq FROM events e JOIN threads t ON t.id = e.thread JOIN agents a ON a.id IN (t.sender, t.recipient)
               WHERE a.handle = ? ORDER BY e.seq";
    let mut statement = conn.prepare(sql).expect("a statement");
    let rows = statement.query_map([&agent.handle], |row| row.get(0)).expect("rows");
    rows.collect::<rusqlite::Result<_>>().expect("places")
}

/// The whole log of an agent's threads, one poll after the other.
async fn history(agent: &Agent) -> Vec<Value> {
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let page = agent.poll(&format!("wait=0&after={after}")).await;
        let events = page["events"].as_array().expect("events");
        if events.is_empty() {
            return all;
        }
        all.extend(events.iter().cloned());
        after = page["next_after"].as_i64().expect("a place");
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_happens_from_now_on_in_the_order_of_the_log() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    bob.hand_to(&frank, "before anybody follows").await;
    let mut stream = bob.follow(None).await;

    let task = bob.hand_to(&frank, "Hello").await;
    frank.get(&task).await;
    frank.step_with(&task, "accept", json!({"session_id": "s"})).await.result();
    frank.step_with(&task, "request_input", json!({"message": message("which?")})).await.result();
    bob.say(&task, "that one").await.result();
    frank.step_with(&task, "progress", json!({"message": message("half")})).await.result();
    frank.step_with(&task, "fail", json!({"message": message("no")})).await.result();

    let events = stream.take(7).await;
    let event = |kind: &str, actor: &str, generation: i64, status: Value, message: Option<i64>| {
        let mut event = json!({
            "type": kind,
            "at": "TIME",
            "actor": actor,
            "thread_id": "ID",
            "task_id": "ID",
            "generation": generation,
            "status": status,
        });
        if let Some(number) = message {
            event["sequence_no"] = json!(number);
        }
        event
    };
    let (pending, accepted) = (json!({"state": "pending"}), json!({"state": "accepted"}));
    let expected = [
        event("thread.created", "bob@acme", 1, pending.clone(), Some(1)),
        event("thread.fetched", "frank@acme", 1, pending, None),
        event("thread.accepted", "frank@acme", 2, accepted.clone(), None),
        event(
            "thread.input_requested",
            "frank@acme",
            3,
            json!({"state": "accepted", "detail": "input_required"}),
            Some(2),
        ),
        event("thread.message", "bob@acme", 4, accepted.clone(), Some(3)),
        event("thread.progressed", "frank@acme", 5, accepted, Some(4)),
        event("thread.failed", "frank@acme", 6, json!({"state": "completed", "detail": "failed"}), Some(5)),
    ];
    for (event, expected) in events.iter().zip(expected) {
        let mut data = event.data.clone();
        let seq = data.as_object_mut().expect("an object").remove("seq").expect("a place");
        assert_eq!(seq.as_i64(), event.id, "the id is the place in the log");
        assert_eq!(event.kind, expected["type"]);
        assert_eq!(masked(&data), expected);
        assert_eq!((&data["thread_id"], &data["task_id"]), (&json!(task), &json!(task)));
        assert!(event.aside.is_empty(), "{event:?}");
    }
    let ids: Vec<_> = events.iter().map(|event| event.id.expect("an id")).collect();
    assert!(ids.is_sorted_by(|left, right| left < right), "{ids:?}");
    let told: Vec<_> = events.into_iter().map(|event| event.data).collect();
    assert_eq!(history(&bob).await[1..], told, "a poll tells the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_gets_through_proxies() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let request = bob.http.get(format!("{}/events", bob.url)).bearer_auth(&bob.key);
    let mut response = soon(request.header("accept-encoding", "gzip, br, zstd").send()).await.expect("an answer");
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().expect("text").to_owned());
    assert_eq!(response.status(), 200);
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    assert_eq!(header("content-encoding"), None);
    assert_eq!(header("content-length"), None);
    assert!(header("x-request-id").is_some_and(|id| id.starts_with("req_")));
    // Something comes at once: a client that waits for the first byte knows that it is connected.
    let chunk = soon(response.chunk()).await.expect("a stream").expect("bytes");
    let mut buffer = Buffer(chunk.to_vec());
    let hello = buffer.next().expect("a whole block");
    assert_eq!(
        (hello.aside, hello.kind, hello.id),
        (vec![": following".to_owned(), "retry: 1000".to_owned()], String::new(), None)
    );
    assert!(buffer.0.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_accept_header_and_wait_choose_between_stream_and_poll() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    for (query, header, expected) in [
        ("", "text/event-stream", "text/event-stream"),
        ("", "*/*", "text/event-stream"),
        ("", "text/*", "text/event-stream"),
        ("", "application/json, text/event-stream", "text/event-stream"),
        ("", "application/json", "application/json"),
        ("", "application/json;q=0.9, */*;q=0.1", "application/json"),
        ("wait=0", "application/json", "application/json"),
        ("wait=0", "*/*", "application/json"),
        ("after=0", "*/*", "text/event-stream"),
        ("after=0&wait=", "*/*", "text/event-stream"),
    ] {
        let response = accept(&bob, query, header).await;
        assert_eq!(response.status(), 200, "{query} {header}");
        assert_eq!(response.headers()["content-type"], expected, "{query} {header}");
    }
    let none = bob.http.get(format!("{}/events", bob.url)).bearer_auth(&bob.key).send().await.expect("an answer");
    assert_eq!(none.headers()["content-type"], "text/event-stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_hears_of_its_own_threads_only_and_both_sides_hear_the_same() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let (mallory, nina) = (relay.agent("mallory@acme").await, relay.agent("nina@acme").await);
    let mut streams = Vec::new();
    for agent in [&bob, &frank, &frank, &mallory, &nina] {
        streams.push(agent.follow(None).await);
    }
    let mut last = String::new();
    for number in 0..10 {
        last = bob.hand_to(&frank, &format!("{number}")).await;
        mallory.hand_to(&nina, &format!("{number}")).await;
        // No thread's event, and nobody's business but theirs.
        frank.rest_with("PUT", "/agents/me/card", json!({"role": format!("{number}")})).await;
        relay
            .admin(
                "POST",
                &format!("/admin/agents/{}/keys/rotate", relay.agent(&format!("a{number}@x")).await.id),
                json!({}),
            )
            .await;
    }
    bob.rpc("tasks/cancel", json!({"task_id": last})).await.result();
    let cancelled = mallory.hand_to(&nina, "last").await;
    mallory.rpc("tasks/cancel", json!({"task_id": cancelled})).await.result();

    let mut told = Vec::new();
    for (mut stream, count) in streams.into_iter().zip([11, 11, 11, 12, 12]) {
        told.push(stream.take(count).await);
    }
    assert_eq!(told[0], told[1], "sender and recipient");
    assert_eq!(told[1], told[2], "two streams of one agent");
    assert_eq!(told[3], told[4]);
    let ids = |index: usize| told[index].iter().map(|event| event.id.expect("an id")).collect::<Vec<_>>();
    assert_eq!(ids(0), truth(&relay, &bob));
    assert_eq!(ids(3), truth(&relay, &mallory));
    assert!(ids(0).iter().all(|id| !ids(3).contains(id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_the_place_that_its_client_names() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    for number in 0..5 {
        bob.say(&task, &format!("{number}")).await.result();
    }
    let all = truth(&relay, &bob);
    let ids =
        |events: Vec<crate::wire::StreamEvent>| events.into_iter().filter_map(|event| event.id).collect::<Vec<_>>();

    assert_eq!(ids(EventStream::open(&bob, "/events?after=0", None).await.take(6).await), all, "from the beginning");
    for index in 0..all.len() - 1 {
        let mut by_header = bob.follow(Some(all[index])).await;
        let mut by_url = EventStream::open(&bob, &format!("/events?after={}", all[index]), None).await;
        // What a browser does: the URL it started with, and a header that knows better.
        let mut by_both = EventStream::open(&bob, "/events?after=0", Some(all[index])).await;
        let rest = &all[index + 1..];
        for stream in [&mut by_header, &mut by_url, &mut by_both] {
            assert_eq!(ids(stream.take(rest.len()).await), rest);
        }
    }
    // A place of which the client was told nothing, somebody else's event perhaps, is as good as any.
    assert_eq!(ids(bob.follow(Some(all[0] - 1)).await.take(6).await), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_values_are_refused_each_with_its_path() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    for (query, path) in [
        ("wait=51", "wait"),
        ("wait=-1", "wait"),
        ("wait=abc", "wait"),
        ("wait=1.5", "wait"),
        ("wait=%20", "wait"),
        ("wait=99999999999999999999", "wait"),
        ("after=-1", "after"),
        ("after=abc", "after"),
        ("after=1.0", "after"),
        ("after=9223372036854775808", "after"),
    ] {
        let refused = soon(bob.rest("GET", &format!("/events?{query}"))).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), [path], "{query}");
    }
    let resume = async |query: &str, id: &[u8]| {
        let request = bob.http.get(format!("{}/events?{query}", bob.url)).bearer_auth(&bob.key);
        let id = reqwest::header::HeaderValue::from_bytes(id).expect("a value");
        Answer::of(soon(request.header("last-event-id", id).send()).await.expect("an answer")).await
    };
    for id in [&b"abc"[..], b"-1", b"1.0", b"", b"0x1", b"9223372036854775808", b"\xff"] {
        let refused = resume("", id).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), ["last-event-id"], "{id:?}");
    }
    let refused = resume("wait=51&after=-1", b"x").await.refused("invalid_params");
    assert_eq!(refused.issue_paths(), ["wait", "after", "last-event-id"], "every problem at once");
    assert_eq!(
        masked(&bob.rest("GET", "/events?wait=51").await.json()),
        json!({
            "code": "invalid_params",
            "message": "wait: expected a whole number from 0 to 50",
            "request_id": "REQUEST",
            "details": {"issues": [
                {"path": ["wait"], "message": "expected a whole number from 0 to 50", "code": "invalid_value"}
            ]},
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_be_cut_anywhere_and_the_union_is_the_whole_log_in_order() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let writers: Vec<_> = [(bob.clone(), frank.clone()), (frank.clone(), bob.clone())]
        .into_iter()
        .map(|(from, to)| {
            tokio::spawn(async move {
                for round in 0..25 {
                    let task = from.hand_to(&to, &format!("round {round}, ähm")).await;
                    from.say(&task, "more").await.result();
                    to.get(&task).await;
                    to.step(&task, "accept").await.result();
                    to.step(&task, "complete").await.result();
                }
            })
        })
        .collect();

    let readers = (0..4_u64).map(|seed| {
        let frank = frank.clone();
        tokio::spawn(async move {
            let (mut dice, mut last, mut seen, mut cuts) = (Dice(seed), 0, Vec::new(), 0);
            // 2 × 25 rounds of 5 events each; each cut comes after a few hundred bytes, in the middle of anything.
            while seen.len() < 250 {
                // Half of them name their place in the header, half in the URL.
                let (query, header) = if seed % 2 == 0 { (0, Some(last)) } else { (last, None) };
                let mut request = frank.http.get(format!("{}/events?after={query}", frank.url)).bearer_auth(&frank.key);
                if let Some(last) = header {
                    request = request.header("last-event-id", last);
                }
                let response = soon(request.send()).await;
                let (mut response, mut buffer, mut left) =
                    (response.expect("a stream"), Buffer::default(), dice.roll(4_000));
                while left > 0 && seen.len() < 250 {
                    let chunk = soon(response.chunk()).await.expect("a stream").expect("no end");
                    let taken = chunk.len().min(left);
                    left -= taken;
                    buffer.0.extend_from_slice(&chunk[..taken]);
                    while let Some(event) = buffer.next() {
                        if let Some(id) = event.id {
                            last = id;
                            seen.push(id);
                        }
                    }
                }
                cuts += 1;
            }
            (seen, cuts)
        })
    });
    let readers: Vec<_> = readers.collect();
    for writer in writers {
        soon(writer).await.expect("no panic");
    }
    let expected = truth(&relay, &frank);
    assert_eq!(expected.len(), 250);
    for reader in readers {
        let (seen, cuts) = soon(reader).await.expect("no panic");
        assert_eq!(seen, expected, "after {cuts} cuts");
        assert!(cuts > 3, "only {cuts} cuts");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_for_a_while_loses_nothing() {
    const CALLS: usize = 3_000;
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    // HTTP/1.0 has no chunks: what comes is the stream itself. A small buffer is full soon.
    let address = bob.url.trim_start_matches("http://").parse().expect("an address");
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let mut tcp = socket.connect(address).await.expect("a connection");
    let request = format!("GET /events HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n", frank.key);
    tcp.write_all(request.as_bytes()).await.expect("sent");
    let mut bytes = vec![0; 12];
    soon(tcp.read_exact(&mut bytes)).await.expect("a status");
    assert_eq!(bytes, b"HTTP/1.0 200");

    let task = bob.hand_to(&frank, "Hello").await;
    let calls = |first: usize| -> Value {
        (first..first + 50)
            .map(|id| {
                let params = json!({"task_id": task, "message": message("x")});
                json!({"jsonrpc": "2.0", "id": id, "method": "message/send", "params": params})
            })
            .collect()
    };
    let batches: Vec<_> = (0..CALLS / 50)
        .map(|batch| {
            let (bob, calls) = (bob.clone(), calls(batch * 50));
            tokio::spawn(async move { bob.post_a2a(calls.to_string()).await })
        })
        .collect();
    for batch in batches {
        let answer = batch.await.expect("no panic");
        assert!(answer.json().as_array().expect("answers").iter().all(|answer| answer.get("result").is_some()));
    }

    let (mut buffer, mut seen) = (Buffer::default(), Vec::new());
    // The head ends like an event does.
    while seen.len() < CALLS + 1 {
        let mut chunk = vec![0; 65_536];
        let count = soon(tcp.read(&mut chunk)).await.expect("bytes");
        assert_ne!(count, 0, "the stream ended after {} events", seen.len());
        buffer.0.extend(chunk[..count].iter().filter(|byte| **byte != b'\r'));
        while let Some(event) = buffer.next() {
            seen.extend(event.id);
        }
    }
    assert_eq!(seen, truth(&relay, &frank));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_an_error_when_its_key_has_stopped_working() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let named = || AgentName::Handle(Handle::parse("frank@acme").expect("a handle"));
    let operator = || Actor::operator("req_test");

    let mut stream = frank.follow(None).await;
    let early = bob.hand_to(&frank, "early").await;
    assert_eq!(stream.take(1).await[0].data["thread_id"], json!(early));
    let rotated = frank.rest("POST", "/agents/me/keys/rotate").await.json();
    let frank = frank.with_key(rotated["api_key"].as_str().expect("a key"));
    bob.hand_to(&frank, "not for the old key").await;
    let rest = soon(stream.rest()).await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&*rest[0].kind, rest[0].id), ("error", None));
    assert_eq!(
        rest[0].data,
        json!({
            "code": "unauthenticated",
            "message": "This key is unknown, revoked or expired; ask the relay's operator for another",
        })
    );

    // A stream to which nothing comes ends too, and so does a wait.
    let stream = frank.follow(None).await;
    let poll = tokio::spawn({
        let frank = frank.clone();
        async move { frank.rest("GET", "/events?wait=50").await }
    });
    relay.relay.disable_agent(operator(), named()).await.expect("disabled");
    let rest = soon(stream.rest()).await;
    assert_eq!((rest.len(), &*rest[0].kind), (1, "error"), "{rest:?}");
    assert_eq!(
        rest[0].data,
        json!({"code": "forbidden", "message": "frank@acme is disabled; ask the relay's operator to enable it"})
    );
    soon(poll).await.expect("no panic").refused("forbidden");

    // Enabled again, nothing is lost to him. He could not be sent to, but what is in his threads went on.
    bob.say(&early, "still there?").await.result();
    relay.relay.enable_agent(operator(), named()).await.expect("enabled");
    let told = history(&frank).await;
    assert_eq!(types(&told), ["thread.created", "thread.created", "thread.message"]);
}

/// Keeps every reading connection of the relay busy until it is dropped.
struct BusyReaders {
    let_go: Vec<std::sync::mpsc::Sender<()>>,
    readers: Vec<tokio::task::JoinHandle<agentrelay::error::Result<bool>>>,
}

impl BusyReaders {
    fn of(relay: &TestRelay) -> BusyReaders {
        let (mut let_go, mut readers) = (Vec::new(), Vec::new());
        for _ in 0..READERS {
            let (sender, held) = std::sync::mpsc::channel::<()>();
            let store = relay.relay.store().clone();
            let_go.push(sender);
            readers.push(tokio::spawn(async move { store.read(move |_| Ok(held.recv().is_err())).await }));
        }
        BusyReaders { let_go, readers }
    }

    async fn let_go(self) {
        drop(self.let_go);
        for reader in self.readers {
            soon(reader).await.expect("no panic").expect("read");
        }
    }
}

/// Not even when the stream had begun to read the log before.
#[tokio::test(flavor = "multi_thread")]
async fn what_happens_after_a_key_was_revoked_is_never_told_to_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let stream = frank.follow(None).await;
    let readers = BusyReaders::of(&relay);
    // This wakes the stream, which now waits for a connection to read with.
    let task = bob.hand_to(&frank, "before").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(frank.rest("POST", "/agents/me/keys/rotate").await.status, 200);
    bob.say(&task, "after").await.result();
    readers.let_go().await;
    let told = soon(stream.rest()).await;
    let kinds: Vec<_> = told.iter().map(|event| &*event.kind).collect();
    assert!(!kinds.contains(&"thread.message"), "{told:?}");
    assert_eq!(kinds.last(), Some(&"error"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_stops_says_so_at_the_end_of_each_stream() {
    let mut relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut streams = Vec::new();
    for agent in [&bob, &bob, &frank] {
        streams.push(agent.follow(None).await);
    }
    bob.hand_to(&frank, "the last one").await;
    for stream in &mut streams {
        assert_eq!(stream.take(1).await[0].kind, "thread.created");
    }
    let ends = streams.into_iter().map(|stream| tokio::spawn(stream.rest())).collect::<Vec<_>>();
    soon(relay.stop()).await;
    for end in ends {
        let rest = soon(end).await.expect("no panic");
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!((&*rest[0].kind, rest[0].id, &rest[0].data), ("shutdown", None, &json!({})));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn places_in_the_log_outlive_the_relay() {
    let relay = TestRelay::start().await;
    let (mut bob, mut frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    let after = frank.last_seq().await;
    bob.say(&task, "before").await.result();
    let relay = relay.restart(crate::support::settings()).await;
    (bob.url, frank.url) = (relay.url.clone(), relay.url.clone());
    let mut stream = frank.follow(Some(after)).await;
    bob.say(&task, "after").await.result();
    let numbers: Vec<_> = stream.take(2).await.iter().map(|event| event.data["sequence_no"].clone()).collect();
    assert_eq!(numbers, [json!(2), json!(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_does_not_wait_tells_what_is_there() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    assert_eq!(frank.poll("wait=0&after=0").await, json!({"events": [], "next_after": 0}));
    let start = frank.last_seq().await;
    let task = bob.hand_to(&frank, "Hello").await;
    let told = frank.poll(&format!("wait=0&after={start}")).await;
    let seq = told["events"][0]["seq"].as_i64().expect("a place");
    assert_eq!(
        masked(&told),
        json!({
            "events": [{
                "seq": seq,
                "type": "thread.created",
                "at": "TIME",
                "actor": "bob@acme",
                "thread_id": "ID",
                "task_id": "ID",
                "generation": 1,
                "status": {"state": "pending"},
                "sequence_no": 1,
            }],
            "next_after": seq,
        })
    );
    assert_eq!(told["events"][0]["task_id"], json!(task));
    assert_eq!(frank.poll(&format!("wait=0&after={seq}")).await, json!({"events": [], "next_after": seq}));
    assert_eq!(frank.poll("wait=0").await, json!({"events": [], "next_after": seq}), "from now on");
    let response = accept(&frank, &format!("after={start}"), "application/json").await;
    assert_eq!(Answer::of(response).await.json(), told, "Accept alone does not wait");
    // The place may also come as an event stream sends it.
    let request = frank.http.get(format!("{}/events?wait=0&after=0", frank.url)).bearer_auth(&frank.key);
    let answer = Answer::of(request.header("last-event-id", seq).send().await.expect("an answer")).await;
    assert_eq!(answer.json(), json!({"events": [], "next_after": seq}));
}

/// A wait of nothing must not be over before the log was read on another thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_does_not_wait_still_reads_the_log_however_busy_the_relay_is() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    bob.hand_to(&frank, "Hello").await;
    let readers = BusyReaders::of(&relay);
    let poll = tokio::spawn({
        let frank = frank.clone();
        async move { frank.poll("wait=0&after=0").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    readers.let_go().await;
    let told = soon(poll).await.expect("no panic");
    assert_eq!(types(told["events"].as_array().expect("events")), ["thread.created"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_gives_a_hundred_events_at_most_and_the_rest_after_them() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    for number in 0..129 {
        bob.say(&task, &format!("{number}")).await.result();
    }
    let all = truth(&relay, &frank);
    let first = frank.poll("wait=20&after=0").await;
    assert_eq!(seqs(first["events"].as_array().expect("events")), all[..100]);
    assert_eq!(first["next_after"], all[99]);
    let second = frank.poll(&format!("wait=20&after={}", all[99])).await;
    assert_eq!(seqs(second["events"].as_array().expect("events")), all[100..]);
    assert_eq!(second["next_after"], *all.last().expect("events"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_answers_the_moment_something_comes() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "Hello").await;
    let mut after = frank.last_seq().await;
    for round in 0..100 {
        // Check and wait leave no gap: at whatever moment the message comes, this very poll tells of it.
        let query = format!("wait=50&after={after}");
        let (told, sent) = tokio::join!(frank.poll(&query), bob.say(&task, "now"));
        let sent = sent.result();
        let events = told["events"].as_array().expect("events");
        assert_eq!(events.len(), 1, "{round}");
        assert_eq!(events[0]["sequence_no"], sent["sequence_no"], "{round}");
        after = told["next_after"].as_i64().expect("a place");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_is_not_woken_by_what_is_no_event_for_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let (mallory, nina) = (relay.agent("mallory@acme").await, relay.agent("nina@acme").await);
    let after = frank.last_seq().await;
    let poll = tokio::spawn({
        let frank = frank.clone();
        async move { frank.poll(&format!("wait=50&after={after}")).await }
    });
    mallory.hand_to(&nina, "not for Frank").await;
    frank.rest_with("PUT", "/agents/me/card", json!({"role": "web"})).await;
    frank.block(&mallory).await;
    bob.rest_with("PUT", "/agents/me/card", json!({"role": "api"})).await;
    assert!(!poll.is_finished());
    let task = bob.hand_to(&frank, "for Frank").await;
    let told = soon(poll).await.expect("no panic");
    assert_eq!(told["events"][0]["task_id"], json!(task));
    assert_eq!(told["events"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_to_which_nothing_comes_answers_when_its_time_is_over() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let after = frank.last_seq().await;
    let started = Instant::now();
    let told = frank.poll("wait=1").await;
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(told, json!({"events": [], "next_after": after}));
    let task = bob.hand_to(&frank, "Hello").await;
    let told = frank.poll(&format!("wait=20&after={}", told["next_after"])).await;
    assert_eq!(told["events"][0]["task_id"], json!(task), "nothing between two polls is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_hold_nothing_up_and_end_when_they_are_given_up() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let after = frank.last_seq().await;
    // More than there are reading connections, blocking threads or cores.
    let waits: Vec<_> = (0..200)
        .map(|_| {
            let frank = frank.clone();
            tokio::spawn(async move { frank.poll(&format!("wait=50&after={after}")).await })
        })
        .collect();
    let given_up: Vec<_> = (0..200)
        .map(|_| {
            let frank = frank.clone();
            tokio::spawn(async move { frank.poll("wait=50").await })
        })
        .collect();
    for _ in 0..20 {
        frank.inbox().await;
        assert_eq!(soon(bob.rest("GET", "/readyz")).await.status, 200);
    }
    for poll in &given_up {
        poll.abort();
    }
    for poll in given_up {
        assert!(poll.await.is_err_and(|error| error.is_cancelled()));
    }
    let task = bob.hand_to(&frank, "Hello").await;
    for wait in waits {
        assert_eq!(soon(wait).await.expect("no panic")["events"][0]["task_id"], json!(task));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_request_does_not_wait_for_the_stream() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let head = format!(
        "HEAD /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        bob.key
    );
    let mut tcp = connect(&bob.url).await;
    tcp.write_all(head.as_bytes()).await.expect("sent");
    let mut bytes = Vec::new();
    soon(tcp.read_to_end(&mut bytes)).await.expect("an end");
    let text = String::from_utf8(bytes).expect("text");
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let refused = raw(&bob.url, head.replace(&bob.key, "x")).await;
    assert_eq!((refused.status, &*refused.text), (401, ""));
}
