//! The one writer.
//!
//! A thread owns the only connection that writes. Operations wait for it in a bounded queue; it takes as many as wait,
//! up to [`GROUP_MAX`], runs them inside one `BEGIN IMMEDIATE`, commits once and then answers each. A sync to disk costs
//! as much for one operation as for a hundred, so that waiting together makes `synchronous=FULL` as fast as none at all.
//!
//! Each operation is still all or nothing. One that refuses has written nothing, and the group goes on without it. One
//! that fails after it wrote, or panics, undoes the group; its neighbours run again, each in a transaction of its own.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use ulid::Ulid;

use crate::domain::id::Ids;
use crate::domain::time::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::store::bell::{Bell, Topic};
use crate::store::{StoreOptions, wait_for_lock};

/// Most operations that share a commit.
const GROUP_MAX: usize = 128;
/// How many operations may wait. When the queue is full, callers wait for a place in it.
const QUEUE_MAX: usize = 1024;
/// SQLite moves the log into the file by itself whenever it holds this many pages (16 MiB).
const CHECKPOINT_PAGES: i64 = 4000;
/// Readers that follow each other without a gap keep SQLite from starting the log anew. From this size on the writer
/// waits for them.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// How much the log may grow before the writer waits again, after somebody would not let go.
const LOG_BYTES_STEP: u64 = 4 << 20;
/// How long it waits. Our own readers are done in milliseconds.
const LOG_PATIENCE: Duration = Duration::from_millis(250);

/// A transaction that may write. Reads and writes through it see what came before them in the group.
pub struct Tx<'a> {
    conn: &'a Connection,
    /// The moment of this operation.
    pub now: Timestamp,
    ids: &'a mut Ids,
    written: &'a mut Vec<(Topic, i64)>,
}

impl Tx<'_> {
    /// The next id.
    pub fn next_id(&mut self) -> Ulid {
        self.ids.next(self.now)
    }

    /// Notes that those who listen for this should look again once the transaction is on disk.
    pub(super) fn ring(&mut self, topic: Topic, seq: i64) {
        self.written.push((topic, seq));
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

/// The greatest id in the file. Messages have no index by id: the last one is found from the end of the log.
fn last_id(conn: &Connection) -> rusqlite::Result<Option<[u8; 16]>> {
    conn.query_row(
        "SELECT max(id) FROM (
             SELECT max(ulid) AS id FROM threads UNION ALL SELECT max(ulid) FROM agents UNION ALL
             SELECT max(ulid) FROM keys UNION ALL SELECT max(ulid) FROM dead_letters UNION ALL
             SELECT ulid FROM messages WHERE (thread, sequence_no) =
                 (SELECT thread, sequence_no FROM events WHERE sequence_no IS NOT NULL ORDER BY seq DESC LIMIT 1))",
        [],
        |row| row.get(0),
    )
}

/// The queue in front of the writing thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Operation>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(conn: Connection, path: &Path, options: &StoreOptions, bell: Bell) -> Result<Writer> {
        conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        conn.pragma_update(None, "journal_size_limit", i64::try_from(LOG_BYTES_MAX).unwrap_or(i64::MAX))?;
        let last = last_id(&conn)?;
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let thread = WritingThread {
            conn,
            log: Log { path: log.into(), wait_from: LOG_BYTES_MAX },
            clock: options.clock.clone(),
            ids: Ids::after(last),
            written: Vec::new(),
            bell,
            group_max: if options.group_commit { GROUP_MAX } else { 1 },
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(move || thread.run(waiting));
        Ok(Writer { queue: Some(queue), thread: Some(thread.map_err(Error::internal)?) })
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let operation = Waiting { work, outcome: None, reply };
        let Some(queue) = &self.queue else {
            return Err(Error::internal("the writer has stopped"));
        };
        queue.send(Box::new(operation)).await.map_err(|_| Error::internal("the writer has stopped"))?;
        answer.await.map_err(|_| Error::internal("the writer has stopped"))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without a queue the thread finishes what waits and closes its connection, which empties the log.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread itself may hold the last clone of the store, inside an operation.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

trait Operation: Send {
    /// Runs, keeping the outcome. False when it failed after it wrote.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Whether it has something to commit.
    fn succeeded(&self) -> bool;
    /// Takes a success back. A refusal stands: it is true whatever became of the transaction.
    fn fail(&mut self, error: Error);
    /// Gives the outcome to the one who waits, if it still does.
    fn answer(self: Box<Self>);
}

struct Waiting<T, W> {
    work: W,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, W: FnMut(&mut Tx<'_>) -> Result<T> + Send> Operation for Waiting<T, W> {
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let before = tx.conn.total_changes();
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)));
        let outcome = outcome.unwrap_or_else(|_| Err(Error::internal("an operation of the writer panicked")));
        let sound = outcome.is_ok() || tx.conn.total_changes() == before;
        self.outcome = Some(outcome);
        sound
    }

    fn succeeded(&self) -> bool {
        matches!(self.outcome, Some(Ok(_)))
    }

    fn fail(&mut self, error: Error) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error));
        }
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            let _ = self.reply.send(outcome);
        }
    }
}

