//! Faults that relays of this kind are known for, and this one must not have. The rest of them are in `events`, `hosts`,
//! `process` and `rest_admin`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::process::Server;
use crate::support::{Agent, Answer, RelayProcess, TestRelay, message};
use crate::wire::{EventStream, connect, soon};

/// An agent of a relay in a process of its own.
fn agent_of(relay: &RelayProcess, handle: &str, key: &str) -> Agent {
    Agent {
        handle: handle.to_owned(),
        id: String::new(),
        key: key.to_owned(),
        url: relay.url.clone(),
        http: reqwest::Client::builder().no_proxy().build().expect("a client"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_senders_and_readers_at_once_see_no_error() {
    const SENDERS: usize = 64;
    const EACH: usize = 20;
    const READERS: usize = 32;
    let relay = TestRelay::start().await;
    let frank = relay.agent("frank@acme").await;
    let mut senders = Vec::new();
    for number in 0..SENDERS {
        senders.push(relay.agent(&format!("sender{number}@acme")).await);
    }
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (frank, done) = (frank.clone(), done.clone());
            tokio::spawn(async move {
                let mut statuses = Vec::new();
                while !done.load(Ordering::SeqCst) {
                    statuses.push(frank.rpc("tasks/list", json!({})).await.status);
                }
                statuses
            })
        })
        .collect();
    let sending: Vec<_> = senders
        .into_iter()
        .map(|sender| {
            let frank = frank.clone();
            tokio::spawn(async move {
                let mut sent = Vec::new();
                for number in 0..EACH {
                    // Fails on anything but a result.
                    sent.push(sender.hand_to(&frank, &format!("{number}")).await);
                }
                sent
            })
        })
        .collect();
    let mut sent = Vec::new();
    for sender in sending {
        sent.extend(sender.await.expect("no error"));
    }
    done.store(true, Ordering::SeqCst);
    let mut listed = 0;
    for reader in readers {
        let statuses = reader.await.expect("no panic");
        listed += statuses.len();
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    }
    assert!(listed > READERS, "{listed}");
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), SENDERS * EACH);
    let stored: i64 = relay.sqlite().query_row("SELECT count(*) FROM threads", [], |row| row.get(0)).expect("a count");
    assert_eq!(usize::try_from(stored), Ok(SENDERS * EACH));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_cut_off_has_marked_nothing_as_read() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for number in 0..100 {
        let task = bob.hand_to(&frank, &format!("{number}: {}", "x".repeat(300))).await;
        bob.say(&task, "and").await.result();
    }
    let list =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {"page": {"limit": 200}}}).to_string();
    let post = |body: &str| {
        format!(
            "POST /a2a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            frank.key,
            body.len()
        )
    };
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n", frank.key);
    let before = frank.inbox().await;
    let state = || -> Vec<(i64, i64, i64)> {
        let conn = relay.sqlite();
        let mut statement =
            conn.prepare("SELECT id, recipient_read, recipient_unread FROM threads ORDER BY id").expect("a statement");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
        rows.collect::<rusqlite::Result<_>>().expect("rows")
    };
    let stored = state();
    for request in
        [post(&list), get("/events?wait=0&after=0"), get("/events?after=0"), get("/agents/me/audit?limit=1000")]
    {
        for length in [1, 500, 5_000] {
            let mut tcp = connect(&relay.url).await;
            tcp.write_all(request.as_bytes()).await.expect("sent");
            let mut cut = vec![0; length];
            soon(tcp.read_exact(&mut cut)).await.expect("the beginning of an answer");
            drop(tcp);
        }
    }
    assert_eq!(frank.inbox().await, before);
    assert!(before.iter().all(|item| item["unread_messages"] == 1), "{}", before[0]);
    assert_eq!(state(), stored);
    let fetched: i64 = relay
        .sqlite()
        .query_row("SELECT count(*) FROM events WHERE kind = 'thread.fetched'", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(fetched, 0, "nobody has looked into a thread");
}

