//! The JSON-RPC binding (A2A v1.0.1, section 9), at `POST /a2a/{handle}`.
//!
//! An error is an answer, with HTTP status 200, unless HTTP itself has something to say. Refusals come in this order: too
//! large, no or bad key, content type, malformed JSON, envelope, rate limit, version, method, params.

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::a2a::error::Failure;
use crate::api::a2a::stream::Resume;
use crate::api::a2a::wire::StreamResponse;
use crate::api::a2a::{Door, Operation, Outcome, Result, admit, http_json, no_agent, sse, version};
use crate::api::document::{Body, parse};
use crate::api::envelope::{Call, begin_result, null, readable_id};
use crate::api::request::{RequestId, log_source};
use crate::api::url_text::UrlText;
use crate::api::{App, caller};
use crate::domain::agent::Handle;
use crate::domain::json::Document;
use crate::error::{Error, Symbol};

pub(in crate::api) async fn serve(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    UrlText(handle): UrlText,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut id = null();
    let answered = async {
        let bytes = body.bytes()?;
        let authenticated = caller::authenticate(&app.relay, &headers, &request_id);
        if authenticated.is_err() {
            id = readable_id(&bytes).map_or_else(null, ToOwned::to_owned);
        }
        let caller = authenticated?;
        http_json::check_content_type(&headers)?;
        let document = parse(&bytes)?;
        let call = match Call::read(document) {
            Ok(call) => call,
            Err((read, error)) => {
                id = read.map_or_else(null, ToOwned::to_owned);
                return Err(error.into());
            }
        };
        let Some(call_id) = call.id else {
            let message = "An A2A call has an id: each is answered";
            return Err(Error::new(Symbol::InvalidRequest, message).into());
        };
        id = call_id.to_owned();
        let handle = handle.unwrap_or_default();
        let agent = Handle::parse(&handle).map_err(|_| no_agent(&handle));
        let extension = admit(&app, &caller, &headers, query.as_deref())?;
        let operation = Operation::from_name(&call.method).ok_or_else(unknown_method)?;
        let door = Door { app: app.clone(), caller, agent: agent?, extension };
        let resume = headers.get("last-event-id").and_then(|id| Resume::from_id(id.to_str().ok()?));
        let params = call.params()?;
        let outcome = door.perform(operation, &params, resume).await?;
        Ok((outcome, extension))
    }
    .await;
    match answered {
        Ok((outcome, extension)) => {
            let mut response = respond(outcome, &id, &request_id);
            if extension {
                response.headers_mut().insert(version::EXTENSIONS, version::active_extension());
            }
            response
        }
        Err(failure) => refused(&failure, &id, &request_id),
    }
}

fn unknown_method() -> Error {
    let names: Vec<&str> = Operation::ALL.iter().map(|operation| operation.name()).collect();
    Error::new(Symbol::MethodNotFound, format!("No such method; A2A 1.0 has {}", names.join(", ")))
}

/// The answer to a request that did not get as far as its handler.
pub(in crate::api) fn refusal(error: Error, request_id: &str) -> Response {
    refused(&error.into(), &null(), request_id)
}

fn respond(outcome: Outcome, id: &RawValue, request_id: &str) -> Response {
    let written = match outcome {
        Outcome::Sent(sent) => result(&sent, id),
        Outcome::Task(task) => result(&task, id),
        Outcome::Tasks(tasks) => result(&tasks, id),
        Outcome::Config(config) => result(&config, id),
        Outcome::Configs(configs) => result(&configs, id),
        Outcome::Deleted => result(&serde_json::json!({}), id),
        Outcome::Card(card) => result(&card, id),
        Outcome::Stream(stream) => return sse::respond(*stream, Frame { id: id.to_owned() }),
    };
    match written {
        Ok(body) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response(),
        Err(failure) => refused(&failure, id, request_id),
    }
}

/// Room for most answers, so that writing one does not move it.
const TEXT_BYTES: usize = 2048;

fn result(result: &impl Serialize, id: &RawValue) -> Result<Vec<u8>> {
    let mut body = Vec::with_capacity(TEXT_BYTES);
    begin_result(&mut body, id);
    serde_json::to_writer(&mut body, result).map_err(Error::internal)?;
    body.push(b'}');
    Ok(body)
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
    data: Vec<Value>,
}

fn error_envelope<'a>(failure: &'a Failure, id: &'a RawValue) -> ErrorEnvelope<'a> {
    let error = ErrorBody { code: failure.rpc_code(), message: failure.message(), data: failure.details() };
    ErrorEnvelope { jsonrpc: "2.0", id, error }
}

fn refused(failure: &Failure, id: &RawValue, request_id: &str) -> Response {
    if let Some(error) = failure.source() {
        log_source(error, request_id);
    }
    let mut response = axum::Json(error_envelope(failure, id)).into_response();
    *response.status_mut() =
        StatusCode::from_u16(failure.rpc_http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    http_json::add_hints(&mut response, failure);
    response
}

/// Each element of a stream is an answer of its own to the one call.
struct Frame {
    id: Document,
}

impl sse::Frame for Frame {
    fn response(&self, response: &StreamResponse) -> String {
        let body = result(response, &self.id).unwrap_or_default();
        String::from_utf8(body).unwrap_or_default()
    }

    fn cut(&self, failure: &Failure) -> String {
        serde_json::to_string(&error_envelope(failure, &self.id)).unwrap_or_default()
    }
}
