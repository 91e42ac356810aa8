//! What is true of every data file, whatever has happened to it. Each law is a query for the rows that break it, so that
//! a failure names them. Laws, crash and storage tests all end here.

use rusqlite::Connection;
use rusqlite::types::Value;

/// Checks the whole file.
///
/// # Panics
/// With every law that is broken, and the rows that break it.
#[track_caller]
pub fn check(conn: &Connection) {
    let broken = broken_laws(conn);
    assert!(broken.is_empty(), "the data file is inconsistent:\n{}", broken.join("\n"));
}

/// The laws that the file breaks, each with some of the rows that break it.
pub fn broken_laws(conn: &Connection) -> Vec<String> {
    // One snapshot, because others may be writing.
    let snapshot = conn.unchecked_transaction().expect("a read transaction");
    let mut broken = Vec::new();
    for (law, offenders) in LAWS {
        let found = rows(&snapshot, offenders).unwrap_or_else(|error| panic!("{law}: {error}"));
        if !found.is_empty() {
            broken.push(format!("- {law}; not so in {}: {:?}", found.len(), &found[..found.len().min(5)]));
        }
    }
    broken
}

fn rows(conn: &Connection, sql: &str) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut statement = conn.prepare(sql)?;
    let columns = statement.column_count();
    statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect())?.collect()
}

