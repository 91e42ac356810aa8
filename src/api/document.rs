//! Bodies: JSON documents of bounded size and depth.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde_json::value::RawValue;

use crate::api::BODY_MAX;
use crate::domain::json::{DEPTH_MAX, too_deep};
use crate::error::{Error, Result, Symbol};

/// A body as it arrived, or why it did not.
pub(super) type Body = std::result::Result<Bytes, BytesRejection>;

/// The bytes of a body.
pub(super) fn bytes(body: Body) -> Result<Bytes> {
    body.map_err(|rejection| {
        if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
            Error::too_large(BODY_MAX)
        } else {
            Error::new(Symbol::InvalidRequest, "The body broke off; send the request again")
        }
    })
}

/// The document in a body.
pub(super) fn parse(bytes: &[u8]) -> Result<&RawValue> {
    if too_deep(bytes) {
        return Err(Error::new(
            Symbol::InvalidRequest,
            format!("The document is nested deeper than {DEPTH_MAX}; flatten it, or send it as a string"),
        ));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Error::new(Symbol::ParseError, format!("The body is not JSON: {error}")))
}
