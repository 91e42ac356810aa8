//! Somebody who is told: a server on a port of its own, which answers as it is bidden.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use super::eventually;

/// What a receiver does with a delivery.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with this status.
    Status(u16),
    /// Never answers.
    Hang,
    /// Sends the caller elsewhere.
    Redirect(String),
}

/// What arrived.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Delivery {
    /// A header's text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("visible"))
    }

    /// The thread that it tells of.
    pub fn task(&self) -> &str {
        self.body["statusUpdate"]["taskId"].as_str().expect("a task id")
    }

    /// The state that it tells of, such as `WORKING`.
    pub fn state(&self) -> &str {
        let state = self.body["statusUpdate"]["status"]["state"].as_str().expect("a state");
        state.trim_start_matches("TASK_STATE_")
    }
}

#[derive(Clone)]
pub struct Receiver {
    /// Where it is, with a path.
    pub url: String,
    reply: Arc<Mutex<Reply>>,
    received: Arc<Mutex<Vec<Delivery>>>,
}

impl Receiver {
    pub async fn start(reply: Reply) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/told", listener.local_addr().expect("an address"));
        let receiver = Receiver { url, reply: Arc::new(Mutex::new(reply)), received: Arc::default() };
        let app = axum::Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    /// One that takes whatever comes over TLS, with a certificate for localhost that only the tests trust.
    pub async fn with_tls() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/told", listener.local_addr().expect("an address"));
        let reply = Arc::new(Mutex::new(Reply::Status(204)));
        let receiver = Receiver { url, reply, received: Arc::default() };
        let app = axum::Router::new().fallback(receive).with_state(receiver.clone());
        let certificate = CertificateDer::from_pem_slice(include_bytes!("localhost.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("localhost.key.pem")).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("an identity");
        let listener = TlsListener { tcp: listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    /// One that takes whatever comes.
    pub async fn willing() -> Receiver {
        Receiver::start(Reply::Status(204)).await
    }

    /// The same server under another path.
    pub fn at(&self, path: &str) -> String {
        self.url.replace("/told", path)
    }

    pub fn port(&self) -> &str {
        self.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port")
    }

    pub fn replies(&self, reply: Reply) {
        *self.reply.lock().expect("a reply") = reply;
    }

    /// Forgets what arrived so far.
    pub fn forget(&self) {
        self.received.lock().expect("deliveries").clear();
    }

    pub fn received(&self) -> Vec<Delivery> {
        self.received.lock().expect("deliveries").clone()
    }

    /// The states that it was told, in order.
    pub fn states(&self) -> Vec<String> {
        self.received().iter().map(|delivery| delivery.state().to_owned()).collect()
    }

    /// Waits until it was told so often.
    pub async fn until(&self, count: usize) -> Vec<Delivery> {
        eventually(&format!("{count} deliveries"), || self.received().len() >= count).await;
        self.received()
    }

    /// Was told so often, and a moment later is told no more.
    pub async fn only(&self, count: usize) -> Vec<Delivery> {
        self.until(count).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let received = self.received();
        assert_eq!(received.len(), count, "{received:#?}");
        received
    }
}

/// Connections that somebody trusts.
struct TlsListener {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (tcp, address) = self.tcp.accept().await.expect("a connection");
            if let Ok(tls) = self.acceptor.accept(tcp).await {
                return (tls, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

async fn receive(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).expect("JSON");
    let delivery = Delivery { path: uri.to_string(), headers, body };
    receiver.received.lock().expect("deliveries").push(delivery);
    let reply = receiver.reply.lock().expect("a reply").clone();
    match reply {
        Reply::Status(status) => StatusCode::from_u16(status).expect("a status").into_response(),
        Reply::Redirect(to) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
        Reply::Hang => std::future::pending().await,
    }
}
