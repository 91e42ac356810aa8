//! The HTTP+JSON binding (A2A v1.0.1, section 11), below `/a2a/{handle}/`.
//!
//! The routes are a table of this binding, so that each refusal, an unknown path included, has the binding's own shape.

use axum::Extension;
use axum::extract::State;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::api::a2a::error::{Failure, Kind};
use crate::api::a2a::stream::Resume;
use crate::api::a2a::wire::StreamResponse;
use crate::api::a2a::{Door, Operation, Outcome, Result, admit, no_agent, sse, version};
use crate::api::document::{Body, parse};
use crate::api::request::{RequestId, log_source};
use crate::api::{App, caller};
use crate::domain::agent::Handle;
use crate::domain::json::{Document, Issues, Object, Path, Value as JsonValue, issue};
use crate::error::{Error, Symbol};

/// A2A's own media type. Answers have it when the request has, or asks for it.
const A2A_JSON: &str = "application/a2a+json";

/// A route of the binding. In a path, `{taskId}` and the like are parameters.
struct Route {
    method: Method,
    path: &'static str,
    operation: Operation,
}

#[rustfmt::skip]
static ROUTES: [Route; 12] = [
    route(Method::POST,   "message:send",                            Operation::SendMessage),
    route(Method::POST,   "message:stream",                          Operation::SendStreamingMessage),
    route(Method::GET,    "tasks",                                   Operation::ListTasks),
    route(Method::GET,    "tasks/{id}",                              Operation::GetTask),
    route(Method::POST,   "tasks/{id}:cancel",                       Operation::CancelTask),
    // The specification's table says POST, its Protocol Buffer definition GET.
    route(Method::POST,   "tasks/{id}:subscribe",                    Operation::SubscribeToTask),
    route(Method::GET,    "tasks/{id}:subscribe",                    Operation::SubscribeToTask),
    route(Method::POST,   "tasks/{taskId}/pushNotificationConfigs",  Operation::CreateTaskPushNotificationConfig),
    route(Method::GET,    "tasks/{taskId}/pushNotificationConfigs",  Operation::ListTaskPushNotificationConfigs),
    route(Method::GET,    "tasks/{taskId}/pushNotificationConfigs/{id}", Operation::GetTaskPushNotificationConfig),
    route(Method::DELETE, "tasks/{taskId}/pushNotificationConfigs/{id}", Operation::DeleteTaskPushNotificationConfig),
    route(Method::GET,    "extendedAgentCard",                       Operation::GetExtendedAgentCard),
];

const fn route(method: Method, path: &'static str, operation: Operation) -> Route {
    Route { method, path, operation }
}

/// The parameters in a path, by name.
type PathParams = Vec<(&'static str, String)>;

impl Route {
    /// The parameters of a path that is this route's.
    fn params(&self, segments: &[String]) -> Option<PathParams> {
        let templates: Vec<&str> = self.path.split('/').collect();
        if templates.len() != segments.len() {
            return None;
        }
        let mut params = Vec::new();
        for (template, segment) in templates.into_iter().zip(segments) {
            let Some((name, verb)) = template.strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
                if template != segment {
                    return None;
                }
                continue;
            };
            let value = segment.strip_suffix(verb)?;
            // After a task's id a colon begins a verb; a config's id is the client's, colons and all.
            if value.is_empty() || (segments.len() == 2 && value.contains(':')) {
                return None;
            }
            params.push((name, value.to_owned()));
        }
        Some(params)
    }
}

pub(in crate::api) async fn serve(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let media = Media::of(&headers);
    let answered = async {
        let target = Target::of(&method, &uri)?;
        let caller = caller::authenticate(&app.relay, &headers, &request_id)?;
        let bytes = body.bytes()?;
        let agent = Handle::parse(&target.handle).map_err(|_| no_agent(&target.handle));
        let extension = admit(&app, &caller, &headers, uri.query())?;
        let door = Door { app: app.clone(), caller, agent: agent?, extension };

        let has_body = !bytes.is_empty() && method == Method::POST;
        if has_body {
            check_content_type(&headers)?;
        }
        let written = if has_body { None } else { Some(query_document(uri.query(), &method)?) };
        let document = match &written {
            Some(document) => document,
            None => parse(&bytes)?,
        };
        let mut issues = Issues::default();
        let read = JsonValue::root(document).object(&mut issues);
        let mut params: Object<'_> = issues.take(read)?;
        let in_path: Vec<(&str, Document)> = target.documents()?;
        for (name, value) in &in_path {
            params = params.with(name, value);
        }
        let resume = headers.get("last-event-id").and_then(|id| Resume::from_id(id.to_str().ok()?));
        let outcome = door.perform(target.operation, &params, resume).await?;
        Ok((outcome, extension))
    }
    .await;
    match answered {
        Ok((outcome, extension)) => {
            let mut response = respond(outcome, media, &request_id);
            if extension {
                response.headers_mut().insert(version::EXTENSIONS, version::active_extension());
            }
            response
        }
        Err(failure) => refused(&failure, media, &request_id, &uri),
    }
}

