//! The events of the caller's threads: as a stream that never ends, or one wait at a time. Both read the log from a place
//! that the client names, so that it may be cut off anywhere and go on from there.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::watch;

use crate::api::App;
use crate::api::rest::AgentRequest;
use crate::api::rest::query::Query;
use crate::api::status::StatusBody;
use crate::domain::agent::Handle;
use crate::domain::event::Event;
use crate::domain::id::ThreadId;
use crate::domain::json::{Issues, Path};
use crate::domain::time::Timestamp;
use crate::error::Result;
use crate::relay::events::Follower;

/// Longest wait of a long poll, in seconds.
const WAIT_MAX_S: i64 = 50;
/// How often a silent stream says that it lives. Proxies cut what is silent for a minute or less.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a client waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct EventBody<'a> {
    seq: i64,
    r#type: &'static str,
    at: Timestamp,
    actor: &'a str,
    thread_id: ThreadId,
    task_id: ThreadId,
    generation: i64,
    status: StatusBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_no: Option<i64>,
}

impl EventBody<'_> {
    fn of(event: &Event) -> Option<EventBody<'_>> {
        let thread = event.thread.as_ref()?;
        Some(EventBody {
            seq: event.seq,
            r#type: event.kind.name(),
            at: event.at,
            actor: event.actor.as_ref().map_or("operator", Handle::as_str),
            thread_id: thread.id,
            task_id: thread.id,
            generation: thread.generation,
            status: thread.state.into(),
            sequence_no: thread.sequence_no,
        })
    }
}

pub(in crate::api) async fn follow(
    State(app): State<App>,
    query: Query,
    headers: HeaderMap,
    request: AgentRequest,
) -> Response {
    let caller = request.caller;
    let answer = async {
        let mut issues = Issues::default();
        let wait = query.integer("wait", 0..=WAIT_MAX_S, &mut issues);
        let asked = query.integer("after", 0..=i64::MAX, &mut issues);
        // A client that reconnects by itself knows better than the URL that it started with.
        let resumed = headers.get("last-event-id").and_then(|id| {
            let seq = id.to_str().ok().and_then(|id| id.parse().ok()).filter(|seq: &i64| *seq >= 0);
            if seq.is_none() {
                issues.add(Path::root().key("last-event-id"), "invalid_value", "expected the id of an event");
            }
            seq
        });
        issues.finish()?;
        let follower = app.relay.follow(&caller, resumed.or(asked)).await?;
        let json = headers
            .get(ACCEPT)
            .and_then(|accept| accept.to_str().ok())
            .is_some_and(|accept| accept.contains("application/json") && !accept.contains("text/event-stream"));
        if wait.is_some() || json {
            let wait = Duration::from_secs(wait.and_then(|wait| wait.try_into().ok()).unwrap_or(0));
            return poll(follower, wait, app.stopping).await;
        }
        Ok(stream(follower, app.stopping))
    };
    request.context.answer(answer).await
}

#[derive(Serialize)]
struct PollBody<'a> {
    events: Vec<EventBody<'a>>,
    /// The next `after`.
    next_after: i64,
}

async fn poll(mut follower: Follower, wait: Duration, mut stopping: watch::Receiver<bool>) -> Result<Response> {
    let mut events = follower.present().await?;
    if events.is_empty() {
        events = tokio::select! {
            biased;
            events = follower.next() => events?,
            () = tokio::time::sleep(wait) => Vec::new(),
            _ = stopping.wait_for(|stopping| *stopping) => Vec::new(),
        };
    }
    let body = PollBody { events: events.iter().filter_map(EventBody::of).collect(), next_after: follower.after() };
    Ok(Json(body).into_response())
}

/// What a stream is in the middle of.
struct Stream {
    follower: Follower,
    stopping: watch::Receiver<bool>,
    waiting: VecDeque<sse::Event>,
    ended: bool,
}

fn stream(follower: Follower, stopping: watch::Receiver<bool>) -> Response {
    let hello = sse::Event::default().comment("following").retry(RECONNECT);
    let start = Stream { follower, stopping, waiting: VecDeque::from([hello]), ended: false };
    let events = stream::unfold(start, |mut stream| async move {
        if stream.waiting.is_empty() && !stream.ended {
            stream.wait().await;
        }
        let event = stream.waiting.pop_front()?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    // nginx holds back what it proxies until it is told not to.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

impl Stream {
    /// Waits for events, or for the end.
    async fn wait(&mut self) {
        let events = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping) => None,
            events = self.follower.next() => Some(events),
        };
        match events {
            None => self.end("shutdown", "{}"),
            Some(Ok(events)) => self.waiting.extend(events.iter().filter_map(sse_event)),
            Some(Err(error)) => {
                let body = serde_json::json!({ "code": error.symbol().name(), "message": error.message() });
                self.end("error", &body.to_string());
            }
        }
    }

    fn end(&mut self, kind: &str, data: &str) {
        self.waiting.push_back(sse::Event::default().event(kind).data(data));
        self.ended = true;
    }
}

fn sse_event(event: &Event) -> Option<sse::Event> {
    let body = serde_json::to_string(&EventBody::of(event)?).ok()?;
    Some(sse::Event::default().id(event.seq.to_string()).event(event.kind.name()).data(body))
}
