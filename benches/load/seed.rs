//! The seeded file.
use crate::Result;
use crate::cast::Cast;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
pub(crate) struct Seed {
    pub(crate) path: PathBuf,
    pub(crate) threads: u64,
    pub(crate) cast: Cast,
    _folder: Option<TempDir>,
}
impl Seed {
    pub(crate) async fn prepare(_data: Option<&Path>, _threads: u64) -> Result<Seed> {
        Err("todo".into())
    }
}
