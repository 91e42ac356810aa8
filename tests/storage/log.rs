//! SQLite's write-ahead log stays short, however slowly somebody reads (DESIGN 5; a peer's grew for ever behind a stalled
//! reader).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use agentrelay::domain::page::Limit;
use agentrelay::domain::transition::Side;
use agentrelay::relay::threads::ThreadFilter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::storage::count;
use crate::support::{Agent, TestRelay};
use crate::{consistency, operations};

const MIB: u64 = 1 << 20;
/// What the log must stay under.
const LOG_MAX: u64 = 64 * MIB;

/// Watches how long the log gets.
struct Watch {
    longest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    path: PathBuf,
}

impl Watch {
    fn over(data_file: &Path) -> Watch {
        let mut path = data_file.as_os_str().to_owned();
        path.push("-wal");
        let watch = Watch { longest: Arc::default(), stop: Arc::default(), path: path.into() };
        let (longest, stop, path) = (watch.longest.clone(), watch.stop.clone(), watch.path.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                longest.fetch_max(length(&path), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        watch
    }

    fn longest(&self) -> u64 {
        self.longest.load(Ordering::SeqCst)
    }

    fn now(&self) -> u64 {
        length(&self.path)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Readers who follow each other without a gap: at each moment one of them is in the middle of a read.
struct ShortReaders {
    reads: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl ShortReaders {
    fn over(relay: &TestRelay) -> ShortReaders {
        let readers = ShortReaders { reads: Arc::default(), stop: Arc::default() };
        for _ in 0..3 {
            let (conn, reads, stop) = (relay.sqlite(), readers.reads.clone(), readers.stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    conn.execute_batch("BEGIN; SELECT max(id) FROM threads;").expect("a read");
                    std::thread::sleep(Duration::from_millis(3));
                    conn.execute_batch("COMMIT").expect("its end");
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        readers
    }

    fn count(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Drop for ShortReaders {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Many writers at once, so that groups fill.
const WRITERS: usize = 128;

/// Appends so many messages, by many writers at once, each into a thread of its own.
async fn append(relay: &TestRelay, bob: &Agent, text: &'static str, messages: usize) {
    let bob = operations::caller(&relay.relay, bob);
    let left = Arc::new(AtomicUsize::new(messages));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (relay, bob, left) = (relay.relay.clone(), bob.clone(), left.clone());
        writers.spawn(async move {
            let thread = operations::hand(&relay, &bob, "frank@acme", text, None).await.expect("sent").thread;
            let take = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            while take().is_ok() {
                operations::say(&relay, &bob, thread, text).await.expect("said");
            }
        });
    }
    writers.join_all().await;
}

/// A stream whose reader has stopped reading.
async fn stalled_stream(relay: &TestRelay, agent: &Agent) -> TcpStream {
    let address = relay.url.strip_prefix("http://").expect("an address");
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let request = format!(
        "GET /events?after=0 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\r\n",
        agent.key
    );
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut begun = [0; 12];
    socket.read_exact(&mut begun).await.expect("an answer");
    assert_eq!(&begun, b"HTTP/1.1 200");
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_thousand_messages_beside_slow_readers_keep_the_log_short() {
    const MESSAGES: usize = 200_000;
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let watch = Watch::over(&relay.data_file());

    let stream = stalled_stream(&relay, &frank).await;
    let mut readers = JoinSet::new();
    readers.spawn({
        let frank = frank.clone();
        async move {
            loop {
                frank.rest("GET", "/events?wait=50&after=9000000000000000").await;
            }
        }
    });
    readers.spawn({
        let (relay, frank) = (relay.relay.clone(), operations::caller(&relay.relay, &frank));
        async move {
            loop {
                let inbox = ThreadFilter { side: Side::Recipient, states: Vec::new(), since: None };
                relay.threads(&frank, inbox, Limit::DEFAULT, None).await.expect("a list");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    let short = ShortReaders::over(&relay);
    append(&relay, &bob, "a message of a line or so, as most of them are", MESSAGES).await;

    assert!(short.count() > 1_000, "the readers read all the time");
    assert!(watch.longest() < LOG_MAX, "the log had {} bytes", watch.longest());
    drop((readers, stream, short));
    let messages = count(&relay.sqlite(), "SELECT count(*) FROM messages");
    assert_eq!(messages, i64::try_from(MESSAGES + WRITERS).expect("a number"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_holds_on_keeps_nobody_from_writing_and_the_log_shrinks_when_it_lets_go() {
    let long: &'static str = Box::leak("a long message ".repeat(400).into_boxed_str());
    let relay = TestRelay::start().await;
    let (bob, _frank) = relay.bob_and_frank().await;
    let watch = Watch::over(&relay.data_file());

    // Such as a copy by another program, or a person with the sqlite3 shell.
    let holder = relay.sqlite();
    holder.execute_batch("BEGIN").expect("a transaction");
    assert_eq!(count(&holder, "SELECT count(*) FROM threads"), 0);
    append(&relay, &bob, long, 6_000).await;
    assert!(watch.now() > 40 * MIB, "the log had to grow: {} bytes", watch.now());
    assert_eq!(count(&holder, "SELECT count(*) FROM threads"), 0, "it reads on at its moment");

    holder.execute_batch("COMMIT").expect("let go");
    append(&relay, &bob, "short", 500).await;
    assert!(watch.now() <= 33 * MIB, "the log still has {} bytes", watch.now());
    append(&relay, &bob, long, 6_000).await;
    assert!(watch.now() <= 40 * MIB, "the log grew again to {} bytes", watch.now());
    consistency::check(&relay.sqlite());
}