/// A law, and the query for what breaks it.
const LAWS: [(&str, &str); 34] = [
    ("SQLite finds no damage", "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'"),
    ("no row refers to a missing one", "SELECT * FROM pragma_foreign_key_check"),
    (
        "a thread's generation is the number of its changes in the log",
        "SELECT id, generation FROM threads WHERE generation <>
             (SELECT count(*) FROM events WHERE thread = threads.id AND kind <> 'thread.fetched')",
    ),
    (
        "a thread's changes are numbered from 1 without a gap, in the order of the log",
        "SELECT * FROM
             (SELECT thread, generation, row_number() OVER (PARTITION BY thread ORDER BY seq) AS place
              FROM events WHERE thread IS NOT NULL AND kind <> 'thread.fetched')
         WHERE generation <> place",
    ),
    (
        "a box counts its threads",
        "SELECT recipient, sender, state, threads FROM boxes b WHERE threads <>
             (SELECT count(*) FROM threads t
              WHERE (t.recipient, t.sender, t.state) = (b.recipient, b.sender, b.state))
         UNION ALL SELECT recipient, sender, state, 0 FROM threads t WHERE NOT EXISTS
             (SELECT 1 FROM boxes b WHERE (t.recipient, t.sender, t.state) = (b.recipient, b.sender, b.state))",
    ),
    (
        "a conversation that a handoff names lists it for both participants",
        "SELECT h.thread, h.context_id FROM handoffs h JOIN threads t ON t.id = h.thread
         WHERE h.context_id IS NOT NULL AND (SELECT count(*) FROM contexts c WHERE c.thread = h.thread
             AND c.context_id = h.context_id AND c.agent IN (t.sender, t.recipient)) <> 2
         UNION ALL SELECT c.thread, c.context_id FROM contexts c LEFT JOIN handoffs h ON h.thread = c.thread
         WHERE h.context_id IS NOT c.context_id",
    ),
    (
        "a webhook has been told no more than has happened, and is due when there is more",
        "SELECT w.id FROM webhooks w JOIN threads t ON t.id = w.thread
         WHERE w.generation > t.generation OR (w.generation < t.generation) <> (w.due_at IS NOT NULL)",
    ),
    (
        "the first change of a thread is its creation, and no other is",
        "SELECT seq, kind FROM events WHERE thread IS NOT NULL AND kind <> 'thread.fetched'
             AND (generation = 1) <> (kind = 'thread.created')",
    ),
    (
        "a state follows another only along the transition table",
        // DESIGN 4, row by row: the event that the step leaves, from, to, who may.
        "WITH steps (kind, before, after, side) AS (VALUES
             ('thread.created',         '',               'pending',        'sender'),
             ('thread.accepted',        'pending',        'accepted',       'recipient'),
             ('thread.completed',       'accepted',       'completed',      'recipient'),
             ('thread.answered',        'pending',        'completed',      'recipient'),
             ('thread.cancelled',       'pending',        'cancelled',      'sender'),
             ('thread.cancelled',       'input_required', 'cancelled',      'sender'),
             ('thread.progressed',      'accepted',       'accepted',       'recipient'),
             ('thread.input_requested', 'accepted',       'input_required', 'recipient'),
             ('thread.message',         'input_required', 'accepted',       'sender'),
             ('thread.message',         'input_required', 'input_required', 'recipient'),
             ('thread.message',         'pending',        'pending',        'sender'),
             ('thread.message',         'pending',        'pending',        'recipient'),
             ('thread.message',         'accepted',       'accepted',       'sender'),
             ('thread.message',         'accepted',       'accepted',       'recipient'),
             ('thread.rejected',        'pending',        'rejected',       'recipient'),
             ('thread.rejected',        'accepted',       'rejected',       'recipient'),
             ('thread.rejected',        'input_required', 'rejected',       'recipient'),
             ('thread.failed',          'accepted',       'failed',         'recipient'),
             ('thread.failed',          'input_required', 'failed',         'recipient'))
         SELECT e.* FROM
             (SELECT seq, thread, kind, state, actor,
                  coalesce(lag(state) OVER (PARTITION BY thread ORDER BY seq), '') AS before
              FROM events WHERE thread IS NOT NULL AND kind <> 'thread.fetched') e
             JOIN threads t ON t.id = e.thread
         WHERE (e.kind, e.before, e.state, iif(e.actor = t.sender, 'sender', iif(e.actor = t.recipient, 'recipient', '')))
             NOT IN steps",
    ),
    (
        "a thread has the state that its last event says",
        "SELECT id, state FROM threads WHERE state <>
             (SELECT state FROM events WHERE thread = threads.id ORDER BY seq DESC LIMIT 1)",
    ),
    (
        "nothing changes a thread after its end",
        "SELECT thread, min(seq) AS ended, max(seq) FROM events
         WHERE thread IS NOT NULL AND kind <> 'thread.fetched'
             AND state IN ('completed', 'failed', 'rejected', 'cancelled')
         GROUP BY thread HAVING count(*) > 1",
    ),
    (
        "a thread is fetched once, by its recipient, and stays as it was",
        "SELECT e.seq, e.thread FROM events e JOIN threads t ON t.id = e.thread WHERE e.kind = 'thread.fetched'
             AND (e.actor IS NOT t.recipient
                  OR EXISTS (SELECT 1 FROM events other WHERE other.thread = e.thread AND other.kind = e.kind
                             AND other.seq <> e.seq)
                  OR (e.generation, e.state) <> (SELECT generation, state FROM events before
                      WHERE before.thread = e.thread AND before.seq < e.seq ORDER BY before.seq DESC LIMIT 1))",
    ),
    (
        "a recipient who has read has fetched",
        "SELECT id FROM threads WHERE (recipient_read > 0) <>
             EXISTS (SELECT 1 FROM events WHERE thread = threads.id AND kind = 'thread.fetched')",
    ),
    (
        "a thread's message count is the number of its messages, numbered from 1 without a gap",
        "SELECT id, message_count FROM threads WHERE (message_count, message_count, 1) IS NOT
             (SELECT count(*), max(sequence_no), min(sequence_no) FROM messages WHERE thread = threads.id)",
    ),
    (
        "a message came with an event of its author, which says so",
        "SELECT m.thread, m.sequence_no FROM messages m WHERE NOT EXISTS
             (SELECT 1 FROM events WHERE thread = m.thread AND generation = m.generation AND sequence_no = m.sequence_no
                  AND actor = m.author AND at = m.created_at)",
    ),
    (
        "an event that says that a message came has one",
        "SELECT e.seq FROM events e WHERE e.sequence_no IS NOT NULL AND NOT EXISTS
             (SELECT 1 FROM messages WHERE thread = e.thread AND sequence_no = e.sequence_no AND generation = e.generation)",
    ),
    (
        "steps that are messages have one",
        "SELECT seq FROM events WHERE sequence_no IS NULL
             AND kind IN ('thread.created', 'thread.message', 'thread.answered', 'thread.input_requested')",
    ),
    (
        "only participants speak in a thread",
        "SELECT m.thread, m.sequence_no FROM messages m JOIN threads t ON t.id = m.thread
         WHERE m.author NOT IN (t.sender, t.recipient)",
    ),
    (
        "an artifact came with a change by its author",
        "SELECT a.thread, a.generation FROM artifacts a WHERE NOT EXISTS
             (SELECT 1 FROM events WHERE thread = a.thread AND generation = a.generation AND actor = a.author
                  AND kind <> 'thread.fetched')",
    ),
    (
        "the artifacts of a change are numbered from 0 without a gap",
        "SELECT thread, generation FROM artifacts GROUP BY thread, generation HAVING max(position) <> count(*) - 1",
    ),
    (
        "nobody has read more than there is, and a sender has read what it sent",
        "SELECT id FROM threads WHERE sender_read NOT BETWEEN 1 AND message_count
             OR recipient_read NOT BETWEEN 0 AND message_count",
    ),
    (
        "a sender's unread messages are the recipient's after the first one and after its cursor",
        "SELECT id, sender_unread FROM threads WHERE sender_unread <> (SELECT count(*) FROM messages
             WHERE thread = threads.id AND author = threads.recipient AND sequence_no > max(1, threads.sender_read))",
    ),
    (
        "a recipient's unread messages are the sender's after the first one and after its cursor",
        "SELECT id, recipient_unread FROM threads WHERE recipient_unread <> (SELECT count(*) FROM messages
             WHERE thread = threads.id AND author = threads.sender AND sequence_no > max(1, threads.recipient_read))",
    ),
    (
        "both participants may read every event of their thread",
        "SELECT e.seq FROM events e JOIN threads t ON t.id = e.thread WHERE NOT
             (EXISTS (SELECT 1 FROM audience WHERE agent = t.sender AND seq = e.seq)
              AND EXISTS (SELECT 1 FROM audience WHERE agent = t.recipient AND seq = e.seq))",
    ),
    (
        "nobody else may",
        "SELECT a.agent, a.seq FROM audience a JOIN events e ON e.seq = a.seq JOIN threads t ON t.id = e.thread
         WHERE a.agent NOT IN (t.sender, t.recipient)",
    ),
    (
        "an event of an agent is read by it and by whoever acted, and by nobody else",
        "SELECT e.seq, a.agent FROM events e LEFT JOIN audience a ON a.seq = e.seq
         WHERE e.agent IS NOT NULL AND (a.agent IS NULL OR a.agent NOT IN (e.agent, coalesce(e.actor, e.agent)))",
    ),
    (
        "a thread's times are those of its events",
        "SELECT id FROM threads t WHERE (created_at, updated_at, accepted_at, completed_at, cancelled_at) IS NOT (
             (SELECT at FROM events WHERE thread = t.id AND kind = 'thread.created'),
             (SELECT at FROM events WHERE thread = t.id AND generation = t.generation AND kind <> 'thread.fetched'),
             (SELECT at FROM events WHERE thread = t.id AND kind = 'thread.accepted'),
             (SELECT at FROM events WHERE thread = t.id AND kind IN ('thread.completed', 'thread.answered', 'thread.failed')),
             (SELECT at FROM events WHERE thread = t.id AND kind IN ('thread.cancelled', 'thread.rejected')))",
    ),
    (
        "a thread's session is the one that accepted it",
        "SELECT id, session_id FROM threads WHERE session_id IS NOT
             (SELECT detail ->> 'session_id' FROM events WHERE thread = threads.id AND kind = 'thread.accepted')",
    ),
    (
        "only the recipient's end of a thread has a result summary",
        "SELECT id FROM threads WHERE result_summary IS NOT NULL AND state NOT IN ('completed', 'failed', 'rejected')",
    ),
    (
        "a preview is the beginning of the first message",
        "SELECT t.id FROM threads t JOIN messages m ON m.thread = t.id AND m.sequence_no = 1
         WHERE t.summary_preview <> substr(m.body, 1, 240) OR m.author <> t.sender OR m.generation <> 1",
    ),
    (
        "a proposed action is there with the intent to propose one, and only then",
        "SELECT t.id FROM threads t LEFT JOIN handoffs h ON h.thread = t.id
         WHERE (t.intent = 'propose_action') <> (h.proposed_action IS NOT NULL)",
    ),
    (
        "ids of threads and messages grow in the order of the log",
        "SELECT * FROM
             (SELECT e.seq, m.ulid, lag(m.ulid) OVER (ORDER BY e.seq) AS before
              FROM events e JOIN messages m ON m.thread = e.thread AND m.sequence_no = e.sequence_no
              WHERE e.sequence_no IS NOT NULL)
         WHERE ulid <= before
         UNION ALL
         SELECT * FROM (SELECT id, ulid, lag(ulid) OVER (ORDER BY id) AS before FROM threads) WHERE ulid <= before",
    ),
    (
        "a remembered call did what a call can do",
        "SELECT i.event FROM idempotency i LEFT JOIN events e ON e.seq = i.event
         WHERE e.thread IS NULL OR e.kind = 'thread.fetched'",
    ),
    (
        "no two calls by name did the same thing, unless they accepted it again",
        "SELECT event FROM idempotency JOIN events ON seq = event WHERE kind <> 'thread.accepted'
         GROUP BY event HAVING count(*) > 1",
    ),
];
