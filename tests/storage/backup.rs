//! Backups: whole, checked, and made while others write.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentrelay::error::Symbol;
use agentrelay::relay::Relay;
use agentrelay::store::backup::{self, Progress};
use rusqlite::OpenFlags;

use crate::storage::{agent, count, open, sqlite};
use crate::{consistency, operations};

/// A relay with this many letters of four kilobytes in its file.
async fn relay_with(path: &std::path::Path, letters: usize) -> Relay {
    let relay = Relay::new(open(path));
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..letters {
        let (relay, bob) = (relay.clone(), bob.clone());
        sending.spawn(async move {
            operations::hand(&relay, &bob, "frank@acme", &"letter ".repeat(600), None).await.expect("sent");
        });
    }
    sending.join_all().await;
    relay
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_a_whole_data_file_for_its_owner_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("relay.db"), folder.path().join("copy.db"));
    let relay = relay_with(&path, 3_000).await;
    let mut reports: Vec<Progress> = Vec::new();
    let done = backup::copy(&path, &copy, |progress| reports.push(progress)).expect("a copy");

    assert!(reports.len() > 1, "a long copy tells how far it is: {reports:?}");
    assert!(reports.is_sorted_by_key(|progress| progress.done));
    let last = reports.last().expect("a report");
    assert_eq!((last.done, last.total), (done.total, done.total));
    assert_eq!(std::fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0o600);
    let conn = rusqlite::Connection::open_with_flags(&copy, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the copy");
    let pages = u64::try_from(count(&conn, "PRAGMA page_count")).expect("a number");
    assert_eq!(pages, done.total);
    consistency::check(&conn);
    drop(conn);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    let beside = names.iter().filter(|name| name.to_string_lossy().starts_with("copy.db")).count();
    assert_eq!(beside, 1, "one file, whole in itself: {names:?}");

    let restored = Relay::new(open(&copy));
    let bob = agent(&restored, "bobby@acme").await;
    operations::hand(&restored, &bob, "frank@acme", "it goes on from here", None).await.expect("sent");
    drop(restored);
    assert_eq!(count(&sqlite(&copy), "SELECT count(*) FROM threads"), 3_001);
    drop(relay);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_overwrites_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("relay.db"), folder.path().join("copy.db"));
    let _relay = relay_with(&path, 1).await;
    std::fs::write(&copy, "precious").expect("a file");
    let refusal = backup::copy(&path, &copy, |_| ()).expect_err("it exists");
    assert_eq!(refusal.symbol(), Symbol::StateChanged);
    assert!(refusal.message().contains(&copy.display().to_string()), "{refusal}");
    assert_eq!(std::fs::read(&copy).expect("the file"), b"precious");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let _relay = relay_with(&path, 1).await;
    backup::copy(&path, &folder.path().join("no/such/folder/copy.db"), |_| ()).expect_err("no folder");
    let copy = folder.path().join("copy.db");
    backup::copy(&folder.path().join("missing.db"), &copy, |_| ()).expect_err("no data file");
    assert!(!copy.exists());
    assert!(!folder.path().join("missing.db").exists());
    assert!(!folder.path().join("copy.db.partial").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_made_while_everybody_writes_are_each_of_one_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let relay = relay_with(&path, 200).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let bob = agent(&relay, &format!("writer-{writer}@acme")).await;
        let (relay, stop) = (relay.clone(), stop.clone());
        writers.spawn(async move {
            let mut sent = 0_i64;
            while !stop.load(Ordering::SeqCst) {
                let thread =
                    operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent").thread;
                operations::say(&relay, &bob, thread, "a message").await.expect("said");
                sent += 1;
            }
            sent
        });
    }
    let mut threads = Vec::new();
    for number in 0..5 {
        let (path, copy) = (path.clone(), folder.path().join(format!("copy-{number}.db")));
        let copying = tokio::task::spawn_blocking(move || {
            backup::copy(&path, &copy, |_| ()).expect("a copy");
            let conn = sqlite(&copy);
            consistency::check(&conn);
            count(&conn, "SELECT count(*) FROM threads")
        });
        threads.push(copying.await.expect("no panic"));
    }
    stop.store(true, Ordering::SeqCst);
    let sent: i64 = writers.join_all().await.into_iter().sum();
    threads.push(200 + sent);
    assert!(threads.is_sorted_by(|earlier, later| earlier < later), "the writers went on meanwhile: {threads:?}");
    assert_eq!(count(&sqlite(&path), "SELECT count(*) FROM threads"), 200 + sent);
}
