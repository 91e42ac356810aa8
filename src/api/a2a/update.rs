//! Updates: what a webhook is told of a change, as A2A's `StreamResponse`.

use serde_json::json;

use crate::domain::change::ThreadChange;
use crate::domain::thread::Thread;
use crate::domain::transition::State;

/// The JSON bodies that tell of a change, in order.
pub(in crate::api) fn bodies(thread: &Thread, context_id: Option<&str>, change: &ThreadChange) -> Vec<Vec<u8>> {
    let task_id = thread.id.to_string();
    let context_id = context_id.unwrap_or(&task_id);
    let status = json!({ "state": task_state(change.state), "timestamp": change.at });
    let update = json!({ "statusUpdate": { "taskId": task_id, "contextId": context_id, "status": status } });
    vec![update.to_string().into_bytes()]
}

fn task_state(state: State) -> &'static str {
    match state {
        State::Pending => "TASK_STATE_SUBMITTED",
        State::Accepted => "TASK_STATE_WORKING",
        State::InputRequired => "TASK_STATE_INPUT_REQUIRED",
        State::Completed => "TASK_STATE_COMPLETED",
        State::Failed => "TASK_STATE_FAILED",
        State::Rejected => "TASK_STATE_REJECTED",
        State::Cancelled => "TASK_STATE_CANCELED",
    }
}
