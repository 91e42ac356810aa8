//! Every read has its index: a list costs the same at a million threads as at ten thousand. SQLite says how it would run
//! a statement; here it is asked about every statement that the store has.

use std::path::{Path, PathBuf};

use agentrelay::domain::transition::{Side, State};
use agentrelay::store::boxes::Between;
use agentrelay::store::{boxes, events, threads};
use rusqlite::{Connection, StatementStatus, params_from_iter};

use crate::architecture;
use crate::storage::{open, sqlite};

/// How SQLite would run a statement.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement =
        conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let parameters = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(parameters), |row| row.get("detail")).expect("a plan");
    steps.map(|step| step.expect("a step")).collect()
}

/// The steps of a plan that would cost more in a larger file: a look at each row, or a sort.
fn dear_steps(conn: &Connection, sql: &str) -> Vec<String> {
    let dear = |step: &String| step.starts_with("SCAN") || step.contains("USE TEMP B-TREE");
    // One row, a few, none; the elements of one row's array.
    let bounded = |step: &String| {
        step == "SCAN relay"
            || step == "SCAN sqlite_master"
            || step == "SCAN CONSTANT ROW"
            || step.starts_with("SCAN json_each")
    };
    plan(conn, sql).into_iter().filter(dear).filter(|step| !bounded(step)).collect()
}

#[track_caller]
fn assert_cheap(conn: &Connection, sql: &str) {
    let dear = dear_steps(conn, sql);
    assert!(dear.is_empty(), "{dear:?}: {sql}");
}

#[test]
fn lists_of_threads_read_one_range_of_an_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let _store = open(&folder.path().join("relay.db"));
    let conn = sqlite(&folder.path().join("relay.db"));
    for side in [Side::Sender, Side::Recipient] {
        for sql in threads::list_statements(side) {
            assert_cheap(&conn, sql);
        }
    }
}

const INBOX: Between = Between::AnybodyAnd { recipient: 1 };
const PAIR: Between = Between::Both { sender: 2, recipient: 1 };

#[test]
fn lists_by_change_read_one_range_of_an_index_for_each_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let _store = open(&folder.path().join("relay.db"));
    let conn = sqlite(&folder.path().join("relay.db"));
    for (between, state, index) in [
        (INBOX, State::Pending, "COVERING INDEX threads_inbox_by_change (recipient=? AND state=? AND updated_at>?"),
        (INBOX, State::Failed, "COVERING INDEX threads_inbox_by_change (recipient=? AND state=? AND updated_at>?"),
        // What others have sent that is pending too is passed over.
        (PAIR, State::Pending, "INDEX threads_inbox_by_change (recipient=? AND state=? AND updated_at>?"),
        (
            PAIR,
            State::Failed,
            "COVERING INDEX threads_pair_by_change (sender=? AND recipient=? AND state=? AND updated_at>?",
        ),
    ] {
        let [by_change, counted, changed_since, ..] = boxes::list_statements(between, state);
        for sql in boxes::list_statements(between, state) {
            assert_cheap(&conn, sql);
        }
        let steps = plan(&conn, counted);
        assert!(steps.len() == 1 && steps[0].starts_with("SEARCH boxes USING PRIMARY KEY (recipient=?"), "{steps:?}");
        for sql in [by_change, changed_since] {
            let steps = plan(&conn, sql);
            let search = format!("SEARCH threads USING {index}");
            assert!(steps.len() == 1 && steps[0].starts_with(&search), "{steps:?}");
        }
    }
}

#[test]
fn fifty_of_twenty_thousand_threads_by_change_cost_fifty() {
    let cases =
        [(INBOX, State::Pending, &[][..]), (PAIR, State::Pending, &["2"][..]), (PAIR, State::Accepted, &["2"][..])];
    for (between, state, sender) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let _store = open(&folder.path().join("relay.db"));
        let conn = sqlite(&folder.path().join("relay.db"));
        conn.execute_batch(&format!(
            "PRAGMA foreign_keys = OFF;
             WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
             INSERT INTO threads (ulid, sender, recipient, state, generation, message_count, intent, sender_read,
                 recipient_read, created_at, updated_at, summary_preview)
             SELECT unhex(printf('%032x', n)), 2, 1, '{}', 1, 1, 'inform', 1, 0, n, n, '' FROM numbers",
            state.name()
        ))
        .expect("threads");
        // In the middle of the box, from the beginning of time on.
        let place = ["1", state.name(), "10000", "10000", "0"];
        let [by_change, counted, ..] = boxes::list_statements(between, state);
        let mut statement = conn.prepare(by_change).expect("a statement");
        let mut rows = statement.query(params_from_iter(place.iter().chain(sender))).expect("a list");
        for expected in (9_950..10_000).rev() {
            let row = rows.next().expect("a row").expect("one more");
            assert_eq!(row.get::<_, i64>(1), Ok(expected));
        }
        drop(rows);
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!(steps < 50 * 30, "{steps} steps");

        let mut statement = conn.prepare(counted).expect("a statement");
        let total = statement.query_row(params_from_iter(sender.iter().chain(&["1"])), |row| row.get::<_, i64>(1));
        assert_eq!(total, Ok(20_000));
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!(steps < 50, "{steps} steps");
    }
}

#[test]
fn streams_and_audits_read_one_range_of_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let _store = open(&folder.path().join("relay.db"));
    let conn = sqlite(&folder.path().join("relay.db"));
    for sql in events::list_statements() {
        assert_cheap(&conn, sql);
    }
}

