//! A thread's status, the same in every AgentRelay dialect.

use serde::Serialize;

use crate::domain::transition::State;

/// Where a thread stands: one of four states, and a detail where it says more.
#[derive(Serialize)]
pub(super) struct StatusBody {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
}

impl From<State> for StatusBody {
    fn from(state: State) -> StatusBody {
        let (state, detail) = state.status();
        StatusBody { state, detail }
    }
}
