//! The data file: one SQLite database, and the only SQL of the crate.
//!
//! There are two doors into the file. [`Store::read`] lends a connection that cannot write, on a blocking thread.
//! [`Store::write`] hands an operation to the one writer, which runs it inside `BEGIN IMMEDIATE` together with others
//! that wait, commits once and then answers them all. Both sides of a door are free functions in a file per table,
//! connection first, so that they compose inside one transaction.

mod files;
mod schema;
mod values;
mod writer;
pub mod bell;
pub mod relay;
pub mod agents;
pub mod keys;
pub mod blocks;
pub mod threads;
pub mod boxes;
pub mod messages;
pub mod artifacts;
pub mod events;
pub mod idempotency;
pub mod webhooks;
pub mod dead_letters;
pub mod backup;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use r2d2_sqlite::SqliteConnectionManager;
pub use rusqlite::Connection;
use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;

use self::bell::Bell;
pub use self::files::ServerLock;
pub use self::writer::Tx;
use self::writer::Writer;
use crate::domain::time::Clock;
use crate::error::{Error, Result};

/// How many connections read at once. More than two gained nothing, and each costs its cache.
pub const READERS: u32 = 2;
/// How many connections look things up on their callers' threads, at most: as many as threads that call. They are apart
/// so that no list can keep a request waiting at the door.
const DOORKEEPERS_MAX: usize = 8;
/// Page cache of a reading connection, in KiB.
const READER_CACHE_KIB: i64 = 4 * 1024;
/// Page cache of all connections that look things up together, in KiB.
const DOORKEEPERS_CACHE_KIB: i64 = 8 * 1024;
/// Page cache of the writing connection, in KiB.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// How many statements a connection keeps prepared.
const STATEMENTS: usize = 64;
/// Two processes share the file. Whoever waits for its lock looks again each millisecond, because the other one, a
/// busy relay perhaps, frees it for moments only; after half a minute something is wrong.
const LOCK_LOOKS_MAX: i32 = 30_000;

/// How a store behaves. The defaults are right for everything but measurements and tests.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where operations get their `now` from.
    pub clock: Clock,
    /// Whether waiting writes share a commit.
    pub group_commit: bool,
    /// Whether an older file is brought up to date. Only for whoever holds the [`ServerLock`]: a relay of the older
    /// version may be serving it.
    pub migrate: bool,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { clock: Clock::system(), group_commit: true, migrate: false }
    }
}

/// An open data file. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    clock: Clock,
    readers: Pool,
    doorkeepers: Pool,
    writer: Writer,
    bell: Bell,
}

type Pool = r2d2::Pool<SqliteConnectionManager>;

impl Store {
    /// Opens the data file, creating it and its folder when they are missing, for their owner only.
    ///
    /// # Errors
    /// When the file cannot be opened, is another program's or was written by a later version: then it is untouched.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store> {
        let path = std::path::absolute(path).map_err(|error| unusable(path, &error))?;
        if let Some(folder) = path.parent() {
            files::create_folder(folder).map_err(|error| unusable(folder, &error))?;
        }
        schema::check_file(&path)?;
        files::create_private(&path).map_err(|error| unusable(&path, &error))?;

        let mut conn = Connection::open(&path)?;
        configure(&conn, WRITER_CACHE_KIB)?;
        conn.pragma_update(None, "journal_mode", "wal")?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        if let Some(copy) = schema::prepare(&mut conn, &path, &options)? {
            tracing::info!(copy = %copy.display(), "the data file was brought up to date; a copy of the old one was kept");
        }

        let bell = Bell::default();
        let writer = Writer::start(conn, &path, &options, bell.clone())?;
        Ok(Store(Arc::new(Inner {
            readers: pool(&path, READERS, READER_CACHE_KIB)?,
            doorkeepers: doorkeepers(&path)?,
            clock: options.clock,
            writer,
            bell,
            path,
        })))
    }

    /// Where the file is, from the root.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The clock of this store's operations.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Rings when an event is written that an agent may read.
    pub fn bell(&self) -> &Bell {
        &self.0.bell
    }

    /// Reads, on a blocking thread. All of `work` sees one moment of the file.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let conn = store.0.readers.get().map_err(Error::internal)?;
            let snapshot = Snapshot::of(&conn)?;
            work(snapshot.0)
        });
        reading.await.map_err(Error::internal)?
    }

    /// Reads on the calling thread: for a few rows by key, which takes less time than a change of thread.
    pub fn look_up<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let conn = self.0.doorkeepers.get().map_err(Error::internal)?;
        work(&conn)
    }

    /// As [`Store::look_up`], and all of `work` sees one moment of the file.
    pub fn look_up_together<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.look_up(|conn| work(Snapshot::of(conn)?.0))
    }

    /// Runs `work` in a transaction and answers once it is on disk. All or nothing: after an error nothing was written.
    ///
    /// `work` may be run again, when another operation that shared its transaction failed; it decides before it writes.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.0.writer.write(work).await
    }
}

/// A reading transaction. It also spares each statement in it the way to the lock of the file.
struct Snapshot<'a>(&'a Connection);

impl<'a> Snapshot<'a> {
    fn of(conn: &'a Connection) -> Result<Snapshot<'a>> {
        conn.prepare_cached("BEGIN")?.execute([])?;
        Ok(Snapshot(conn))
    }
}

impl Drop for Snapshot<'_> {
    /// Ends it whatever happened: a connection that kept it would keep the log from shrinking.
    fn drop(&mut self) {
        let ended = self.0.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        if let Err(error) = ended {
            tracing::error!(%error, "a reading transaction could not end");
        }
    }
}

/// What every connection needs.
fn configure(conn: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    wait_for_lock(conn)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite compiles a statement anew when another limit or range is bound to it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "cache_size", -cache_kib)?;
    conn.pragma_update(None, "temp_store", "memory")
}

/// SQLite's own way of waiting looks ever more rarely and starves.
fn wait_for_lock(conn: &Connection) -> rusqlite::Result<()> {
    conn.busy_handler(Some(|looks| {
        std::thread::sleep(Duration::from_millis(1));
        looks < LOCK_LOOKS_MAX
    }))
}

fn doorkeepers(path: &Path) -> Result<Pool> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let size = u32::try_from(threads.clamp(2, DOORKEEPERS_MAX)).unwrap_or(2);
    pool(path, size, DOORKEEPERS_CACHE_KIB / i64::from(size))
}

fn pool(path: &Path, size: u32, cache_kib: i64) -> Result<Pool> {
    let connections = SqliteConnectionManager::file(path)
        .with_flags(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .with_init(move |conn| {
            configure(conn, cache_kib)?;
            conn.pragma_update(None, "query_only", true)
        });
    let pool = r2d2::Pool::builder()
        .max_size(size)
        .test_on_check_out(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .build(connections);
    pool.map_err(Error::internal)
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(
        crate::error::Symbol::Internal,
        format!("cannot use {}: {error}. Choose another place with --data FILE.", path.display()),
    )
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::internal(error)
    }
}
