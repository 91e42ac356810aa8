//! Agent cards: what everybody may know, what those with a key may know, and how they are kept.

use agentrelay::api::Settings;
use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::gate::{Binding, Raw, Reply, call, http, keys};
use crate::support::{Agent, TestRelay, settings};

const AT_ROOT: &str = "/.well-known/agent-card.json";

fn of(handle: &str) -> String {
    format!("/a2a/{handle}/.well-known/agent-card.json")
}

/// Reads a card, by default without a key.
async fn get(relay: &TestRelay, path: &str, headers: &[(&str, &str)]) -> Raw {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<HeaderName>().expect("a name"), HeaderValue::from_str(value).expect("a value"));
    }
    http("GET", &format!("{}{path}", relay.url), map, None).await
}

fn card(raw: &Raw) -> Value {
    assert_eq!(raw.status, 200, "{}", raw.text());
    assert_eq!(raw.header("content-type"), "application/json");
    serde_json::from_slice(&raw.body).expect("JSON")
}

/// Frank, who has told what there is to tell.
async fn frank(relay: &TestRelay) -> Agent {
    let frank = relay.agent("frank@acme").await;
    let change = json!({
        "role": "back end lead",
        "description": "Frank's Claude Code: the API and its data",
        "skills": ["rust", "C++ \"legacy\""],
        "repos_owned": ["acme/api"],
    });
    assert_eq!(frank.rest_with("PUT", "/agents/me/card", change).await.status, 200);
    let set = "UPDATE agents SET email = 'frank@acme.example', name = 'Frank' WHERE handle = 'frank@acme'";
    relay.sqlite().execute_batch(set).expect("a changed agent");
    frank
}

