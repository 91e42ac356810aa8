//! `agentrelay serve`: a relay's beginning and its end

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Desk, Ran, agentrelay};
use crate::support::RelayProcess;

/// How long a relay may take to end, and how much longer a busy machine may take to notice.
const END_MAX: Duration = Duration::from_secs(3 + 2);

#[test]
fn it_says_where_it_is_and_what_to_type_next() {
    let desk = Desk::empty();
    let relay = desk.serve(&[]);
    let log = relay_log(&relay, 3);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], format!("agentrelay {} listening on {}", env!("CARGO_PKG_VERSION"), relay.url));
    assert_eq!(lines[1], format!("data file: {}", desk.data_file().display()));
    assert_eq!(
        lines[2],
        format!("next: create an agent with: agentrelay agent create YOU@TEAM --data {}", desk.data_file().display())
    );
    desk.create("frank@acme");
    relay.kill();
    let relay = desk.serve(&["--public-url", "https://relay.example"]);
    let log = relay_log(&relay, 3);
    assert!(log.contains("next: agents hand over with POST https://relay.example/a2a and their key"), "{log}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_default_data_file_need_not_be_named() {
    let home = tempfile::tempdir().expect("a home");
    let share = home.path().join("share");
    let mut command = agentrelay();
    command.env("XDG_DATA_HOME", &share).env("HOME", home.path());
    command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(std::process::Stdio::piped());
    let mut relay = command.spawn().expect("a relay");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(relay.stderr.take().expect("stderr")));
    let said: Vec<String> = lines.by_ref().take(3).map(|line| line.expect("a line")).collect();
    relay.kill().expect("killed");
    relay.wait().expect("gone");
    assert_eq!(said[1], format!("data file: {}", share.join("agentrelay/agentrelay.db").display()));
    assert_eq!(said[2], "next: create an agent with: agentrelay agent create YOU@TEAM");
}

#[test]
fn a_second_server_on_the_same_file_is_refused_with_the_firsts_pid() {
    let desk = Desk::empty();
    let relay = desk.serve(&[]);
    let refusal = format!("is served by process {} already", relay.child.id());
    let ran = desk.run(&["serve", "--listen", "127.0.0.1:0"]).refused(5, &refusal);
    assert_eq!(ran.stderr.lines().count(), 1, "nothing else is printed: {ran:?}");
    let json = desk.run(&["serve", "--listen", "127.0.0.1:0", "--output", "json"]).ends(5).json();
    assert_eq!(json["error"]["code"], "state_changed");
    relay.kill();
    // However the first one ended, its right ended with it.
    desk.serve(&[]);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_served_file_is_that_file() {
    let desk = Desk::empty();
    let relay = desk.serve(&[]);
    std::os::unix::fs::symlink(desk.data_file(), desk.path("link.db")).expect("a link");
    let mut command = agentrelay();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(desk.path("link.db"));
    Ran::of(&mut command).refused(5, &format!("is served by process {} already", relay.child.id()));
}

#[test]
fn a_taken_address_is_refused_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let desk = Desk::empty();
    let ran = desk.run(&["serve", "--listen", &address]).refused(5, "choose another address with --listen ADDR:PORT");
    assert!(ran.stderr.contains(&format!("cannot listen at {address}: another process listens there")), "{ran:?}");
    assert!(!ran.stderr.contains("listening on"), "{ran:?}");
}

#[test]
fn an_address_that_others_reach_wants_a_public_url() {
    let desk = Desk::empty();
    let warns = |arguments: &[&str]| {
        let mut relay = desk.serve(arguments);
        relay.signal("TERM");
        assert!(relay.child.wait().expect("an end").success());
        relay_log(&relay, 3).contains("there is no --public-url")
    };
    // The later flag would be refused as a repetition, so the address comes by its variable.
    assert!(!warns(&[]));
    assert!(!warns(&["--public-url", "https://relay.example"]));
    let mut command = desk.command(&["serve", "--listen", "0.0.0.0:0"]);
    let mut relay = command.stderr(std::process::Stdio::piped()).spawn().expect("a relay");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(relay.stderr.take().expect("stderr")));
    let said: Vec<String> = lines.by_ref().take(4).map(|line| line.expect("a line")).collect();
    relay.kill().expect("killed");
    relay.wait().expect("gone");
    assert!(said[3].contains("WARN") && said[3].contains("there is no --public-url"), "{said:?}");
}

