//! The wires: every protocol on one port, over one relay.
//!
//! A handler has four beats: wire in, domain in, relay call, wire out. The dialects below do not know each other.

mod listener;
mod request;
mod host;
mod caller;
mod admin_token;
mod rate_limit;
mod document;
mod envelope;
mod public_url;
mod url_text;
pub mod rest;
pub mod rpc;
pub mod a2a;
mod status;
mod teammates;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{any, delete, get, post, put};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::admin_token::AdminToken;
use self::host::Hosts;
use self::listener::Listener;
use self::public_url::PublicUrl;
pub use self::public_url::callable;
use self::rate_limit::RateLimit;
use crate::relay::Relay;

/// Largest body that is taken, in bytes.
pub const BODY_MAX: usize = 1 << 20;
/// How long a stopping server waits for requests in flight. Its whole stop stays under three seconds.
const GRACE: Duration = Duration::from_millis(2_500);

/// What the wires need to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Calls in any 60 seconds per agent over the message surfaces; 0 for no limit.
    pub rate_limit: u32,
    /// Where clients reach this server, when not at the address it is bound to.
    pub public_url: Option<String>,
    /// Further host names under which clients may call, beside addresses, `localhost` and the public URL's.
    pub allowed_hosts: Vec<String>,
    /// Opens the routes under `/admin`; without one they are closed.
    pub admin_token: Option<AdminToken>,
    /// How long a blocking `SendMessage` of A2A waits for the agent.
    pub blocking_timeout: Duration,
    /// Whether anybody may read the agents' A2A cards; otherwise only agents of the relay.
    pub public_cards: bool,
    /// Whether webhooks may lead to private addresses.
    pub allow_private_webhooks: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rate_limit: 60,
            public_url: None,
            allowed_hosts: Vec::new(),
            admin_token: None,
            blocking_timeout: Duration::from_secs(30),
            public_cards: true,
            allow_private_webhooks: false,
        }
    }
}

/// What every handler gets. Cheap to clone.
#[derive(Clone)]
struct App {
    relay: Relay,
    admin_token: Option<AdminToken>,
    hosts: Arc<Hosts>,
    rate_limit: Arc<RateLimit>,
    public_url: Arc<PublicUrl>,
    blocking_timeout: Duration,
    public_cards: bool,
    /// Turns true when the server stops: streams and waits end then.
    stopping: watch::Receiver<bool>,
}

/// Serves until `shutdown` completes; then streams get their last event, requests in flight their answer, and this
/// returns, within three seconds in any case.
pub async fn serve(
    listener: TcpListener,
    relay: Relay,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stop, mut stopping) = watch::channel(false);
    let courier = tokio::spawn(a2a::courier::run(relay.clone(), settings.allow_private_webhooks, stopping.clone()));
    let app = App {
        relay,
        hosts: Arc::new(Hosts::new(settings.public_url.as_deref(), &settings.allowed_hosts)),
        rate_limit: Arc::new(RateLimit::new(settings.rate_limit)),
        public_url: Arc::new(PublicUrl::new(settings.public_url.as_deref(), listener.local_addr()?)),
        admin_token: settings.admin_token,
        blocking_timeout: settings.blocking_timeout,
        public_cards: settings.public_cards,
        stopping: stopping.clone(),
    };
    // A bare router would be copied whole for each connection: 14 KiB. Its maker shares it.
    let routes = routes(app).into_make_service();
    let server = axum::serve(Listener(listener), routes).with_graceful_shutdown(async move {
        shutdown.await;
        stop.send_replace(true);
    });
    let out_of_time = async move {
        if stopping.wait_for(|stopping| *stopping).await.is_ok() {
            tokio::time::sleep(GRACE).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let served = tokio::select! {
        served = server => served,
        () = out_of_time => {
            tracing::warn!("some requests were cut off: they were not done {GRACE:?} after the stop");
            Ok(())
        }
    };
    // It heard of the stop when the requests did, and ends within their time.
    if let Err(error) = courier.await {
        tracing::error!(%error, "the courier of webhooks panicked");
    }
    served
}

/// Every route. What runs around each is in `request`, outermost first: request id, log line, panic net, host check.
fn routes(app: App) -> Router {
    Router::new()
        // Anyone.
        .route("/healthz", get(rest::health::live))
        .route("/readyz", get(rest::health::ready))
        // Agents, by their key: the AgentRelay protocol.
        .route("/a2a", post(rpc::serve))
        // A2A clients: an agent's card, open unless the operator says otherwise, and the agent itself, by the client's key.
        .route("/.well-known/agent-card.json", get(a2a::card::of_default))
        .route("/a2a/{handle}/.well-known/agent-card.json", get(a2a::card::of_agent))
        .route("/a2a/{handle}", post(a2a::json_rpc::serve))
        .route("/a2a/{handle}/", post(a2a::json_rpc::serve))
        .route("/a2a/{handle}/{*operation}", any(a2a::http_json::serve))
        .route("/lf.a2a.v1.A2AService/{method}", any(a2a::grpc::serve))
        // Agents, by their key: REST.
        .route("/agents", get(rest::agents::list))
        .route("/agents/me", get(rest::agents::me))
        .route("/agents/me/card", put(rest::agents::change_card))
        .route("/agents/me/keys/rotate", post(rest::keys::rotate))
        .route("/agents/me/audit", get(rest::audit::list))
        .route("/agents/me/block", get(rest::blocks::list).post(rest::blocks::add))
        .route("/agents/me/block/{handle}", delete(rest::blocks::remove))
        .route("/events", get(rest::events::follow))
        // The operator, by the admin token.
        .route("/admin/agents", post(rest::admin::create))
        .route("/admin/agents/{id}", delete(rest::admin::disable))
        .route("/admin/agents/{id}/keys/rotate", post(rest::admin::rotate))
        .method_not_allowed_fallback(request::wrong_method)
        .fallback(request::unknown_route)
        .layer(axum::middleware::from_fn_with_state(app.clone(), request::around))
        .with_state(app)
}