fn by_name(handle: &str) -> AgentName {
    AgentName::Handle(Handle::parse(handle).expect("a handle"))
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "the card has them")]
async fn the_public_card_says_who_it_is_what_it_can_and_where_it_is_reached() {
    let relay =
        TestRelay::with(Settings { public_url: Some("https://relay.example/base/".to_owned()), ..settings() }).await;
    frank(&relay).await;
    let mut public = card(&get(&relay, &of("frank@acme"), &[]).await);
    assert_eq!(public["version"].take(), env!("CARGO_PKG_VERSION"));
    insta::assert_json_snapshot!(public, @r#"
    {
      "capabilities": {
        "extendedAgentCard": true,
        "extensions": [
          {
            "description": "A handoff's intent in a message's metadata, and its facts in a task's",
            "required": false,
            "uri": "urn:agentrelay:a2a:handoff:v1"
          }
        ],
        "pushNotifications": true,
        "streaming": true
      },
      "defaultInputModes": [
        "text/plain",
        "application/json",
        "*/*"
      ],
      "defaultOutputModes": [
        "text/plain",
        "application/json",
        "*/*"
      ],
      "description": "Frank's Claude Code: the API and its data",
      "name": "Frank",
      "securityRequirements": [
        {
          "schemes": {
            "bearer": {
              "list": []
            }
          }
        }
      ],
      "securitySchemes": {
        "bearer": {
          "httpAuthSecurityScheme": {
            "bearerFormat": "ah_live_…",
            "description": "The key of an agent of this relay; its operator mints one",
            "scheme": "Bearer"
          }
        }
      },
      "skills": [
        {
          "description": "Takes over a task, asks back where something is missing, and reports what came of it",
          "id": "handoff",
          "name": "Handoff",
          "tags": [
            "handoff"
          ]
        },
        {
          "description": "Frank knows about rust",
          "id": "skill:rust",
          "name": "rust",
          "tags": [
            "rust"
          ]
        },
        {
          "description": "Frank knows about C++ \"legacy\"",
          "id": "skill:C++ \"legacy\"",
          "name": "C++ \"legacy\"",
          "tags": [
            "C++ \"legacy\""
          ]
        },
        {
          "description": "Frank looks after the repository acme/api",
          "id": "repo:acme/api",
          "name": "acme/api",
          "tags": [
            "repository",
            "acme/api"
          ]
        }
      ],
      "supportedInterfaces": [
        {
          "protocolBinding": "JSONRPC",
          "protocolVersion": "1.0",
          "tenant": "frank@acme",
          "url": "https://relay.example/base/a2a/frank@acme"
        },
        {
          "protocolBinding": "HTTP+JSON",
          "protocolVersion": "1.0",
          "tenant": "frank@acme",
          "url": "https://relay.example/base/a2a/frank@acme"
        },
        {
          "protocolBinding": "GRPC",
          "protocolVersion": "1.0",
          "tenant": "frank@acme",
          "url": "relay.example:443"
        }
      ],
      "version": null
    }
    "#);
    let text = public.to_string();
    for private in ["ah_live_", "frank@acme.example", "back end lead"] {
        assert!(!text.replace("ah_live_…", "").contains(private), "{private}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extended_card_says_more_to_those_with_a_key() {
    let relay = TestRelay::with(Settings { public_url: Some("http://relay.lan:8080".to_owned()), ..settings() }).await;
    let frank = frank(&relay).await;
    let bob = relay.agent("bob@acme").await;
    let public = card(&get(&relay, &of("frank@acme"), &[]).await);
    let mut bindings = Vec::new();
    for binding in Binding::ALL {
        let reply = call(&bob, "GetExtendedAgentCard", "frank@acme", json!({})).by(binding).await;
        let own = call(&frank, "GetExtendedAgentCard", "frank@acme", json!({})).by(binding).await;
        assert_eq!(own.result(), reply.result(), "{binding:?}");
        bindings.push(reply.result().clone());
    }
    assert_eq!(bindings[0], bindings[1]);
    let mut extended = bindings[0].clone();
    let params = extended["capabilities"]["extensions"][0]["params"].take();
    insta::assert_json_snapshot!(params, @r#"
    {
      "email": "frank@acme.example",
      "handle": "frank@acme",
      "limits": {
        "artifacts": 100,
        "blockingTimeoutS": 30,
        "bodyBytes": 1048576,
        "callsPerMinute": 60,
        "depth": 64,
        "parts": 100
      },
      "reposOwned": [
        "acme/api"
      ],
      "role": "back end lead"
    }
    "#);
    extended["capabilities"]["extensions"][0].as_object_mut().expect("an object").remove("params");
    assert_eq!(extended, public, "and otherwise it is the public one");
    // gRPC's form writes numbers in a Struct as doubles, and leaves out what is false or empty.
    let grpc = &bindings[2];
    let told = &grpc["capabilities"]["extensions"][0]["params"];
    assert_eq!((&told["email"], &told["role"]), (&params["email"], &params["role"]));
    assert_eq!(told["limits"]["bodyBytes"].as_f64(), params["limits"]["bodyBytes"].as_f64());
    for same in ["name", "description", "version", "supportedInterfaces", "skills", "securitySchemes"] {
        assert_eq!(grpc[same], public[same], "{same}");
    }
    assert_eq!(keys(&grpc["securityRequirements"][0]["schemes"]), ["bearer"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_tells_nothing_of_itself_has_a_card_all_the_same() {
    let relay = TestRelay::start().await;
    relay.agent("bob@acme").await;
    let bob = card(&get(&relay, &of("bob@acme"), &[]).await);
    assert_eq!(
        bob["description"],
        "The coding agent of bob@acme. A task waits in its mailbox until it is there to take it on."
    );
    assert_eq!(bob["skills"].as_array().map(Vec::len), Some(1), "{}", bob["skills"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_urls_are_the_public_one_or_the_bound_address_and_never_the_hosts() {
    let interfaces = |card: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let all = card["supportedInterfaces"].as_array().expect("interfaces");
        assert!(all.iter().all(|one| one["protocolVersion"] == "1.0"));
        all.iter().map(|one| (text(&one["protocolBinding"]), text(&one["url"]), text(&one["tenant"]))).collect()
    };
    for (public_url, base, grpc) in [
        (None, None, None),
        (Some("https://relay.example"), Some("https://relay.example"), Some("relay.example:443")),
        (Some("https://relay.example/a/b/"), Some("https://relay.example/a/b"), Some("relay.example:443")),
        (Some("http://10.0.0.7:8080/x"), Some("http://10.0.0.7:8080/x"), Some("10.0.0.7:8080")),
        (Some("http://[2001:db8::7]:81"), Some("http://[2001:db8::7]:81"), Some("[2001:db8::7]:81")),
        (Some("http://relay.lan"), Some("http://relay.lan"), Some("relay.lan:80")),
    ] {
        let settings = Settings {
            public_url: public_url.map(ToOwned::to_owned),
            allowed_hosts: vec!["other.example".to_owned()],
            rate_limit: 0,
            ..settings()
        };
        let relay = TestRelay::with(settings).await;
        let frank = relay.agent("frank@acme").await;
        let base = base.unwrap_or(&relay.url).to_owned();
        let grpc = grpc.unwrap_or(relay.url.trim_start_matches("http://")).to_owned();
        let door = format!("{base}/a2a/frank@acme");
        let tenant = || "frank@acme".to_owned();
        let expected = vec![
            ("JSONRPC".to_owned(), door.clone(), tenant()),
            ("HTTP+JSON".to_owned(), door, tenant()),
            ("GRPC".to_owned(), grpc, tenant()),
        ];
        for path in [of("frank@acme"), AT_ROOT.to_owned()] {
            for headers in [
                &[][..],
                &[("host", "other.example:99")],
                &[
                    ("x-forwarded-host", "evil.example"),
                    ("x-forwarded-proto", "https"),
                    ("forwarded", "host=evil.example"),
                ],
            ] {
                assert_eq!(interfaces(&card(&get(&relay, &path, headers).await)), expected, "{path} {headers:?}");
            }
        }
        // The list of teammates leads to the same place, in both dialects.
        let rest = frank.rest("GET", "/agents").await.json();
        let rpc = frank.rpc("agents/list", json!({})).await.result();
        for list in [rest, rpc] {
            assert_eq!(list["teammates"][0]["card_url"], format!("{base}{}", of("frank@acme")));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_card_at_the_root_is_the_default_agents() {
    let relay = TestRelay::start().await;
    let nobody = Reply::of_http_json(get(&relay, AT_ROOT, &[]).await);
    assert_eq!((nobody.refusal().code, &*nobody.refusal().reason), (404, "recipient_not_found"));
    relay.agent("bob@acme").await;
    relay.agent("frank@acme").await;
    assert_eq!(card(&get(&relay, AT_ROOT, &[]).await)["supportedInterfaces"][0]["tenant"], "bob@acme");
    let actor = || Actor::operator("req_test");
    relay.relay.make_default(actor(), by_name("frank@acme")).await.expect("the default");
    let root = get(&relay, AT_ROOT, &[]).await;
    let own = get(&relay, &of("frank@acme"), &[]).await;
    assert_eq!((card(&root), root.header("etag")), (card(&own), own.header("etag")));
    relay.relay.disable_agent(actor(), by_name("frank@acme")).await.expect("disabled");
    for path in [AT_ROOT.to_owned(), of("frank@acme")] {
        let gone = Reply::of_http_json(get(&relay, &path, &[]).await);
        assert_eq!((gone.refusal().code, &*gone.refusal().reason), (404, "recipient_not_found"), "{path}");
        assert_eq!(gone.raw.header("etag"), "", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_may_be_kept_for_a_while_and_is_not_sent_twice() {
    let relay = TestRelay::start().await;
    let frank = frank(&relay).await;
    for path in [of("frank@acme"), AT_ROOT.to_owned()] {
        let first = get(&relay, &path, &[]).await;
        let (tag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
        assert_eq!(first.header("cache-control"), "public, max-age=60");
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
        assert!(modified.ends_with(" GMT"), "{modified}");
        let weak = format!("W/{tag}");
        let several = format!("\"x\", {tag}");
        for known in [
            &[("if-none-match", &*tag)][..],
            &[("if-none-match", &weak)],
            &[("if-none-match", &several)],
            &[("if-none-match", "*")],
            &[("if-modified-since", &modified)],
            &[("if-modified-since", "Fri, 31 Dec 2100 23:59:59 GMT")],
            &[("if-none-match", &tag), ("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")],
        ] {
            let again = get(&relay, &path, known).await;
            assert_eq!((again.status, again.text()), (304, String::new()), "{path} {known:?}");
            assert_eq!((again.header("etag"), again.header("last-modified")), (&*tag, &*modified));
            assert_eq!(again.header("cache-control"), "public, max-age=60");
        }
        for unknown in [
            &[("if-none-match", "\"x\"")][..],
            &[("if-none-match", "")],
            &[("if-none-match", "\"x\""), ("if-modified-since", &modified)],
            &[("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")],
            &[("if-modified-since", "yesterday")],
        ] {
            assert_eq!(get(&relay, &path, unknown).await.status, 200, "{path} {unknown:?}");
        }
    }
    // It is another one when its agent says something else or is called something else.
    let before = get(&relay, &of("frank@acme"), &[]).await.header("etag").to_owned();
    frank.rest_with("PUT", "/agents/me/card", json!({"description": "Something else"})).await;
    let changed = get(&relay, &of("frank@acme"), &[("if-none-match", &before)]).await;
    assert_eq!(card(&changed)["description"], "Something else");
    let after = changed.header("etag").to_owned();
    assert_ne!(before, after);
    let renamed = Handle::parse("franklin@acme").expect("a handle");
    relay.relay.rename_agent(Actor::operator("req_test"), by_name("frank@acme"), renamed).await.expect("renamed");
    // The former handle leads to the present card.
    let former = get(&relay, &of("frank@acme"), &[("if-none-match", &after)]).await;
    let present = get(&relay, &of("franklin@acme"), &[]).await;
    assert_eq!(card(&former), card(&present));
    assert_eq!(card(&present)["supportedInterfaces"][0]["tenant"], "franklin@acme");
    assert_eq!(get(&relay, &of("FRANKLIN@acme"), &[]).await.body, present.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_card_is_modified_later() {
    let relay = TestRelay::start().await;
    relay.clock.set(1_800_000_000_000);
    let frank = frank(&relay).await;
    let modified = async || get(&relay, &of("frank@acme"), &[]).await.header("last-modified").to_owned();
    let first = modified().await;
    relay.clock.advance(std::time::Duration::from_secs(90));
    assert_eq!(modified().await, first);
    frank.rest_with("PUT", "/agents/me/card", json!({"skills": []})).await;
    let second = modified().await;
    assert_ne!(second, first);
    relay.clock.advance(std::time::Duration::from_secs(90));
    let renamed = Handle::parse("franklin@acme").expect("a handle");
    relay.relay.rename_agent(Actor::operator("req_test"), by_name("frank@acme"), renamed).await.expect("renamed");
    assert_ne!(modified().await, second, "a card that has another name was modified");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobodys_card_is_not_found_in_the_bindings_shape() {
    let relay = TestRelay::start().await;
    relay.agent("bob@acme").await;
    for handle in ["ghost@acme", "bob", "bob@", "@acme", "bob@acme@x", "b%20b@acme", "%00", "%FF", "bob%2f@acme"] {
        let reply = Reply::of_http_json(get(&relay, &of(handle), &[]).await);
        let refusal = reply.refusal();
        assert_eq!(
            (refusal.code, &*refusal.reason, &*refusal.domain),
            (404, "recipient_not_found", "agentrelay"),
            "{handle}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_that_are_not_public_are_for_those_with_a_key() {
    let relay = TestRelay::with(Settings { public_cards: false, ..settings() }).await;
    let bob = frank(&relay).await;
    for path in [of("frank@acme"), AT_ROOT.to_owned(), of("ghost@acme")] {
        for headers in [&[][..], &[("authorization", "Bearer ah_live_wrong")]] {
            let reply = Reply::of_http_json(get(&relay, &path, headers).await);
            assert_eq!((reply.refusal().code, &*reply.refusal().reason), (401, "unauthenticated"), "{path}");
            assert_eq!(reply.raw.header("www-authenticate"), "Bearer");
        }
    }
    let bearer = format!("Bearer {}", bob.key);
    let own = get(&relay, &of("frank@acme"), &[("authorization", &bearer)]).await;
    assert_eq!(card(&own)["name"], "Frank");
    assert_eq!(own.header("cache-control"), "private, max-age=60");
    let tag = own.header("etag").to_owned();
    let reply = Reply::of_http_json(get(&relay, &of("frank@acme"), &[("if-none-match", &tag)]).await);
    assert_eq!(reply.refusal().code, 401, "a known tag opens nothing");
}
