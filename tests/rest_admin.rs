//! The routes under `/admin`: what the operator does from afar.

use agentrelay::api::Settings;
use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Agent, Answer, TestRelay, message, settings};
use crate::wire::{bare, is_key, masked};

const SOME_ID: &str = "01KQ7MD2P0QH7V8CJTZB88D8RF";

/// Every admin route, with an id that no agent has.
fn routes() -> [(&'static str, String); 3] {
    [
        ("POST", "/admin/agents".to_owned()),
        ("POST", format!("/admin/agents/{SOME_ID}/keys/rotate")),
        ("DELETE", format!("/admin/agents/{SOME_ID}")),
    ]
}

async fn create(relay: &TestRelay, body: Value) -> Answer {
    relay.admin("POST", "/admin/agents", body).await
}

/// The agent of an answer that created one.
fn created(relay: &TestRelay, answer: &Answer) -> Agent {
    let body = answer.json();
    assert_eq!(answer.status, 201, "{body}");
    let text = |key: &str| body[key].as_str().expect(key).to_owned();
    Agent {
        handle: text("handle"),
        id: text("agent_id"),
        key: text("api_key"),
        url: relay.url.clone(),
        http: relay.http.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_admin_token_the_routes_are_off_and_say_how_to_open_them() {
    let relay = TestRelay::with(Settings { admin_token: None, ..settings() }).await;
    let bob = relay.agent("bob@acme").await;
    for (method, path) in routes() {
        for key in [ADMIN_TOKEN, &bob.key, ""] {
            let refused = bob.with_key(key).rest(method, &path).await.refused("forbidden");
            assert_eq!(
                masked(&refused.json()),
                json!({
                    "code": "forbidden",
                    "message": "The admin routes are off; start the relay with AGENTRELAY_ADMIN_TOKEN or \
                                --admin-token-file to open them",
                    "request_id": "REQUEST",
                    "details": {},
                })
            );
        }
        relay.request(method, &path).await.refused("forbidden");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_401_and_a_wrong_one_403() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    for (method, path) in routes() {
        let missing = relay.request(method, &path).await.refused("unauthenticated");
        assert_eq!(missing.header("www-authenticate"), "Bearer");
        assert_eq!(
            masked(&missing.json()),
            json!({
                "code": "unauthenticated",
                "message": "This needs the admin token: send the header 'Authorization: Bearer TOKEN'",
                "request_id": "REQUEST",
                "details": {},
            })
        );
        let upper = ADMIN_TOKEN.to_uppercase();
        let cut = &ADMIN_TOKEN[1..];
        let long = format!("{ADMIN_TOKEN}x");
        for wrong in [&*bob.key, cut, &long, &upper, "x"] {
            let refused = bob.with_key(wrong).rest(method, &path).await.refused("forbidden");
            assert_eq!(
                masked(&refused.json()),
                json!({
                    "code": "forbidden",
                    "message": "This is not the relay's admin token",
                    "request_id": "REQUEST",
                    "details": {},
                })
            );
        }
        let send = async |headers: &[(&str, String)]| {
            let mut request = relay.http.request(method.parse().expect("a method"), format!("{}{path}", relay.url));
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            Answer::of(request.send().await.expect("an answer")).await
        };
        let right = format!("Bearer {ADMIN_TOKEN}");
        send(&[("authorization", format!("Basic {ADMIN_TOKEN}"))]).await.refused("unauthenticated");
        send(&[("authorization", ADMIN_TOKEN.to_owned())]).await.refused("unauthenticated");
        send(&[("authorization", "Bearer ".to_owned())]).await.refused("unauthenticated");
        send(&[("authorization", right.clone()), ("authorization", right)]).await.refused("unauthenticated");
        relay.request(method, &format!("{path}?token={ADMIN_TOKEN}")).await.refused("unauthenticated");
    }
    assert_eq!(bob.rest("GET", "/agents").await.json()["teammates"].as_array().map(Vec::len), Some(1), "no agent more");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_token_is_no_key() {
    let relay = TestRelay::start().await;
    let operator = relay.agent("bob@acme").await.with_key(ADMIN_TOKEN);
    for path in ["/agents", "/agents/me", "/agents/me/audit", "/agents/me/block", "/events?wait=0"] {
        operator.rest("GET", path).await.refused("unauthenticated");
    }
    operator.rpc("tasks/list", json!({})).await.refused("unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_created_and_can_call_at_once() {
    let relay = TestRelay::start().await;
    let whole =
        json!({"handle": "Carol@Acme", "email": "carol@acme.example", "display_name": "Carol Ö.", "role": "data"});
    let answer = create(&relay, whole).await;
    assert_eq!((answer.status, answer.header("content-type")), (201, "application/json"));
    assert_eq!(
        masked(&answer.json()),
        json!({"agent_id": "ID", "handle": "carol@acme", "api_key": "KEY", "key_id": "ID"})
    );
    let carol = created(&relay, &answer);
    let me = carol.rest("GET", "/agents/me").await.json();
    assert_eq!(
        json!([me["id"], me["handle"], me["email"], me["name"], me["role"]]),
        json!([carol.id, "carol@acme", "carol@acme.example", "Carol Ö.", "data"])
    );

    // Only the handle is needed; null is absent; what is unknown is ignored.
    for (body, name) in [
        (json!({"handle": "dave@acme"}), "dave"),
        (json!({"handle": "erin@acme", "email": null, "display_name": null, "role": null}), "erin"),
        (json!({"handle": "fay@acme", "agent_id": SOME_ID, "api_key": "mine", "status": "disabled"}), "fay"),
    ] {
        let agent = created(&relay, &create(&relay, body).await);
        let me = agent.rest("GET", "/agents/me").await.json();
        assert_eq!(
            json!([me["email"], me["name"], me["role"], me["status"]]),
            json!([Value::Null, name, Value::Null, "active"])
        );
        agent.hand_to(&carol, "Hello").await;
    }
    assert_eq!(carol.inbox().await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_an_agent_has_or_had_is_taken() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let operator = || Actor::operator("req_test");
    let by_id = AgentName::Handle(Handle::parse("frank@acme").expect("a handle"));
    let new = Handle::parse("francis@acme").expect("a handle");
    relay.relay.rename_agent(operator(), by_id, new).await.expect("renamed");
    relay.admin("DELETE", &format!("/admin/agents/{}", bob.id), json!({})).await;

    for (handle, whose) in [
        ("frank@acme", "a former one"),
        ("francis@acme", "a present one"),
        ("FRANCIS@ACME", "a present one in other letters"),
        ("bob@acme", "a disabled agent's"),
    ] {
        let refused = create(&relay, json!({"handle": handle})).await.refused("invalid_params");
        let folded = handle.to_lowercase();
        let text = format!("'{folded}' is or was another agent's handle and stays with it; choose another");
        assert_eq!(
            masked(&refused.json()),
            json!({
                "code": "invalid_params",
                "message": format!("handle: {text}"),
                "request_id": "REQUEST",
                "details": {"issues": [{"path": ["handle"], "message": text, "code": "custom"}]},
            }),
            "{whose}"
        );
    }
    let count: i64 = relay.sqlite().query_row("SELECT count(*) FROM agents", [], |row| row.get(0)).expect("a count");
    assert_eq!(count, 2);
    assert_eq!(frank.rest("GET", "/agents/me").await.json()["handle"], "francis@acme");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_want_one_handle_at_once_one_gets_it() {
    let relay = TestRelay::start().await;
    let waiting: Vec<_> = (0..16)
        .map(|_| {
            let request = relay.http.post(format!("{}/admin/agents", relay.url)).bearer_auth(ADMIN_TOKEN);
            let request = request.json(&json!({"handle": "carol@acme"}));
            tokio::spawn(async move { Answer::of(request.send().await.expect("an answer")).await })
        })
        .collect();
    let mut created = 0;
    for answer in waiting {
        let answer = answer.await.expect("no panic");
        match answer.status {
            201 => created += 1,
            _ => assert_eq!(answer.refused("invalid_params").issue_paths(), ["handle"]),
        }
    }
    assert_eq!(created, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_is_created_with_has_limits() {
    let relay = TestRelay::start().await;
    let longest = format!("{}@{}", "a".repeat(60), "b".repeat(59));
    let full = json!({
        "handle": longest,
        "email": "e".repeat(254),
        "display_name": "Ö".repeat(120),
        "role": "ü".repeat(120),
    });
    assert_eq!(create(&relay, full).await.json()["handle"], longest);

    let with = |key: &str, value: Value| {
        let mut body = json!({"handle": "carol@acme"});
        body[key] = value;
        body
    };
    for (body, paths, code) in [
        (json!({}), vec!["handle"], "invalid_type"),
        (with("handle", Value::Null), vec!["handle"], "invalid_type"),
        (with("handle", json!(1)), vec!["handle"], "invalid_type"),
        (with("handle", json!("")), vec!["handle"], "invalid_value"),
        (with("handle", json!(format!("a{longest}"))), vec!["handle"], "invalid_value"),
        (with("email", json!("e".repeat(255))), vec!["email"], "too_big"),
        (with("email", json!("")), vec!["email"], "too_small"),
        (with("email", json!(true)), vec!["email"], "invalid_type"),
        (with("display_name", json!("n".repeat(121))), vec!["display_name"], "too_big"),
        (with("display_name", json!("")), vec!["display_name"], "too_small"),
        (with("display_name", json!({})), vec!["display_name"], "invalid_type"),
        (with("role", json!("r".repeat(121))), vec!["role"], "too_big"),
        (with("role", json!("")), vec!["role"], "too_small"),
        (with("role", json!([])), vec!["role"], "invalid_type"),
        (
            json!({"email": 1, "display_name": 1, "role": 1}),
            vec!["email", "display_name", "role", "handle"],
            "invalid_type",
        ),
    ] {
        let refused = create(&relay, body.clone()).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), paths, "{body}");
        assert_eq!(refused.error()["details"]["issues"][0]["code"], code, "{body}");
    }
    // Nothing of what was refused took the handle.
    assert_eq!(create(&relay, json!({"handle": "carol@acme"})).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_means_the_same_on_every_path() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let hand =
        async |handle: &str| bob.rpc("message/send", json!({"recipient": handle, "message": message("Hello")})).await;
    for (number, folded) in ["FRANK@ACME", "Frank@acme", "frank@aCMe"].into_iter().enumerate() {
        hand(folded).await.result();
        assert_eq!(frank.inbox().await.len(), number + 1);
        let blocked = bob.rest_with("POST", "/agents/me/block", json!({"handle": folded})).await;
        assert_eq!(blocked.json()["blocked_handle"], "frank@acme", "{folded}");
        assert_eq!(bob.rest("DELETE", &format!("/agents/me/block/{folded}")).await.status, 204);
        assert_eq!(bob.rest("GET", "/agents/me/block").await.json(), json!({"blocked": []}), "{folded}");
        assert_eq!(create(&relay, json!({"handle": folded})).await.issue_paths(), ["handle"], "it is taken");
    }
    for handle in [
        "fr\u{430}nk@acme",   // a Cyrillic a
        "\u{ff46}rank@acme",  // a full-width f
        "frank@\u{212a}acme", // the Kelvin sign, which Unicode folds to k
        "fran\u{131}@acme",   // a dotless i
        "frank\u{200b}@acme", // a space of no width
        "frank@acme\u{202e}", // a change of direction
        "frank@acme.",
        ".frank@acme",
        "frank.@acme",
        "..@acme",
        "frank@..",
        "../frank@acme",
        "%2e%2e@acme",
        "frank%40acme",
        "frank@acme@acme",
        " frank@acme",
        "frank@acme\n",
        "frank@acme\u{0}",
        "frank @acme",
        "\"frank\"@acme",
        "frank",
        "@",
        "",
    ] {
        let mut reasons = vec![
            hand(handle).await.refused("invalid_params"),
            bob.rest_with("POST", "/agents/me/block", json!({"handle": handle})).await.refused("invalid_params"),
            create(&relay, json!({"handle": handle})).await.refused("invalid_params"),
        ];
        assert_eq!(reasons.remove(0).issue_paths(), ["recipient"], "{handle:?}");
        let issue = |answer: &Answer| answer.error()["details"]["issues"].clone();
        assert_eq!(issue(&reasons[0]), issue(&reasons[1]), "{handle:?}");
        let reason = issue(&reasons[0])[0]["message"].as_str().expect("a reason").to_owned();
        assert!(reason.starts_with("a handle is name@team: "), "{handle:?}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_by_the_operator_ends_all_older_keys() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let mut older = vec![bob.key.clone()];
    for id in [bob.id.clone(), bob.id.to_lowercase()] {
        let answer = relay.admin("POST", &format!("/admin/agents/{id}/keys/rotate"), json!({})).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        assert_eq!(masked(&answer.json()), json!({"agent_id": "ID", "api_key": "KEY", "key_id": "ID"}));
        assert_eq!(answer.json()["agent_id"], bob.id);
        let new = answer.json()["api_key"].as_str().expect("a key").to_owned();
        assert!(is_key(&new) && !older.contains(&new));
        for key in &older {
            bob.with_key(key).rest("GET", "/agents/me").await.refused("unauthenticated");
        }
        assert_eq!(bob.with_key(&new).rest("GET", "/agents/me").await.json()["id"], bob.id);
        older.push(new);
    }
    assert_eq!(frank.rest("GET", "/agents/me").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_agent_can_neither_call_nor_be_sent_to_and_keeps_its_threads() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = bob.hand_to(&frank, "before").await;
    for _ in 0..2 {
        let answer = relay.admin("DELETE", &format!("/admin/agents/{}", frank.id), json!({})).await;
        assert_eq!((answer.status, &*answer.text, answer.header("content-type")), (204, "", ""));
        assert!(answer.header("x-request-id").starts_with("req_"));
    }
    frank.rest("GET", "/agents/me").await.refused("forbidden");
    frank.rpc("tasks/get", json!({"task_id": task})).await.refused("forbidden");
    let refused = bob.rpc("message/send", json!({"recipient": "frank@acme", "message": message("after")})).await;
    refused.refused("recipient_not_found");
    assert_eq!(bob.get(&task).await["recipient"]["handle"], "frank@acme");
    assert_eq!(bob.say(&task, "still there?").await.status, 200);

    // A new key changes nothing about that.
    let rotated = relay.admin("POST", &format!("/admin/agents/{}/keys/rotate", frank.id), json!({})).await;
    let frank_again = frank.with_key(rotated.json()["api_key"].as_str().expect("a key"));
    frank_again.rest("GET", "/agents/me").await.refused("forbidden");
    let disabled: i64 = relay
        .sqlite()
        .query_row("SELECT count(*) FROM events WHERE kind = 'agent.disabled'", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(disabled, 1, "once is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_no_agent_has_is_404() {
    let relay = TestRelay::start().await;
    let bob = relay.agent("bob@acme").await;
    // `%FF` decodes to no text at all.
    for id in [SOME_ID, "bob@acme", "x", "0", "%2e%2e", "01KQ7MD2P0QH7V8CJTZB88D8R", "%00", "%FF", &"0".repeat(500)] {
        for (method, path) in
            [("DELETE", format!("/admin/agents/{id}")), ("POST", format!("/admin/agents/{id}/keys/rotate"))]
        {
            let refused = bare(&relay.url, method, &path, ADMIN_TOKEN).await.refused("recipient_not_found");
            assert_eq!(refused.error()["details"], json!({}), "{method} {path}");
        }
    }
    let refused = relay.admin("DELETE", &format!("/admin/agents/{SOME_ID}"), json!({})).await;
    assert_eq!(refused.error()["message"], format!("No agent has the id '{SOME_ID}'"));
    assert_eq!(bob.rest("GET", "/agents/me").await.status, 200);
}
