//! What a file is: made for its owner only, marked as ours, and left alone when it is not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use agentrelay::error::Symbol;
use agentrelay::store::{ServerLock, Store, StoreOptions};
use rusqlite::Connection;

use crate::storage::{agent, count, open, sqlite};
use crate::support::TestRelay;
use crate::{consistency, operations};

#[tokio::test]
async fn a_fresh_file_says_whose_it_is_and_of_which_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let store = open(&path);
    let conn = sqlite(&path);
    assert_eq!(count(&conn, "SELECT application_id FROM pragma_application_id"), 0x6167_526c);
    assert_eq!(count(&conn, "SELECT user_version FROM pragma_user_version"), 2);
    let journal: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(journal, "wal");

    let pragmas = store.write(|tx| Ok((count(tx, "PRAGMA synchronous"), count(tx, "PRAGMA foreign_keys")))).await;
    assert_eq!(pragmas.expect("a write"), (2, 1), "FULL, and no row without the one that it refers to");
}

#[test]
fn every_table_is_strict() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let _store = open(&path);
    let conn = sqlite(&path);
    let tables = "FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'";
    assert!(count(&conn, &format!("SELECT count(*) {tables}")) >= 10);
    assert_eq!(count(&conn, &format!("SELECT count(*) {tables} AND NOT strict")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_state_and_no_intent_but_the_known_ones_can_be_stored() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    bob.hand_to(&frank, "a handoff").await;
    let conn = relay.sqlite();
    let mut statement = conn
        .prepare(
            "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c
             WHERE t.schema = 'main' AND c.name IN ('state', 'intent')",
        )
        .expect("a query");
    let columns = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    let columns: Vec<_> = columns.expect("columns").map(|column| column.expect("a column")).collect();
    assert!(columns.len() >= 3, "{columns:?}");
    let unchecked: Vec<_> = columns
        .iter()
        .filter(|(table, column)| {
            let nonsense = format!("UPDATE {table} SET {column} = 'nonsense' WHERE {column} IS NOT NULL");
            conn.execute(&nonsense, []).is_ok()
        })
        .collect();
    assert!(unchecked.is_empty(), "{unchecked:?}");
}

#[tokio::test]
async fn a_reading_connection_cannot_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("relay.db"));
    let refused = store.read(|conn| Ok(conn.execute("UPDATE relay SET checked_at = 1", [])?)).await;
    assert_eq!(refused.expect_err("read only").symbol(), Symbol::Internal);
    assert_eq!(
        store.look_up(|conn| Ok(conn.execute("DELETE FROM keys", [])?)).expect_err("read only").symbol(),
        Symbol::Internal
    );
}

#[tokio::test]
async fn the_file_and_its_folder_are_their_owners_alone() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("a/b");
    let path = folder.join("relay.db");
    let store = open(&path);
    store.write(|tx| Ok(tx.execute("UPDATE relay SET checked_at = 1", [])?)).await.expect("a write");
    assert_owned(&folder);
}

#[tokio::test]
async fn whatever_the_umask_says() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("data");
    let path = folder.join("relay.db");
    let created = Command::new("sh")
        .args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_agentrelay"), "--data"])
        .arg(&path)
        .args(["agent", "create", "bob@acme"])
        .output()
        .expect("a command");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    assert_owned(&folder);
}

#[tokio::test]
async fn a_file_that_was_open_to_others_is_closed_to_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    drop(open(&path));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let _store = open(&path);
    assert_eq!(mode(&path), 0o600);
}

fn assert_owned(folder: &Path) {
    assert_eq!(mode(folder), 0o700);
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

/// Every file in the folder, with its bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")))
        .collect()
}

/// Refused, and nothing in its folder changed. Gives the reason.
#[track_caller]
fn assert_refused_untouched(path: &Path) -> String {
    let before = contents(path.parent().expect("a folder"));
    let error = Store::open(path, StoreOptions::default()).map(|_| ()).expect_err("a refusal");
    ServerLock::take(path).expect_err("nor is it served");
    let after = contents(path.parent().expect("a folder"));
    assert!(after == before, "{:?} became {:?}, or a file changed", before.keys(), after.keys());
    assert!(error.message().contains(&path.display().to_string()), "{error}");
    error.to_string()
}

