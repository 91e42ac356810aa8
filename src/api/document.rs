//! Bodies: JSON documents of bounded size and depth.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use serde_json::value::RawValue;

use crate::api::BODY_MAX;
use crate::domain::json::{DEPTH_MAX, Unfit, check_fit};
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
    match check_fit(bytes) {
        Ok(()) => {}
        Err(Unfit::TooDeep) => {
            let message = format!("The document is nested deeper than {DEPTH_MAX}; flatten it, or send it as a string");
            return Err(Error::new(Symbol::InvalidRequest, message));
        }
        Err(Unfit::LoneSurrogate) => {
            let message = "The body escapes half of a surrogate pair, which is no character; send the whole character";
            return Err(Error::new(Symbol::ParseError, message));
        }
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Error::new(Symbol::ParseError, format!("The body is not JSON: {error}")))
}
