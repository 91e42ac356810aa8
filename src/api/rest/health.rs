//! Liveness and readiness.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::api::App;
use crate::api::rest::Context;

/// The process answers.
pub(in crate::api) async fn live() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The data file was read and written just now.
pub(in crate::api) async fn ready(State(app): State<App>, context: Context) -> Response {
    let check = async {
        app.relay.check().await?;
        Ok(Json(json!({ "status": "ready" })))
    };
    context.answer(check).await
}