#[test]
fn what_is_no_sqlite_file_is_refused_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    for garbage in [vec![0x5a; 8192], b"notes to myself".to_vec(), b"SQLite format 3\0".to_vec(), vec![0; 100]] {
        std::fs::write(&path, garbage).expect("a file");
        assert!(assert_refused_untouched(&path).contains("is no SQLite file"));
    }
}

#[test]
fn an_empty_file_becomes_a_data_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    std::fs::write(&path, "").expect("a file");
    let _store = open(&path);
    consistency::check(&sqlite(&path));
}

#[test]
fn another_programs_file_is_refused_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let conn = Connection::open(&path).expect("a file");
    conn.execute_batch("PRAGMA application_id = 42; CREATE TABLE places (name TEXT);").expect("a table");
    drop(conn);
    assert!(assert_refused_untouched(&path).contains("belongs to another program"));
}

#[test]
fn another_programs_file_is_refused_untouched_also_when_it_bears_no_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    // Most of the world's SQLite files have neither an application id nor a version.
    for marks in ["", "PRAGMA user_version = 1;"] {
        let path = folder.path().join("relay.db");
        let conn = Connection::open(&path).expect("a file");
        conn.execute_batch(&format!("{marks} CREATE TABLE places (name TEXT);")).expect("a table");
        drop(conn);
        assert_refused_untouched(&path);
        std::fs::remove_file(&path).expect("removed");
    }
}

#[test]
fn so_is_one_with_a_log_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let conn = Connection::open(&path).expect("a file");
    conn.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE places (name TEXT);").expect("a table");
    drop(conn);
    let before = std::fs::read(&path).expect("the file");
    Store::open(&path, StoreOptions::default()).map(|_| ()).expect_err("a refusal");
    // SQLite may have left an empty log beside it: to look into such a file is to open its log.
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    let log = std::fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0);
}

/// A file whose version was raised, as a later agentrelay would have left it.
fn file_of_a_later_version(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("relay.db");
    drop(open(&path));
    let conn = sqlite(&path);
    conn.pragma_update(None, "user_version", 3).expect("a later version");
    let busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("a checkpoint");
    assert!(!busy);
    path
}

#[test]
fn a_file_of_a_later_version_is_refused_untouched() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let path = other.path().join("relay.db");
    std::fs::copy(file_of_a_later_version(folder.path()), &path).expect("a copy");
    let reason = assert_refused_untouched(&path);
    assert!(reason.contains("later agentrelay (file version 3, this one knows 2)"), "{reason}");
}

#[test]
fn a_later_version_is_seen_also_while_only_the_log_says_it() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let path = file_of_a_later_version(folder.path());
    let conn = sqlite(&path);
    conn.execute_batch("PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 3")
        .expect("set");
    // It is open, so that the log was not moved into the file: this is what a crash leaves.
    let crashed = other.path().join("relay.db");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&crashed)).expect("a copy");
    }
    assert_eq!(std::fs::read(&crashed).expect("a file")[63], 2, "the file itself says version 2");
    let error = Store::open(&crashed, StoreOptions::default()).map(|_| ()).expect_err("a refusal");
    assert!(error.to_string().contains("later agentrelay"), "{error}");
    let conn = sqlite(&crashed);
    assert_eq!(count(&conn, "SELECT user_version FROM pragma_user_version"), 3);
    consistency::check(&conn);
}