/// What a path leads to.
struct Target {
    handle: String,
    operation: Operation,
    params: PathParams,
}

impl Target {
    fn of(method: &Method, uri: &Uri) -> Result<Target> {
        let (handle, segments) = segments(uri).ok_or_else(|| unknown_path(uri))?;
        // A client that knows the interface's tenant may repeat it in the path (the `/{tenant}/…` bindings).
        let mut found = matching(&segments);
        let mut tenant = None;
        if found.is_empty()
            && let Some((first, rest)) = segments.split_first().filter(|(first, _)| !first.is_empty())
        {
            found = matching(rest);
            tenant = Some(("tenant", first.clone()));
        }
        if found.is_empty() {
            return Err(unknown_path(uri).into());
        }
        let Some((operation, mut params)) = found
            .into_iter()
            .find_map(|(route, params)| (route.method == *method).then_some((route.operation, params)))
        else {
            return Err(Error::method_not_allowed(method.as_str(), "This path").into());
        };
        params.extend(tenant);
        Ok(Target { handle, operation, params })
    }

    fn documents(&self) -> Result<Vec<(&'static str, Document)>> {
        let document =
            |(name, value): &(&'static str, String)| Ok((*name, to_raw_value(value).map_err(Error::internal)?));
        self.params.iter().map(document).collect()
    }
}

/// The handle and the segments below it, each decoded by itself.
fn segments(uri: &Uri) -> Option<(String, Vec<String>)> {
    let decoded = |segment: &str| percent_decode_str(segment).decode_utf8().ok().map(std::borrow::Cow::into_owned);
    let mut segments = uri.path().strip_prefix("/a2a/")?.split('/');
    let handle = decoded(segments.next()?)?;
    Some((handle, segments.map(decoded).collect::<Option<_>>()?))
}

fn matching(segments: &[String]) -> Vec<(&'static Route, PathParams)> {
    ROUTES.iter().filter_map(|route| Some((route, route.params(segments)?))).collect()
}

fn unknown_path(uri: &Uri) -> Error {
    let path: String = uri.path().chars().take(200).collect();
    let message = format!("There is nothing at {path}; docs/a2a.md lists the paths of the HTTP+JSON binding");
    Error::new(Symbol::MethodNotFound, message)
}

/// The parameters of a query as the document that a body would be (section 11.5).
fn query_document(query: Option<&str>, method: &Method) -> Result<Document> {
    let mut members = serde_json::Map::new();
    if *method == Method::GET {
        for (key, text) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            // Empty means absent.
            if text.is_empty() {
                continue;
            }
            let value = match &*key {
                "includeArtifacts" | "include_artifacts" => {
                    text.parse::<bool>().map_or_else(|_| json!(text), Value::from)
                }
                // In a query a plus is a space; whoever forgot to encode it still meant one.
                "statusTimestampAfter" | "status_timestamp_after" => json!(text.replace(' ', "+")),
                _ => json!(text),
            };
            if members.contains_key(&*key) {
                let message = "given twice; each parameter of this query has one value";
                return Err(issue(Path::root().key(&key), "invalid_value", message).into());
            }
            members.insert(key.into_owned(), value);
        }
    }
    Ok(to_raw_value(&members).map_err(Error::internal)?)
}

/// A body is JSON, by either of its names.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<()> {
    let Some(given) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") || essence.eq_ignore_ascii_case(A2A_JSON) {
        return Ok(());
    }
    let message = format!("Send the body as application/json or {A2A_JSON}, and say so in Content-Type");
    Err(Failure::A2a(Kind::ContentTypeNotSupported, message))
}

/// By which of its names an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    A2aJson,
}

impl Media {
    fn of(headers: &HeaderMap) -> Media {
        let names =
            |name| headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(|text| text.contains(A2A_JSON)));
        if names(CONTENT_TYPE) || names(ACCEPT) { Media::A2aJson } else { Media::Json }
    }

    fn value(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Media::Json => "application/json",
            Media::A2aJson => A2A_JSON,
        })
    }
}

