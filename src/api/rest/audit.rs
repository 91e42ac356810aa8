//! The caller's audit trail.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::App;
use crate::api::rest::AgentRequest;
use crate::api::rest::query::Query;
use crate::domain::event::{Event, EventKind};
use crate::domain::json::{Issues, Path};
use crate::domain::message::empty_object;
use crate::domain::time::Timestamp;
use crate::relay::events::Audit;

/// Most events on a page.
const LIMIT_MAX: u16 = 1000;

#[derive(Serialize)]
struct AuditBody<'a> {
    events: Vec<EventBody<'a>>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct EventBody<'a> {
    timestamp: Timestamp,
    actor_handle: &'a str,
    action: &'static str,
    resource_type: &'static str,
    resource_id: &'a str,
    request_id: &'a str,
    metadata: &'a RawValue,
}

impl<'a> EventBody<'a> {
    fn of(event: &'a Event, empty: &'a RawValue) -> EventBody<'a> {
        EventBody {
            timestamp: event.at,
            actor_handle: event.actor.as_ref().map_or("operator", |actor| actor.as_str()),
            action: event.kind.name(),
            resource_type: event.kind.resource_type(),
            resource_id: &event.resource_id,
            request_id: &event.request_id,
            metadata: event.detail.as_deref().unwrap_or(empty),
        }
    }
}

pub(in crate::api) async fn list(State(app): State<App>, query: Query, request: AgentRequest) -> Response {
    let answer = async {
        let mut issues = Issues::default();
        let action = query.text("action", &mut issues);
        let kind = action.as_deref().and_then(EventKind::from_name);
        if action.is_some() && kind.is_none() {
            let names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
            let message = format!("an action is one of {}", names.join(", "));
            issues.add(Path::root().key("action"), "invalid_value", message);
        }
        let audit = Audit { kind, since: query.moment("since", &mut issues) };
        let (limit, cursor) = (query.limit(LIMIT_MAX, &mut issues), query.text("cursor", &mut issues));
        issues.finish()?;
        let page = app.relay.own_audit(&request.caller, audit, limit, cursor.as_deref()).await?;
        let empty = empty_object();
        let events = page.items.iter().map(|event| EventBody::of(event, &empty)).collect();
        Ok(Json(AuditBody { events, next_cursor: page.next_cursor }).into_response())
    };
    request.context.answer(answer).await
}
