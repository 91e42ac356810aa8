//! What the operator does from afar, with the admin token.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::api::App;
use crate::api::document::Body;
use crate::api::rest::keys::MintedBody;
use crate::api::rest::{AdminRequest, read};
use crate::api::url_text::UrlText;
use crate::domain::agent::{EMAIL_MAX, NAME_MAX, NewAgent};
use crate::domain::id::AgentId;
use crate::domain::key::KeyOptions;
use crate::error::{Error, Result, Symbol};
use crate::relay::agents::AgentName;

pub(in crate::api) async fn create(State(app): State<App>, request: AdminRequest, body: Body) -> Response {
    let actor = request.context.operator();
    let answer = async {
        let agent = read(body, |document, issues| {
            let mut text =
                |key: &str, length_max: usize| Some(document.optional(key)?.name(length_max, issues)?.into_owned());
            let (email, name, role) =
                (text("email", EMAIL_MAX), text("display_name", NAME_MAX), text("role", NAME_MAX));
            let handle = document.required("handle", issues)?.handle(issues)?;
            Some(NewAgent { handle, name, email, role })
        })?;
        let (agent, minted) = app.relay.create_agent(actor, agent, KeyOptions::default()).await?;
        let body = json!({
            "agent_id": agent.id,
            "handle": agent.handle,
            "api_key": minted.key.reveal(),
            "key_id": minted.id,
        });
        Ok((StatusCode::CREATED, Json(body)))
    };
    request.context.answer(answer).await
}

pub(in crate::api) async fn rotate(State(app): State<App>, request: AdminRequest, id: UrlText) -> Response {
    let actor = request.context.operator();
    let answer = async {
        let rotated = app.relay.rotate_keys(actor, agent_id(id)?, KeyOptions::default()).await?;
        Ok(Json(MintedBody::from(rotated)))
    };
    request.context.answer(answer).await
}

pub(in crate::api) async fn disable(State(app): State<App>, request: AdminRequest, id: UrlText) -> Response {
    let actor = request.context.operator();
    let answer = async {
        app.relay.disable_agent(actor, agent_id(id)?).await?;
        Ok(StatusCode::NO_CONTENT)
    };
    request.context.answer(answer).await
}

fn agent_id(UrlText(id): UrlText) -> Result<AgentName> {
    let id = id
        .and_then(|id| AgentId::parse(&id))
        .ok_or_else(|| Error::new(Symbol::RecipientNotFound, "No agent has this id"))?;
    Ok(AgentName::Id(id))
}
