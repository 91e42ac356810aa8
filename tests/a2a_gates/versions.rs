//! A2A's service parameters: the version that is spoken, and the extensions.

use serde_json::{Value, json};

use super::gate::{Binding, OPERATIONS, call, said_at_once, task, with};
use super::malformed::bare;
use crate::support::TestRelay;

const EXTENSION: &str = "urn:agentrelay:a2a:handoff:v1";

#[tokio::test(flavor = "multi_thread")]
async fn one_zero_is_spoken_in_every_patch_and_nothing_else() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let plain = call(&bob, "ListTasks", &frank.handle, json!({})).without_header("a2a-version");
    for (version, spoken) in [
        ("1.0", true),
        ("1.0.0", true),
        ("1.0.1", true),
        ("1.0.17", true),
        ("", false),
        ("0.3", false),
        ("0.3.0", false),
        ("1", false),
        ("1.1", false),
        ("1.00", false),
        ("1.0.", false),
        ("1.0.x", false),
        ("1.0-rc1", false),
        ("v1.0", false),
        ("2.0", false),
        ("99.0", false),
        ("1.0,0.3", false),
        ("junk", false),
    ] {
        for binding in Binding::ALL {
            let in_header = plain.clone().header("a2a-version", version).by(binding).await;
            let in_query = plain.clone().query(&format!("A2A-Version={version}")).by(binding).await;
            let lower = plain.clone().query(&format!("a2a-version={version}")).by(binding).await;
            // The header wins.
            let both = plain.clone().header("a2a-version", version).query("A2A-Version=1.0").by(binding).await;
            let other = plain.clone().header("a2a-version", "1.0").query(&format!("A2A-Version={version}"));
            other.by(binding).await.result();
            for (way, reply) in [("header", in_header), ("query", in_query), ("lower", lower), ("both", both)] {
                match &reply.said {
                    Ok(_) => assert!(spoken, "{binding:?} {way} {version}"),
                    Err(refusal) => {
                        assert!(!spoken, "{binding:?} {way} {version}");
                        assert_eq!(refusal.reason, "VERSION_NOT_SUPPORTED", "{binding:?} {way} {version}");
                        assert!(refusal.message.contains("A2A-Version: 1.0"), "{}", refusal.message);
                    }
                }
            }
        }
    }
    // None means 0.3, for every operation.
    for operation in OPERATIONS {
        let params = json!({"id": "x", "taskId": "x"});
        let params = if operation.starts_with("Send") { said_at_once("x") } else { params };
        for binding in Binding::ALL {
            let call = call(&bob, operation, &frank.handle, params.clone()).without_header("a2a-version");
            assert_eq!(call.by(binding).await.refusal().reason, "VERSION_NOT_SUPPORTED", "{binding:?} {operation}");
        }
    }
    assert_eq!(frank.inbox().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_need_no_version() {
    let relay = TestRelay::start().await;
    relay.bob_and_frank().await;
    for path in ["/.well-known/agent-card.json", "/a2a/frank@acme/.well-known/agent-card.json"] {
        assert_eq!(relay.request("GET", path).await.status, 200);
        assert_eq!(relay.request("GET", &format!("{path}?A2A-Version=0.3")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_extensions_that_a_client_names_ours_comes_back() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    for (operation, params) in [
        ("SendMessage", said_at_once("x")),
        ("SendStreamingMessage", said_at_once("x")),
        ("GetTask", json!({"id": task})),
        ("SubscribeToTask", json!({"id": task})),
        ("ListTasks", json!({})),
        ("GetExtendedAgentCard", json!({})),
    ] {
        let plain = call(&bob, operation, &frank.handle, params);
        for binding in Binding::ALL {
            let echoed = async |value: &str| {
                let reply = plain.clone().header("a2a-extensions", value).by(binding).await;
                reply.result();
                reply.raw.header("a2a-extensions").to_owned()
            };
            assert_eq!(echoed(EXTENSION).await, EXTENSION, "{binding:?} {operation}");
            assert_eq!(echoed(&format!("https://example.com/a, {EXTENSION},urn:b")).await, EXTENSION);
            for other in
                ["https://example.com/ext/v1,https://example.com/ext/v2", "", ",", "urn:agentrelay:a2a:handoff:v2"]
            {
                assert_eq!(echoed(other).await, "", "{binding:?} {operation} {other}");
            }
            let reply = plain.by(binding).await;
            assert_eq!(reply.raw.header("a2a-extensions"), "");
            let twice = plain.clone().header("a2a-extensions", "urn:x").header("a2a-extensions", EXTENSION);
            assert_eq!(twice.by(binding).await.raw.header("a2a-extensions"), EXTENSION);
            let query = plain.clone().query(&format!("A2A-Extensions=urn:x,{EXTENSION}"));
            assert_eq!(query.by(binding).await.raw.header("a2a-extensions"), EXTENSION, "{binding:?} {operation}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extension_brings_the_intent_there_and_the_facts_back() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let action = json!({
        "description": "Move the client over", "target_files": ["src/a.rs"], "rationale": "Pages", "suggested_diff": "+x",
    });
    for binding in Binding::ALL {
        let own = json!({"intent": "propose_action", "proposedAction": action});
        let metadata = json!({EXTENSION: own, "ticket": "T-1"});
        let params = with(&said_at_once("x"), "/metadata", Some(metadata));
        let plain = call(&bob, "SendMessage", &frank.handle, params);
        let reply = plain.clone().header("a2a-extensions", EXTENSION).by(binding).await;
        let task = &reply.result()["task"];
        let id = task["id"].as_str().expect("an id");
        let facts = &task["metadata"][EXTENSION];
        assert_eq!(facts["sender"], "bob@acme", "{binding:?} {task}");
        assert_eq!(facts["recipient"], "frank@acme");
        assert_eq!(facts["intent"], "propose_action");
        assert_eq!(facts["proposedAction"], action);
        assert_eq!(facts["generation"].as_f64(), Some(1.0));
        assert_eq!(facts.get("acceptedAt"), None);
        assert_eq!(task["metadata"]["ticket"], "T-1");

        let thread = frank.get(id).await;
        assert_eq!(thread["intent"], "propose_action", "{binding:?}");
        assert_eq!(thread["proposed_action"], action, "{binding:?}");
        frank.step(id, "accept").await.result();
        let get = call(&bob, "GetTask", &frank.handle, json!({"id": id}));
        for other in Binding::ALL {
            let facts = get.clone().header("a2a-extensions", EXTENSION).by(other).await;
            let facts = facts.result()["metadata"][EXTENSION].clone();
            assert_eq!(facts["generation"].as_f64(), Some(2.0), "{other:?}");
            assert!(facts["acceptedAt"].as_str().is_some_and(crate::wire::is_time), "{facts}");
            // Who does not ask for it sees what it said, and no facts.
            let plain = get.by(other).await.result().clone();
            assert_eq!(plain["metadata"]["ticket"], "T-1");
            assert_eq!(plain["metadata"][EXTENSION].get("generation"), None, "{plain}");
        }
        // An intent needs no activation: it is the client's own metadata.
        let reply = plain.by(binding).await;
        let id = reply.result()["task"]["id"].as_str().expect("an id").to_owned();
        assert_eq!(frank.get(&id).await["intent"], "propose_action");
    }
    for (own, field) in
        [(json!({"intent": "shout"}), "intent"), (json!({"intent": 7}), "intent"), (json!("propose_action"), "")]
    {
        let params = with(&said_at_once("x"), "/metadata", Some(json!({EXTENSION: own})));
        let place = format!("metadata.{EXTENSION}");
        let place = if field.is_empty() { place } else { format!("{place}.{field}") };
        for binding in Binding::ALL {
            let reply = call(&bob, "SendMessage", &frank.handle, params.clone()).by(binding).await;
            assert_eq!(reply.refusal().fields(), [&*place], "{binding:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_may_put_the_version_into_the_query_of_any_route() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let task = task(&bob, &frank).await;
    let path = format!("/a2a/{}/tasks/{task}?A2A-Version=1.0&historyLength=0", frank.handle);
    let request = bob.http.get(format!("{}{path}", bob.url)).bearer_auth(&bob.key).send().await.expect("an answer");
    let answer: Value = request.json().await.expect("JSON");
    assert_eq!(answer["id"], task.as_str());
    assert_eq!(answer.get("history"), None);
    let raw = bare(&relay, "GET", &format!("{path}&A2A-Version=0.3"), &bob.key).await;
    assert_eq!(raw.status, 400, "a parameter that is given twice is refused even where a header wins: {}", raw.text());
}
