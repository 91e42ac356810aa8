//! Group commit: operations that wait share a commit, and each of them is still all or nothing.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::thread::Thread;
use agentrelay::domain::transition::State;
use agentrelay::error::{Error, Result, Symbol};
use agentrelay::relay::Relay;
use agentrelay::store::{Store, StoreOptions, Tx, agents, threads};
use tokio::task::JoinHandle;

use crate::storage::{agent, count, open, sqlite};
use crate::{consistency, operations};

/// Keeps the writer busy until it is opened, so that operations wait meanwhile and are taken together.
struct Gate {
    open: mpsc::Sender<()>,
    passed: JoinHandle<Result<()>>,
}

impl Gate {
    async fn before(store: &Store) -> Gate {
        let (open, opened) = mpsc::channel::<()>();
        let (arrive, arrived) = tokio::sync::oneshot::channel();
        let (store, mut arrive) = (store.clone(), Some(arrive));
        let passed = tokio::spawn(async move {
            let wait = move |_: &mut Tx<'_>| {
                arrive.take().map(|arrive| arrive.send(()));
                let _ = opened.recv();
                Ok(())
            };
            store.write(wait).await
        });
        arrived.await.expect("the writer has come to the gate");
        Gate { open, passed }
    }

    async fn open(self) {
        drop(self.open);
        self.passed.await.expect("no panic").expect("through the gate");
    }
}

/// The operation, once it stands in the queue: that takes its future one look.
async fn queued<T>(operation: impl Future<Output = T>) -> Pin<Box<impl Future<Output = T>>> {
    let mut operation = Box::pin(operation);
    tokio::select! {
        biased;
        _ = &mut operation => panic!("the gate is open"),
        () = std::future::ready(()) => operation,
    }
}

/// An operation's closure that counts how often it runs.
fn counted<T>(
    runs: &Arc<AtomicUsize>,
    mut work: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
) -> impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static {
    let runs = runs.clone();
    move |tx| {
        runs.fetch_add(1, Ordering::SeqCst);
        work(tx)
    }
}

fn insert(tx: &mut Tx<'_>, handle: &str) -> Result<()> {
    agents::insert(tx, &NewAgent::with_handle(Handle::parse(handle).expect("a handle")))?;
    Ok(())
}

fn handles(store: &Store) -> Vec<String> {
    let conn = sqlite(store.path());
    let mut statement = conn.prepare("SELECT handle FROM agents ORDER BY handle").expect("a query");
    let handles = statement.query_map([], |row| row.get(0)).expect("agents");
    handles.map(|handle| handle.expect("a handle")).collect()
}

fn refusal() -> Error {
    Error::new(Symbol::TeammateBlocked, "for the test")
}

/// What an operation of the test does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Succeed,
    /// Refuses, having written nothing.
    Refuse,
    /// Writes, and fails then.
    FailLate,
    /// Writes, and panics then.
    Panic,
    /// Breaks a constraint after it wrote.
    BreakConstraint,
}

async fn perform(store: Store, handle: String, does: Does, runs: Arc<AtomicUsize>) -> Result<()> {
    let work = move |tx: &mut Tx<'_>| match does {
        Does::Succeed => insert(tx, &handle),
        Does::Refuse => Err(refusal()),
        Does::FailLate => {
            insert(tx, &handle)?;
            Err(Error::internal("for the test"))
        }
        Does::Panic => {
            insert(tx, &handle)?;
            panic!("for the test");
        }
        Does::BreakConstraint => {
            insert(tx, &handle)?;
            tx.execute("INSERT INTO blocks (blocker, blocked, created_at) VALUES (1, NULL, 0)", [])?;
            Ok(())
        }
    };
    store.write(counted(&runs, work)).await
}

