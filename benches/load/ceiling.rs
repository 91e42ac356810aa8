//! The ceiling: the fastest server that could answer the same calls on the same machine.
//!
//! The same HTTP stack as the relay, an endpoint that parses the body as JSON, hashes the key and compares it, and
//! answers as many bytes as `message/send` does. It stores nothing. A relay's calls per second divided by this
//! server's, measured a moment before or after, is a figure that survives a change of machine.

use std::io::Read;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use crate::Result;

/// The hidden first argument with which this program becomes the ceiling.
pub(crate) const ARGUMENT: &str = "serve-ceiling";

/// The key that the ceiling knows. It opens nothing else.
pub(crate) const KEY: &str = "ah_live_ceilingceilingceilingceiling2345";

/// What the ceiling answers: as long as the relay's answer to `message/send`.
const ANSWER: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"req-1","result":{"task_id":"01HXYZ4K2VNJQP7R8MWDB3CSTF","thread_id":"01HXYZ4K2VNJQP7R8MWDB3CSTF""#,
    r#","status":{"state":"pending"},"generation":1"#,
    r#","message_id":"01HXYZ4K2VNJQP7R8MWDB3CSTG","sequence_no":1,"created_at":"2026-04-25T10:00:00.000Z"}}"#,
);

/// Serves on a free port until standard input closes, which it does when the benchmark ends, however it ends.
pub(crate) fn serve() -> Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("ceiling listening on http://{}", listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            // A failure costs speed, not correctness, and would show in the figures.
            let _ = stream.set_nodelay(true);
        });
        let known: [u8; 32] = Sha256::digest(KEY).into();
        let routes = Router::new().route("/a2a", post(answer)).with_state(known);
        axum::serve(listener, routes).await?;
        Ok(())
    })
}

async fn answer(State(known): State<[u8; 32]>, headers: HeaderMap, body: Bytes) -> Response {
    let key = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    if Sha256::digest(key)[..] != known {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(_) => ([(header::CONTENT_TYPE, "application/json")], ANSWER).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}
