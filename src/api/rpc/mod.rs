//! The AgentRelay protocol: JSON-RPC 2.0 at `POST /a2a`. One file per method; this one frames them.
//!
//! Refusals come in this order: too large, no or bad key, malformed JSON, envelope, rate limit, method, params.

mod agents_list;
mod message_send;
mod tasks_cancel;
mod tasks_get;
mod tasks_list;
mod tasks_update;
mod wire;

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Extension;
use axum::body::Body as ResponseBody;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::document::{Body, parse};
use crate::api::envelope::{Call, begin_result, null, readable_id};
use crate::api::request::{RequestId, log_source};
use crate::api::{App, caller};
use crate::domain::json::Document;
use crate::error::{Error, Result, Symbol};
use crate::relay::Caller;

/// Most calls in one batch.
const BATCH_MAX: usize = 50;

pub(super) async fn serve(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let bytes = match body.bytes() {
        Ok(bytes) => bytes,
        Err(error) => return Answer::failed(None, error).into_response(&request_id),
    };
    let caller = match caller::authenticate(&app.relay, &headers, &request_id) {
        Ok(caller) => caller,
        Err(error) => return Answer::failed(readable_id(&bytes), error).into_response(&request_id),
    };
    let document = match parse(&bytes) {
        Ok(document) => document,
        Err(error) => return Answer::failed(None, error).into_response(&request_id),
    };
    if !document.get().starts_with('[') {
        return match answer(&app, &caller, document).await {
            Some(answer) => answer.into_response(&request_id),
            None => StatusCode::NO_CONTENT.into_response(),
        };
    }
    let calls: Vec<&RawValue> = serde_json::from_str(document.get()).unwrap_or_default();
    if calls.is_empty() || calls.len() > BATCH_MAX {
        let message = format!("A batch holds 1 to {BATCH_MAX} calls, this one {}", calls.len());
        return Answer::failed(None, Error::new(Symbol::InvalidRequest, message)).into_response(&request_id);
    }
    // One after the other: a call may build on what the one before it did.
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        answers.extend(answer(&app, &caller, call).await);
    }
    batch_response(&answers, &request_id)
}

/// The answer to a request that did not get as far as its handler.
pub(super) fn refusal(error: &Error, request_id: &str) -> Response {
    let mut body = Vec::new();
    write_error(&mut body, &null(), error, request_id);
    single(body, Some(error))
}

/// What a call came to, with the id that it came with.
struct Answer {
    id: Document,
    outcome: Result<Text>,
}

/// A method's result, as JSON. It is written once, and copied into its answer.
type Text = Vec<u8>;

/// Room for most results, so that writing one does not move it.
const TEXT_BYTES: usize = 4096;

impl Answer {
    fn failed(id: Option<&RawValue>, error: Error) -> Answer {
        Answer { id: id.map_or_else(null, ToOwned::to_owned), outcome: Err(error) }
    }

    fn into_response(self, request_id: &str) -> Response {
        if let Err(error) = &self.outcome {
            log_source(error, request_id);
        }
        let mut body = Vec::new();
        self.write(&mut body, request_id);
        single(body, self.outcome.as_ref().err())
    }

    fn write(&self, body: &mut Vec<u8>, request_id: &str) {
        match &self.outcome {
            Ok(result) => {
                body.reserve(result.len() + self.id.get().len() + 64);
                begin_result(body, &self.id);
                body.extend_from_slice(result);
                body.push(b'}');
            }
            Err(error) => write_error(body, &self.id, error, request_id),
        }
    }
}