/// Operations that wait together come out as if each had been alone.
async fn all_or_nothing(options: StoreOptions) {
    use Does::{BreakConstraint, FailLate, Panic, Refuse, Succeed};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let store = Store::open(&path, options).expect("a data file");
    store.write(|tx| insert(tx, "zero@acme")).await.expect("the first");

    let group =
        [Succeed, FailLate, Succeed, Refuse, Panic, Succeed, BreakConstraint, Succeed, Panic, FailLate, Succeed];
    let gate = Gate::before(&store).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let mut waiting = Vec::new();
    for (place, does) in group.into_iter().enumerate() {
        waiting.push(queued(perform(store.clone(), format!("agent-{place:02}@acme"), does, runs.clone())).await);
    }
    gate.open().await;
    let mut expected = vec!["zero@acme".to_owned()];
    for (place, (does, outcome)) in group.into_iter().zip(waiting).enumerate() {
        let outcome = outcome.await;
        match does {
            Succeed => {
                outcome.unwrap_or_else(|error| panic!("operation {place}: {error}"));
                expected.insert(expected.len() - 1, format!("agent-{place:02}@acme"));
            }
            Refuse => assert_eq!(outcome.expect_err("refused").symbol(), Symbol::TeammateBlocked),
            _ => assert_eq!(outcome.expect_err("failed").symbol(), Symbol::Internal, "operation {place}"),
        }
    }
    assert_eq!(handles(&store), expected);

    // The writer lives on.
    store.write(|tx| insert(tx, "zz@acme")).await.expect("the last");
    assert_eq!(handles(&store).len(), expected.len() + 1);
    drop(store);
    consistency::check(&sqlite(&path));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_fails_or_panics_after_it_wrote_leaves_nothing_and_its_neighbours_everything() {
    all_or_nothing(StoreOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_without_grouping() {
    all_or_nothing(StoreOptions { group_commit: false, ..StoreOptions::default() }).await;
}

/// Two operations wait together; the second looks at the file from outside while it runs. What does it see of the first?
async fn seen_from_outside_while_the_second_runs(options: StoreOptions) -> i64 {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let store = Store::open(&path, options).expect("a data file");
    let gate = Gate::before(&store).await;
    let first = queued(store.write(|tx| insert(tx, "first@acme"))).await;
    let second = queued(store.write(move |tx| {
        assert_eq!(count(tx, "SELECT count(*) FROM agents"), 1, "inside, it sees what came before it");
        Ok(count(&sqlite(&path), "SELECT count(*) FROM agents"))
    }))
    .await;
    gate.open().await;
    first.await.expect("the first");
    let seen = second.await.expect("the second");
    assert_eq!(count(&sqlite(store.path()), "SELECT count(*) FROM agents"), 1);
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_wait_share_a_commit() {
    assert_eq!(seen_from_outside_while_the_second_runs(StoreOptions::default()).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_grouping_each_has_its_own() {
    let options = StoreOptions { group_commit: false, ..StoreOptions::default() };
    assert_eq!(seen_from_outside_while_the_second_runs(options).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_undo_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("relay.db"));
    let runs = Arc::new(AtomicUsize::new(0));
    let gate = Gate::before(&store).await;
    let mut waiting = Vec::new();
    for place in 0..20 {
        let does = if place % 4 == 3 { Does::Refuse } else { Does::Succeed };
        waiting.push(queued(perform(store.clone(), format!("agent-{place}@acme"), does, runs.clone())).await);
    }
    gate.open().await;
    for outcome in waiting {
        drop(outcome.await);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 20, "no operation had to run again");
    assert_eq!(handles(&store).len(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_goes_away_before_the_answer_disturbs_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("relay.db"));
    let gate = Gate::before(&store).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let gone = queued(perform(store.clone(), "gone@acme".to_owned(), Does::Succeed, runs.clone())).await;
    let stays = queued(perform(store.clone(), "stays@acme".to_owned(), Does::Succeed, runs.clone())).await;
    drop(gone);
    gate.open().await;
    stays.await.expect("its neighbour");
    assert!(handles(&store).contains(&"stays@acme".to_owned()));
    consistency::check(&sqlite(store.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_dropped_has_written_what_waited_and_emptied_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let store = open(&path);
    let gate = Gate::before(&store).await;
    let waiting = queued(perform(store.clone(), "bob@acme".to_owned(), Does::Succeed, Arc::default())).await;
    drop(store);
    gate.open().await;
    waiting.await.expect("written");
    let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0);
    assert_eq!(count(&sqlite(&path), "SELECT count(*) FROM agents"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_version_that_is_gone_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let relay = Relay::new(open(&folder.path().join("relay.db")));
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let sent = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    let work = move |tx: &mut Tx<'_>| {
        let seen = threads::find(tx, sent.thread)?.expect("a thread");
        let next = |generation| Thread { generation, state: State::Cancelled, ..seen.clone() };
        Ok([
            threads::update(tx, &next(3), None)?,
            threads::update(tx, &next(2), None)?,
            threads::update(tx, &next(2), None)?,
        ])
    };
    assert_eq!(relay.store().write(work).await.expect("tried"), [false, true, false]);
}
