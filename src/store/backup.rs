//! Copies of the data file, made while others write to it.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result, Symbol};
use crate::store::files;

/// How many pages are copied between two reports.
const PAGES_PER_STEP: i32 = 2_000;

/// How far a copy has come, in pages.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Pages copied.
    pub done: u64,
    /// Pages in all.
    pub total: u64,
}

/// Copies the data file at `from` to `to` as it is at this moment, opens the copy and checks it.
///
/// # Errors
/// When `to` exists: nothing is overwritten. After any other failure there is no file at `to`.
pub fn copy(from: &Path, to: &Path, mut report: impl FnMut(Progress)) -> Result<Progress> {
    if to.exists() {
        return Err(taken(to));
    }
    // Under another name until it is known to be good: a crash leaves no file that looks like a backup.
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let copied = copy_and_check(from, partial, &mut report).and_then(|progress| {
        give_name(partial, to)?;
        Ok(progress)
    });
    let _ = std::fs::remove_file(partial);
    copied
}

/// Names the copy, if nobody took the name meanwhile.
fn give_name(partial: &Path, to: &Path) -> Result<()> {
    match std::fs::hard_link(partial, to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken(to)),
        // Not every file system has links.
        Err(_) => std::fs::rename(partial, to).map_err(|error| unwritable(to, &error)),
    }
}

fn taken(to: &Path) -> Error {
    let message = format!("{} exists and was left as it is; choose another name for the backup", to.display());
    Error::new(Symbol::StateChanged, message)
}

fn unwritable(to: &Path, error: &std::io::Error) -> Error {
    let message = format!("cannot write {}: {error}. Choose another place for the backup.", to.display());
    Error::new(Symbol::Internal, message)
}

fn copy_and_check(from: &Path, to: &Path, report: &mut impl FnMut(Progress)) -> Result<Progress> {
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    super::wait_for_lock(&source)?;
    // One read transaction for the whole copy: without it each write by the relay would start the copy anew.
    source.execute_batch("BEGIN; SELECT count(*) FROM relay;")?;
    let _ = std::fs::remove_file(to);
    files::create_private(to).map_err(|error| unwritable(to, &error))?;
    let mut target = Connection::open(to)?;
    let copied = copy_pages(&Backup::new(&source, &mut target)?, report)?;
    // One file, whole in itself: a copy has no log beside it.
    target.pragma_update(None, "journal_mode", "delete")?;
    drop(target);
    let reopened = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let verdict: String = reopened.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Error::internal(format!("the copy is damaged: {verdict}")));
    }
    std::fs::File::open(to).and_then(|file| file.sync_all()).map_err(Error::internal)?;
    Ok(copied)
}

fn copy_pages(backup: &Backup<'_, '_>, report: &mut impl FnMut(Progress)) -> Result<Progress> {
    let pages = |count: i32| u64::try_from(count).unwrap_or(0);
    loop {
        let step = backup.step(PAGES_PER_STEP)?;
        let progress = backup.progress();
        let reached =
            Progress { done: pages(progress.pagecount - progress.remaining), total: pages(progress.pagecount) };
        report(reached);
        match step {
            StepResult::Done => return Ok(reached),
            StepResult::More => {}
            // Busy or locked: somebody else has the copy open for a moment.
            _ => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
}
