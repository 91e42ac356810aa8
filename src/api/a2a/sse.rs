//! Streams as server-sent events, for the two JSON bindings.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderName;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::api::a2a::error::Failure;
use crate::api::a2a::stream::{Element, TaskStream};
use crate::api::a2a::wire::StreamResponse;

/// How often a silent stream says that it lives. The official Python SDK gives up after five seconds of silence, proxies
/// after a minute or less.
const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// How a binding writes what a stream consists of.
pub(super) trait Frame: Send + 'static {
    /// The task or an update.
    fn response(&self, response: &StreamResponse) -> String;
    /// Why the stream was cut.
    fn cut(&self, failure: &Failure) -> String;
}

/// The stream as an HTTP answer.
pub(super) fn respond(stream: TaskStream, frame: impl Frame) -> Response {
    let events = stream::unfold((stream, frame), |(mut stream, frame)| async move {
        let event = match stream.next().await? {
            Element::Response(response, place) => Event::default().id(place.id()).data(frame.response(&response)),
            Element::Cut(failure) => Event::default().event("error").data(frame.cut(&failure)),
        };
        Some((Ok::<_, Infallible>(event), (stream, frame)))
    });
    // nginx holds back what it proxies until it is told not to.
    let unbuffered = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (unbuffered, Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}
