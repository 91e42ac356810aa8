//! The guard against DNS rebinding: whatever a web page makes a browser send, it does not get past the relay's names.

use agentrelay::api::Settings;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::routes::{Door, ROUTES, filled};
use crate::support::{ADMIN_TOKEN, Agent, Answer, TestRelay, settings};
use crate::wire::{connect, masked, raw, soon};

/// A request of this caller with these headers.
async fn with_headers(caller: &Agent, method: &str, path: &str, headers: &[(&str, &[u8])]) -> Answer {
    let mut request = caller.http.request(method.parse().expect("a method"), format!("{}{path}", caller.url));
    request = request.bearer_auth(&caller.key);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).expect("a value"));
    }
    Answer::of(soon(request.send()).await.expect("an answer")).await
}

/// `GET /healthz` with exactly these header lines.
async fn health(relay: &TestRelay, version: &str, lines: &str) -> Answer {
    raw(&relay.url, format!("GET /healthz HTTP/{version}\r\n{lines}Connection: close\r\n\r\n")).await
}

fn refusal(header: &str, value: &str) -> Value {
    json!({
        "code": "forbidden",
        "message": format!(
            "The {header} '{value}' is not one of this relay's names; call it by its address, or have the operator \
             start it with --allowed-host NAME"
        ),
        "request_id": "REQUEST",
        "details": {},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_origin_is_refused_on_every_route_with_and_without_a_key() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    let count =
        || -> i64 { relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get(0)).expect("a count") };
    let before = count();
    let nowhere =
        [("GET", "/nothing", Door::Anyone), ("PATCH", "/agents", Door::Anyone), ("OPTIONS", "/a2a/", Door::Anyone)];
    for (method, path, _) in ROUTES.into_iter().chain(nowhere) {
        for key in [&*bob.key, ADMIN_TOKEN, "none"] {
            let caller = bob.with_key(key);
            for (header, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
                let answer = with_headers(&caller, method, &filled(path), &[(header, value.as_bytes())]).await;
                let answer = answer.refused("forbidden");
                assert_eq!(answer.header("content-type"), "application/json", "{path}");
                assert!(answer.header("x-request-id").starts_with("req_"), "{path}");
                assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
                let title = if header == "host" { "Host" } else { "Origin" };
                let mut expected = refusal(title, value);
                if path == "/a2a" {
                    let message = expected["message"].take();
                    expected = json!({
                        "jsonrpc": "2.0",
                        "id": null,
                        "error": {
                            "code": -32002,
                            "message": message,
                            "data": {"code": "forbidden", "request_id": "REQUEST", "details": {}},
                        },
                    });
                }
                assert_eq!(masked(&answer.json()), expected, "{method} {path}");
            }
        }
    }
    assert_eq!(count(), before, "nothing was done");
    // No route lets another origin's script read it.
    for origin in ["http://127.0.0.1:8080", "http://localhost:3000"] {
        let answer = with_headers(&bob, "GET", "/agents/me", &[("origin", origin.as_bytes())]).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_localhost_and_the_names_that_the_operator_gave_pass() {
    let relay = TestRelay::with(Settings {
        public_url: Some("https://Relay.Example:8443/base".to_owned()),
        allowed_hosts: vec!["box.lan".to_owned(), "relay".to_owned()],
        ..settings()
    })
    .await;
    let bob = relay.agent("bob@acme").await;
    for host in [
        "127.0.0.1",
        "127.0.0.1:7420",
        "127.0.0.1:1",
        "192.0.2.7:80",
        "[::1]",
        "[::1]:7420",
        "[2001:db8::7]:443",
        "localhost",
        "localhost:7420",
        "LocalHost",
        "relay.example",
        "RELAY.example:8443",
        "relay.example:1",
        "box.lan",
        "Box.Lan:7420",
        "relay",
    ] {
        let answer = with_headers(&bob, "GET", "/agents/me", &[("host", host.as_bytes())]).await;
        assert_eq!(answer.status, 200, "{host}: {}", answer.text);
        for scheme in ["http", "https"] {
            let origin = format!("{scheme}://{host}");
            let answer = with_headers(&bob, "GET", "/agents/me", &[("origin", origin.as_bytes())]).await;
            assert_eq!(answer.status, 200, "{origin}: {}", answer.text);
        }
    }
    let mut passed = Vec::new();
    for host in [
        "evil.example",
        "evil.example:7420",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "relay.example.evil.example",
        "evilrelay.example",
        "x.relay.example",
        "example",
        "lan",
        "x.box.lan",
        "localhost.",
        "relay.example.",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "::1",
        "[::1",
        "[::1].evil.example",
        "[::1]evil.example",
        "[::1]:7420:80",
        "127.0.0.1:7420:80",
        "[::ffff:evil.example]",
        "127.0.0.1@evil.example",
        "evil.example@127.0.0.1",
        "bob:secret@127.0.0.1",
        "evil.example#@127.0.0.1",
        "evil.example/127.0.0.1",
        "evil.example?127.0.0.1",
        "127.0.0.1, evil.example",
        "127.0.0.1 evil.example",
        "evil.example\\@127.0.0.1",
        "loc\u{430}lhost",
        "%6cocalhost",
        "http://127.0.0.1",
    ] {
        for (header, value) in [("host", host.to_owned()), ("origin", format!("http://{host}"))] {
            let answer = with_headers(&bob, "GET", "/agents/me", &[(header, value.as_bytes())]).await;
            match answer.status {
                200 => passed.push(format!("{header}: {value}")),
                _ => drop(answer.refused("forbidden")),
            }
        }
    }
    assert_eq!(passed, [""; 0]);
    for origin in [
        "",
        "null",
        "127.0.0.1",
        "localhost",
        "file://",
        "http:127.0.0.1",
        "//127.0.0.1",
        "http://",
        "data:x",
        "\u{fc}://x",
    ] {
        let answer = with_headers(&bob, "GET", "/agents/me", &[("origin", origin.as_bytes())]).await;
        answer.refused("forbidden");
    }
    with_headers(&bob, "GET", "/agents/me", &[("host", b"127.0.0.1\xff")]).await.refused("forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_further_names_only_addresses_and_localhost_pass() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    for (host, status) in
        [("127.0.0.1", 200), ("localhost", 200), ("relay.example", 403), ("box.lan", 403), ("relay", 403)]
    {
        assert_eq!(with_headers(&bob, "GET", "/healthz", &[("host", host.as_bytes())]).await.status, status, "{host}");
    }
    let long = "x".repeat(5_000);
    let refused = with_headers(&bob, "GET", "/healthz", &[("host", long.as_bytes())]).await.refused("forbidden");
    assert!(refused.text.len() < 600, "a long name is not sent back whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_and_origins_each_must_pass_and_none_is_none_of_the_names() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    assert_eq!(health(&relay, "1.1", "Host: 127.0.0.1\r\n").await.status, 200);
    assert_eq!(health(&relay, "1.0", "Host: 127.0.0.1\r\n").await.status, 200);
    for (version, lines) in [
        ("1.1", ""),
        ("1.0", ""),
        ("1.1", "Host:\r\n"),
        ("1.1", "Host: \r\n"),
        ("1.1", "Host: 127.0.0.1\r\nHost: evil.example\r\n"),
        ("1.1", "Host: evil.example\r\nHost: 127.0.0.1\r\n"),
        ("1.1", "Host: 127.0.0.1\r\nHost:\r\n"),
        ("1.0", "Host: evil.example\r\n"),
        ("1.1", "X-Forwarded-Host: 127.0.0.1\r\nHost: evil.example\r\n"),
    ] {
        let refused = health(&relay, version, lines).await.refused("forbidden");
        assert!(refused.error()["message"].as_str().is_some_and(|text| text.starts_with("The Host '")), "{lines:?}");
    }
    let (good, evil) = (&b"http://127.0.0.1"[..], &b"http://evil.example"[..]);
    for origins in [[good, evil], [evil, good], [good, b"null"]] {
        let headers = origins.map(|origin| ("origin", origin));
        with_headers(&bob, "GET", "/healthz", &headers).await.refused("forbidden");
    }
    assert_eq!(with_headers(&bob, "GET", "/healthz", &[("origin", good), ("origin", good)]).await.status, 200);

    // A target with a host of its own, as a proxy gets it.
    let absolute = async |target: &str, host: &str| {
        raw(&relay.url, format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
    };
    assert_eq!(absolute("http://127.0.0.1/healthz", "127.0.0.1").await.status, 200);
    absolute("http://evil.example/healthz", "127.0.0.1").await.refused("forbidden");
    absolute("http://127.0.0.1/healthz", "evil.example").await.refused("forbidden");
    absolute("http://127.0.0.1@evil.example/healthz", "127.0.0.1").await.refused("forbidden");
}

// Frames of HTTP/2 and their flags (RFC 9113).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET /healthz` over HTTP/2 without TLS, in the frames of RFC 9113 and the header fields of RFC 7541. Gives the body.
async fn over_http2(relay: &TestRelay, authority: Option<&str>, further: &[(&str, &str)]) -> Value {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    // From the static table: `:method GET`, `:scheme http`, then names without an index.
    let mut fields = vec![0x82, 0x86];
    fields.extend([&[0x04][..], &text("/healthz")].concat());
    if let Some(authority) = authority {
        fields.extend([&[0x01][..], &text(authority)].concat());
    }
    for (name, value) in further {
        fields.extend([&[0x00][..], &text(name), &text(value)].concat());
    }
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("short");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let mut tcp = connect(&relay.url).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let request = [preface, frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_STREAM | END_HEADERS, 1, &fields)].concat();
    tcp.write_all(&request).await.expect("sent");
    let mut body = Vec::new();
    loop {
        let mut head = [0; 9];
        soon(tcp.read_exact(&mut head)).await.expect("a frame");
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        soon(tcp.read_exact(&mut payload)).await.expect("a payload");
        if head[3] == DATA {
            body.extend(payload);
        }
        if head[8] == 1 && head[4] & END_STREAM != 0 {
            return serde_json::from_slice(&body).expect("JSON");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_names_its_host_as_authority_and_is_checked_the_same() {
    let relay = TestRelay::start().await;
    let fine = json!({"status": "ok"});
    assert_eq!(over_http2(&relay, Some("127.0.0.1:7420"), &[]).await, fine);
    assert_eq!(over_http2(&relay, Some("localhost"), &[("origin", "http://localhost:1")]).await, fine);
    assert_eq!(over_http2(&relay, Some("localhost"), &[("host", "localhost")]).await, fine);
    assert_eq!(over_http2(&relay, None, &[("host", "localhost")]).await, fine);
    for (authority, further, header, value) in [
        (Some("evil.example"), &[][..], "Host", "evil.example"),
        (Some("evil.example"), &[("host", "127.0.0.1")][..], "Host", "evil.example"),
        (Some("127.0.0.1"), &[("host", "evil.example")][..], "Host", "evil.example"),
        (None, &[][..], "Host", ""),
        (Some("127.0.0.1"), &[("origin", "https://evil.example")][..], "Origin", "https://evil.example"),
        (Some("127.0.0.1"), &[("origin", "null")][..], "Origin", "null"),
    ] {
        let body = over_http2(&relay, authority, further).await;
        assert_eq!(masked(&body), refusal(header, value), "{authority:?} {further:?}");
    }
}
