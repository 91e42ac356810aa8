//! Whom the caller has blocked.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

use crate::api::App;
use crate::api::document::Body;
use crate::api::rest::{AgentRequest, read};
use crate::api::url_text::UrlText;
use crate::domain::agent::{DESCRIPTION_MAX, Handle};
use crate::domain::time::Timestamp;
use crate::error::Symbol;
use crate::relay::agents::AgentName;
use crate::relay::blocks::Block;

#[derive(Serialize)]
struct BlockBody<'a> {
    handle: &'a Handle,
    name: &'a str,
    role: Option<&'a str>,
    reason: Option<&'a str>,
    blocked_at: Timestamp,
}

impl<'a> From<&'a Block> for BlockBody<'a> {
    fn from(block: &'a Block) -> BlockBody<'a> {
        BlockBody {
            handle: &block.handle,
            name: &block.name,
            role: block.role.as_deref(),
            reason: block.reason.as_deref(),
            blocked_at: block.blocked_at,
        }
    }
}

pub(in crate::api) async fn list(State(app): State<App>, request: AgentRequest) -> Response {
    let answer = async {
        let blocks = app.relay.blocks(AgentName::Id(request.caller.id())).await?;
        let blocks: Vec<BlockBody<'_>> = blocks.iter().map(BlockBody::from).collect();
        Ok(Json(json!({ "blocked": blocks })))
    };
    request.context.answer(answer).await
}

pub(in crate::api) async fn add(State(app): State<App>, request: AgentRequest, body: Body) -> Response {
    let answer = async {
        let (handle, reason) = read(body, |document, issues| {
            let reason = document.optional("reason").and_then(|value| value.name(DESCRIPTION_MAX, issues));
            let handle = document.required("handle", issues)?.handle(issues)?;
            Some((handle, reason.map(std::borrow::Cow::into_owned)))
        })?;
        let (actor, caller) = (request.caller.actor(), AgentName::Id(request.caller.id()));
        let blocked = app.relay.block(actor, caller, AgentName::Handle(handle), reason).await?;
        Ok((StatusCode::CREATED, Json(json!({ "ok": true, "blocked_handle": blocked.handle }))))
    };
    request.context.answer(answer).await
}

/// There is no block afterwards: with whatever handle, that is what the caller asked for.
pub(in crate::api) async fn remove(State(app): State<App>, request: AgentRequest, handle: UrlText) -> Response {
    let answer = async {
        if let Some(handle) = handle.0.and_then(|handle| Handle::parse(&handle).ok()) {
            let (actor, caller) = (request.caller.actor(), AgentName::Id(request.caller.id()));
            match app.relay.unblock(actor, caller, AgentName::Handle(handle)).await {
                Err(error) if error.symbol() != Symbol::RecipientNotFound => return Err(error),
                _ => {}
            }
        }
        Ok(StatusCode::NO_CONTENT)
    };
    request.context.answer(answer).await
}
