//! Files that only their owner may read, and the lock that a serving process holds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, Symbol};
use crate::store::{schema, unusable};

/// Creates the folder of the data file, for its owner only. A folder that is there stays as it is.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file for its owner only, creating it. SQLite gives `-wal` and `-shm` the permissions of the data file.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Another program may have created it for everybody.
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// The right to serve a data file. The system takes it back when the process ends, however it ends.
#[derive(Debug)]
pub struct ServerLock(#[expect(dead_code, reason = "held, not read")] File);

impl ServerLock {
    /// Takes the right to serve a file that is ours or does not exist yet, or says which process has it.
    pub fn take(data_file: &Path) -> Result<ServerLock> {
        let data_file = std::path::absolute(data_file).map_err(|error| unusable(data_file, &error))?;
        if let Some(folder) = data_file.parent() {
            create_folder(folder).map_err(|error| unusable(folder, &error))?;
        }
        schema::check_file(&data_file)?;
        // Two names of one file are one file.
        let data_file = fs::canonicalize(&data_file).unwrap_or(data_file);
        let path = lock_path(&data_file);
        let mut file = create_private(&path).map_err(|error| unusable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())).map_err(Error::internal)?;
                Ok(ServerLock(file))
            }
            Err(fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.rewind().and_then(|()| file.read_to_string(&mut pid)).map_err(Error::internal)?;
                Err(Error::new(
                    Symbol::StateChanged,
                    format!(
                        "{} is served by process {pid} already; stop that one, or serve another file with --data",
                        data_file.display()
                    ),
                ))
            }
            Err(fs::TryLockError::Error(error)) => Err(Error::internal(error)),
        }
    }
}

fn lock_path(data_file: &Path) -> PathBuf {
    let mut path = data_file.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}
