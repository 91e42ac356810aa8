//! The caller's keys.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use crate::api::App;
use crate::api::rest::AgentRequest;
use crate::domain::agent::Agent;
use crate::domain::id::{AgentId, KeyId};
use crate::domain::key::MintedKey;

/// A key just minted. Nothing but this answer ever holds it.
#[derive(Serialize)]
pub(super) struct MintedBody {
    agent_id: AgentId,
    api_key: String,
    key_id: KeyId,
}

impl From<(Agent, MintedKey)> for MintedBody {
    fn from((agent, minted): (Agent, MintedKey)) -> MintedBody {
        MintedBody { agent_id: agent.id, api_key: minted.key.reveal().to_owned(), key_id: minted.id }
    }
}

pub(in crate::api) async fn rotate(State(app): State<App>, request: AgentRequest) -> Response {
    let answer = async { Ok(Json(MintedBody::from(app.relay.rotate_own_keys(&request.caller).await?))) };
    request.context.answer(answer).await
}
