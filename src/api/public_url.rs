//! Where clients reach this server: what the operator said, or the address it is bound to. Never what a request says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::Uri;

use crate::domain::agent::Handle;

/// The address to call a relay that listens at this one: "any address" is none to call.
pub fn callable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, listen.port())
}

/// The addresses that links are made of.
#[derive(Clone, Debug)]
pub(super) struct PublicUrl {
    http: String,
    grpc: String,
}

impl PublicUrl {
    /// From `--public-url`, else from the bound address.
    pub(super) fn new(given: Option<&str>, bound: SocketAddr) -> PublicUrl {
        let Some(given) = given else {
            let authority = callable(bound).to_string();
            return PublicUrl { http: format!("http://{authority}"), grpc: authority };
        };
        let uri = given.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let port = uri.as_ref().and_then(Uri::port_u16);
        let port = port.unwrap_or(if given.starts_with("https:") { 443 } else { 80 });
        PublicUrl { http: given.trim_end_matches('/').to_owned(), grpc: format!("{host}:{port}") }
    }

    /// The URL of `path`, which begins with a slash.
    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.http)
    }

    /// Where the A2A card of an agent is.
    pub(super) fn card_of(&self, handle: &Handle) -> String {
        self.at(&format!("/a2a/{handle}/.well-known/agent-card.json"))
    }

    /// Where gRPC is spoken: a host and a port, as its clients take it.
    pub(super) fn grpc(&self) -> &str {
        &self.grpc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_of_what_the_operator_said_or_of_the_bound_address() {
        let bound = SocketAddr::from(([0, 0, 0, 0], 7420));
        let own = PublicUrl::new(None, bound);
        assert_eq!((own.at("/x").as_str(), own.grpc()), ("http://127.0.0.1:7420/x", "127.0.0.1:7420"));
        let given = PublicUrl::new(Some("https://relay.example/team"), bound);
        assert_eq!((given.at("/x").as_str(), given.grpc()), ("https://relay.example/team/x", "relay.example:443"));
        let plain = PublicUrl::new(Some("http://relay.lan:8080"), bound);
        assert_eq!((plain.at("/x").as_str(), plain.grpc()), ("http://relay.lan:8080/x", "relay.lan:8080"));
    }
}
