//! What is refused before an operation begins: foreign names, panics, doors that are none, and gRPC that is none. Each in
//! the shape of its binding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentrelay::api::{self, Settings};
use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::{Clock, Timestamp};
use agentrelay::relay::agents::AgentName;
use agentrelay::relay::{Actor, Relay};
use agentrelay::store::{Store, StoreOptions};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;

use super::gate::{Binding, Raw, Reply, call, encoded, framed, http, over_http2, rows, said, said_at_once, task, with};
use super::malformed::{bare, nested};
use crate::support::{Agent, TestRelay};
use crate::wire::raw;

fn headers(caller: &Agent, further: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {}", caller.key)).expect("a value"));
    headers.insert("a2a-version", HeaderValue::from_static("1.0"));
    for (name, value) in further {
        headers.append(*name, HeaderValue::from_str(value).expect("a value"));
    }
    headers
}

/// A route of A2A, and the binding in whose shape it refuses.
const ROUTES: [(&str, &str, Binding); 12] = [
    ("POST", "/a2a/frank@acme", Binding::JsonRpc),
    ("POST", "/a2a/frank@acme/", Binding::JsonRpc),
    ("POST", "/a2a/nobody", Binding::JsonRpc),
    ("GET", "/a2a/frank@acme", Binding::HttpJson),
    ("POST", "/a2a/frank@acme/message:send", Binding::HttpJson),
    ("POST", "/a2a/frank@acme/message:stream", Binding::HttpJson),
    ("GET", "/a2a/frank@acme/tasks/x", Binding::HttpJson),
    ("PATCH", "/a2a/frank@acme/nothing", Binding::HttpJson),
    ("GET", "/a2a/frank@acme/extendedAgentCard", Binding::HttpJson),
    ("GET", "/a2a/frank@acme/.well-known/agent-card.json", Binding::HttpJson),
    ("GET", "/.well-known/agent-card.json", Binding::HttpJson),
    ("POST", "/lf.a2a.v1.A2AService/GetTask", Binding::Grpc),
];