/// Executes one call. `None` for a notification: it is executed and not answered, unless it could not even be counted.
async fn answer(app: &App, caller: &Caller, document: &RawValue) -> Option<Answer> {
    let call = match Call::read(document) {
        Ok(call) => call,
        Err((id, error)) => return Some(Answer::failed(id, error)),
    };
    if let Err(error) = app.rate_limit.count(caller.row(), Instant::now()) {
        return Some(Answer::failed(call.id, error));
    }
    // A panic in one call must not take the answers of its batch along.
    let dispatched = AssertUnwindSafe(dispatch(app, caller, &call)).catch_unwind().await;
    let outcome = dispatched.unwrap_or_else(|_| Err(Error::internal("a method panicked")));
    let Some(id) = call.id else {
        if let Err(error) = &outcome {
            // Only the symbol: a message may repeat what the caller sent.
            tracing::debug!(
                request_id = caller.request_id(),
                symbol = error.symbol().name(),
                "a notification was refused"
            );
            log_source(error, caller.request_id());
        }
        return None;
    };
    Some(Answer { id: id.to_owned(), outcome })
}

async fn dispatch(app: &App, caller: &Caller, call: &Call<'_>) -> Result<Text> {
    let relay = &app.relay;
    let params = || call.params();
    match call.method.as_str() {
        "message/send" => message_send::serve(relay, caller, params()?).await,
        // Nobody hears the answer of a notification: nothing was read.
        "tasks/get" if call.id.is_none() => Ok(Text::new()),
        "tasks/get" => tasks_get::serve(relay, caller, params()?).await,
        "tasks/list" => tasks_list::serve(relay, caller, params()?).await,
        "tasks/update" => tasks_update::serve(relay, caller, params()?).await,
        "tasks/cancel" => tasks_cancel::serve(relay, caller, params()?).await,
        "agents/list" => agents_list::serve(app, params()?).await,
        _ => Err(Error::new(
            Symbol::MethodNotFound,
            "No such method; there are message/send, tasks/get, tasks/list, tasks/update, tasks/cancel and agents/list",
        )),
    }
}

fn result(body: &impl Serialize) -> Result<Text> {
    let mut text = Text::with_capacity(TEXT_BYTES);
    serde_json::to_writer(&mut text, body).map_err(Error::internal)?;
    Ok(text)
}

#[derive(Serialize)]
struct ErrorEnvelope<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: i32,
    message: &'a str,
    data: ErrorData<'a>,
}

#[derive(Serialize)]
struct ErrorData<'a> {
    code: &'static str,
    request_id: &'a str,
    details: &'a serde_json::Map<String, serde_json::Value>,
}

fn write_error(body: &mut Vec<u8>, id: &RawValue, error: &Error, request_id: &str) {
    let data = ErrorData { code: error.symbol().name(), request_id, details: error.details() };
    let error = ErrorBody { code: error.symbol().row().rpc_code, message: error.message(), data };
    let written = serde_json::to_writer(body, &ErrorEnvelope { jsonrpc: "2.0", id, error });
    debug_assert!(written.is_ok(), "an error is always JSON");
}

/// The HTTP answer to a single call: its status is the table's.
fn single(body: Vec<u8>, error: Option<&Error>) -> Response {
    let mut response = json(body);
    if let Some(error) = error {
        *response.status_mut() = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if error.symbol() == Symbol::Unauthenticated {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        retry_after(&mut response, error.retry_after_s());
    }
    response
}

/// The HTTP answer to a batch: 200, whatever its calls came to; 204 when all were notifications.
fn batch_response(answers: &[Answer], request_id: &str) -> Response {
    if answers.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    let failures = || answers.iter().filter_map(|answer| answer.outcome.as_ref().err());
    failures().for_each(|error| log_source(error, request_id));
    let mut body = Vec::new();
    for answer in answers {
        body.push(if body.is_empty() { b'[' } else { b',' });
        answer.write(&mut body, request_id);
    }
    body.push(b']');
    let mut response = json(body);
    retry_after(&mut response, failures().filter_map(Error::retry_after_s).max());
    response
}

fn json(body: Vec<u8>) -> Response {
    let mut response = Response::new(ResponseBody::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn retry_after(response: &mut Response, seconds: Option<u64>) {
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}
