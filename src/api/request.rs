//! What runs around every request: its id, its log line, the net under panics, and the host check.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Extension;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::HeaderValue;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;

use crate::api::{App, a2a, rest, rpc};
use crate::domain::id::random_ulid;
use crate::error::{Error, Symbol};

const HEADER: &str = "x-request-id";
/// Longest request id that is taken over from a client.
const LENGTH_MAX: usize = 128;

/// The id of a request: the client's, when it sent a usable one, or ours.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) String);

pub(super) async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(&app, &request);
    let method = request.method().clone();
    let dialect = Dialect::of(&method, request.uri().path());
    // The log has the route and not the path, which is what the client wrote: a key in the wrong place, say.
    let route = request.extensions().get::<MatchedPath>().map_or("-".into(), |route| route.as_str().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));
    request.extensions_mut().insert(dialect);

    let answered = match app.hosts.check(&request) {
        Ok(()) => {
            let handled = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            handled.map_err(|_| Error::internal("a handler panicked"))
        }
        Err(error) => Err(error),
    };
    let mut response = answered.unwrap_or_else(|error| {
        log_source(&error, &id);
        dialect.refusal(error, &id)
    });

    let status = response.status().as_u16();
    let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if status >= 500 {
        tracing::error!(request_id = id, %method, route, status, ms, "request");
    } else {
        tracing::info!(request_id = id, %method, route, status, ms, "request");
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Where no route leads.
pub(super) async fn unknown_route(
    Extension(RequestId(request_id)): Extension<RequestId>,
    Extension(dialect): Extension<Dialect>,
    uri: Uri,
) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    let message = format!("There is nothing at {path}; docs/protocol.md lists every route");
    dialect.refusal(Error::new(Symbol::MethodNotFound, message), &request_id)
}

/// A route that does not take this method. The router adds the `Allow` header.
pub(super) async fn wrong_method(
    Extension(RequestId(request_id)): Extension<RequestId>,
    Extension(dialect): Extension<Dialect>,
    method: Method,
    uri: Uri,
) -> Response {
    dialect.refusal(Error::method_not_allowed(method.as_str(), uri.path()), &request_id)
}

/// The protocol that is called: a refusal has its shape, also where no handler was reached.
#[derive(Clone, Copy)]
pub(super) enum Dialect {
    Rpc,
    Rest,
    A2aJsonRpc,
    A2aHttpJson,
    A2aGrpc,
}

impl Dialect {
    fn of(method: &Method, path: &str) -> Dialect {
        if path == "/a2a" {
            return if method == Method::POST { Dialect::Rpc } else { Dialect::Rest };
        }
        if path.starts_with("/lf.a2a.v1.") {
            return Dialect::A2aGrpc;
        }
        match path.strip_prefix("/a2a/").map(|rest| rest.trim_end_matches('/')) {
            // Nobody's door.
            Some("") => Dialect::Rest,
            Some(rest) if !rest.contains('/') && method == Method::POST => Dialect::A2aJsonRpc,
            Some(_) => Dialect::A2aHttpJson,
            None if path.starts_with("/.well-known/") => Dialect::A2aHttpJson,
            None => Dialect::Rest,
        }
    }

    fn refusal(self, error: Error, request_id: &str) -> Response {
        match self {
            Dialect::Rpc => rpc::refusal(&error, request_id),
            Dialect::Rest => rest::refusal(&error, request_id),
            Dialect::A2aJsonRpc => a2a::json_rpc::refusal(error, request_id),
            Dialect::A2aHttpJson => a2a::http_json::early_refusal(error, request_id),
            Dialect::A2aGrpc => a2a::grpc::refusal(error, request_id),
        }
    }
}

fn request_id(app: &App, request: &Request) -> String {
    let sent = request.headers().get(HEADER).and_then(|value| value.to_str().ok());
    match sent.filter(|id| (1..=LENGTH_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())) {
        Some(id) => id.to_owned(),
        None => format!("req_{}", random_ulid(app.relay.clock().now())),
    }
}

/// Logs what only the operator may see of a failure.
pub(super) fn log_source(error: &Error, request_id: &str) {
    if let Some(source) = std::error::Error::source(error) {
        tracing::error!(request_id, error = %source, "a request failed");
    }
}