fn respond(outcome: Outcome, media: Media, request_id: &str) -> Response {
    let written = match outcome {
        Outcome::Sent(sent) => serde_json::to_vec(&sent),
        Outcome::Task(task) => serde_json::to_vec(&task),
        Outcome::Tasks(tasks) => serde_json::to_vec(&tasks),
        Outcome::Config(config) => serde_json::to_vec(&config),
        Outcome::Configs(configs) => serde_json::to_vec(&configs),
        Outcome::Deleted => Ok(b"{}".to_vec()),
        Outcome::Card(card) => serde_json::to_vec(&card),
        Outcome::Stream(stream) => return sse::respond(*stream, Frame),
    };
    match written {
        Ok(body) => ([(CONTENT_TYPE, media.value())], body).into_response(),
        Err(error) => refusal(&Error::internal(error).into(), media, request_id),
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: StatusBody<'a>,
}

/// `google.rpc.Status`, with the HTTP status as its code (section 11.6).
#[derive(Serialize)]
struct StatusBody<'a> {
    code: u16,
    status: &'static str,
    message: &'a str,
    details: Vec<Value>,
}

fn error_body(failure: &Failure) -> ErrorBody<'_> {
    let (code, status) = (failure.http_status(), failure.status().name());
    ErrorBody { error: StatusBody { code, status, message: failure.message(), details: failure.details() } }
}

/// A refusal in the binding's shape.
pub(super) fn refusal(failure: &Failure, media: Media, request_id: &str) -> Response {
    if let Some(error) = failure.source() {
        log_source(error, request_id);
    }
    let status = StatusCode::from_u16(failure.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, axum::Json(error_body(failure))).into_response();
    response.headers_mut().insert(CONTENT_TYPE, media.value());
    add_hints(&mut response, failure);
    response
}

fn refused(failure: &Failure, media: Media, request_id: &str, uri: &Uri) -> Response {
    let mut response = refusal(failure, media, request_id);
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let (_, segments) = segments(uri).unwrap_or_default();
        let found = match matching(&segments) {
            found if found.is_empty() => matching(segments.get(1..).unwrap_or_default()),
            found => found,
        };
        let methods: Vec<&str> = found.iter().map(|(route, _)| route.method.as_str()).collect();
        if let Ok(value) = HeaderValue::from_str(&methods.join(",")) {
            response.headers_mut().insert(ALLOW, value);
        }
    }
    response
}

/// The answer to a request that did not get as far as its handler.
pub(in crate::api) fn early_refusal(error: Error, request_id: &str) -> Response {
    refusal(&error.into(), Media::Json, request_id)
}

/// What HTTP has headers for: who should say who it is, and when to come back.
pub(super) fn add_hints(response: &mut Response, failure: &Failure) {
    if failure.is_unauthenticated() {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = failure.retry_after_s() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Each element of a stream is a `StreamResponse` by itself.
struct Frame;

impl sse::Frame for Frame {
    fn response(&self, response: &StreamResponse) -> String {
        serde_json::to_string(response).unwrap_or_default()
    }

    fn cut(&self, failure: &Failure) -> String {
        serde_json::to_string(&error_body(failure)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::a2a::documented;

    #[test]
    fn the_routes_are_the_documented_ones() {
        let routes = ROUTES
            .iter()
            .map(|route| vec![format!("{} {}", route.method, route.path), route.operation.name().to_owned()]);
        assert_eq!(documented::table("http_json"), routes.collect::<Vec<_>>());
    }

    #[test]
    fn a_path_leads_to_its_operation_with_or_without_the_tenant() {
        let found = |method: Method, path: &str| {
            let uri: Uri = format!("/a2a/frank%40acme/{path}").parse().expect("a path");
            let target = Target::of(&method, &uri).ok()?;
            assert_eq!(target.handle, "frank@acme");
            Some((target.operation, target.params))
        };
        let id = |id: &str| vec![("id", id.to_owned())];
        assert_eq!(found(Method::POST, "message:send"), Some((Operation::SendMessage, Vec::new())));
        assert_eq!(found(Method::GET, "tasks/T"), Some((Operation::GetTask, id("T"))));
        assert_eq!(found(Method::POST, "tasks/T:cancel"), Some((Operation::CancelTask, id("T"))));
        assert_eq!(found(Method::POST, "tasks/T%3Acancel"), Some((Operation::CancelTask, id("T"))));
        let config = vec![("taskId", "T".to_owned()), ("id", "a:b/c".to_owned())];
        let operation = Operation::GetTaskPushNotificationConfig;
        assert_eq!(found(Method::GET, "tasks/T/pushNotificationConfigs/a:b%2Fc"), Some((operation, config)));
        let tenant = vec![("tenant", "frank@acme".to_owned())];
        assert_eq!(found(Method::GET, "frank%40acme/tasks"), Some((Operation::ListTasks, tenant)));
        for path in ["", "tasks/", "tasks/T:pause", "tasks/:cancel", "message:sent", "a/b/tasks", "tasks/T/x/y"] {
            assert_eq!(found(Method::GET, path), None, "{path}");
        }
    }
}
