//! Bodies: JSON documents of bounded size and depth.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde_json::value::RawValue;

use crate::api::BODY_MAX;
use crate::domain::json::{DEPTH_MAX, Unfit, check_fit};
use crate::error::{Error, Result, Symbol};

/// How much of a body that is too large is read and thrown away. Many clients only look for an answer when they have
/// sent everything, and report a broken connection when they cannot.
const DISCARDED_MAX: usize = 16 * BODY_MAX;
/// How long it is read.
const DISCARDING_MAX: Duration = Duration::from_secs(5);

/// A body as it arrived, or why it did not.
pub(super) struct Body(Result<Bytes>);

impl Body {
    /// The bytes.
    pub(super) fn bytes(self) -> Result<Bytes> {
        self.0
    }
}

impl<S: Sync> FromRequest<S> for Body {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &S) -> std::result::Result<Body, Infallible> {
        let mut frames = request.into_body().into_data_stream();
        let mut bytes = BytesMut::new();
        loop {
            match frames.next().await {
                Some(Ok(frame)) if bytes.len() + frame.len() <= BODY_MAX => bytes.extend_from_slice(&frame),
                Some(Ok(_)) => break,
                Some(Err(_)) => {
                    let message = "The body broke off; send the request again";
                    return Ok(Body(Err(Error::new(Symbol::InvalidRequest, message))));
                }
                None => return Ok(Body(Ok(bytes.freeze()))),
            }
        }
        let discard = async {
            let mut discarded = 0;
            while let Some(Ok(frame)) = frames.next().await
                && discarded < DISCARDED_MAX
            {
                discarded += frame.len();
            }
        };
        // Whether it came to the end or not: the answer is the same.
        let _ = tokio::time::timeout(DISCARDING_MAX, discard).await;
        Ok(Body(Err(Error::too_large(BODY_MAX))))
    }
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
