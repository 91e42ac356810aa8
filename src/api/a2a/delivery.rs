//! A delivery: one update, posted to one webhook over a connection of its own.
//!
//! Made from `hyper` and a connection that the guard has let through. A client that pools connections, follows
//! redirects and asks the environment for proxies would have to be kept from all three.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderName, USER_AGENT};
use axum::http::{HeaderValue, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use url::{Position, Url};

use crate::api::a2a::guard;
use crate::domain::webhook::Target;

/// How long a delivery may take in all: resolving, connecting, sending, and the beginning of the answer.
const DELIVERY_MAX: Duration = Duration::from_secs(15);
/// Largest head of an answer, in bytes. Its body is not read.
const ANSWER_MAX: usize = 16 * 1024;
/// What the webhook's token is sent in.
const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// A2A's media type.
const A2A_JSON: &str = "application/a2a+json";

/// Where deliveries leave the relay.
pub(super) struct Gate {
    private_too: bool,
    /// Whom this machine trusts: read once, when the first webhook wants TLS.
    tls: OnceCell<TlsConnector>,
}

impl Gate {
    /// A gate to public addresses, or to private ones too.
    pub(super) fn new(private_too: bool) -> Gate {
        Gate { private_too, tls: OnceCell::new() }
    }

    /// Posts an update. It arrived when the receiver answered with a status of success.
    ///
    /// # Errors
    /// What went wrong, in a few words for the operator. Neither the URL nor a secret is in them.
    pub(super) async fn deliver(&self, target: &Target, update: Vec<u8>) -> Result<(), String> {
        match tokio::time::timeout(DELIVERY_MAX, self.post(target, update)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {DELIVERY_MAX:?}")),
        }
    }

    async fn post(&self, target: &Target, update: Vec<u8>) -> Result<(), String> {
        let url = Url::parse(&target.url).map_err(|_| "the URL cannot be read")?;
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err("the URL has no host".to_owned());
        };
        let request = request(target, &url, update)?;
        let tcp = guard::connect(host, port, self.private_too).await?;
        if url.scheme() != "https" {
            return send(tcp, request).await;
        }
        let name = ServerName::try_from(url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|_| "the host's name is none for TLS")?;
        let tls = self.tls.get_or_try_init(trust).await?;
        let tls = tls.connect(name, tcp).await.map_err(|error| format!("TLS: {error}"))?;
        send(tls, request).await
    }
}

fn request(target: &Target, url: &Url, update: Vec<u8>) -> Result<Request<Body>, String> {
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let mut request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, host)
        .header(USER_AGENT, concat!("agentrelay/", env!("CARGO_PKG_VERSION")))
        .header(CONTENT_TYPE, A2A_JSON)
        .header(CONNECTION, "close");
    if let Some(token) = &target.token {
        request = request.header(TOKEN, secret(token.reveal())?);
    }
    if let Some(authentication) = &target.authentication {
        let text = match &authentication.credentials {
            Some(credentials) => format!("{} {}", authentication.scheme, credentials.reveal()),
            None => authentication.scheme.clone(),
        };
        request = request.header(AUTHORIZATION, secret(&text)?);
    }
    request.body(Body::from(update)).map_err(|_| "the URL cannot be sent".to_owned())
}

fn secret(text: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "a secret fits into no header")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Sends a request and waits for the head of its answer.
async fn send(stream: impl AsyncRead + AsyncWrite + Send + Unpin, request: Request<Body>) -> Result<(), String> {
    let broken = |error: hyper::Error| format!("the connection broke: {error}");
    let handshake = http1::Builder::new().max_buf_size(ANSWER_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let answer = sender.send_request(request);
    tokio::pin!(connection, answer);
    // The connection moves the bytes; when it ends first, the answer says why.
    let answer = tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    };
    let status = answer.map_err(broken)?.status();
    if status.is_success() {
        return Ok(());
    }
    let redirect = if status.is_redirection() { "; redirects are not followed" } else { "" };
    Err(format!("answered {}{redirect}", status.as_u16()))
}

/// Whom this machine trusts.
async fn trust() -> Result<TlsConnector, String> {
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.map_err(|error| error.to_string())?.certs);
    if roots.is_empty() {
        return Err("this machine trusts no certificate authority; install them (ca-certificates)".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}
