//! `agentrelay serve`: the relay itself.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::api;
use crate::cli::console::note;
use crate::cli::{Exit, Failure, logs, shutdown};
use crate::config::{Common, Settings, Switch};
use crate::error::Error;
use crate::relay::Relay;
use crate::store::{READERS, ServerLock, Store, StoreOptions};

/// How often the relay tidies up.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);
/// How long the last tidying may take. What it leaves undone the next run does.
const LAST_UPKEEP_MAX: Duration = Duration::from_millis(200);
/// How long calls that block may keep the process from ending.
const BLOCKED_MAX: Duration = Duration::from_millis(100);

/// Serve the relay
///
/// Creates the data file when there is none, and serves every protocol at one address until Ctrl-C or SIGTERM. Other
/// commands work on the same file meanwhile.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    pub(super) fn run(self, common: &Common) -> Result<(), Failure> {
        let settings = self.settings;
        let api_settings = settings.api()?;
        let path = common.data_file()?;
        logs::start(settings.log_level, settings.log_format);
        // Held until the process ends, and taken before the file is opened: no server migrates another's file.
        let _lock = ServerLock::take(&path)?;
        let group_commit = settings.group_commit == Switch::On;
        let store = Store::open(&path, StoreOptions { group_commit, migrate: true, ..StoreOptions::default() })?;
        let relay = Relay::new(store);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            // Whatever blocks here reads the data file. A thread without a connection would only wait for one.
            .max_blocking_threads(usize::try_from(READERS).unwrap_or(1))
            .build()
            .map_err(Error::internal)?;
        let served = runtime.block_on(async {
            let listener = bind(settings.listen.listen).await?;
            let shutdown = shutdown::requested().map_err(Error::internal)?;
            greet(common, &settings, &relay, &listener).await?;
            let upkeep = tokio::spawn(keep_up(relay.clone()));
            let served = api::serve(listener, relay.clone(), api_settings, shutdown).await;
            upkeep.abort();
            tidy_up_last(&relay).await;
            served.map_err(|error| Failure::new(Exit::Failure, "the relay stopped serving").because(&error))
        });
        runtime.shutdown_timeout(BLOCKED_MAX);
        served
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let (exit, reason) = match error.kind() {
            io::ErrorKind::AddrInUse => (Exit::Conflict, "another process listens there"),
            io::ErrorKind::PermissionDenied => (Exit::NotAllowed, "this user may not"),
            io::ErrorKind::AddrNotAvailable => (Exit::Failure, "this machine has no such address"),
            _ => (Exit::Failure, "the system refuses"),
        };
        let message = format!("cannot listen at {address}: {reason}; choose another address with --listen ADDR:PORT");
        Failure::new(exit, message).because(&error)
    })
}

/// Says where the relay is and what to type next.
async fn greet(common: &Common, settings: &Settings, relay: &Relay, listener: &TcpListener) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(Error::internal)?;
    let path = relay.store().path();
    let data = if common.is_default_data_file(path) { String::new() } else { format!(" --data {}", shell_word(path)) };
    let url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
    let next = match relay.default_agent().await? {
        None => format!("create an agent with: agentrelay agent create YOU@TEAM{data}"),
        Some(_) => format!(
            "agents hand over with POST {url}/a2a and their key; see who is there with: agentrelay agent list{data}"
        ),
    };
    note(&format!("agentrelay {} listening on http://{address}", env!("CARGO_PKG_VERSION")));
    note(&format!("data file: {}", path.display()));
    note(&format!("next: {next}"));
    if !address.ip().is_loopback() && settings.public_url.is_none() {
        tracing::warn!(
            "other machines can reach {address}, but there is no --public-url: clients that call the relay by a host \
             name are refused, and links that it gives out name this address"
        );
    }
    Ok(())
}

async fn keep_up(relay: Relay) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        tidy_up(&relay).await;
    }
}

async fn tidy_up_last(relay: &Relay) {
    if tokio::time::timeout(LAST_UPKEEP_MAX, tidy_up(relay)).await.is_err() {
        tracing::warn!("the data file was too busy for the relay to tidy it up at its end");
    }
}

async fn tidy_up(relay: &Relay) {
    if let Err(error) = relay.upkeep().await {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(source, "the relay could not tidy up its data file");
    }
}

/// The path as it can be pasted into a shell.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |character: char| character.is_alphanumeric() || matches!(character, '/' | '.' | '_' | '-' | '+' | '@');
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_or_quotes_can_be_pasted() {
        assert_eq!(shell_word(Path::new("/srv/relay.db")), "/srv/relay.db");
        assert_eq!(shell_word(Path::new("/my files/it's.db")), r"'/my files/it'\''s.db'");
    }
}
