//! A relay that somebody else has started, and the agents whose keys we were given.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::Result;
use crate::cast::{Agent, Cast};
use crate::http::{Connection, Request};

/// Where it is and who calls.
pub(crate) struct Remote {
    pub(crate) address: SocketAddr,
    pub(crate) cast: Cast,
    pub(crate) pid: Option<u32>,
}

impl Remote {
    /// Asks the relay whose keys these are.
    pub(crate) async fn meet(url: &str, key_files: &[PathBuf], pid: Option<u32>) -> Result<Remote> {
        let authority = url.strip_prefix("http://").ok_or("the URL must begin with http://; TLS is not measured")?;
        let authority = authority.trim_end_matches('/');
        let with_port = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
        let address = tokio::net::lookup_host(with_port).await?.next().ok_or("the URL's host has no address")?;
        let mut agents = Vec::new();
        for file in key_files {
            let key = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            let key = key.trim().to_owned();
            let mut connection = Connection::open(address).await?;
            let request = Request::get(address, "/agents/me", Some(&key));
            let reply = connection.call(&request).await?;
            let me: Value = serde_json::from_slice(reply.body)
                .map_err(|_| format!("{}: GET /agents/me answers {reply}", file.display()))?;
            let handle = me["handle"].as_str();
            let handle = handle.ok_or_else(|| format!("{}: GET /agents/me answers {reply}", file.display()))?;
            agents.push(Agent { handle: handle.to_owned(), key });
        }
        if agents.len() < 2 {
            return Err("handoffs need two agents: give at least two --key-file".into());
        }
        Ok(Remote { address, cast: Cast { agents, readers: Vec::new() }, pid })
    }
}