/// What is in a file's schema, apart from how its text came to be: each table with its columns, each index, each trigger.
fn shape(conn: &Connection) -> Vec<String> {
    let mut rows = conn
        .prepare(
            "SELECT type || ' ' || name || coalesce(' ' || CASE type WHEN 'table' THEN NULL ELSE sql END, '')
             FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'
             UNION ALL
             SELECT 'column ' || t.name || '.' || c.name || ' ' || c.type || ' ' || c.[notnull] || ' ' || c.pk || ' '
                 || coalesce(c.dflt_value, '-')
             FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table' ORDER BY 1",
        )
        .expect("a statement");
    let rows = rows.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    rows.map(|row| row.expect("a row").split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date_by_a_server_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let conn = Connection::open(&path).expect("a file");
    conn.execute_batch(include_str!("schema_1.sql")).expect("the first schema");
    conn.execute_batch(
        "PRAGMA application_id = 0x6167526c; PRAGMA user_version = 1;
         INSERT INTO agents (ulid, handle, name, created_at) VALUES (zeroblob(16), 'bob@acme', 'bob', 5),
             (randomblob(16), 'frank@acme', 'frank', 6);
         INSERT INTO handles (handle, agent) SELECT handle, id FROM agents;
         INSERT INTO threads (ulid, sender, recipient, state, generation, message_count, intent, sender_read,
                 recipient_read, created_at, updated_at, summary_preview)
             VALUES (x'01000000000000000000000000000001', 1, 2, 'pending', 1, 1, 'inform', 1, 0, 7, 7, 'x'),
                 (x'01000000000000000000000000000003', 1, 2, 'pending', 1, 1, 'inform', 1, 0, 8, 8, 'y');
         INSERT INTO messages (thread, sequence_no, ulid, generation, author, created_at, body)
             SELECT id, 1, iif(id = 1, x'01000000000000000000000000000002', x'01000000000000000000000000000004'), 1,
                 sender, created_at, summary_preview FROM threads;
         INSERT INTO events (at, kind, actor, thread, generation, state, sequence_no, request_id)
             SELECT created_at, 'thread.created', sender, id, 1, state, 1, 'req' FROM threads;
         INSERT INTO audience (agent, seq) SELECT id, seq FROM agents, events;",
    )
    .expect("its rows");
    drop(conn);

    let error = Store::open(&path, StoreOptions::default()).map(|_| ()).expect_err("another command");
    assert!(error.to_string().contains("agentrelay serve"), "{error}");
    drop(Store::open(&path, StoreOptions { migrate: true, ..StoreOptions::default() }).expect("a server"));

    let conn = sqlite(&path);
    consistency::check(&conn);
    assert_eq!(count(&conn, "SELECT threads FROM boxes"), 2);
    assert_eq!(count(&conn, "SELECT sum(changed_at) FROM agents"), 11);
    let fresh = folder.path().join("fresh.db");
    drop(open(&fresh));
    assert_eq!(shape(&conn), shape(&sqlite(&fresh)));
}

#[test]
fn a_second_server_is_refused_with_the_first_ones_process_until_that_has_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("relay.db");
    let lock = ServerLock::take(&path).expect("the first");
    for _ in 0..2 {
        let refusal = ServerLock::take(&path).expect_err("the second");
        assert_eq!(refusal.symbol(), Symbol::StateChanged);
        assert!(refusal.message().contains(&format!("process {} ", std::process::id())), "{refusal}");
    }
    drop(lock);
    let _third = ServerLock::take(&path).expect("the third");
    ServerLock::take(&folder.path().join("other.db")).expect("another file");
}

#[test]
fn another_name_of_the_same_file_is_the_same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, link) = (folder.path().join("relay.db"), folder.path().join("link.db"));
    drop(open(&path));
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let _lock = ServerLock::take(&path).expect("the first");
    ServerLock::take(&link).expect_err("the second");
}

#[tokio::test]
async fn a_file_opens_again_as_it_was_left_also_without_a_clean_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, crashed) = (folder.path().join("relay.db"), folder.path().join("crashed.db"));
    let relay = agentrelay::relay::Relay::new(open(&path));
    let (bob, _) = (agent(&relay, "bob@acme").await, agent(&relay, "frank@acme").await);
    let sent = operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&crashed)).expect("a copy");
    }
    let reopened = agentrelay::relay::Relay::new(open(&crashed));
    let view = reopened.thread(&bob, sent.thread).await.expect("the thread");
    assert_eq!(view.messages[0].draft.parts.body, "a handoff");
    consistency::check(&sqlite(&crashed));
}
