//! The caller of a request: the holder of the key in its `Authorization` header.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::error::Result;
use crate::relay::{Caller, Relay};

/// Finds the caller. More than one `Authorization` header is as good as none.
pub(super) fn authenticate(relay: &Relay, headers: &HeaderMap, request_id: &str) -> Result<Caller> {
    relay.authenticate(bearer(headers), request_id)
}

/// The bearer token (RFC 6750, section 2.1).
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
