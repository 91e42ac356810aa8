//! A server to call, with the agents that may call it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Result;
use crate::cast::Cast;
use crate::ceiling;
use crate::remote::Remote;
use crate::seed::Seed;
use crate::server::Server;

/// A running server. When it goes, its process and its files go.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) cast: Cast,
    /// Whose CPU time and memory count, if we may look.
    pub(crate) pid: Option<u32>,
    /// The write-ahead log of the relay's file.
    pub(crate) wal: Option<PathBuf>,
    /// None for a relay that somebody else started.
    server: Option<Server>,
    is_ceiling: bool,
    _folder: Option<TempDir>,
}

impl Stage {
    /// A relay on a copy of the seeded file.
    pub(crate) async fn relay(program: &Path, seed: &Seed, grouping: bool) -> Result<Stage> {
        let (folder, data) = copy(&seed.path).await?;
        let server = Server::relay(program, &data, grouping).await?;
        server.ready().await?;
        let mut wal = data.into_os_string();
        wal.push("-wal");
        Ok(Stage {
            address: server.address,
            cast: seed.cast.clone(),
            pid: Some(server.pid),
            wal: Some(wal.into()),
            server: Some(server),
            is_ceiling: false,
            _folder: Some(folder),
        })
    }

    /// The ceiling, which takes everybody's calls.
    pub(crate) async fn ceiling(cast: &Cast) -> Result<Stage> {
        let server = Server::ceiling().await?;
        Ok(Stage {
            address: server.address,
            cast: cast.with_key(ceiling::KEY),
            pid: Some(server.pid),
            wal: None,
            server: Some(server),
            is_ceiling: true,
            _folder: None,
        })
    }

    /// A relay that runs already.
    pub(crate) fn remote(remote: &Remote) -> Stage {
        Stage {
            address: remote.address,
            cast: remote.cast.clone(),
            pid: remote.pid,
            wal: None,
            server: None,
            is_ceiling: false,
            _folder: None,
        }
    }

    /// Whether the server stores nothing: ids that it gives mean nothing, and any id will do.
    pub(crate) fn is_ceiling(&self) -> bool {
        self.is_ceiling
    }

    /// Ends the server, if it is ours, and waits until its memory is free for the next one.
    pub(crate) async fn stop(self) -> Result<()> {
        match self.server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}

/// Copies the file into a folder of its own beside it, so that it lies on the same disk.
pub(crate) async fn copy(data: &Path) -> Result<(TempDir, PathBuf)> {
    let data = data.to_owned();
    let copied = tokio::task::spawn_blocking(move || -> Result<(TempDir, PathBuf)> {
        let folder = data.parent().ok_or("the data file has no folder")?;
        let folder = tempfile::Builder::new().prefix("load-").tempdir_in(folder)?;
        let copy = folder.path().join("relay.db");
        fs::copy(&data, &copy)?;
        // Otherwise the system would write the copy to disk while the relay waits for its own writes.
        fs::File::open(&copy)?.sync_all()?;
        Ok((folder, copy))
    });
    copied.await?
}
