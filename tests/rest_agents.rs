//! `GET /agents`, `GET /agents/me`, `PUT /agents/me/card` and `POST /agents/me/keys/rotate`.

use std::time::Duration;

use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::KeyId;
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::Timestamp;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay};
use crate::wire::{is_key, is_ulid, masked};

/// What an agent does with its own record.
trait OwnRecord {
    async fn put_card(&self, card: Value) -> Answer;
    async fn me(&self) -> Value;
}

impl OwnRecord for Agent {
    async fn put_card(&self, card: Value) -> Answer {
        self.rest_with("PUT", "/agents/me/card", card).await
    }

    async fn me(&self) -> Value {
        self.rest("GET", "/agents/me").await.json()
    }
}

/// Sends a body as it is.
async fn send(agent: &Agent, method: &str, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = agent.http.request(method.parse().expect("a method"), format!("{}{path}", agent.url));
    let request = request.bearer_auth(&agent.key).header("content-type", "application/json").body(body);
    Answer::of(request.send().await.expect("an answer")).await
}

fn handles(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    let teammates = body["teammates"].as_array().expect("teammates");
    teammates.iter().map(|teammate| teammate["handle"].as_str().expect("a handle").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reads_its_own_record() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let expected = json!({
        "id": bob.id,
        "handle": "bob@acme",
        "name": "bob",
        "email": null,
        "role": null,
        "status": "active",
        "description": null,
        "skills": [],
        "repos_owned": [],
    });
    let answer = bob.rest("GET", "/agents/me").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json(), expected);

    let carol = json!({"handle": "carol@acme", "display_name": "Carol", "email": "carol@acme.example", "role": "data"});
    let created = relay.admin("POST", "/admin/agents", carol).await.json();
    let carol = bob.with_key(created["api_key"].as_str().expect("a key"));
    let expected = json!({
        "id": created["agent_id"],
        "handle": "carol@acme",
        "name": "Carol",
        "email": "carol@acme.example",
        "role": "data",
        "status": "active",
        "description": null,
        "skills": [],
        "repos_owned": [],
    });
    assert_eq!(carol.me().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_changes_what_is_given_and_leaves_the_rest() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let card = |agent: Value| json!([agent["role"], agent["description"], agent["skills"], agent["repos_owned"]]);

    let whole = json!({
        "role": "backend",
        "description": "Ask before you touch /users.",
        "skills": ["python", "postgres"],
        "repos_owned": ["acme/api"],
    });
    let answer = bob.put_card(whole).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"ok": true})));
    let expected = json!(["backend", "Ask before you touch /users.", ["python", "postgres"], ["acme/api"]]);
    assert_eq!(card(bob.me().await), expected);

    // Absent and null both leave what is there, and what is unknown is ignored.
    for nothing in [
        json!({}),
        json!({"role": null, "description": null, "skills": null, "repos_owned": null}),
        json!({"handle": "root@acme", "email": "x", "status": "disabled", "id": 1, "name": "Root"}),
    ] {
        assert_eq!(bob.put_card(nothing).await.json(), json!({"ok": true}));
        assert_eq!(card(bob.me().await), expected);
    }
    assert_eq!(bob.me().await["handle"], "bob@acme");

    for (change, expected) in [
        (json!({"skills": []}), json!(["backend", "Ask before you touch /users.", [], ["acme/api"]])),
        (json!({"description": "", "role": ""}), json!([null, null, [], ["acme/api"]])),
        (json!({"role": "data"}), json!(["data", null, [], ["acme/api"]])),
        (json!({"repos_owned": ["acme/web", "acme/web"]}), json!(["data", null, [], ["acme/web", "acme/web"]])),
        (
            json!({"skills": ["Überblick", "日本語", "<b>", "a\"b", "\u{0}"]}),
            json!(["data", null, ["Überblick", "日本語", "<b>", "a\"b", "\u{0}"], ["acme/web", "acme/web"]]),
        ),
    ] {
        assert_eq!(bob.put_card(change).await.json(), json!({"ok": true}));
        assert_eq!(card(bob.me().await), expected);
    }
    assert_eq!(card(frank.me().await), json!([null, null, [], []]), "a card is its agent's alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_has_limits_which_count_characters() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let list = |count: usize, length: usize| json!(vec!["ü".repeat(length); count]);

    let full = json!({
        "role": "ü".repeat(120),
        "description": "ü".repeat(2_000),
        "skills": list(50, 60),
        "repos_owned": list(100, 200),
    });
    assert_eq!(bob.put_card(full.clone()).await.json(), json!({"ok": true}));
    let me = bob.me().await;
    for key in ["role", "description", "skills", "repos_owned"] {
        assert_eq!(me[key], full[key]);
    }

    for (change, path, code) in [
        (json!({"role": "r".repeat(121)}), "role", "too_big"),
        (json!({"description": "d".repeat(2_001)}), "description", "too_big"),
        (json!({"skills": list(51, 1)}), "skills", "too_big"),
        (json!({"skills": ["a", "s".repeat(61)]}), "skills.1", "too_big"),
        (json!({"skills": ["a", ""]}), "skills.1", "too_small"),
        (json!({"repos_owned": list(101, 1)}), "repos_owned", "too_big"),
        (json!({"repos_owned": ["r".repeat(201)]}), "repos_owned.0", "too_big"),
        (json!({"repos_owned": [""]}), "repos_owned.0", "too_small"),
        (json!({"role": 1}), "role", "invalid_type"),
        (json!({"role": ["backend"]}), "role", "invalid_type"),
        (json!({"description": false}), "description", "invalid_type"),
        (json!({"skills": "python"}), "skills", "invalid_type"),
        (json!({"skills": {"0": "python"}}), "skills", "invalid_type"),
        (json!({"skills": [null]}), "skills.0", "invalid_type"),
        (json!({"repos_owned": [["acme/api"]]}), "repos_owned.0", "invalid_type"),
    ] {
        let refused = bob.put_card(change.clone()).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), [path], "{change}");
        assert_eq!(refused.error()["details"]["issues"][0]["code"], code, "{change}");
    }
    assert_eq!(bob.me().await, me, "a refused change changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_problem_of_a_card_is_named_at_once_and_nothing_is_changed() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let before = bob.me().await;
    let card = json!({"role": 7, "description": "fine", "skills": ["ok", 1, "", "s".repeat(61)], "repos_owned": {}});
    let refused = bob.put_card(card).await.refused("invalid_params");
    assert_eq!(
        masked(&refused.json()),
        json!({
            "code": "invalid_params",
            "message": "role: expected a string, received a number (4 more)",
            "request_id": "REQUEST",
            "details": {"issues": [
                {"path": ["role"], "message": "expected a string, received a number", "code": "invalid_type"},
                {"path": ["skills", 1], "message": "expected a string, received a number", "code": "invalid_type"},
                {"path": ["skills", 2], "message": "must not be empty", "code": "too_small"},
                {"path": ["skills", 3], "message": "at most 60 characters are taken", "code": "too_big"},
                {"path": ["repos_owned"], "message": "expected an array, received an object", "code": "invalid_type"},
            ]},
        })
    );
    assert_eq!(bob.me().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_object_is_refused_in_the_flat_envelope() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let routes = [("PUT", "/agents/me/card", &bob.key), ("POST", "/agents/me/block", &bob.key)];
    let admin = crate::support::ADMIN_TOKEN.to_owned();
    let routes = routes.into_iter().chain([("POST", "/admin/agents", &admin)]);
    for (method, path, key) in routes {
        let caller = bob.with_key(key);
        let deep = |levels: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        for (body, symbol) in [
            (Vec::new(), "parse_error"),
            (b"   ".to_vec(), "parse_error"),
            (b"{".to_vec(), "parse_error"),
            (b"{}{}".to_vec(), "parse_error"),
            (b"{'role':'x'}".to_vec(), "parse_error"),
            (b"{\"role\":\"x\",}".to_vec(), "parse_error"),
            (b"\xef\xbb\xbf{}".to_vec(), "parse_error"),
            (b"{\"role\":\"\xff\"}".to_vec(), "parse_error"),
            (b"{\"role\":\"a\nb\"}".to_vec(), "parse_error"),
            (b"role=backend&handle=x".to_vec(), "parse_error"),
            (b"NaN".to_vec(), "parse_error"),
            (b"{\"role\":\"\\ud800\"}".to_vec(), "parse_error"),
            (b"[]".to_vec(), "invalid_params"),
            (b"[{\"role\":\"x\"}]".to_vec(), "invalid_params"),
            (b"\"role\"".to_vec(), "invalid_params"),
            (b"42".to_vec(), "invalid_params"),
            (b"null".to_vec(), "invalid_params"),
            (deep(64).into_bytes(), "invalid_request"),
            (deep(100_000).into_bytes(), "invalid_request"),
        ] {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let answer = send(&caller, method, path, body).await;
            assert_eq!(answer.symbol(), symbol, "{path} {shown}: {}", answer.text);
            if symbol == "invalid_params" {
                assert_eq!(answer.clone().refused(symbol).issue_paths(), [""], "{path} {shown}");
            }
            assert_eq!(answer.refused(symbol).status, 400, "{path} {shown}");
        }
        // As deep as is allowed: the document is read, and its unknown field ignored.
        let answer = send(&caller, method, path, deep(63)).await;
        assert!(matches!(answer.symbol().as_str(), "" | "invalid_params"), "{path}: {}", answer.text);
    }
    // Of two members with one name the last one counts.
    send(&bob, "PUT", "/agents/me/card", r#"{"role":"first","role":"last"}"#).await;
    assert_eq!(bob.me().await["role"], "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn teammates_are_all_who_can_be_sent_to_by_handle() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let (zoe, amy) = (relay.agent("zoe@acme").await, relay.agent("amy@zeta").await);
    bob.put_card(json!({"role": "backend", "description": "APIs", "skills": ["sql"], "repos_owned": ["acme/api"]}))
        .await;
    relay.admin("DELETE", &format!("/admin/agents/{}", zoe.id), json!({})).await;
    let new = Handle::parse("francis@acme").expect("a handle");
    let by_id = AgentName::Handle(Handle::parse(&frank.handle).expect("a handle"));
    relay.relay.rename_agent(Actor::operator("req_test"), by_id, new).await.expect("renamed");

    let answer = amy.rest("GET", "/agents").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let card_url = |handle: &str| format!("{}/a2a/{handle}/.well-known/agent-card.json", relay.url);
    let bare = |handle: &str, name: &str| {
        json!({
            "handle": handle, "name": name, "role": null, "description": null, "skills": [], "repos_owned": [],
            "card_url": card_url(handle),
        })
    };
    assert_eq!(
        answer.json(),
        json!({
            "teammates": [
                bare("amy@zeta", "amy"),
                {
                    "handle": "bob@acme",
                    "name": "bob",
                    "role": "backend",
                    "description": "APIs",
                    "skills": ["sql"],
                    "repos_owned": ["acme/api"],
                    "card_url": card_url("bob@acme"),
                },
                bare("francis@acme", "frank"),
            ],
            "next_cursor": null,
        })
    );
    let rpc = amy.rpc("agents/list", json!({})).await.result();
    assert_eq!(rpc, answer.json(), "agents/list is the same list");
}

#[tokio::test(flavor = "multi_thread")]
async fn teammates_are_found_by_role_skill_and_repository() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let carol = relay.agent("carol@acme").await;
    bob.put_card(json!({"role": "back end", "skills": ["sql", "c++"], "repos_owned": ["acme/api", "acme/db"]})).await;
    frank.put_card(json!({"role": "back end", "skills": ["c++"], "repos_owned": ["acme/web"]})).await;
    carol.put_card(json!({"role": "日本", "skills": ["50%", "' OR 1=1 --"], "repos_owned": ["acme/api"]})).await;

    for (query, expected) in [
        ("", vec!["bob@acme", "carol@acme", "frank@acme"]),
        ("role=&skill=&repo=", vec!["bob@acme", "carol@acme", "frank@acme"]),
        ("role=back%20end", vec!["bob@acme", "frank@acme"]),
        ("role=back+end", vec!["bob@acme", "frank@acme"]),
        ("role=BACK%20END", vec![]),
        ("role=back", vec![]),
        ("skill=c%2B%2B", vec!["bob@acme", "frank@acme"]),
        ("skill=sq", vec![]),
        ("skill=%5B%22sql%22%2C%22c%2B%2B%22%5D", vec![]),
        ("repo=acme/api", vec!["bob@acme", "carol@acme"]),
        ("repo=acme%2Fapi", vec!["bob@acme", "carol@acme"]),
        ("role=back%20end&skill=c%2B%2B&repo=acme/web", vec!["frank@acme"]),
        ("role=back%20end&repo=acme/none", vec![]),
        ("role=%E6%97%A5%E6%9C%AC", vec!["carol@acme"]),
        ("skill=50%25", vec!["carol@acme"]),
        ("skill=50%", vec!["carol@acme"]),
        ("skill=%27%20OR%201%3D1%20--", vec!["carol@acme"]),
        ("skill=%27%20OR%201%3D1", vec![]),
        ("unknown=x&role=back%20end", vec!["bob@acme", "frank@acme"]),
    ] {
        let answer = bob.rest("GET", &format!("/agents?{query}")).await;
        assert_eq!(handles(&answer), expected, "{query}");
        assert_eq!(answer.json()["next_cursor"], Value::Null, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn teammates_come_in_pages_and_a_walk_sees_each_once() {
    let relay = TestRelay::start().await;
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.push(relay.agent(&format!("agent{number}@acme")).await);
    }
    let caller = &expected[0];
    for (limit, pages) in [(1, 7), (3, 3), (7, 1), (200, 1)] {
        let (mut cursor, mut seen, mut count) = (String::new(), Vec::new(), 0);
        loop {
            let answer = caller.rest("GET", &format!("/agents?limit={limit}&cursor={cursor}")).await;
            seen.extend(handles(&answer));
            count += 1;
            match answer.json()["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!(count, pages, "no empty last page at limit {limit}");
        assert_eq!(seen, expected.iter().map(|agent| agent.handle.clone()).collect::<Vec<_>>());
    }
    // The page size may change on the way.
    let first = caller.rest("GET", "/agents?limit=2").await.json();
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    assert_eq!(handles(&caller.rest("GET", &format!("/agents?limit=200&cursor={cursor}")).await).len(), 5);

    for limit in ["0", "201", "-1", "abc", "1.5", "1e2", "0x10", "99999999999999999999", "%20", "%FF"] {
        let refused = caller.rest("GET", &format!("/agents?limit={limit}")).await.refused("invalid_params");
        assert_eq!(refused.issue_paths(), ["limit"], "{limit}");
    }
    let refused = caller.rest("GET", "/agents?limit=0").await;
    assert_eq!(
        masked(&refused.json()),
        json!({
            "code": "invalid_params",
            "message": "limit: expected a whole number from 1 to 200",
            "request_id": "REQUEST",
            "details": {"issues": [
                {"path": ["limit"], "message": "expected a whole number from 1 to 200", "code": "invalid_value"}
            ]},
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_list_is_refused() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    bob.put_card(json!({"role": "backend"})).await;
    frank.put_card(json!({"role": "backend"})).await;
    let cursor_of = async |path: &str| {
        bob.rest("GET", path).await.json()["next_cursor"].as_str().unwrap_or_else(|| panic!("{path}")).to_owned()
    };
    let all = cursor_of("/agents?limit=1").await;
    let backend = cursor_of("/agents?limit=1&role=backend").await;
    let audit = cursor_of("/agents/me/audit?limit=1").await;
    let last_changed = format!("{}{}", &all[..all.len() - 1], if all.ends_with('A') { 'B' } else { 'A' });

    let refused = [
        ("role=backend", &*all),
        ("", &*backend),
        ("skill=backend", &*backend),
        ("role=back", &*backend),
        ("", &*audit),
        ("", "x"),
        ("", "bob@acme"),
        ("", "%00"),
        ("", &all[1..]),
        ("", &*last_changed),
        ("", &*format!("{all}%3D")),
    ];
    for (filter, cursor) in refused {
        let answer = bob.rest("GET", &format!("/agents?{filter}&cursor={cursor}")).await.refused("invalid_params");
        assert_eq!(answer.issue_paths(), ["cursor"], "{filter} {cursor}");
    }
    assert_eq!(handles(&bob.rest("GET", &format!("/agents?role=backend&cursor={backend}")).await), ["frank@acme"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_ends_all_older_keys_in_the_same_moment() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let by_handle = || AgentName::Handle(Handle::parse("bob@acme").expect("a handle"));
    let mut older = vec![bob.clone()];
    for label in ["laptop", "ci"] {
        let options = KeyOptions { label: Some(label.to_owned()), ..KeyOptions::default() };
        let minted = relay.relay.mint_key(Actor::operator("req_test"), by_handle(), options).await.expect("a key").1;
        older.push(bob.with_key(minted.key.reveal()));
    }
    for key in &older {
        assert_eq!(key.me().await["handle"], "bob@acme");
    }

    let answer = older[1].rest("POST", "/agents/me/keys/rotate").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let rotated = answer.json();
    assert_eq!(masked(&rotated), json!({"agent_id": "ID", "api_key": "KEY", "key_id": "ID"}));
    assert_eq!(rotated["agent_id"], bob.id);
    let bob = bob.with_key(rotated["api_key"].as_str().expect("a key"));
    for key in &older {
        let refused = key.rest("GET", "/agents/me").await.refused("unauthenticated");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        key.rpc("tasks/list", json!({})).await.refused("unauthenticated");
        key.rest("POST", "/agents/me/keys/rotate").await.refused("unauthenticated");
    }
    assert_eq!(bob.me().await["id"], bob.id);
    assert_eq!(frank.me().await["id"], frank.id, "nobody else's key");

    // A rotation takes no body and is not troubled by one.
    let again = send(&bob, "POST", "/agents/me/keys/rotate", "no JSON").await;
    assert_eq!(masked(&again.json()), json!({"agent_id": "ID", "api_key": "KEY", "key_id": "ID"}));
    bob.rest("GET", "/agents/me").await.refused("unauthenticated");
    assert!(is_key(again.json()["api_key"].as_str().expect("a key")));
    assert_ne!(again.json()["key_id"], rotated["key_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_rotations_at_once_one_key_is_left() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let rotations: Vec<_> = (0..8)
        .map(|_| {
            let bob = bob.clone();
            tokio::spawn(async move { bob.rest("POST", "/agents/me/keys/rotate").await })
        })
        .collect();
    let mut keys = Vec::new();
    for rotation in rotations {
        let answer = rotation.await.expect("no panic");
        match answer.status {
            200 => keys.push(answer.json()["api_key"].as_str().expect("a key").to_owned()),
            _ => drop(answer.refused("unauthenticated")),
        }
    }
    let mut working = 0;
    for key in &keys {
        working += usize::from(bob.with_key(key).rest("GET", "/agents/me").await.status == 200);
    }
    assert_eq!(working, 1, "of {}", keys.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_works_until_it_expires_or_is_revoked_or_its_agent_is_disabled() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    relay.clock.set(1_777_284_000_000);
    let by_handle = || AgentName::Handle(Handle::parse("bob@acme").expect("a handle"));
    let operator = || Actor::operator("req_test");
    let end = Timestamp::from_ms(1_777_284_060_000);
    let options = KeyOptions { label: None, expires_at: Some(end) };
    let (_, expiring) = relay.relay.mint_key(operator(), by_handle(), options).await.expect("a key");
    let (_, other) = relay.relay.mint_key(operator(), by_handle(), KeyOptions::default()).await.expect("a key");
    let (expiring, revoked) = (bob.with_key(expiring.key.reveal()), bob.with_key(other.key.reveal()));

    relay.clock.advance(Duration::from_millis(59_999));
    assert_eq!(expiring.me().await["handle"], "bob@acme");
    relay.clock.advance(Duration::from_millis(1));
    let texts = [
        expiring.rest("GET", "/agents/me").await.refused("unauthenticated"),
        {
            assert_eq!(revoked.me().await["handle"], "bob@acme");
            let id: KeyId = other.id;
            relay.relay.revoke_key(operator(), id).await.expect("revoked");
            revoked.rest("GET", "/agents/me").await.refused("unauthenticated")
        },
        bob.with_key(&format!("ah_live_{}", "a".repeat(32))).rest("GET", "/agents/me").await.refused("unauthenticated"),
        bob.with_key("").rest("GET", "/agents/me").await.refused("unauthenticated"),
    ]
    .map(|answer| answer.error()["message"].as_str().expect("a message").to_owned());
    assert_eq!(texts[0], texts[1], "whoever tries keys learns nothing about them");
    assert_eq!(texts[0], texts[2]);

    relay.relay.disable_agent(operator(), by_handle()).await.expect("disabled");
    let refused = bob.rest("GET", "/agents/me").await.refused("forbidden");
    assert_eq!(
        masked(&refused.json()),
        json!({
            "code": "forbidden",
            "message": "bob@acme is disabled; ask the relay's operator to enable it",
            "request_id": "REQUEST",
            "details": {},
        })
    );
    relay.relay.enable_agent(operator(), by_handle()).await.expect("enabled");
    assert!(is_ulid(bob.me().await["id"].as_str().expect("an id")));
}
