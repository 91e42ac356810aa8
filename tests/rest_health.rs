//! `GET /healthz` and `GET /readyz`.

use serde_json::json;

use crate::support::{Answer, TestRelay};
use crate::wire::{masked, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_works_says_so_to_anyone() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    for (path, status) in [("/healthz", "ok"), ("/readyz", "ready")] {
        let nobody = relay.request("GET", path).await;
        assert_eq!((nobody.status, nobody.header("content-type")), (200, "application/json"));
        assert_eq!(nobody.json(), json!({"status": status}));
        assert!(nobody.header("x-request-id").starts_with("req_"));
        for caller in [bob.clone(), bob.with_key("no key"), bob.with_key(crate::support::ADMIN_TOKEN)] {
            let answer = caller.rest("GET", path).await;
            assert_eq!((answer.status, answer.json()), (200, json!({"status": status})));
        }
        assert_eq!(relay.request("GET", &format!("{path}?verbose=1")).await.json(), json!({"status": status}));
        let head = relay.request("HEAD", path).await;
        assert_eq!((head.status, &*head.text), (200, ""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_has_written_to_the_file() {
    let relay = TestRelay::start().await;
    let checked_at =
        || -> i64 { relay.sqlite().query_row("SELECT checked_at FROM relay", [], |row| row.get(0)).expect("a moment") };
    for ms in [1_777_284_000_000, 1_777_284_000_001] {
        relay.clock.set(ms);
        relay.request("GET", "/healthz").await;
        assert_ne!(checked_at(), ms, "liveness leaves the file alone");
        relay.request("GET", "/readyz").await;
        assert_eq!(checked_at(), ms);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_used_is_503_until_it_can_be_used_again() {
    let relay = TestRelay::start().await;
    for round in 0..2 {
        relay.sqlite().execute_batch("ALTER TABLE relay RENAME TO elsewhere").expect("renamed");
        let refused = relay.request("GET", "/readyz").await.refused("internal");
        assert_eq!((refused.status, refused.header("content-type")), (503, "application/json"), "{round}");
        assert_eq!(
            masked(&refused.json()),
            json!({
                "code": "internal",
                "message": "The data file cannot be read and written now; see the relay's log",
                "request_id": "REQUEST",
                "details": {},
            })
        );
        assert_eq!(relay.request("GET", "/healthz").await.json(), json!({"status": "ok"}), "the process lives");
        relay.sqlite().execute_batch("ALTER TABLE elsewhere RENAME TO relay").expect("renamed back");
        assert_eq!(relay.request("GET", "/readyz").await.json(), json!({"status": "ready"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_that_writes_delays_readiness_and_nothing_that_only_reads() {
    let relay = TestRelay::start().await;
    let (bob, _) = relay.bob_and_frank().await;
    let other = relay.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let ready = tokio::spawn({
        let request = relay.http.get(format!("{}/readyz", relay.url));
        async move { Answer::of(request.send().await.expect("an answer")).await }
    });
    for _ in 0..20 {
        assert_eq!(soon(relay.request("GET", "/healthz")).await.status, 200);
        assert_eq!(soon(bob.rest("GET", "/agents/me")).await.status, 200);
        assert_eq!(soon(bob.rpc("tasks/list", json!({}))).await.status, 200);
    }
    assert!(!ready.is_finished(), "it cannot have written");
    other.execute_batch("COMMIT").expect("released");
    let ready = soon(ready).await.expect("no panic");
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "ready"})));
}
