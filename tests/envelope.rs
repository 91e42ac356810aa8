//! The frame around every call at `POST /a2a`: JSON-RPC 2.0, ids, keys, request ids, the rate limit, and which refusal
//! comes first.

use agentrelay::api::Settings;
use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::domain::time::Timestamp;
use agentrelay::relay::Actor;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay, message, settings};

/// A call that does no harm.
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list"}"#;

/// A post to `/a2a` with these headers and nothing else.
async fn post(relay: &TestRelay, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Answer {
    let request = relay.http.post(format!("{}/a2a", relay.url)).body(body);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Answer::of(request.send().await.expect("an answer")).await
}

/// The answer begins as JSON-RPC wants it, with the id as it came.
#[track_caller]
fn echoes(answer: &Answer, id: &str) {
    let beginning = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
    assert!(answer.text.starts_with(&beginning), "{id}: {} {}", answer.status, answer.text);
}

/// A relay that lets each agent make one call.
async fn one_call_relay() -> TestRelay {
    TestRelay::with(Settings { rate_limit: 1, ..settings() }).await
}

mod malformed_bodies {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn that_are_no_json_are_parse_errors() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let utf16: Vec<u8> = LIST.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let bodies: [&[u8]; 48] = [
            b"",
            b" ",
            b"\r\n",
            b"{",
            b"}",
            b"[",
            b"]",
            b"[1",
            b"[1,",
            b"[1,]",
            b"[,]",
            b"{\"jsonrpc\":\"2.0\"",
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tasks/list\",\"params\":{}",
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tasks/list\",}",
            b"{\"jsonrpc\" \"2.0\"}",
            b"{\"jsonrpc\":}",
            b"{jsonrpc:\"2.0\"}",
            b"{'jsonrpc':'2.0'}",
            b"{1:2}",
            b"{} {}",
            b"{}x",
            b"{}\0",
            b"[]]",
            b"nul",
            b"True",
            b"undefined",
            b"NaN",
            b"-Infinity",
            b"01",
            b"+1",
            b"1.",
            b".5",
            b"1e",
            b"0x10",
            b"- 1",
            b"\"unclosed",
            b"\"\\x\"",
            b"\"\\u12\"",
            b"\"a\nb\"",
            b"\"\x01\"",
            b"// a comment\n{}",
            b"\xef\xbb\xbf{}",
            b"{\"jsonrpc\":\"\xff\"}",
            b"\"\xc3\"",
            b"\"\xed\xa0\x80\"",
            b"jsonrpc=2.0&id=7&method=tasks%2Flist",
            b"<methodCall/>",
            &utf16,
        ];
        for body in bodies {
            let answer = bob.post_a2a(body.to_vec()).await;
            assert_eq!((answer.status, &*answer.symbol()), (400, "parse_error"), "{:?}", String::from_utf8_lossy(body));
            echoes(&answer, "null");
            assert_eq!(answer.refused("parse_error").json()["error"]["code"], -32700);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn that_are_json_but_no_call_are_invalid_requests_with_the_id_that_can_be_read() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for (body, id) in [
            ("null", "null"),
            ("true", "null"),
            ("1", "null"),
            ("1e400", "null"),
            (r#""tasks/list""#, "null"),
            ("[]", "null"),
            (" [ ] ", "null"),
            ("{}", "null"),
            (r#"{"id":7}"#, "7"),
            (r#"{"id":"a"}"#, r#""a""#),
            (r#"{"jsonrpc":"2.0"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":["tasks/list"]}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":{}}"#, "7"),
            (r#"{"id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":null,"id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":"2","id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":2.0,"id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":["2.0"],"id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"JSONRPC":"2.0","id":7,"method":"tasks/list"}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/list"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"tasks/list"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":true,"method":"tasks/list"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":false,"method":"tasks/list"}"#, "null"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tasks/list","params":"x"}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tasks/list","params":5}"#, "7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tasks/list","params":false}"#, "7"),
            (r#"{"jsonrpc":"2.0","method":"tasks/list","params":"x"}"#, "null"),
        ] {
            let answer = bob.post_a2a(body).await;
            assert_eq!((answer.status, &*answer.symbol()), (400, "invalid_request"), "{body}");
            echoes(&answer, id);
            assert_eq!(answer.refused("invalid_request").json()["error"]["code"], -32600);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fields_that_json_rpc_does_not_know_are_ignored() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let call = r#" { "extra" : {"a":[]}, "method":"tasks/list", "id":7, "jsonrpc":"2.0", "\u0070arams":null } "#;
        let answer = bob.post_a2a(call).await;
        assert_eq!(answer.result()["items"], json!([]));
        echoes(&answer, "7");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_method_that_does_not_exist_is_not_found() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for method in ["", "tasks", "tasks/delete", "Tasks/List", "tasks/list ", "/tasks/list", "rpc.discover", "🦀"]
        {
            let answer = bob.rpc(method, json!({})).await.refused("method_not_found");
            assert_eq!((answer.status, &answer.json()["error"]["code"]), (404, &json!(-32601)));
            assert_eq!(answer.error()["details"], json!({}));
        }
    }
}

mod ids {
    use super::*;

    const IDS: [&str; 16] = [
        r#""req-1""#,
        r#""""#,
        r#""1""#,
        r#""é🦀""#,
        r#""\u00e9\u0000\/""#,
        "0",
        "-1",
        "-0",
        "1.5",
        "1.0",
        "1e3",
        "1E400",
        "9007199254740993",
        "18446744073709551616",
        "123456789012345678901234567890.5",
        "null",
    ];

    #[tokio::test(flavor = "multi_thread")]
    async fn are_echoed_as_they_came() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let gone = relay.agent("gone@acme").await;
        relay.admin("DELETE", &format!("/admin/agents/{}", gone.id), json!({})).await;
        let nobody = bob.with_key("ah_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        for id in IDS {
            for (caller, rest, symbol) in [
                (&bob, r#""jsonrpc":"2.0","method":"tasks/list"}"#, ""),
                (&bob, r#""jsonrpc":"2.0","method":"tasks/lost"}"#, "method_not_found"),
                (&bob, r#""jsonrpc":"2.0","method":"tasks/get"}"#, "invalid_params"),
                (&bob, r#""jsonrpc":"2.0"}"#, "invalid_request"),
                (&bob, r#""method":"tasks/list"}"#, "invalid_request"),
                (&nobody, r#""jsonrpc":"2.0","method":"tasks/list"}"#, "unauthenticated"),
                (&nobody, r#""jsonrpc":"1.0"}"#, "unauthenticated"),
                (&gone, r#""jsonrpc":"2.0","method":"tasks/list"}"#, "forbidden"),
            ] {
                let answer = caller.post_a2a(format!(r#"{{"id":{id},{rest}"#)).await;
                echoes(&answer, id);
                // An id may be larger than a number of the parser that these tests use.
                let found = if symbol.is_empty() { r#""result":"# } else { symbol };
                assert!(answer.text.contains(found), "{symbol}: {}", answer.text);
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_echoed_when_the_rate_limit_refuses() {
        let relay = one_call_relay().await;
        let bob = relay.agent("bob@acme").await;
        bob.post_a2a(LIST).await.result();
        for id in IDS {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tasks/list"}}"#);
            let answer = bob.post_a2a(call).await;
            assert_eq!(answer.status, 429);
            echoes(&answer, id);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_null_where_none_can_be_read() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for body in [r#"{"jsonrpc":"2.0","id":7,"method":"tasks/list""#, "", "[", r#"[{"id":7}]"#, r#"{"id":[7]}"#] {
            echoes(&post(&relay, &[], body).await.refused("unauthenticated"), "null");
            if body != r#"[{"id":7}]"# {
                echoes(&bob.post_a2a(body).await, "null");
            }
        }
    }
}

mod notifications {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn are_executed_and_not_answered() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params = json!({ "recipient": "frank@acme", "message": message("No answer needed") });
        let call = json!({ "jsonrpc": "2.0", "method": "message/send", "params": params });
        let answer = bob.post_a2a(call.to_string()).await;
        assert_eq!((answer.status, &*answer.text), (204, ""));
        assert!(answer.header("x-request-id").starts_with("req_"));
        assert_eq!(frank.inbox().await[0]["summary_preview"], "No answer needed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_not_answered_when_they_fail_either() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for call in [
            json!({ "jsonrpc": "2.0", "method": "tasks/lost" }),
            json!({ "jsonrpc": "2.0", "method": "message/send", "params": {} }),
            json!({ "jsonrpc": "2.0", "method": "tasks/list", "params": [] }),
            json!({ "jsonrpc": "2.0", "method": "tasks/get", "params": { "task_id": "no-id" } }),
        ] {
            let answer = bob.post_a2a(call.to_string()).await;
            assert_eq!((answer.status, &*answer.text), (204, ""), "{call}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_null_id_is_an_id() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let answer = bob.post_a2a(r#"{"jsonrpc":"2.0","id":null,"method":"tasks/list"}"#).await;
        assert_eq!(
            answer.json(),
            json!({ "jsonrpc": "2.0", "id": null, "result": { "items": [], "next_cursor": null } })
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_refused_when_they_cannot_be_counted() {
        let relay = one_call_relay().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params = json!({ "recipient": "frank@acme", "message": message("Hello") });
        let call = json!({ "jsonrpc": "2.0", "method": "message/send", "params": params }).to_string();
        assert_eq!(bob.post_a2a(call.clone()).await.status, 204);
        bob.post_a2a(call.clone()).await.refused("rate_limited");
        post(&relay, &[], call).await.refused("unauthenticated");
        assert_eq!(frank.inbox().await.len(), 1);
    }
}

mod params {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn may_be_absent_or_null_where_none_is_needed() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for params in ["", r#","params":null"#, r#","params":{}"#] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/list"{params}}}"#);
            assert_eq!(bob.post_a2a(call).await.result()["items"], json!([]));
        }
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#;
        assert_eq!(bob.post_a2a(call).await.refused("invalid_params").issue_paths(), ["task_id"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn by_position_are_invalid_params() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for method in ["message/send", "tasks/get", "tasks/list", "tasks/update", "tasks/cancel", "agents/list"] {
            for params in [json!([]), json!(["a"]), json!([{ "task_id": "a" }])] {
                let answer = bob.rpc(method, params).await.refused("invalid_params");
                assert_eq!(answer.error()["details"]["issues"][0]["path"], json!([]), "the parameters themselves");
            }
        }
    }
}

mod refusals_in_their_order {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_faults_the_first_in_the_list_is_told() {
        let relay = one_call_relay().await;
        let bob = relay.agent("bob@acme").await;
        let gone = relay.agent("gone@acme").await;
        relay.admin("DELETE", &format!("/admin/agents/{}", gone.id), json!({})).await;
        bob.post_a2a(LIST).await.result();
        let nobody = bob.with_key("");
        let large = |body: &str| format!("{body}{}", " ".repeat((1 << 20) + 1 - body.len()));
        let malformed = r#"{"jsonrpc":"2.0","id":1"#;
        let no_call = r#"{"jsonrpc":"2.0","id":1}"#;
        let no_method = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/lost","params":[]}"#;
        let no_params = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#;
        for (caller, body, status, symbol) in [
            // too large before everything,
            (&nobody, large(LIST), 413, "invalid_request"),
            (&gone, large(LIST), 413, "invalid_request"),
            (&bob, large(malformed), 413, "invalid_request"),
            (&bob, large(no_params), 413, "invalid_request"),
            // no key before malformed JSON and what follows,
            (&nobody, malformed.to_owned(), 401, "unauthenticated"),
            (&nobody, no_call.to_owned(), 401, "unauthenticated"),
            (&nobody, no_method.to_owned(), 401, "unauthenticated"),
            (&gone, malformed.to_owned(), 403, "forbidden"),
            (&gone, no_call.to_owned(), 403, "forbidden"),
            // malformed JSON and a wrong envelope before the rate limit,
            (&bob, malformed.to_owned(), 400, "parse_error"),
            (&bob, "[".repeat(100), 400, "invalid_request"),
            (&bob, no_call.to_owned(), 400, "invalid_request"),
            (&bob, "[]".to_owned(), 400, "invalid_request"),
            // the rate limit before the method and its parameters.
            (&bob, no_method.to_owned(), 429, "rate_limited"),
            (&bob, no_params.to_owned(), 429, "rate_limited"),
        ] {
            let answer = caller.post_a2a(body.clone()).await;
            let shown: String = body.chars().take(100).collect();
            assert_eq!((answer.status, &*answer.symbol()), (status, symbol), "{shown}");
            answer.refused(symbol);
        }
        // The method before its parameters.
        let carol = relay.agent("carol@acme").await;
        carol.post_a2a(no_method).await.refused("method_not_found");
    }
}

mod content_types {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_body_is_json_whatever_it_is_called() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let key = format!("Bearer {}", bob.key);
        for called in [
            None,
            Some("application/json"),
            Some("application/json; charset=utf-8"),
            Some("application/json-rpc"),
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("nonsense"),
        ] {
            let mut headers = vec![("authorization", &*key)];
            headers.extend(called.map(|called| ("content-type", called)));
            let answer = post(&relay, &headers, LIST).await;
            assert_eq!(answer.result()["items"], json!([]), "{called:?}");
            assert_eq!(answer.header("content-type"), "application/json");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn refusals_are_json_too() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for answer in [
            bob.post_a2a("{").await,
            bob.post_a2a("{}").await,
            bob.rpc("tasks/lost", json!({})).await,
            post(&relay, &[], LIST).await,
            bob.post_a2a(" ".repeat((1 << 20) + 1)).await,
        ] {
            assert_eq!(answer.header("content-type"), "application/json");
            let body = answer.json();
            assert_eq!(body["jsonrpc"], "2.0");
            let mut keys: Vec<_> = body.as_object().expect("an object").keys().collect();
            keys.sort();
            assert_eq!(keys, ["error", "id", "jsonrpc"]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_post_is_taken() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            let answer = bob.rest(method, "/a2a").await.refused("invalid_request");
            assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
        }
    }
}

mod request_ids {
    use super::*;

    async fn sent(relay: &TestRelay, bob: &Agent, id: &[u8], body: &'static str) -> Answer {
        let request = relay.http.post(format!("{}/a2a", relay.url)).bearer_auth(&bob.key).body(body);
        let value = reqwest::header::HeaderValue::from_bytes(id).expect("a header's value");
        Answer::of(request.header("x-request-id", value).send().await.expect("an answer")).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_1_to_128_visible_characters_are_kept() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let long = "x".repeat(128);
        for id in ["1", "my-request", "req_01HXY4K2VNJQP7R8MWDB3CSTF", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", &long] {
            assert_eq!(sent(&relay, &bob, id.as_bytes(), LIST).await.header("x-request-id"), id);
            let refused = sent(&relay, &bob, id.as_bytes(), "{").await.refused("parse_error");
            assert_eq!(refused.error()["request_id"], id);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_any_other_kind_are_replaced() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let long = "x".repeat(129);
        let ids: [&[u8]; 7] = [b"", b" ", b"two words", b"tab\there", "é".as_bytes(), b"\xff", long.as_bytes()];
        for id in ids {
            let answer = sent(&relay, &bob, id, "{").await.refused("parse_error");
            is_ours(answer.header("x-request-id"));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn are_made_when_none_was_sent_and_are_in_the_log() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let params = json!({ "recipient": "frank@acme", "message": message("Hello") });
        let first = bob.rpc("message/send", params.clone()).await;
        let second = bob.rpc("message/send", params).await;
        let ids = [first.header("x-request-id"), second.header("x-request-id")];
        is_ours(ids[0]);
        is_ours(ids[1]);
        assert_ne!(ids[0], ids[1]);
        let audit = frank.rest("GET", "/agents/me/audit?limit=2").await.json();
        let logged: Vec<&Value> =
            audit["events"].as_array().expect("events").iter().map(|event| &event["request_id"]).collect();
        assert_eq!(logged, [ids[1], ids[0]]);
    }

    #[track_caller]
    fn is_ours(id: &str) {
        let ulid = id.strip_prefix("req_").unwrap_or_default();
        assert!(
            ulid.len() == 26 && ulid.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
            "{id}"
        );
    }
}

mod keys {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn stand_in_one_authorization_header() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let (key, other) = (&*bob.key, &*frank.key);
        for value in [
            format!("Bearer {key}"),
            format!("bearer {key}"),
            format!("BEARER {key}"),
            format!("Bearer  {key}"),
            format!("Bearer {key}  "),
        ] {
            assert_eq!(post(&relay, &[("authorization", &value)], LIST).await.status, 200, "{value}");
        }
        let random = &key["ah_live_".len()..];
        for value in [
            String::new(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            key.to_owned(),
            format!("Basic {key}"),
            format!("Token {key}"),
            format!("Bearer{key}"),
            format!("Bearer:{key}"),
            format!("Bearer {random}"),
            format!("Bearer \"{key}\""),
            format!("Bearer {key},"),
            format!("Bearer {key}a"),
            format!("Bearer {key} {key}"),
            format!("Bearer {}", &key[..key.len() - 1]),
            format!("Bearer {}", key.to_uppercase()),
            "Bearer ah_live_".to_owned(),
            "Bearer ah_live_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            "Bearer an-admin-token-for-tests".to_owned(),
        ] {
            let answer = post(&relay, &[("authorization", &value)], LIST).await;
            assert_eq!(answer.symbol(), "unauthenticated", "{value}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            assert!(!answer.text.contains(random), "an answer does not repeat a key");
            answer.refused("unauthenticated");
        }
        let (bob, frank) = (format!("Bearer {key}"), format!("Bearer {other}"));
        for pair in [[&bob, &frank], [&bob, &bob], [&bob, &"Basic eDp5".to_owned()]] {
            let headers = pair.map(|value| ("authorization", &**value));
            post(&relay, &headers, LIST).await.refused("unauthenticated");
        }
        let answer = post(&relay, &[], LIST).await.refused("unauthenticated");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stand_nowhere_else() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for name in ["api_key", "key", "token", "access_token", "authorization"] {
            let answer = relay.request("POST", &format!("/a2a?{name}={}", bob.key)).await;
            answer.refused("unauthenticated");
        }
        for header in ["x-api-key", "proxy-authorization", "cookie"] {
            post(&relay, &[(header, &bob.key)], LIST).await.refused("unauthenticated");
        }
        let params = json!({ "api_key": bob.key, "sender": "bob@acme" });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": params, "key": bob.key });
        post(&relay, &[], call.to_string()).await.refused("unauthenticated");
        assert_eq!(bob.rpc("tasks/list", json!({})).await.status, 200);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stop_working_when_they_are_revoked() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        let rotated = bob.rest("POST", "/agents/me/keys/rotate").await.json();
        bob.post_a2a(LIST).await.refused("unauthenticated");
        bob.with_key(rotated["api_key"].as_str().expect("a key")).post_a2a(LIST).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stop_working_when_they_expire() {
        let relay = TestRelay::start().await;
        let end = 1_777_111_200_000;
        relay.clock.set(end - 1_000);
        let new = NewAgent::with_handle(Handle::parse("carol@acme").expect("a handle"));
        let options = KeyOptions { label: None, expires_at: Some(Timestamp::from_ms(end)) };
        let (_, minted) = relay.relay.create_agent(Actor::operator("req_test"), new, options).await.expect("an agent");
        let key = format!("Bearer {}", minted.key.reveal());
        let list = async || post(&relay, &[("authorization", &*key)], LIST).await;
        list().await.result();
        relay.clock.set(end - 1);
        list().await.result();
        relay.clock.set(end);
        assert_eq!(list().await.refused("unauthenticated").header("www-authenticate"), "Bearer");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_a_disabled_agent_are_known_and_forbidden() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        relay.admin("DELETE", &format!("/admin/agents/{}", bob.id), json!({})).await;
        let answer = bob.post_a2a(LIST).await.refused("forbidden");
        assert_eq!((answer.status, answer.header("www-authenticate")), (403, ""));
        echoes(&answer, "1");
    }
}

mod the_rate_limit {
    use super::*;

    #[track_caller]
    fn wait_of(answer: &Answer) -> u64 {
        let seconds = answer.header("retry-after").parse().expect("whole seconds");
        assert!((1..=60).contains(&seconds), "{seconds}");
        seconds
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_sixty_calls_in_sixty_seconds_for_each_agent() {
        let relay = TestRelay::with(settings()).await;
        let (bob, frank) = relay.bob_and_frank().await;
        for number in 0..60 {
            // Whatever becomes of a call, it counts.
            let answer = match number % 4 {
                0 => bob.rpc("tasks/list", json!({})).await,
                1 => bob.rpc("tasks/lost", json!({})).await,
                2 => bob.rpc("tasks/get", json!({})).await,
                _ => bob.rpc("tasks/get", json!({ "task_id": "no-id" })).await,
            };
            assert_ne!(answer.status, 429, "call {number}");
            assert_eq!(answer.header("retry-after"), "");
        }
        let refused = bob.post_a2a(LIST).await.refused("rate_limited");
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!(-32003)));
        wait_of(&refused);
        frank.post_a2a(LIST).await.result();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_by_agent_not_by_key() {
        let relay = TestRelay::with(Settings { rate_limit: 2, ..settings() }).await;
        let bob = relay.agent("bob@acme").await;
        bob.post_a2a(LIST).await.result();
        let rotated = bob.rest("POST", "/agents/me/keys/rotate").await.json();
        let bob = bob.with_key(rotated["api_key"].as_str().expect("a key"));
        bob.post_a2a(LIST).await.result();
        bob.post_a2a(LIST).await.refused("rate_limited");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn does_not_count_what_is_refused_before_it() {
        let relay = one_call_relay().await;
        let bob = relay.agent("bob@acme").await;
        for _ in 0..3 {
            bob.post_a2a("{").await.refused("parse_error");
            bob.post_a2a(r#"{"id":1}"#).await.refused("invalid_request");
            bob.post_a2a("[]").await.refused("invalid_request");
            bob.with_key("wrong").post_a2a(LIST).await.refused("unauthenticated");
            assert_eq!(bob.post_a2a(" ".repeat((1 << 20) + 1)).await.status, 413);
            assert_eq!(bob.rest("GET", "/agents/me").await.status, 200);
        }
        bob.post_a2a(LIST).await.result();
        bob.post_a2a(LIST).await.refused("rate_limited");
        assert_eq!(bob.rest("GET", "/agents/me").await.status, 200, "REST is no message surface");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn does_not_count_a_refused_call() {
        let relay = one_call_relay().await;
        let bob = relay.agent("bob@acme").await;
        bob.post_a2a(LIST).await.result();
        let mut wait = 60;
        for _ in 0..20 {
            let now = wait_of(&bob.post_a2a(LIST).await.refused("rate_limited"));
            assert!(now <= wait, "trying again does not make the wait longer");
            wait = now;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_off_at_zero() {
        let relay = TestRelay::start().await;
        let bob = relay.agent("bob@acme").await;
        for _ in 0..100 {
            bob.post_a2a(LIST).await.result();
        }
    }
}
