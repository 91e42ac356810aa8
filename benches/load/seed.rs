//! The seeded file: made once, copied for each relay that is measured.

use std::path::{Path, PathBuf};

use agentrelay::relay::Relay;
use agentrelay::store::{ServerLock, Store, StoreOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::Result;
use crate::cast::Cast;
use crate::fill;

/// A data file with threads in it, which nobody writes to while this lives.
pub(crate) struct Seed {
    pub(crate) path: PathBuf,
    pub(crate) threads: u64,
    pub(crate) cast: Cast,
    _lock: ServerLock,
    /// None for a file that stays.
    _folder: Option<TempDir>,
}

impl Seed {
    /// Takes the file at `data` if there is one, makes it otherwise. Without `data` the file goes with the result.
    pub(crate) async fn prepare(data: Option<&Path>, threads: u64) -> Result<Seed> {
        let (path, folder) = if let Some(data) = data {
            (std::path::absolute(data)?, None)
        } else {
            // Not the system's folder for temporary files, which may lie in memory.
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
            (folder.path().join("relay.db"), Some(folder))
        };
        if !path.exists() {
            make(&path, threads).await?;
        }
        let lock = ServerLock::take(&path)?;
        let found = count_threads(&path)?;
        if found != threads {
            return Err(format!(
                "{} holds {found} threads, not {threads}: pass --threads {found}, or another --data",
                path.display()
            )
            .into());
        }
        let relay = Relay::new(Store::open(&path, StoreOptions::default())?);
        let cast = fill::rotate_keys(&relay).await?;
        drop(relay);
        settle(&path)?;
        Ok(Seed { path, threads, cast, _lock: lock, _folder: folder })
    }
}

/// Makes the file beside its place and moves it there when it is complete.
async fn make(path: &Path, threads: u64) -> Result<()> {
    let folder = path.parent().ok_or("the data file has no folder")?;
    let unfinished = tempfile::Builder::new().prefix("load-seed-").tempdir_in(folder)?;
    let file = unfinished.path().join("relay.db");
    let relay = Relay::new(Store::open(&file, StoreOptions::default())?);
    fill::fill(&relay, threads).await?;
    drop(relay);
    settle(&file)?;
    std::fs::rename(file, path)?;
    Ok(())
}

/// Moves what is left of the write-ahead log into the file, so that the file alone is whole.
fn settle(path: &Path) -> Result<()> {
    let conn = Connection::open(path)?;
    let busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if busy { Err(format!("{} is in use", path.display()).into()) } else { Ok(()) }
}

fn count_threads(path: &Path) -> Result<u64> {
    let count: i64 = Connection::open(path)?.query_row("SELECT count(*) FROM threads", [], |row| row.get(0))?;
    Ok(count.try_into()?)
}
