//! Every route there is: who gets in, and what becomes of requests that no route takes.

use std::collections::{BTreeMap, BTreeSet};

use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Agent, Answer, TestRelay};
use crate::wire::{bare, masked, raw, soon};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Door {
    Anyone,
    /// An agent with its key.
    Key,
    /// The operator with the admin token.
    AdminToken,
}

/// Every route: method, path as the router has it, and who may call it.
pub const ROUTES: [(&str, &str, Door); 15] = [
    ("GET", "/healthz", Door::Anyone),
    ("GET", "/readyz", Door::Anyone),
    ("POST", "/a2a", Door::Key),
    ("GET", "/agents", Door::Key),
    ("GET", "/agents/me", Door::Key),
    ("PUT", "/agents/me/card", Door::Key),
    ("POST", "/agents/me/keys/rotate", Door::Key),
    ("GET", "/agents/me/audit", Door::Key),
    ("GET", "/agents/me/block", Door::Key),
    ("POST", "/agents/me/block", Door::Key),
    ("DELETE", "/agents/me/block/{handle}", Door::Key),
    ("GET", "/events", Door::Key),
    ("POST", "/admin/agents", Door::AdminToken),
    ("DELETE", "/admin/agents/{id}", Door::AdminToken),
    ("POST", "/admin/agents/{id}/keys/rotate", Door::AdminToken),
];

/// The routes of A2A, whose refusals have the shapes of its bindings: `a2a_gates` has what holds for them.
const A2A_ROUTES: [(&str, &str); 6] = [
    ("GET", "/.well-known/agent-card.json"),
    ("GET", "/a2a/{handle}/.well-known/agent-card.json"),
    ("POST", "/a2a/{handle}"),
    ("POST", "/a2a/{handle}/"),
    ("ANY", "/a2a/{handle}/{*operation}"),
    ("ANY", "/lf.a2a.v1.A2AService/{method}"),
];

/// A path that the route takes.
pub fn filled(path: &str) -> String {
    path.replace("{handle}", "bob@acme").replace("{id}", "01KQ7MD2P0QH7V8CJTZB88D8RF")
}

/// The methods that each path takes.
fn methods() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut methods = BTreeMap::<_, BTreeSet<_>>::new();
    for (method, path, _) in ROUTES {
        methods.entry(path).or_default().insert(method);
    }
    methods
}

