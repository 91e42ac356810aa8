//! Sending messages: new tasks, follow-ups, waiting for the agent or not.

use serde_json::json;

use crate::support::TestRelay;
use crate::support::a2a::{Door, hand};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_task_is_submitted_with_its_message_as_its_history() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    for door in Door::ALL {
        let sent = bob.at(door, &frank).send(hand("Review the parser")).await.expect("sent");
        let task = &sent["task"];
        let (id, context) = (&task["id"], &task["contextId"]);
        assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED", "{door:?}");
        assert!(task["status"].get("message").is_none() && task.get("artifacts").is_none(), "{door:?} {task}");
        let message = json!({
            "messageId": "message of Review the parser",
            "contextId": context,
            "taskId": id,
            "role": "ROLE_USER",
            "parts": [{ "text": "Review the parser" }],
        });
        assert_eq!(task["history"], json!([message]), "{door:?}");
        let read = bob.at(door, &frank).get(json!({ "id": id })).await.expect("read");
        assert_eq!(read, *task, "{door:?}");
    }
}