async fn at(caller: &Agent, (method, path, binding): (&str, &str, Binding), further: &[(&'static str, &str)]) -> Reply {
    let headers = headers(caller, further);
    match binding {
        Binding::JsonRpc => {
            let body = json!({"jsonrpc": "2.0", "id": "call-1", "method": "ListTasks"}).to_string();
            Reply::of_json_rpc(http(method, &format!("{}{path}", caller.url), headers, Some(body)).await)
        }
        Binding::HttpJson => {
            let body = (method == "POST").then(|| said("x").to_string());
            Reply::of_http_json(http(method, &format!("{}{path}", caller.url), headers, body).await)
        }
        Binding::Grpc => {
            let message = framed(&encoded("GetTask", &json!({"tenant": "frank@acme", "id": "x"})));
            Reply::of_grpc(over_http2(&caller.url, path, "application/grpc", headers, message).await, "GetTask")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_host_or_origin_is_refused_in_the_bindings_shape() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let before = rows(&relay);
    for route in ROUTES {
        for caller in [&bob, &bob.with_key("none")] {
            for (header, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
                let reply = at(caller, route, &[(header, value)]).await;
                let refusal = reply.refusal();
                let code = match route.2 {
                    Binding::JsonRpc => -32000,
                    Binding::HttpJson => 403,
                    Binding::Grpc => 7,
                };
                assert_eq!(
                    (refusal.code, &*refusal.reason, &*refusal.domain),
                    (code, "forbidden", "agentrelay"),
                    "{route:?} {header}"
                );
                assert!(refusal.message.contains(value), "{}", refusal.message);
                if route.2 != Binding::Grpc {
                    assert_eq!(reply.raw.status, 403, "{route:?}");
                }
                assert!(reply.raw.header("x-request-id").starts_with("req_"));
                assert_eq!(reply.raw.header("access-control-allow-origin"), "");
            }
        }
    }
    assert_eq!(rows(&relay), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_good_key_in_the_one_right_place_opens_a_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let before = rows(&relay);
    let good = format!("Bearer {}", bob.key);
    let unknown = format!("Bearer ah_live_{}", "a".repeat(32));
    let (upper, basic, bare_key) = (good.to_uppercase(), format!("Basic {}", bob.key), bob.key.clone());
    let attempts: [&[(&str, &str)]; 9] = [
        &[],
        &[("authorization", "")],
        &[("authorization", "Bearer")],
        &[("authorization", &unknown)],
        &[("authorization", &upper)],
        &[("authorization", &basic)],
        &[("authorization", &bare_key)],
        &[("authorization", &good), ("authorization", &good)],
        &[("x-api-key", &bare_key), ("cookie", &good)],
    ];
    for headers in attempts {
        for binding in Binding::ALL {
            for query in [String::new(), format!("key={0}&access_token={0}&authorization={0}", bob.key)] {
                let plain = call(&bob, "ListTasks", &frank.handle, json!({})).without_header("authorization");
                let call = headers.iter().fold(plain.query(&query), |call, (name, value)| call.header(name, value));
                let reply = call.by(binding).await;
                assert_eq!(reply.refusal().reason, "unauthenticated", "{binding:?} {headers:?}");
                let raw = format!("{:?} {}", reply.raw.headers, reply.raw.text());
                assert!(!raw.contains(&bob.key), "{raw}");
            }
        }
    }
    // The key comes before everything else that could be said of a request, but its size.
    for (method, path) in [("POST", ""), ("POST", "/message:send")] {
        for body in ["{", "[]", "{}", "{\"message\": 7}"] {
            let url = format!("{}/a2a/ghost@acme{path}", relay.url);
            let raw = http(method, &url, HeaderMap::new(), Some(body.to_owned())).await;
            let reply = if path.is_empty() { Reply::of_json_rpc(raw) } else { Reply::of_http_json(raw) };
            assert_eq!((reply.raw.status, &*reply.refusal().reason), (401, "unauthenticated"), "{path} {body}");
        }
    }
    assert_eq!(rows(&relay), before);
    for binding in Binding::ALL {
        for kept in ["mine", "!#$%&'*+-.^_`|~"] {
            let reply =
                call(&bob, "ListTasks", &frank.handle, json!({})).header("x-request-id", kept).by(binding).await;
            assert_eq!(reply.raw.header("x-request-id"), kept, "{binding:?}");
        }
    }
}

/// A relay whose clock panics when it is told to.
async fn brittle() -> (Agent, Arc<AtomicBool>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = Arc::new(AtomicBool::new(false));
    let clock = {
        let (broken, system) = (broken.clone(), Clock::system());
        Clock::new(move || -> Timestamp {
            assert!(!broken.load(Ordering::SeqCst), "the clock is broken");
            system.now()
        })
    };
    let store = Store::open(&folder.path().join("relay.db"), StoreOptions { clock, ..StoreOptions::default() });
    let relay = Relay::new(store.expect("a data file"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let new = |handle: &str| NewAgent::with_handle(Handle::parse(handle).expect("a handle"));
    let actor = || Actor::operator("req_test");
    relay.create_agent(actor(), new("frank@acme"), KeyOptions::default()).await.expect("an agent");
    let (agent, minted) = relay.create_agent(actor(), new("bob@acme"), KeyOptions::default()).await.expect("an agent");
    tokio::spawn(api::serve(listener, relay, Settings::default(), std::future::pending()));
    let bob = Agent {
        handle: agent.handle.to_string(),
        id: agent.id.to_string(),
        key: minted.key.reveal().to_owned(),
        url,
        http: reqwest::Client::builder().no_proxy().build().expect("a client"),
    };
    (bob, broken, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_internal_error_in_the_bindings_shape_and_the_relay_goes_on() {
    let (bob, broken, _folder) = brittle().await;
    broken.store(true, Ordering::SeqCst);
    for route in ROUTES.into_iter().filter(|(method, path, _)| *method == "POST" && !path.contains("nobody")) {
        // With an id of the client's none has to be made.
        let reply = at(&bob, route, &[("x-request-id", "mine")]).await;
        let refusal = reply.refusal();
        let code = match route.2 {
            Binding::JsonRpc => -32603,
            Binding::HttpJson => 500,
            Binding::Grpc => 13,
        };
        assert_eq!((refusal.code, &*refusal.reason), (code, "internal"), "{route:?}");
        assert_eq!(reply.raw.header("x-request-id"), "mine");
        assert!(!refusal.message.contains("clock"), "{}", refusal.message);
    }
    broken.store(false, Ordering::SeqCst);
    for binding in Binding::ALL {
        call(&bob, "ListTasks", "frank@acme", json!({})).by(binding).await.result();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_handle_and_one_in_upper_case_are_the_same_door() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let old = task(&bob, &frank).await;
    let name = AgentName::Handle(Handle::parse("frank@acme").expect("a handle"));
    let new = Handle::parse("franklin@acme").expect("a handle");
    relay.relay.rename_agent(Actor::operator("req_test"), name, new).await.expect("renamed");
    for door in ["frank@acme", "FRANK@acme", "franklin@acme", "Franklin@ACME"] {
        for binding in Binding::ALL {
            let reply = call(&bob, "SendMessage", door, said_at_once("x")).by(binding).await;
            let task = reply.result()["task"]["id"].as_str().expect("an id").to_owned();
            for id in [&task, &old] {
                call(&bob, "GetTask", door, json!({"id": id})).by(binding).await.result();
            }
            let more = with(&said_at_once("more"), "/message/taskId", Some(json!(task)));
            call(&bob, "SendMessage", door, more).by(binding).await.result();
            call(&bob, "GetExtendedAgentCard", door, json!({})).by(binding).await.result();
            call(&bob, "CancelTask", door, json!({"id": task})).by(binding).await.result();
            let listed = call(&bob, "ListTasks", door, json!({})).by(binding).await;
            assert!(listed.result()["totalSize"].as_i64().unwrap_or(0) >= 2, "{door} {binding:?}");
            // Its own door under any of its names.
            let own = call(&frank, "ListTasks", door, json!({})).by(binding).await;
            assert_eq!(own.result()["totalSize"], listed.result()["totalSize"], "{door} {binding:?}");
            let refused = call(&frank, "SendMessage", door, said("x")).by(binding).await;
            assert_eq!(refused.refusal().reason, "UNSUPPORTED_OPERATION", "{door} {binding:?}");
        }
    }
    assert_eq!(frank.inbox().await.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_that_is_none_is_not_found_and_nothing_is_taken_for_another() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let before = rows(&relay);
    for door in [
        "fr\u{430}nk@acme",
        "frank@acm\u{435}",
        "frank\u{200b}@acme",
        "frank@acme\u{0}",
        "frank@acme ",
        " frank@acme",
        "frank@acme/",
        "frank",
        "@",
        "frank@@acme",
        "frank@acme@acme",
        "frank@acme.",
        "\u{ff46}rank@acme",
        "ghost@acme",
        "frank%40acme",
        "..",
        ".",
    ] {
        for binding in Binding::ALL {
            if door.starts_with('.') && binding != Binding::Grpc {
                continue;
            }
            let reply = call(&bob, "SendMessage", door, said("x")).by(binding).await;
            let refusal = reply.refusal();
            assert_eq!(refusal.reason, "recipient_not_found", "{door:?} {binding:?}");
        }
    }
    // Paths that a proxy or a client may tidy are not tidied here: nothing leads out of /a2a.
    let post = async |path: &str| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
        let answer = raw(
            &relay.url,
            format!(
                "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nA2A-Version: 1.0\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                bob.key,
                body.len()
            ),
        )
        .await;
        Raw { status: answer.status, headers: answer.headers, body: answer.text.into_bytes() }
    };
    for path in
        ["/a2a/%2e%2e", "/a2a/..", "/a2a/%2e", "/a2a/frank@acme%2f", "/a2a/frank@acme%00", "/a2a/%FF", "/a2a/%c0%af"]
    {
        let reply = Reply::of_json_rpc(post(path).await);
        assert_eq!((reply.refusal().code, &*reply.refusal().reason), (-32000, "recipient_not_found"), "{path}");
    }
    for path in [
        "/a2a/../agents/me",
        "/a2a/%2e%2e/agents",
        "/a2a/frank@acme/../../agents",
        "/a2a/frank@acme/%2e%2e/bob@acme/tasks",
        "/a2a/frank@acme//tasks",
    ] {
        let reply = Reply::of_http_json(bare(&relay, "GET", path, &bob.key).await);
        assert_eq!((reply.refusal().code, &*reply.refusal().reason), (404, "method_not_found"), "{path}");
    }
    let nobody = Reply::of_http_json(bare(&relay, "GET", "/a2a//tasks", &bob.key).await);
    assert_eq!((nobody.refusal().code, &*nobody.refusal().reason), (404, "recipient_not_found"));
    // What is encoded is still the handle.
    for path in ["/a2a/frank%40acme", "/a2a/%66rank@acme", "/a2a/frank@acme/"] {
        Reply::of_json_rpc(post(path).await).result();
    }
    assert_eq!(rows(&relay), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_tenant_grpc_means_the_default_agent() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    let frank = relay.agent("frank@acme").await;
    let reply = call(&frank, "SendMessage", "", said_at_once("x")).by(Binding::Grpc).await;
    let task = reply.result()["task"]["id"].as_str().expect("an id");
    assert_eq!(bob.inbox().await[0]["task_id"], task);
    call(&frank, "GetTask", "", json!({"id": task})).by(Binding::Grpc).await.result();
    call(&frank, "GetTask", "bob@acme", json!({"id": task})).by(Binding::JsonRpc).await.result();
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_that_is_none_is_refused_as_grpc_does() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let before = rows(&relay);
    let path = "/lf.a2a.v1.A2AService/SendMessage";
    let mut params = said_at_once("x");
    params["tenant"] = json!("frank@acme");
    let fine = framed(&encoded("SendMessage", &params));

    // Not gRPC: HTTP says so too (the gRPC protocol's own rule).
    for content_type in
        ["", "application/json", "text/plain", "application/x-protobuf", "application/grpcx", "application/grpc-web"]
    {
        let raw = over_http2(&relay.url, path, content_type, headers(&bob, &[]), fine.clone()).await;
        assert_eq!(raw.status, 415, "{content_type}");
        assert_eq!(raw.header("grpc-status"), "3", "{content_type} {:?}", raw.headers);
    }
    let raw = http("POST", &format!("{}{path}", relay.url), headers(&bob, &[]), Some("{}".to_owned())).await;
    assert_eq!((raw.status, raw.header("grpc-status")), (415, "3"));
    let raw = http("GET", &format!("{}{path}", relay.url), headers(&bob, &[]), None).await;
    assert_eq!((raw.status, raw.header("grpc-status")), (415, "3"));

    // No such method or service.
    for path in [
        "/lf.a2a.v1.A2AService/Nothing",
        "/lf.a2a.v1.A2AService/sendMessage",
        "/lf.a2a.v1.A2AService/SendMessage/x",
        "/lf.a2a.v1.A2AService/",
        "/lf.a2a.v1.Other/SendMessage",
    ] {
        let raw = over_http2(&relay.url, path, "application/grpc", headers(&bob, &[]), fine.clone()).await;
        assert_eq!((raw.status, raw.header("grpc-status")), (200, "12"), "{path} {:?}", raw.headers);
    }

    // What is no message, too large, or compressed in a way that nobody announced.
    let mut large = params.clone();
    large["message"]["parts"][0]["text"] = json!("x".repeat(1 << 20));
    let large = framed(&encoded("SendMessage", &large));
    let deep = with(&params, "/message/parts/0", Some(json!({"data": nested(60)})));
    let compressed = [&[1][..], &fine[1..]].concat();
    let cut = fine[..fine.len() - 3].to_vec();
    for (what, body, codes) in [
        ("not a message", framed(b"\xff\xff\xff\xff"), &["13", "3"][..]),
        ("nothing at all", Vec::new(), &["13", "3"]),
        // A list in a list is two messages more, of which the generated types read a hundred.
        ("too deep", framed(&encoded("SendMessage", &deep)), &["13", "3"]),
        ("too large", large, &["8", "11"]),
        ("compressed", compressed, &["12", "13"]),
        ("cut off", cut, &["13", "3"]),
        ("not UTF-8", framed(b"\x0a\x02\xff\xfe"), &["13", "3"]),
    ] {
        let raw = over_http2(&relay.url, path, "application/grpc", headers(&bob, &[]), body).await;
        assert_eq!(raw.status, 200, "{what}");
        assert!(codes.contains(&raw.header("grpc-status")), "{what}: {:?}", raw.headers);
        assert!(raw.header("x-request-id").starts_with("req_"), "{what}");
    }
    assert_eq!(rows(&relay), before, "nothing was written");
    for content_type in ["application/grpc", "application/grpc+proto"] {
        let raw = over_http2(&relay.url, path, content_type, headers(&bob, &[]), fine.clone()).await;
        Reply::of_grpc(raw, "SendMessage").result();
    }
}
