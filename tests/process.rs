//! The process around the protocols: bodies that are too large or break off, panics, and the end of a server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentrelay::api;
use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::Clock;
use agentrelay::error::Result;
use agentrelay::relay::{Actor, Relay};
use agentrelay::store::{Store, StoreOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::support::{ADMIN_TOKEN, Agent, Answer, TestRelay, message, settings};
use crate::wire::{EventStream, connect, masked, raw, read_answer, soon};

const BODY_MAX: usize = 1 << 20;
/// How long a server may take to end.
const END_MAX: Duration = Duration::from_secs(3);

/// A server on a file of the test's choosing, under a clock that counts how often it is read and panics on demand.
pub struct Server {
    pub url: String,
    pub relay: Relay,
    panics: Arc<AtomicBool>,
    readings: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub async fn start(data_file: &Path) -> Server {
        let (panics, readings) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clock = Clock::new({
            let (panics, readings, system) = (panics.clone(), readings.clone(), Clock::system());
            move || {
                readings.fetch_add(1, Ordering::SeqCst);
                assert!(!panics.load(Ordering::SeqCst), "the clock of this test panics: all is well");
                system.now()
            }
        });
        let store = Store::open(data_file, StoreOptions { clock, ..StoreOptions::default() }).expect("a data file");
        let relay = Relay::new(store);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        let settings = api::Settings { rate_limit: 0, ..settings() };
        let served = tokio::spawn(api::serve(listener, relay.clone(), settings, async move { drop(stopped.await) }));
        Server { url, relay, panics, readings, stop: Some(stop), served: Some(served) }
    }

    pub async fn agent(&self, handle: &str) -> Agent {
        let new = NewAgent::with_handle(Handle::parse(handle).expect("a handle"));
        let created = self.relay.create_agent(Actor::operator("req_test"), new, KeyOptions::default()).await;
        let (agent, minted) = created.expect("an agent");
        Agent {
            handle: handle.to_owned(),
            id: agent.id.to_string(),
            key: minted.key.reveal().to_owned(),
            url: self.url.clone(),
            http: reqwest::Client::builder().no_proxy().build().expect("a client"),
        }
    }

    /// Asks the server to end. Gives the moment.
    pub fn ask_to_stop(&mut self) -> Instant {
        self.stop.take();
        Instant::now()
    }

    /// Waits until it has ended.
    pub async fn stopped(&mut self) {
        if let Some(served) = self.served.take() {
            soon(served).await.expect("no panic").expect("a clean stop");
        }
    }

    /// Does something that makes the server read its clock, and waits until it has.
    async fn until_it_has_come<T>(&self, start: impl FnOnce() -> T) -> T {
        let before = self.readings.load(Ordering::SeqCst);
        let started = start();
        soon(async {
            while self.readings.load(Ordering::SeqCst) == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        started
    }
}

/// The routes that take a body, with one that they take.
fn routes_with_bodies() -> [(&'static str, &'static str, String); 4] {
    [
        ("POST", "/a2a", json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/list"}).to_string()),
        ("PUT", "/agents/me/card", json!({"role": "backend"}).to_string()),
        ("POST", "/agents/me/block", json!({"handle": "frank@acme"}).to_string()),
        ("POST", "/admin/agents", json!({"handle": "carol@acme"}).to_string()),
    ]
}

fn caller_of(path: &str, bob: &Agent) -> Agent {
    if path.starts_with("/admin") { bob.with_key(ADMIN_TOKEN) } else { bob.clone() }
}

/// The body with spaces up to so many bytes.
fn padded(body: &str, length: usize) -> String {
    format!("{body}{}", " ".repeat(length - body.len()))
}

#[track_caller]
fn assert_too_large(answer: Answer, path: &str) {
    assert_eq!(answer.status, 413, "{path}: {}", answer.text);
    let message = format!("The body is larger than {BODY_MAX} bytes; send less, or a link to the rest");
    let body = masked(&answer.refused("invalid_request").json());
    if path == "/a2a" {
        let data = json!({"code": "invalid_request", "request_id": "REQUEST", "details": {}});
        let error = json!({"code": -32600, "message": message, "data": data});
        assert_eq!(body, json!({"jsonrpc": "2.0", "id": null, "error": error}));
    } else {
        let error = json!({"code": "invalid_request", "message": message, "request_id": "REQUEST", "details": {}});
        assert_eq!(body, error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_one_mebibyte_is_taken_and_one_byte_more_is_413() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    for (method, path, body) in routes_with_bodies() {
        let caller = caller_of(path, &bob);
        let send = async |body: String| {
            let request = caller.http.request(method.parse().expect("a method"), format!("{}{path}", relay.url));
            Answer::of(soon(request.bearer_auth(&caller.key).body(body).send()).await.expect("an answer")).await
        };
        assert_too_large(send(padded(&body, BODY_MAX + 1)).await, path);
        let taken = send(padded(&body, BODY_MAX)).await;
        assert!(matches!(taken.status, 200 | 201), "{path}: {}", taken.text);
    }
    assert_eq!(bob.rest("GET", "/agents/me").await.json()["role"], "backend");
}

/// Many HTTP clients, reqwest and Python's among them, report a broken pipe when the connection is closed while they still
/// send, and their users never see the 413.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_far_too_much_still_gets_its_answer() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let mut broken = Vec::new();
    for (method, path, _) in routes_with_bodies() {
        let mut tcp = connect(&relay.url).await;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            caller_of(path, &bob).key,
            8 * BODY_MAX
        );
        tcp.write_all(head.as_bytes()).await.expect("sent");
        let mut sent = Ok(());
        for _ in 0..8 {
            // As most clients do: all of the request first, then the answer.
            sent = sent.and(tcp.write_all(&vec![b' '; BODY_MAX]).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match sent {
            Ok(()) => assert_too_large(read_answer(tcp).await, path),
            Err(error) => broken.push(format!("{method} {path}: {error}")),
        }
    }
    assert_eq!(broken, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_chunks_is_counted_as_it_comes() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    for (method, path, body) in routes_with_bodies() {
        let caller = caller_of(path, &bob);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\
             Connection: close\r\n\r\n",
            caller.key
        );
        let chunked = |body: &str| {
            let chunks = body
                .as_bytes()
                .chunks(10_000)
                .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
            format!("{head}{}0\r\n\r\n", chunks.collect::<String>())
        };
        // One byte too many, and one more chunk so that the relay need not wait for the end to know.
        assert_too_large(raw(&relay.url, chunked(&padded(&body, BODY_MAX + 1))).await, path);
        let taken = raw(&relay.url, chunked(&padded(&body, BODY_MAX))).await;
        assert!(matches!(taken.status, 200 | 201), "{path}: {}", taken.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_does_nothing() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let before =
        relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).expect("a count");
    for (method, path, body) in routes_with_bodies() {
        let caller = caller_of(path, &bob);
        // All of the document has come, and yet it is not the whole body.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            caller.key,
            body.len() + 1
        );
        let mut tcp = connect(&relay.url).await;
        tcp.write_all(request.as_bytes()).await.expect("sent");
        tcp.shutdown().await.expect("half closed");
        let mut bytes = Vec::new();
        let _ = soon(tcp.read_to_end(&mut bytes)).await;
        assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/1.1 20"), "{path}");
    }
    assert_eq!(bob.rest("GET", "/agents/me").await.status, 200, "the server goes on");
    let after =
        relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).expect("a count");
    assert_eq!(after, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_reaches_the_client_as_internal_and_the_server_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("relay.db")).await;
    let (bob, frank) = (server.agent("bob@acme").await, server.agent("frank@acme").await);
    let text = "The relay could not finish this request; retry, and look for the request id in its log if that fails";

    for _ in 0..3 {
        server.panics.store(true, Ordering::SeqCst);
        let call = async |method: &str, path: &str| {
            let request = bob.http.request(method.parse().expect("a method"), format!("{}{path}", bob.url));
            let request = request.bearer_auth(&bob.key).header("x-request-id", "req_mine").body("{}");
            Answer::of(soon(request.send()).await.expect("an answer")).await
        };
        for (method, path) in [("GET", "/agents"), ("PUT", "/agents/me/card"), ("GET", "/events")] {
            let answer = call(method, path).await.refused("internal");
            let expected = json!({"code": "internal", "message": text, "request_id": "req_mine", "details": {}});
            assert_eq!(answer.json(), expected, "{path}");
        }
        let data = json!({"code": "internal", "request_id": "req_mine", "details": {}});
        let error = json!({"code": -32099, "message": text, "data": data});
        let answer = call("POST", "/a2a").await.refused("internal");
        assert_eq!(answer.json(), json!({"jsonrpc": "2.0", "id": null, "error": error}));
        assert_eq!(call("GET", "/healthz").await.status, 200, "what asks no clock is not concerned");
        server.panics.store(false, Ordering::SeqCst);

        assert_eq!(bob.rest("GET", "/agents/me").await.status, 200);
        let task = bob.hand_to(&frank, "Hello").await;
        frank.step(&task, "accept").await.result();
        assert_eq!(bob.rest("GET", "/readyz").await.status, 200);
    }
}

/// A log to look into.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// the panic said is on standard error, as no line of the log and without the id.
// One thread for all, so that its log has what the server says.
#[tokio::test(flavor = "current_thread")]
async fn a_panic_is_in_the_log_under_the_id_of_its_request() {
    let log = Log::default();
    let writer = log.clone();
    let _guard = tracing::subscriber::set_default(
        tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).finish(),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("relay.db")).await;
    let bob = server.agent("bob@acme").await;
    server.panics.store(true, Ordering::SeqCst);
    let request = bob.http.get(format!("{}/agents", bob.url)).bearer_auth(&bob.key).header("x-request-id", "req_mine");
    assert_eq!(soon(request.send()).await.expect("an answer").status(), 500);
    let bytes = log.0.lock().expect("the log").clone();
    let text = String::from_utf8(bytes).expect("text");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_request = || lines.iter().filter(|line| line["request_id"] == "req_mine" && line["level"] == "ERROR");
    assert!(of_request().any(|line| line["message"] == "request" && line["status"] == 500), "{text}");
    assert!(of_request().any(|line| line["error"].as_str().is_some_and(|error| error.contains("panic"))), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_writer_is_that_operations_alone() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let store = relay.relay.store();
    let mut panicking = Vec::new();
    let mut sending = Vec::new();
    for number in 0..60 {
        let store = store.clone();
        panicking.push(tokio::spawn(async move {
            store
                .write(move |tx| -> Result<()> {
                    if number % 2 == 0 {
                        tx.execute("UPDATE relay SET checked_at = -1", [])?;
                    }
                    panic!("an operation of this test panics: all is well");
                })
                .await
        }));
        let (bob, frank) = (bob.clone(), frank.clone());
        sending.push(tokio::spawn(async move { bob.hand_to(&frank, &format!("{number}")).await }));
    }
    for operation in panicking {
        let error = soon(operation).await.expect("no panic").expect_err("it panicked");
        assert_eq!(error.symbol().name(), "internal");
        assert!(!error.message().contains("panic"), "{error}");
    }
    let mut sent = Vec::new();
    for task in sending {
        sent.push(soon(task).await.expect("sent"));
    }
    sent.sort();
    let listed = frank.rpc("tasks/list", json!({"page": {"limit": 200}})).await.result();
    let mut listed: Vec<_> = listed["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["task_id"].as_str().expect("an id"))
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, sent, "each once");
    let checked_at: i64 =
        relay.sqlite().query_row("SELECT checked_at FROM relay", [], |row| row.get(0)).expect("a moment");
    assert_ne!(checked_at, -1, "what a panicking operation wrote is undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_read_is_that_requests_alone() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    // More often than there are connections to read with.
    for _ in 0..20 {
        let read = relay.relay.store().read(|_| -> Result<()> { panic!("a read of this test panics: all is well") });
        assert_eq!(soon(read).await.expect_err("it panicked").symbol().name(), "internal");
    }
    for _ in 0..20 {
        assert_eq!(soon(bob.rest("GET", "/agents")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_open_streams_and_waits_ends_in_time_and_tells_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(&folder.path().join("relay.db")).await;
    let (bob, frank) = (server.agent("bob@acme").await, server.agent("frank@acme").await);
    bob.hand_to(&frank, "Hello").await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        // Some have events before them that they have not read yet.
        let mut stream =
            EventStream::open(&frank, if streams.len() % 2 == 0 { "/events" } else { "/events?after=0" }, None).await;
        assert!(!stream.next_any().await.expect("a comment").aside.is_empty());
        streams.push(tokio::spawn(stream.rest()));
    }
    let mut waits = Vec::new();
    for _ in 0..5 {
        let bob = bob.clone();
        let wait = || tokio::spawn(async move { bob.rest("GET", "/events?wait=50").await });
        waits.push(server.until_it_has_come(wait).await);
    }

    let asked = server.ask_to_stop();
    server.stopped().await;
    assert!(asked.elapsed() < END_MAX, "{:?}", asked.elapsed());
    for stream in streams {
        let told = soon(stream).await.expect("no panic");
        assert_eq!(told.last().map(|event| &*event.kind), Some("shutdown"), "{told:?}");
    }
    for wait in waits {
        let answer = soon(wait).await.expect("no panic");
        assert_eq!((answer.status, &answer.json()["events"]), (200, &json!([])));
    }
    let refused = bob.http.get(format!("{}/healthz", server.url)).send().await;
    assert!(refused.is_err_and(|error| error.is_connect()), "nobody listens any more");
}

/// A request of which the server has read the head and waits for the body.
async fn half_sent(url: &str, key: &str, body: &str) -> tokio::net::TcpStream {
    let mut tcp = connect(url).await;
    let head = format!(
        "POST /a2a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\
         Expect: 100-continue\r\n\r\n",
        body.len()
    );
    tcp.write_all(head.as_bytes()).await.expect("sent");
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut told = vec![0; expected.len()];
    soon(tcp.read_exact(&mut told)).await.expect("an interim answer");
    assert_eq!(told, expected);
    tcp
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_finished_before_the_server_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_file = folder.path().join("relay.db");
    let mut server = Server::start(&data_file).await;
    let (bob, frank) = (server.agent("bob@acme").await, server.agent("frank@acme").await);
    let params = json!({"recipient": frank.handle, "message": message("in flight")});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}).to_string();
    let mut tcp = half_sent(&server.url, &bob.key, &call).await;
    let idle = connect(&server.url).await;

    let asked = server.ask_to_stop();
    // The listener is closed, and the request goes on.
    soon(async {
        while tokio::net::TcpStream::connect(server.url.trim_start_matches("http://")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    tcp.write_all(call.as_bytes()).await.expect("sent");
    let answer = read_answer(tcp).await;
    let task = answer.result()["task_id"].as_str().expect("an id").to_owned();
    server.stopped().await;
    assert!(asked.elapsed() < END_MAX, "{:?}", asked.elapsed());
    drop(idle);
    drop(server);

    let server = Server::start(&data_file).await;
    let frank = Agent { url: server.url.clone(), ..frank };
    assert_eq!(frank.get(&task).await["summary"], "in flight", "what was acknowledged is on disk");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_does_not_finish_cannot_keep_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(&folder.path().join("relay.db")).await;
    let bob = server.agent("bob@acme").await;
    let never = half_sent(&server.url, &bob.key, "a body that never comes").await;
    let asked = server.ask_to_stop();
    server.stopped().await;
    assert!(asked.elapsed() < END_MAX, "{:?}", asked.elapsed());
    drop(never);
}
