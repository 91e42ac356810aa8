//! `agentrelay health`

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::{Desk, Ran, agentrelay};

#[test]
fn a_ready_relay_is_healthy_by_url_by_flag_and_by_variable() {
    let desk = Desk::empty();
    let relay = desk.serve(&[]);
    let port = relay.url.rsplit(':').next().expect("a port");
    let ran = Ran::of(agentrelay().args(["health", "--url", &relay.url])).ends(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("ready\n", ""));
    Ran::of(agentrelay().args(["health", "--url", &format!("{}/", relay.url)])).ends(0);
    Ran::of(agentrelay().args(["health", "--listen", &format!("127.0.0.1:{port}")])).ends(0);
    // The address as `serve` was given it, which none can call.
    Ran::of(agentrelay().arg("health").env("AGENTRELAY_LISTEN", format!("0.0.0.0:{port}"))).ends(0);
    let document = Ran::of(agentrelay().args(["health", "--output", "json", "--url", &relay.url])).ends(0).json();
    assert_eq!(document, serde_json::json!({ "status": "ready", "url": format!("{}/readyz", relay.url) }));
}

#[test]
fn no_proxy_answers_for_a_relay() {
    let desk = Desk::empty();
    let relay = desk.serve(&[]);
    let mut command = agentrelay();
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:1");
    }
    Ran::of(command.args(["health", "--url", &relay.url])).ends(0);
}

#[test]
fn where_nobody_listens_there_is_no_healthy_relay() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    Ran::of(agentrelay().args(["health", "--url", &url])).refused(1, "no relay answers at");
    let ran = Ran::of(agentrelay().args(["health", "--output", "json", "--url", &url])).ends(1);
    assert_eq!(ran.json()["error"]["code"], "failure");
}

#[test]
fn a_relay_that_does_not_answer_in_time_is_not_healthy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let asked = Instant::now();
    Ran::of(agentrelay().args(["health", "--url", &url])).refused(1, "no relay answers at");
    assert!(asked.elapsed() >= Duration::from_secs(2));
    drop(listener);
}

#[test]
fn a_relay_that_is_not_ready_is_not_healthy() {
    for answer in ["503 Service Unavailable", "302 Found\r\nLocation: http://127.0.0.1:1/", "404 Not Found"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(connection.try_clone().expect("a reader")).lines();
            while !lines.next().expect("a request").expect("a line").is_empty() {}
            write!(connection, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("written");
        });
        Ran::of(agentrelay().args(["health", "--url", &url])).refused(1, "the relay is not ready");
        server.join().expect("a server");
    }
}

#[test]
fn what_is_no_url_is_wrong_usage() {
    Ran::of(agentrelay().args(["health", "--url", "nowhere"])).refused(2, "invalid value 'nowhere'");
}