struct WritingThread {
    conn: Connection,
    log: Log,
    clock: Clock,
    ids: Ids,
    written: Vec<(Topic, i64)>,
    bell: Bell,
    group_max: usize,
}

impl WritingThread {
    fn run(mut self, mut waiting: mpsc::Receiver<Box<dyn Operation>>) {
        let mut group = Vec::with_capacity(self.group_max);
        while let Some(first) = waiting.blocking_recv() {
            group.push(first);
            while group.len() < self.group_max {
                let Ok(next) = waiting.try_recv() else {
                    break;
                };
                group.push(next);
            }
            self.commit_together(&mut group);
            for operation in group.drain(..) {
                operation.answer();
            }
            self.log.keep_short(&self.conn);
        }
    }

    fn commit_together(&mut self, group: &mut [Box<dyn Operation>]) {
        if self.transaction(group) {
            return;
        }
        for index in 0..group.len() {
            self.transaction(&mut group[index..=index]);
        }
    }

    /// Runs the group in one transaction. False when it must be taken apart, nothing having been written.
    fn transaction(&mut self, group: &mut [Box<dyn Operation>]) -> bool {
        self.written.clear();
        if let Err(error) = self.conn.execute_batch("BEGIN IMMEDIATE") {
            fail_all(group, &error);
            return true;
        }
        for operation in &mut *group {
            let mut tx = Tx { conn: &self.conn, now: self.clock.now(), ids: &mut self.ids, written: &mut self.written };
            // Some failures, a full disk among them, make SQLite undo the whole transaction by itself.
            let sound = operation.run(&mut tx) && !self.conn.is_autocommit();
            if !sound {
                self.undo();
                if let [alone] = group {
                    alone.fail(Error::internal("SQLite undid the transaction of an operation"));
                    return true;
                }
                return false;
            }
        }
        // With nothing to write there is nothing to wait for.
        if !group.iter().any(|operation| operation.succeeded()) {
            self.undo();
            return true;
        }
        if let Err(error) = self.conn.execute_batch("COMMIT") {
            self.undo();
            fail_all(group, &error);
            return true;
        }
        self.bell.ring(&self.written);
        true
    }

    fn undo(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the writer could not roll back");
        }
    }
}

fn fail_all(group: &mut [Box<dyn Operation>], error: &rusqlite::Error) {
    for operation in group {
        operation.fail(Error::internal(error.to_string()));
    }
}

/// SQLite's write-ahead log.
struct Log {
    path: PathBuf,
    wait_from: u64,
}

impl Log {
    fn keep_short(&mut self, conn: &Connection) {
        let Ok(length) = std::fs::metadata(&self.path).map(|metadata| metadata.len()) else {
            return;
        };
        if length < self.wait_from {
            return;
        }
        let restart = || -> rusqlite::Result<bool> {
            conn.busy_timeout(LOG_PATIENCE)?;
            let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
            // Whatever came of it: operations wait longer than this.
            wait_for_lock(conn)?;
            busy
        };
        self.wait_from = match restart() {
            Ok(false) => LOG_BYTES_MAX,
            Ok(true) => {
                tracing::warn!(
                    bytes = length,
                    "somebody reads the data file for long and keeps its log from shrinking"
                );
                length + LOG_BYTES_STEP
            }
            Err(error) => {
                tracing::error!(%error, "the writer could not shorten the log");
                length + LOG_BYTES_STEP
            }
        };
    }
}
