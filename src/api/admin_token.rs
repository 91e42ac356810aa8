//! The admin token: whoever sends it is the operator.

use std::fmt;

use axum::http::HeaderMap;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::api::caller::bearer;
use crate::error::{Error, Result, Symbol};

/// The secret that opens `/admin`. Kept as a hash, so that comparing takes the same time for every guess.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// The token with this text.
    pub fn new(text: &str) -> AdminToken {
        AdminToken(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// Lets only the operator through.
pub(super) fn authorize(token: Option<&AdminToken>, headers: &HeaderMap) -> Result<()> {
    let Some(token) = token else {
        return Err(Error::new(
            Symbol::Forbidden,
            "The admin routes are off; start the relay with AGENTRELAY_ADMIN_TOKEN or --admin-token-file to open them",
        ));
    };
    let Some(sent) = bearer(headers) else {
        return Err(Error::new(
            Symbol::Unauthenticated,
            "This needs the admin token: send the header 'Authorization: Bearer TOKEN'",
        ));
    };
    if bool::from(AdminToken::new(sent).0.ct_eq(&token.0)) {
        return Ok(());
    }
    Err(Error::new(Symbol::Forbidden, "This is not the relay's admin token"))
}
