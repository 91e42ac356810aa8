//! Agents: the list of teammates, and the caller's own record.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use crate::api::App;
use crate::api::document::Body;
use crate::api::rest::query::Query;
use crate::api::rest::{AgentRequest, read};
use crate::api::teammates::TeammatesBody;
use crate::domain::agent::{AgentFilter, CardChange, Handle};
use crate::domain::id::AgentId;
use crate::domain::json::{Issues, Path};
use crate::domain::page::Limit;

pub(in crate::api) async fn list(State(app): State<App>, query: Query, request: AgentRequest) -> Response {
    let answer = async {
        let mut issues = Issues::default();
        let filter = AgentFilter {
            role: query.text("role", &mut issues),
            skill: query.text("skill", &mut issues),
            repo: query.text("repo", &mut issues),
        };
        let (limit, cursor) = (query.limit(Limit::MAX, &mut issues), query.text("cursor", &mut issues));
        issues.finish()?;
        let page = app.relay.agents(filter, false, limit, cursor.as_deref(), Path::root().key("cursor")).await?;
        Ok(Json(TeammatesBody::new(&page, &app.public_url)).into_response())
    };
    request.context.answer(answer).await
}

#[derive(Serialize)]
struct OwnBody<'a> {
    id: AgentId,
    handle: &'a Handle,
    name: &'a str,
    email: Option<&'a str>,
    role: Option<&'a str>,
    status: &'static str,
    description: Option<&'a str>,
    skills: &'a [String],
    repos_owned: &'a [String],
}

pub(in crate::api) async fn me(State(app): State<App>, request: AgentRequest) -> Response {
    let answer = async {
        let agent = app.relay.own_agent(&request.caller).await?;
        let body = OwnBody {
            id: agent.id,
            handle: &agent.handle,
            name: &agent.name,
            email: agent.email.as_deref(),
            role: agent.role.as_deref(),
            status: agent.status(),
            description: agent.description.as_deref(),
            skills: &agent.skills,
            repos_owned: &agent.repos_owned,
        };
        Ok(Json(body).into_response())
    };
    request.context.answer(answer).await
}

pub(in crate::api) async fn change_card(State(app): State<App>, request: AgentRequest, body: Body) -> Response {
    let answer = async {
        let change = read(body, |document, issues| Some(CardChange::read(document, issues)))?;
        app.relay.change_card(&request.caller, change).await?;
        Ok(Json(json!({ "ok": true })))
    };
    request.context.answer(answer).await
}