/// A file system of so few bytes, taken away again at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where this process may not mount one.
    fn mount(bytes: usize) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("size={bytes},mode=0700");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            _ => None,
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_a_clean_error_and_writes_go_on_when_there_is_space_again() {
    let Some(disk) = SmallDisk::mount(8 << 20) else {
        eprintln!("skipped: this process may not mount a small disk");
        return;
    };
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).expect("a ballast");
    let data_file = disk.0.path().join("relay.db");
    let mut server = Server::start(&data_file).await;
    let (bob, frank) = (server.agent("bob@acme").await, server.agent("frank@acme").await);
    let send = async |size: usize| {
        let params = json!({"recipient": frank.handle, "message": message(&"x".repeat(size))});
        bob.rpc("message/send", params).await
    };

    // Until nothing goes in any more, be it large or small.
    let mut sent = Vec::new();
    let mut refused = 0;
    for size in [200_000, 20_000, 2_000, 1] {
        loop {
            let answer = send(size).await;
            if answer.status == 200 {
                sent.push(answer.result()["task_id"].as_str().expect("an id").to_owned());
                assert!(sent.len() < 20_000, "the disk has no end");
                continue;
            }
            let error = answer.refused("internal").error();
            assert_eq!(error["details"], json!({}));
            assert!(error["message"].as_str().is_some_and(|text| text.starts_with("The relay could not finish")));
            refused += 1;
            break;
        }
    }
    assert_eq!(refused, 4);
    // Reads go on, and readiness says what is wrong.
    let whole = |listed: &Value| listed["items"].as_array().map(Vec::len);
    let listed = frank.rpc("tasks/list", json!({"page": {"limit": 200}})).await.result();
    assert_eq!(whole(&listed), Some(sent.len().min(200)));
    for path in ["/healthz", "/agents", "/agents/me/audit", "/events?wait=0&after=0"] {
        assert_eq!(frank.rest("GET", path).await.status, 200, "{path}");
    }
    let unread = sent[0].clone();
    assert_eq!(frank.get(&unread).await["messages"][0]["body"], json!("x".repeat(200_000)));
    let threads = || -> i64 {
        let conn = rusqlite::Connection::open(&data_file).expect("the data file");
        let count = |sql: &str| -> i64 { conn.query_row(sql, [], |row| row.get(0)).expect("a count") };
        let threads = count("SELECT count(*) FROM threads");
        assert_eq!(count("SELECT count(*) FROM messages"), threads, "no half thread");
        assert_eq!(count("SELECT count(*) FROM events WHERE kind = 'thread.created'"), threads);
        threads
    };
    assert_eq!(usize::try_from(threads()).expect("a count"), sent.len(), "what was acknowledged, and nothing else");

    std::fs::remove_file(&ballast).expect("space");
    for _ in 0..5 {
        let answer = send(2_000).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        sent.push(answer.result()["task_id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(frank.rest("GET", "/readyz").await.status, 200);
    // Whether or not a note that it was read found room then, it does now.
    for task in [&unread, &sent[sent.len() - 1]] {
        assert_eq!(frank.get(task).await["task_id"], json!(task));
    }
    let fetched = "/agents/me/audit?action=thread.fetched";
    assert_eq!(frank.rest("GET", fetched).await.json()["events"].as_array().map(Vec::len), Some(2));
    assert_eq!(usize::try_from(threads()).expect("a count"), sent.len());
    let conn = rusqlite::Connection::open(&data_file).expect("the data file");
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(verdict, "ok");
    drop(conn);
    server.ask_to_stop();
    server.stopped().await;
    drop(server);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_open_streams_and_waits_ends_on_sigterm_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut relay = RelayProcess::start(&folder.path().join("relay.db"), &[]);
    let bob = agent_of(&relay, "bob@acme", &relay.operate(&["agent", "create", "bob@acme"]));
    let frank = agent_of(&relay, "frank@acme", &relay.operate(&["agent", "create", "frank@acme"]));
    let task = bob.hand_to(&frank, "Hello").await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = EventStream::open(&frank, "/events", None).await;
        assert!(!stream.next_any().await.expect("a comment").aside.is_empty());
        streams.push(tokio::spawn(stream.rest()));
    }
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let bob = bob.clone();
            tokio::spawn(async move {
                let request = bob.http.get(format!("{}/events?wait=50", bob.url)).bearer_auth(&bob.key);
                request.send().await.map(|response| response.status().as_u16())
            })
        })
        .collect();
    // Most of them have arrived by now; whether all have makes no difference to the end.
    tokio::time::sleep(Duration::from_millis(100)).await;

    let asked = Instant::now();
    relay.signal("TERM");
    let status = soon(async {
        loop {
            if let Some(status) = relay.child.try_wait().expect("a child") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!(status.code(), Some(0), "{}", relay.log());
    for stream in streams {
        let told = soon(stream).await.expect("no panic");
        assert_eq!(told.iter().map(|event| &*event.kind).collect::<Vec<_>>(), ["shutdown"]);
    }
    for wait in waits {
        let answer = soon(wait).await.expect("no panic");
        assert!(answer.is_err() || answer.is_ok_and(|status| status == 200));
    }
    assert!(!relay.log().contains("panicked"), "{}", relay.log());

    let again = RelayProcess::start(&relay.data_file, &[]);
    let frank = agent_of(&again, "frank@acme", &frank.key);
    assert_eq!(frank.get(&task).await["summary"], "Hello");
}

/// Everything that a relay and its operator's commands have left behind.
struct Traces {
    relay: RelayProcess,
    folder: PathBuf,
    printed: String,
}

impl Traces {
    /// What is there after everything that this agent's relay has done so far.
    async fn collect(relay: RelayProcess, folder: &Path, printed: String, agent: &Agent) -> Traces {
        // The log is read by a thread of its own; what it has of this request, it has of all before.
        let request = agent.http.get(format!("{}/healthz", agent.url)).header("x-request-id", "req_the_last");
        assert_eq!(request.send().await.expect("an answer").status(), 200);
        soon(async {
            while !relay.log().contains("req_the_last") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        Traces { relay, folder: folder.join("data"), printed }
    }

    /// The lines of the log that are JSON.
    fn log(&self) -> Vec<Value> {
        let log = self.relay.log();
        let lines = log.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// Where this text is found, in a file's bytes, in the log or in what commands printed.
    fn of(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).expect("the folder").flatten() {
            let bytes = std::fs::read(entry.path()).expect("a file");
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        let log = self.relay.log();
        found.extend(log.lines().filter(|line| line.contains(text)).map(|line| format!("log: {line}")));
        found.extend(self.printed.lines().filter(|line| line.contains(text)).map(|line| format!("printed: {line}")));
        found
    }
}

/// A relay that logs all there is to log, with an admin token that nobody has seen.
fn talkative_relay(folder: &Path) -> (RelayProcess, String) {
    let token = "an-admin-token-0f9e8d7c6b5a".to_owned();
    let token_file = folder.join("token");
    std::fs::write(&token_file, &token).expect("a token file");
    let token_path = token_file.to_str().expect("a path").to_owned();
    std::fs::create_dir(folder.join("data")).expect("a folder");
    let arguments = ["--admin-token-file", &token_path, "--log-level", "trace", "--log-format", "json"];
    (RelayProcess::start(&folder.join("data/relay.db"), &arguments), token)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_message_is_in_a_log_or_in_the_data_file_or_printed_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let (relay, token) = talkative_relay(folder.path());
    let mut secrets = vec![token.clone()];
    secrets.push(relay.operate(&["agent", "create", "bob@acme"]));
    secrets.push(relay.operate(&["key", "mint", "--as", "bob@acme", "--label", "laptop"]));
    secrets.push(relay.operate(&["key", "rotate", "--as", "bob@acme"]));
    let mut bob = agent_of(&relay, "bob@acme", secrets.last().expect("a key"));
    let operator = bob.with_key(&token);
    let text = |answer: &Answer, key: &str| answer.json()[key].as_str().expect(key).to_owned();

    let rotated = bob.rest("POST", "/agents/me/keys/rotate").await;
    bob = bob.with_key(&text(&rotated, "api_key"));
    secrets.push(bob.key.clone());
    let created = operator.rest_with("POST", "/admin/agents", json!({"handle": "frank@acme"})).await;
    secrets.push(text(&created, "api_key"));
    let path = format!("/admin/agents/{}/keys/rotate", text(&created, "agent_id"));
    let rotated = operator.rest("POST", &path).await;
    secrets.push(text(&rotated, "api_key"));
    let frank = agent_of(&relay, "frank@acme", secrets.last().expect("a key"));

    // Right and wrong uses of all of them.
    for secret in &secrets {
        let holder = bob.with_key(secret);
        for path in ["/agents/me", "/nothing", "/admin/agents"] {
            holder.rest("GET", path).await;
            bob.rest("GET", &format!("{path}?key={secret}")).await;
        }
        holder.rpc("tasks/list", json!({})).await;
        bob.rpc("message/send", json!({"recipient": secret, "message": message("x")})).await.refused("invalid_params");
        bob.rest_with("POST", "/agents/me/block", json!({"handle": secret})).await.refused("invalid_params");
        bob.rest("GET", &format!("/agents?cursor={secret}")).await.refused("invalid_params");
        bob.post_a2a(format!("{{\"broken\": \"{secret}")).await.refused("parse_error");
    }
    let task = bob.hand_to(&frank, "a letter of nobody's business").await;
    frank.step_with(&task, "accept", json!({"session_id": "s"})).await.result();
    frank.step_with(&task, "complete", json!({"result_summary": "a result of nobody's business"})).await.result();

    let mut printed = String::new();
    for arguments in [
        &["key", "list"][..],
        &["agent", "list"],
        &["agent", "show", "bob@acme"],
        &["audit"],
        &["blocks"],
        &["config"],
        &["--output", "json", "key", "list"],
        &["--output", "json", "audit"],
        &["--output", "json", "config"],
    ] {
        printed += &relay.operate(arguments);
        printed += "\n";
    }
    for path in ["/agents", "/agents/me", "/agents/me/audit", "/agents/me/block", "/events?wait=0&after=0"] {
        printed += &bob.rest("GET", path).await.text;
        printed += "\n";
    }
    assert!(printed.contains("ah_live_"), "keys are listed by how they begin");
    let traces = Traces::collect(relay, folder.path(), printed, &bob).await;
    for secret in &secrets {
        // Without its fixed beginning, and with none of its case: no encoding of it either.
        let random = secret.trim_start_matches("ah_live_");
        assert_eq!(traces.of(random), [""; 0]);
        assert_eq!(traces.of(&random.to_uppercase()), [""; 0]);
    }
    let log = traces.relay.log();
    assert!(!log.contains("nobody's business"), "{log}");
    let log = traces.log();
    let requests: Vec<&Value> = log.iter().filter(|line| line["message"] == "request").collect();
    assert!(requests.len() > 50, "{log:?}");
    for line in requests {
        let text = |key: &str| line[key].as_str().unwrap_or_else(|| panic!("{key}: {line}")).to_owned();
        assert!(text("request_id").starts_with("req_"), "{line}");
        assert!(text("route").starts_with('/') || text("route") == "-", "{line}");
        assert!(!text("method").is_empty() && line["status"].is_u64() && line["ms"].is_u64(), "{line}");
    }
}

/// A path, an id: what callers write is not in the log, whatever they take it for.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_wrong_place_does_not_get_into_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (relay, _) = talkative_relay(folder.path());
    let key = relay.operate(&["agent", "create", "bob@acme"]);
    let bob = agent_of(&relay, "bob@acme", &key);
    bob.rest("GET", &format!("/agents/{key}")).await.refused("method_not_found");
    bob.rest("DELETE", &format!("/agents/me/block/{key}")).await;
    bob.rpc("tasks/get", json!({"task_id": key})).await.refused("thread_not_found");
    let notification = json!({"jsonrpc": "2.0", "method": "tasks/get", "params": {"task_id": key}});
    assert_eq!(bob.post_a2a(notification.to_string()).await.status, 204);
    let traces = Traces::collect(relay, folder.path(), String::new(), &bob).await;
    assert_eq!(traces.of(key.trim_start_matches("ah_live_")), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_about_a_request_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (relay, _) = talkative_relay(folder.path());
    let bob = agent_of(&relay, "bob@acme", &relay.operate(&["agent", "create", "bob@acme"]));
    for method in ["tasks/list", "tasks/get", "tasks/unsend"] {
        let notification = json!({"jsonrpc": "2.0", "method": method});
        assert_eq!(bob.post_a2a(notification.to_string()).await.status, 204);
        bob.rpc(method, json!({})).await;
    }
    let log = Traces::collect(relay, folder.path(), String::new(), &bob).await.log();
    let of_requests =
        log.iter().filter(|line| line["target"].as_str().is_some_and(|of| of.starts_with("agentrelay::api")));
    let nameless: Vec<_> = of_requests.clone().filter(|line| !line["request_id"].is_string()).collect();
    assert!(of_requests.count() >= 7);
    assert!(nameless.is_empty(), "{nameless:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_a_failure_is_in_the_log_under_its_request_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let (relay, _) = talkative_relay(folder.path());
    let bob = agent_of(&relay, "bob@acme", &relay.operate(&["agent", "create", "bob@acme"]));
    let conn = rusqlite::Connection::open(&relay.data_file).expect("the data file");
    conn.execute_batch("ALTER TABLE relay RENAME TO elsewhere; ALTER TABLE blocks RENAME TO gone").expect("renamed");
    let mut failed = Vec::new();
    for path in ["/agents/me/block", "/readyz"] {
        let answer = bob.rest("GET", path).await.refused("internal");
        assert!(!answer.text.contains("no such table"), "{}", answer.text);
        failed.push(answer.header("x-request-id").to_owned());
    }
    conn.execute_batch("ALTER TABLE elsewhere RENAME TO relay; ALTER TABLE gone RENAME TO blocks")
        .expect("renamed back");
    let log = Traces::collect(relay, folder.path(), String::new(), &bob).await.log();
    for id in failed {
        let of_request: Vec<_> = log.iter().filter(|line| line["request_id"] == id).collect();
        assert!(of_request.iter().all(|line| line["level"] == "ERROR"), "{of_request:?}");
        let cause =
            of_request.iter().any(|line| line["error"].as_str().is_some_and(|text| text.contains("no such table")));
        assert!(cause, "{of_request:?}");
    }
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_the_files_whatever_the_umask_is() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a folder");
    let folder = parent.path().join("deep/data");
    let data_file = folder.join("relay.db");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_agentrelay"), "--data"]);
        command.arg(&data_file).args(arguments).env_remove("AGENTRELAY_ADMIN_TOKEN");
        command
    };
    let mut child = run(&["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a relay");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("listening on ")));
    let backup = folder.join("backup.db");
    for arguments in [&["agent", "create", "bob@acme"][..], &["backup", backup.to_str().expect("a path")]] {
        assert!(run(arguments).output().expect("a command").status.success(), "{arguments:?}");
    }
    let mut modes: Vec<(String, u32)> = std::fs::read_dir(&folder)
        .expect("the folder")
        .flatten()
        .map(|entry| {
            let mode = entry.metadata().expect("a mode").permissions().mode() & 0o777;
            (entry.file_name().to_string_lossy().into_owned(), mode)
        })
        .collect();
    modes.sort();
    child.kill().expect("killed");
    child.wait().expect("gone");
    let expected = ["backup.db", "relay.db", "relay.db-shm", "relay.db-wal", "relay.db.lock"];
    assert_eq!(modes, expected.map(|name| (name.to_owned(), 0o600)));
    for path in [&folder, &parent.path().join("deep")] {
        let mode = std::fs::metadata(path).expect("a folder").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", path.display());
    }
}
