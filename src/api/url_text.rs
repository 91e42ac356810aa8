//! What a path says.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The one segment of a path that its route leaves open; `None` when it decodes to no text.
pub(super) struct UrlText(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for UrlText {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<UrlText, Infallible> {
        let segment = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        Ok(UrlText(segment.ok().map(|segment| segment.0)))
    }
}
