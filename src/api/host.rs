//! The guard against DNS rebinding: a web page that makes a browser call this server by the page's own name is refused.
//!
//! Nobody can rebind an address or `localhost`, so those pass, and so do the names that the operator gave.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;

use crate::error::{Error, Result, Symbol};

/// The host names under which this server may be called.
#[derive(Debug)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub(super) fn new(public_url: Option<&str>, allowed: &[String]) -> Hosts {
        let public = public_url.and_then(|url| url.parse::<axum::http::Uri>().ok());
        let public = public.as_ref().and_then(|url| url.host());
        let names = allowed.iter().map(String::as_str).chain(public);
        Hosts(names.map(str::to_ascii_lowercase).collect())
    }

    pub(super) fn check(&self, request: &Request) -> Result<()> {
        // HTTP/2 has no Host header but an authority.
        let authority = request.uri().authority().map(Authority::as_str);
        let mut hosts = request.headers().get_all(HOST).iter().map(|value| value.to_str().unwrap_or_default());
        let first = authority.or_else(|| hosts.next()).unwrap_or_default();
        for host in std::iter::once(first).chain(hosts) {
            if !self.allows(host) {
                return Err(refused("Host", host));
            }
        }
        for origin in request.headers().get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.split_once("://").map_or("", |(_, host)| host);
            if !self.allows(host) {
                return Err(refused("Origin", origin));
            }
        }
        Ok(())
    }

    fn allows(&self, authority: &str) -> bool {
        if let Some(in_brackets) = authority.strip_prefix('[') {
            let address = in_brackets.split_once(']').filter(|(_, port)| port.is_empty() || is_port(port));
            return address.is_some_and(|(host, _)| host.parse::<Ipv6Addr>().is_ok());
        }
        let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
        (port.is_empty() || is_port(port))
            && (host.parse::<Ipv4Addr>().is_ok()
                || host.eq_ignore_ascii_case("localhost")
                || self.0.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)))
    }
}

/// A colon and digits, or none (RFC 3986, section 3.2.3).
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn refused(header: &str, value: &str) -> Error {
    let value: String = value.chars().take(100).collect();
    Error::new(
        Symbol::Forbidden,
        format!(
            "The {header} '{value}' is not one of this relay's names; call it by its address, or have the operator start \
             it with --allowed-host NAME"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_given_names_pass() {
        let hosts = Hosts::new(Some("https://Relay.example:8443/x"), &["box.lan".to_owned()]);
        for host in
            ["127.0.0.1:7420", "127.0.0.1", "[::1]:7420", "localhost:1", "LOCALHOST", "relay.example", "box.lan:9"]
        {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "x@127.0.0.1",
            "example",
            "[::1",
            "lan",
        ] {
            assert!(!hosts.allows(host), "{host}");
        }
    }
}
