//! REST: plain JSON, with errors as one flat object.

pub(super) mod health;
pub(super) mod agents;
pub(super) mod keys;
pub(super) mod blocks;
pub(super) mod audit;
pub(super) mod events;
pub(super) mod admin;
mod query;

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api::document::{Body, parse};
use crate::api::request::{RequestId, log_source};
use crate::api::{App, admin_token, caller};
use crate::domain::json::{Issues, Object, Value};
use crate::error::{Error, Result, Symbol};
use crate::relay::{Actor, Caller};

/// An error on its way out, with the id of its request.
pub(super) struct Refusal {
    error: Error,
    request_id: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        log_source(&self.error, &self.request_id);
        refusal(&self.error, &self.request_id)
    }
}

/// The flat error envelope.
pub(super) fn refusal(error: &Error, request_id: &str) -> Response {
    #[derive(Serialize)]
    struct Envelope<'a> {
        code: &'static str,
        message: &'a str,
        request_id: &'a str,
        details: &'a serde_json::Map<String, serde_json::Value>,
    }
    let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = error.symbol().name();
    let envelope = Envelope { code, message: error.message(), request_id, details: error.details() };
    let mut response = (status, axum::Json(envelope)).into_response();
    if error.symbol() == Symbol::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = error.retry_after_s() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A request of an agent: who it is, and the means to refuse it.
pub(super) struct AgentRequest {
    caller: Caller,
    context: Context,
}

/// A request of the operator.
pub(super) struct AdminRequest {
    context: Context,
}

/// Knows the id of the request, which every error carries.
pub(super) struct Context {
    request_id: String,
}

impl Context {
    /// Whoever acts here is the operator.
    fn operator(&self) -> Actor {
        Actor::operator(self.request_id.clone())
    }

    /// Answers what `work` comes to.
    async fn answer<T: IntoResponse>(self, work: impl Future<Output = Result<T>>) -> Response {
        match work.await {
            Ok(response) => response.into_response(),
            Err(error) => Refusal { error, request_id: self.request_id }.into_response(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Context {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Context, Infallible> {
        let id = parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone());
        Ok(Context { request_id: id.unwrap_or_default() })
    }
}

impl FromRequestParts<App> for AgentRequest {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<AgentRequest, Refusal> {
        let Ok(context) = Context::from_request_parts(parts, app).await;
        match caller::authenticate(&app.relay, &parts.headers, &context.request_id) {
            Ok(caller) => Ok(AgentRequest { caller, context }),
            Err(error) => Err(Refusal { error, request_id: context.request_id }),
        }
    }
}

impl FromRequestParts<App> for AdminRequest {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<AdminRequest, Refusal> {
        let Ok(context) = Context::from_request_parts(parts, app).await;
        match admin_token::authorize(app.admin_token.as_ref(), &parts.headers) {
            Ok(()) => Ok(AdminRequest { context }),
            Err(error) => Err(Refusal { error, request_id: context.request_id }),
        }
    }
}

/// Reads the object in a body.
fn read<T>(body: Body, read: impl FnOnce(&Object<'_>, &mut Issues) -> Option<T>) -> Result<T> {
    let bytes = body.bytes()?;
    let mut issues = Issues::default();
    let document = Value::root(parse(&bytes)?).object(&mut issues);
    let value = document.and_then(|document| read(&document, &mut issues));
    issues.take(value)
}
