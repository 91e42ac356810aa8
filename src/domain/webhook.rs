//! Webhooks: where a sender wants to be told what happens to a thread.

use std::fmt;

/// Most webhooks of one thread.
pub const WEBHOOKS_MAX: usize = 20;

/// A webhook that a sender asks for.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Its name among the thread's webhooks; one is made up when absent. The same name again replaces the old one.
    pub name: Option<String>,
    /// What it is.
    pub target: Target,
}

/// A webhook of a thread.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Its name among the thread's webhooks.
    pub name: String,
    /// What it is.
    pub target: Target,
}

/// Where a webhook leads, and what is sent along to prove who calls.
#[derive(Clone, Debug)]
pub struct Target {
    /// An `http` or `https` URL.
    pub url: String,
    /// Sent along as it is, so that the receiver knows what it belongs to.
    pub token: Option<Secret>,
    /// How the relay authenticates itself there.
    pub authentication: Option<Authentication>,
}

/// What goes into the `Authorization` header (RFC 9110, section 11.4).
#[derive(Clone, Debug)]
pub struct Authentication {
    /// Such as `Bearer` or `Basic`.
    pub scheme: String,
    /// What follows the scheme.
    pub credentials: Option<Secret>,
}

/// What somebody entrusted to the relay: it is sent where it belongs and shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// This text as a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one place that it is sent to.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