/// A request with these headers and no body.
async fn request(relay: &TestRelay, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = relay.http.request(method.parse().expect("a method"), format!("{}{path}", relay.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(soon(request.send()).await.expect("an answer")).await
}

/// The whole answer of a refusal, in the envelope of its path.
#[track_caller]
fn assert_refused(answer: &Answer, path: &str, symbol: &str) {
    let body = answer.clone().refused(symbol).json();
    assert_eq!(answer.header("content-type"), "application/json", "{path}");
    let keys: Vec<_> = body.as_object().expect("an object").keys().cloned().collect();
    if path == "/a2a" {
        assert_eq!(keys, ["error", "id", "jsonrpc"], "{path}");
    } else {
        assert_eq!(keys, ["code", "details", "message", "request_id"], "{path}");
    }
}

#[test]
fn the_list_of_routes_is_whole() {
    let source = include_str!("../src/api/mod.rs");
    let mut found = BTreeSet::new();
    for line in source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")) {
        let (path, handlers) = line.split_once("\", ").expect("a path and its handlers on one line");
        let methods = handlers.split(['.', ' ', ':']).filter_map(|word| word.split_once('(')).map(|(word, _)| word);
        let methods: Vec<_> =
            methods.filter(|word| ["get", "post", "put", "patch", "delete", "any"].contains(word)).collect();
        assert!(!methods.is_empty(), "{line}");
        found.extend(methods.into_iter().map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let listed = ROUTES
        .iter()
        .map(|(method, path, _)| (method, path))
        .chain(A2A_ROUTES.iter().map(|(method, path)| (method, path)));
    let listed: BTreeSet<_> = listed.map(|(method, path)| format!("{method} {path}")).collect();
    assert_eq!(found, listed, "src/api/mod.rs and the list in tests/routes.rs");
    assert!(!source.contains(".nest("), "a nested router hides routes from this test");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_is_shut_without_a_key() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    let old = bob.key.clone();
    let rotated = bob.rest("POST", "/agents/me/keys/rotate").await.json();
    let key = rotated["api_key"].as_str().expect("a key");
    let before: i64 = relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get(0)).expect("a count");

    let bearer = |key: &str| format!("Bearer {key}");
    let (good, revoked, unknown) = (bearer(key), bearer(&old), bearer(&format!("ah_live_{}", "a".repeat(32))));
    let (upper, longer, tabbed) = (bearer(&key.to_uppercase()), bearer(&format!("{key}a")), format!("Bearer\t{key}"));
    let (admin, basic, two_words) = (bearer(ADMIN_TOKEN), format!("Basic {key}"), format!("Bearer {key} {key}"));
    let attempts: [&[(&str, &str)]; 15] = [
        &[],
        &[("authorization", "")],
        &[("authorization", "Bearer")],
        &[("authorization", "Bearer ah_live_")],
        &[("authorization", &revoked)],
        &[("authorization", &unknown)],
        &[("authorization", &upper)],
        &[("authorization", &longer)],
        &[("authorization", &tabbed)],
        &[("authorization", &basic)],
        &[("authorization", key)],
        &[("authorization", &two_words)],
        &[("authorization", &good), ("authorization", &good)],
        &[("authorization", &unknown), ("authorization", &good)],
        &[("x-api-key", key), ("cookie", &good), ("proxy-authorization", &good)],
    ];
    for (method, path, door) in ROUTES {
        let url = filled(path);
        for headers in attempts {
            let answer = request(&relay, method, &url, headers).await;
            match door {
                Door::Anyone => assert_eq!(answer.status, 200, "{path}"),
                Door::AdminToken if answer.status == 403 => assert_refused(&answer, path, "forbidden"),
                _ => {
                    assert_refused(&answer, path, "unauthenticated");
                    assert_eq!(answer.header("www-authenticate"), "Bearer", "{path} {headers:?}");
                }
            }
        }
        // A key or token in the URL opens nothing: URLs end up in logs.
        for name in ["key", "api_key", "access_token", "token", "authorization"] {
            for secret in [key, ADMIN_TOKEN] {
                let answer = request(&relay, method, &format!("{url}?{name}={secret}&wait=0"), &[]).await;
                assert_eq!(answer.status, if door == Door::Anyone { 200 } else { 401 }, "{path}?{name}");
                assert!(!answer.text.contains(secret), "{}", answer.text);
            }
        }
        if door == Door::Key {
            assert_refused(&request(&relay, method, &url, &[("authorization", &admin)]).await, path, "unauthenticated");
        }
    }
    let after: i64 = relay.sqlite().query_row("SELECT count(*) FROM events", [], |row| row.get(0)).expect("a count");
    assert_eq!(after, before, "nothing was done");
    // The scheme may be written in any case.
    for scheme in ["Bearer", "bearer", "BEARER"] {
        assert_eq!(
            request(&relay, "GET", "/agents/me", &[("authorization", &format!("{scheme} {key}"))]).await.status,
            200
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_agent_is_refused_at_every_door() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    let id = agentrelay::domain::id::AgentId::parse(&bob.id).expect("an id");
    relay.relay.disable_agent(Actor::operator("req_test"), AgentName::Id(id)).await.expect("disabled");
    for (method, path, door) in ROUTES {
        let answer = soon(bob.rest(method, &filled(path))).await;
        match door {
            Door::Anyone => assert_eq!(answer.status, 200, "{path}"),
            _ => assert_refused(&answer, path, "forbidden"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_a_route_does_not_take_is_405_with_what_it_takes() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    for (path, taken) in methods() {
        let mut allowed: BTreeSet<&str> = taken.clone();
        if taken.contains("GET") {
            allowed.insert("HEAD");
        }
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
            if allowed.contains(method) {
                continue;
            }
            for caller in [bob.clone(), bob.with_key(ADMIN_TOKEN), bob.with_key("none")] {
                let answer = soon(caller.rest(method, &filled(path))).await;
                assert_eq!(answer.status, 405, "{method} {path}");
                let told: BTreeSet<&str> = answer.header("allow").split(',').map(str::trim).collect();
                assert_eq!(told, allowed, "{method} {path}");
                if method == "HEAD" {
                    assert_eq!(answer.text, "");
                    continue;
                }
                // Flat everywhere: there is no call here that could be answered as one.
                let expected = json!({
                    "code": "invalid_request",
                    "message": format!("{} does not take {method}; the Allow header lists what it takes", filled(path)),
                    "request_id": "REQUEST",
                    "details": {},
                });
                assert_eq!(masked(&answer.refused("invalid_request").json()), expected);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_leads_nowhere_is_404() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    for path in [
        "/",
        "//",
        "/nothing",
        "/index.html",
        "/favicon.ico",
        "/healthz/",
        "/readyz/",
        "/a2a/",
        "/A2A",
        "/agents/",
        "/agents/me/",
        "/Agents/me",
        "/agents/you",
        "/agents//me",
        "//agents/me",
        "/agents/me/card/",
        "/agents/me/keys",
        "/agents/me/block/",
        "/agents/me/block/bob@acme/",
        "/agents/me/block/bob@acme/x",
        "/events/",
        "/admin",
        "/admin/",
        "/admin/agents/",
        "/admin/agents/x/keys",
        "/agents/me/../me",
        "/agents/%6de",
        "/agents%2Fme",
        "/agents/me%00",
        "/%FF",
        "/agents/me;x=1",
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let answer = bare(&relay.url, method, path, &bob.key).await;
            let expected = json!({
                "code": "method_not_found",
                "message": format!("There is nothing at {path}; docs/protocol.md lists every route"),
                "request_id": "REQUEST",
                "details": {},
            });
            assert_eq!(masked(&answer.refused("method_not_found").json()), expected, "{method} {path}");
        }
    }
    let long = format!("/{}", "x".repeat(5_000));
    let answer = bob.rest("GET", &long).await.refused("method_not_found");
    assert!(answer.text.len() < 500, "a long path is not sent back whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_the_body() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    for (method, path, _) in ROUTES {
        if method != "GET" {
            continue;
        }
        let url = if path == "/events" { "/events?wait=0" } else { path };
        let (get, head) = (bob.rest("GET", url).await, bob.rest("HEAD", url).await);
        assert_eq!((head.status, &*head.text), (200, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        assert!(head.header("x-request-id").starts_with("req_"), "{path}");
        let refused = bob.with_key("x").rest("HEAD", url).await;
        assert!(refused.text.is_empty() && matches!(refused.status, 200 | 401), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_request_id_and_a_usable_one_of_the_client_is_kept() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    let longest = "x".repeat(128);
    let bearer = format!("Bearer {}", bob.key);
    let admin = format!("Bearer {ADMIN_TOKEN}");
    let mut requests: Vec<(&str, String, &str)> = Vec::new();
    for (method, path, _) in ROUTES.into_iter().filter(|(_, path, _)| *path != "/agents/me/keys/rotate") {
        let url = if path == "/events" { "/events?wait=0".to_owned() } else { filled(path) };
        requests.extend([(method, url.clone(), &*bearer), (method, url.clone(), &*admin), (method, url, "")]);
    }
    requests.push(("GET", "/nothing".to_owned(), ""));
    requests.push(("PATCH", "/agents".to_owned(), ""));
    requests.push(("GET", "/agents?limit=0".to_owned(), &bearer));
    for (method, url, authorization) in requests {
        for kept in ["x", "01HXY4K2VNJQP7R8MWDB3CSTF", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", &longest] {
            let headers = [("authorization", authorization), ("x-request-id", kept)];
            let answer = request(&relay, method, &url, &headers).await;
            assert_eq!(answer.header("x-request-id"), kept, "{method} {url}");
            if answer.status >= 400 {
                assert_eq!(answer.error()["request_id"], kept, "{method} {url}");
            }
        }
    }

    let longer = "x".repeat(129);
    for replaced in ["", " ", "two words", "tab\there", &longer, "ümlaut"] {
        let answer = request(&relay, "GET", "/nothing", &[("x-request-id", replaced)]).await;
        let own = answer.header("x-request-id");
        assert_eq!(masked(&json!(own)), "REQUEST", "{replaced:?}");
        assert_eq!(answer.error()["request_id"], own);
    }
    // Of two ids the first one counts.
    let answer = request(&relay, "GET", "/nothing", &[("x-request-id", "first"), ("x-request-id", "second")]).await;
    assert_eq!(answer.header("x-request-id"), "first");
    let ids: BTreeSet<String> = {
        let mut ids = BTreeSet::new();
        for _ in 0..50 {
            ids.insert(relay.request("GET", "/healthz").await.header("x-request-id").to_owned());
        }
        ids
    };
    assert_eq!(ids.len(), 50, "no two requests share an id");
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_is_not_counted_for_the_rate_limit() {
    let settings = agentrelay::api::Settings { rate_limit: 1, ..crate::support::settings() };
    let relay = TestRelay::with(settings).await;
    let bob = relay.agent("bob@acme").await;
    for _ in 0..5 {
        for path in ["/agents", "/agents/me", "/agents/me/audit", "/agents/me/block", "/events?wait=0"] {
            assert_eq!(bob.rest("GET", path).await.status, 200, "{path}");
        }
    }
    bob.rpc("tasks/list", json!({})).await.result();
    bob.rpc("tasks/list", json!({})).await.refused("rate_limited");
    assert_eq!(bob.rest("GET", "/agents/me").await.status, 200);
}

/// The same request twice over one connection, to see that a refusal leaves the connection usable.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_leaves_the_connection_usable() {
    let relay = TestRelay::start().await;
    let bob: Agent = relay.agent("bob@acme").await;
    let body = json!({"role": 1}).to_string();
    let head = format!("Host: 127.0.0.1\r\nContent-Length: {}", body.len());
    let both = format!(
        "PUT /agents/me/card HTTP/1.1\r\n{head}\r\n\r\n{body}\
         GET /agents/me HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        bob.key
    );
    let first = raw(&relay.url, both).await;
    assert_eq!(first.status, 401);
    let (_, second) = first.text.split_once("HTTP/1.1 ").expect("a second answer");
    assert!(second.starts_with("200"), "{second}");
    let (_, body) = second.split_once("\r\n\r\n").expect("a body");
    assert_eq!(serde_json::from_str::<Value>(body).expect("JSON")["handle"], "bob@acme");
}