/// What is asked seldom, of few rows, or once.
const MAY_BE_DEAR: [&str; 6] = [
    // At the start: from the end of the log back to the last message.
    "WHERE sequence_no IS NOT NULL ORDER BY seq DESC LIMIT 1",
    // `key list`: all keys, or one agent's.
    "WHERE :agent IS NULL OR keys.agent = :agent ORDER BY keys.id",
    // `deadletters list`: from the newest one on, as many as are shown; and what is done to all of them.
    "ORDER BY l.id DESC LIMIT ?",
    "UPDATE dead_letters SET due_at = coalesce(due_at, ?)",
    "DELETE FROM dead_letters",
    // Those whom one agent has blocked, by handle.
    "FROM blocks JOIN agents ON agents.id = blocks.blocked\n         WHERE blocker = ? ORDER BY handle",
];

#[test]
fn no_statement_of_the_store_looks_at_each_row_of_a_table_or_sorts() {
    let folder = tempfile::tempdir().expect("a folder");
    let _store = open(&folder.path().join("relay.db"));
    let conn = sqlite(&folder.path().join("relay.db"));
    let statements = statements_of_the_store();
    assert!(statements.len() > 50, "only {} statements were found in the sources", statements.len());
    let mut dear = Vec::new();
    for (file, sql) in statements {
        let steps = dear_steps(&conn, &sql);
        if !steps.is_empty() && !MAY_BE_DEAR.iter().any(|known| sql.contains(known)) {
            dear.push(format!("{}: {steps:?}: {sql}", file.display()));
        }
    }
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}

#[test]
fn a_hot_read_goes_through_the_index_that_was_made_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let _store = open(&folder.path().join("relay.db"));
    let conn = sqlite(&folder.path().join("relay.db"));
    let statements = statements_of_the_store();
    for (part, index) in [
        (
            "FROM messages WHERE thread = ? AND sequence_no BETWEEN",
            "SEARCH messages USING PRIMARY KEY (thread=? AND sequence_no>? AND sequence_no<?)",
        ),
        (
            "WHERE thread = ? AND generation > ? AND generation <= ?",
            "SEARCH artifacts USING PRIMARY KEY (thread=? AND generation>? AND generation<?)",
        ),
        (
            "summary_preview, sender, recipient\n             FROM threads WHERE ulid = ?",
            "SEARCH threads USING INDEX sqlite_autoindex_threads_1 (ulid=?)",
        ),
        ("FROM idempotency\n", "SEARCH idempotency USING PRIMARY KEY (day=? AND key=?)"),
        (
            "JOIN agents ON agents.id = keys.agent WHERE hash = ?",
            "SEARCH keys USING INDEX sqlite_autoindex_keys_2 (hash=?)",
        ),
        ("FROM blocks WHERE blocker = ? AND blocked = ?", "SEARCH blocks USING PRIMARY KEY (blocker=? AND blocked=?)"),
        ("WHERE recipient = ? AND state = ? AND id < ?", "threads_inbox_by_state (recipient=? AND state=? AND id<?)"),
        ("WHERE recipient = ? AND id < ?", "threads_inbox (recipient=? AND id<?)"),
        (
            "FROM messages WHERE thread = ? AND sequence_no = ? AND generation",
            "PRIMARY KEY (thread=? AND sequence_no=?)",
        ),
        ("SELECT e.thread FROM audience a", "SEARCH a USING PRIMARY KEY (agent=? AND seq>?)"),
        ("SELECT at FROM events", "events_of_thread (thread=?)"),
        ("a.agent = ? AND a.seq > ?", "SEARCH a USING PRIMARY KEY (agent=? AND seq>?)"),
        ("due_at IS NOT NULL AND sender > ?", "SEARCH webhooks USING COVERING INDEX webhooks_due (sender>?)"),
        (
            "WHERE sender = ? AND due_at <= ?",
            "SEARCH webhooks USING COVERING INDEX webhooks_due (sender=? AND due_at<?)",
        ),
    ] {
        let (_, sql) = statements
            .iter()
            .find(|(_, sql)| sql.contains(part) && sql.starts_with("SELECT"))
            .unwrap_or_else(|| panic!("no statement has {part:?}"));
        let steps = plan(&conn, sql);
        assert!(steps.iter().any(|step| step.contains(index)), "{part:?} does not use {index:?}: {steps:?}");
    }
}

/// Every statement in `src/store`, with the file that it is in. A macro that puts a beginning before other literals is
/// followed.
fn statements_of_the_store() -> Vec<(PathBuf, String)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store"));
    let mut statements = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the store").flatten() {
        let path = entry.path();
        let source = std::fs::read_to_string(&path).expect("a source file");
        let source = architecture::without_comments(source.split("#[cfg(test)]").next().unwrap_or_default());
        // What remains of quotes begins and ends literals, in turn.
        let source = source.replace("\\\"", "  ");
        let pieces: Vec<&str> = source.split('"').collect();
        let mut beginnings: Vec<(String, &str)> = Vec::new();
        for piece in pieces.chunks_exact(2) {
            let (before, literal) = (piece[0], piece[1]);
            if let Some(name) = last_word_after(before, "macro_rules!") {
                beginnings.push((format!("{name}!("), literal));
                continue;
            }
            let beginning = beginnings.iter().find(|(call, _)| before.trim_end().ends_with(call.as_str()));
            let sql = format!("{}{literal}", beginning.map_or("", |(_, beginning)| beginning));
            let verb = sql.split_whitespace().next().unwrap_or_default();
            if matches!(verb, "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "WITH") {
                statements.push((path.clone(), sql));
            }
        }
    }
    statements
}

/// The name of the macro that is being defined in `code`.
fn last_word_after<'a>(code: &'a str, keyword: &str) -> Option<&'a str> {
    let (_, after) = code.rsplit_once(keyword)?;
    let definition = after.contains("concat!");
    definition.then(|| after.split_whitespace().next()).flatten()
}
