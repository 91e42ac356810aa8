//! A handoff from beginning to end, as the protocol's own examples tell it.

use serde_json::json;

use crate::support::TestRelay;

#[tokio::test(flavor = "multi_thread")]
async fn bob_hands_a_change_to_frank_who_completes_it() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;

    let sent = bob
        .rpc(
            "message/send",
            json!({
                "task_id": null,
                "recipient": "frank@acme",
                "intent": "inform",
                "message": {"role": "user", "parts": [{"type": "text", "text": "Refactored /users API."}]},
                "artifacts": [{"type": "file_diff", "path": "src/api/users.py", "diff": "@@ -1,5 +1,8 @@\n..."}],
                "proposed_action": null,
                "metadata": {"client_idempotency_key": "550e8400-e29b-41d4-a716-446655440000", "ticket": 42}
            }),
        )
        .await
        .result();
    assert_eq!(sent["status"], json!({"state": "pending"}));
    let task = sent["task_id"].as_str().expect("a task id");

    let inbox = frank.inbox().await;
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0]["summary_preview"], "Refactored /users API.");
    assert_eq!(inbox[0]["sender"], json!({"handle": "bob@acme", "name": "bob", "role": null}));

    let accepted = frank.step_with(task, "accept", json!({"session_id": "claude-1234"})).await.result();
    assert_eq!(accepted["status"], json!({"state": "accepted"}));
    assert_eq!(bob.say(task, "What about /search?").await.result()["sequence_no"], 2);
    assert_eq!(frank.inbox().await[0]["unread_messages"], 1);
    let thread = frank.get(task).await;
    assert_eq!(thread["messages"][1]["body"], "What about /search?");
    assert_eq!(thread["metadata"], json!({"ticket": 42}));
    assert_eq!(frank.inbox().await[0]["unread_messages"], 0);

    let completed = frank.step_with(task, "complete", json!({"result_summary": "All tests pass."})).await.result();
    assert_eq!(completed["status"], json!({"state": "completed"}));
    let thread = bob.get(task).await;
    assert_eq!(thread["completed_summary"], "All tests pass.");
    assert_eq!(thread["artifacts"][0]["path"], "src/api/users.py");
    assert_eq!(thread["metadata"]["client_idempotency_key"], "550e8400-e29b-41d4-a716-446655440000");
    bob.say(task, "Thanks!").await.refused("thread_terminal");
}