#[tokio::test]
async fn logs_are_json_where_no_person_reads_and_hold_no_key_at_any_level() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    let mut relay = desk.serve(&["--log-level", "trace"]);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for path in ["/agents/me", "/a2a", "/nowhere"] {
        let request = http.post(format!("{}{path}", relay.url)).bearer_auth(&key).header("x-request-id", "req_1");
        request.body("{ not JSON").send().await.expect("an answer");
    }
    let request = http.get(format!("{}/agents/me", relay.url)).bearer_auth(&key[..key.len() - 1]);
    request.send().await.expect("an answer");
    relay.signal("TERM");
    assert!(relay.child.wait().expect("an end").success());
    let log = relay_log(&relay, 7);
    assert!(!log.contains(&key["ah_live_".len()..key.len() - 1]), "{log}");
    for line in log.lines().skip(3) {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
    }
    assert!(log.contains(r#""request_id":"req_1""#), "{log}");
}

#[tokio::test]
async fn the_log_level_and_format_are_settings() {
    let desk = Desk::empty();
    let mut relay = desk.serve(&["--log-level", "warn"]);
    reqwest::get(format!("{}/healthz", relay.url)).await.expect("an answer");
    relay.signal("TERM");
    relay.child.wait().expect("an end");
    assert_eq!(relay_log(&relay, 3).lines().count(), 3);
    let mut relay = desk.serve(&["--log-format", "text"]);
    reqwest::get(format!("{}/healthz", relay.url)).await.expect("an answer");
    relay.signal("TERM");
    relay.child.wait().expect("an end");
    let log = relay_log(&relay, 4);
    let line = log.lines().nth(3).expect("the request");
    assert!(line.contains("INFO") && line.contains("/healthz") && !line.contains(['{', '\u{1b}']), "{line}");
}

#[tokio::test]
async fn the_admin_routes_open_with_the_token_of_the_environment_or_a_file() {
    const TOKEN: &str = "correct-horse-battery-staple";
    let desk = Desk::empty();
    std::fs::write(desk.path("token"), format!("{TOKEN}\n")).expect("a file");
    let file = desk.path("token");
    let relay = desk.serve(&["--admin-token-file", file.to_str().expect("a path")]);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    for (token, status) in [("wrong-horse-battery-staple", 403), (TOKEN, 201)] {
        let request = http.post(format!("{}/admin/agents", relay.url)).bearer_auth(token);
        let answer = request.json(&serde_json::json!({ "handle": "frank@acme" })).send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status);
    }
    assert!(!relay_log(&relay, 5).contains(TOKEN));
}

#[test]
fn sigterm_and_ctrl_c_end_it_in_time_with_success() {
    for signal in ["TERM", "INT"] {
        let desk = Desk::with(&["frank@acme"]);
        let mut relay = desk.serve(&[]);
        let (ended, after) = end(&mut relay, signal);
        assert!(ended.success() && after < END_MAX, "SIG{signal}: {ended} after {after:?}");
        assert!(!desk.path("data/relay.db-wal").exists(), "the log was emptied into the file");
    }
}

#[test]
fn an_open_stream_and_a_request_that_never_ends_do_not_hold_it_up() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    let mut relay = desk.serve(&[]);
    let mut stream = connect(&relay);
    write!(stream, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n").expect("written");
    let mut start = [0; 15];
    stream.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    let _half = half_a_request(&relay, &key);
    let (ended, after) = end(&mut relay, "TERM");
    assert!(ended.success() && after < END_MAX, "{ended} after {after:?}");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the rest");
    assert!(rest.contains("event: shutdown"), "{rest}");
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    let mut relay = desk.serve(&[]);
    let _half = half_a_request(&relay, &key);
    let asked = Instant::now();
    relay.signal("INT");
    // It has heard the first one when it takes no more connections.
    while TcpStream::connect(address(&relay)).is_ok() && relay.child.try_wait().expect("a relay").is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    if relay.child.try_wait().expect("a relay").is_none() {
        relay.signal("INT");
    }
    let heard = asked.elapsed();
    let ended = relay.child.wait().expect("an end");
    // On a machine so slow that the first Ctrl-C was enough there was no second one to hear.
    if heard < Duration::from_secs(2) {
        assert_eq!(ended.code(), Some(130), "after {:?}", asked.elapsed());
    }
}

fn end(relay: &mut RelayProcess, signal: &str) -> (ExitStatus, Duration) {
    let asked = Instant::now();
    relay.signal(signal);
    (relay.child.wait().expect("an end"), asked.elapsed())
}

/// A request whose body never comes, though the relay is waiting for it.
fn half_a_request(relay: &RelayProcess, key: &str) -> TcpStream {
    let mut connection = connect(relay);
    write!(
        connection,
        "POST /a2a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nContent-Length: 100\r\n\
         Expect: 100-continue\r\n\r\n"
    )
    .expect("written");
    let mut answer = [0; 21];
    connection.read_exact(&mut answer).expect("the relay asks for the body");
    assert_eq!(&answer, b"HTTP/1.1 100 Continue");
    connection
}

fn connect(relay: &RelayProcess) -> TcpStream {
    TcpStream::connect(address(relay)).expect("a connection")
}

fn address(relay: &RelayProcess) -> &str {
    relay.url.trim_start_matches("http://")
}

/// Its log, once that has so many lines: another thread collects them.
fn relay_log(relay: &RelayProcess, lines: usize) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    while relay.log().lines().count() < lines && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    relay.log()
}
