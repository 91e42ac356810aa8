//! The log.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, named_params};
use ulid::Ulid;

use crate::domain::event::{Event, EventKind, ThreadEvent};
use crate::domain::id::{AgentId, KeyId, Row};
use crate::domain::thread::{Receipt, Thread};
use crate::domain::time::Timestamp;
use crate::domain::transition::State;
use crate::error::Result;
use crate::store::bell::Topic;
use crate::store::values::Stored;
use crate::store::{Tx, messages, threads};

/// Who acts, and in which request.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The acting agent; `None` is the operator.
    pub agent: Option<Row>,
    /// The request.
    pub request_id: String,
}

impl Actor {
    /// The operator of the relay, who has the data file or the admin token.
    pub fn operator(request_id: impl Into<String>) -> Actor {
        Actor { agent: None, request_id: request_id.into() }
    }
}

/// A thread as an event leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The thread.
    pub thread: Row,
    /// Who may read the event: sender and recipient.
    pub participants: [Row; 2],
    /// The thread's version after the event.
    pub generation: i64,
    /// The thread's state after the event.
    pub state: State,
    /// The message that came with it.
    pub sequence_no: Option<i64>,
}

impl Change {
    /// A change that left the thread like this.
    pub fn of(thread: &Thread) -> Change {
        Change {
            thread: thread.row,
            participants: [thread.sender.row, thread.recipient.row],
            generation: thread.generation,
            state: thread.state,
            sequence_no: None,
        }
    }
}

/// Appends what happened to a thread.
pub fn append_to_thread(
    tx: &mut Tx<'_>,
    actor: &Actor,
    kind: EventKind,
    change: Change,
    detail: Option<&serde_json::Value>,
) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO events (at, kind, actor, thread, generation, state, sequence_no, request_id, detail)
         VALUES (:now, :kind, :actor, :thread, :generation, :state, :sequence_no, :request_id, :detail)",
    )?
    .execute(named_params! {
        ":now": tx.now,
        ":kind": kind,
        ":actor": actor.agent,
        ":thread": change.thread,
        ":generation": change.generation,
        ":state": change.state,
        ":sequence_no": change.sequence_no,
        ":request_id": actor.request_id,
        ":detail": detail.map(ToString::to_string),
    })?;
    let seq = tx.last_insert_rowid();
    for participant in change.participants {
        insert_audience(tx, seq, participant)?;
    }
    tx.ring(Topic::Thread(change.thread), seq);
    Ok(seq)
}

/// What an event of an agent is about, when not about the agent itself.
#[derive(Clone, Copy, Debug)]
pub enum Resource {
    /// One of its keys.
    Key(KeyId),
    /// Another agent that it blocks.
    Blocked(AgentId),
}

impl Resource {
    fn to_bytes(self) -> [u8; 16] {
        match self {
            Resource::Key(id) => id.to_bytes(),
            Resource::Blocked(id) => id.to_bytes(),
        }
    }
}

/// Appends what happened to an agent, its keys or its blocks.
pub fn append_to_agent(
    tx: &mut Tx<'_>,
    actor: &Actor,
    kind: EventKind,
    agent: Row,
    resource: Option<Resource>,
    detail: Option<&serde_json::Value>,
) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO events (at, kind, actor, agent, resource, request_id, detail)
         VALUES (:now, :kind, :actor, :agent, :resource, :request_id, :detail)",
    )?
    .execute(named_params! {
        ":now": tx.now,
        ":kind": kind,
        ":actor": actor.agent,
        ":agent": agent,
        ":resource": resource.map(Resource::to_bytes),
        ":request_id": actor.request_id,
        ":detail": detail.map(ToString::to_string),
    })?;
    let seq = tx.last_insert_rowid();
    insert_audience(tx, seq, agent)?;
    if let Some(actor) = actor.agent.filter(|actor| *actor != agent) {
        insert_audience(tx, seq, actor)?;
    }
    Ok(seq)
}

fn insert_audience(tx: &mut Tx<'_>, seq: i64, agent: Row) -> Result<()> {
    tx.prepare_cached("INSERT INTO audience (agent, seq) VALUES (?, ?)")?.execute((agent, seq))?;
    tx.ring(Topic::Agent(agent), seq);
    Ok(())
}

macro_rules! select_events {
    ($rest:literal) => {
        concat!(
            "SELECT e.seq, e.at, e.kind, e.generation, e.state, e.sequence_no, e.request_id, e.detail,
                 actor.handle AS actor_handle, coalesce(t.ulid, e.resource, concerned.ulid) AS resource,
                 t.ulid AS thread_id
             FROM events e
                 LEFT JOIN agents actor ON actor.id = e.actor
                 LEFT JOIN threads t ON t.id = e.thread
                 LEFT JOIN agents concerned ON concerned.id = e.agent ",
            $rest
        )
    };
}

/// Lists the events of an agent's threads after `after`, oldest first.
pub fn list_of_threads(conn: &Connection, agent: Row, after: i64, count: usize) -> Result<Vec<Event>> {
    let mut statement = conn.prepare_cached(OF_THREADS)?;
    let events = statement.query_map((agent, after, i64::try_from(count).unwrap_or(i64::MAX)), event)?;
    Ok(events.collect::<rusqlite::Result<_>>()?)
}

/// Which events an audit shows.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// What this agent may read; everything when absent.
    pub agent: Option<Row>,
    /// Of this kind.
    pub kind: Option<EventKind>,
    /// At this moment or later.
    pub since: Option<Timestamp>,
}

/// Lists events before `before`, newest first.
pub fn list_newest(conn: &Connection, filter: &AuditFilter, before: i64, count: usize) -> Result<Vec<Event>> {
    let sql = if filter.agent.is_some() { NEWEST_OF_AGENT } else { NEWEST };
    let parameters = named_params! {
        ":agent": filter.agent,
        ":before": before,
        ":kind": filter.kind,
        ":since": filter.since.map_or(i64::MIN, Timestamp::ms),
        ":count": i64::try_from(count).unwrap_or(i64::MAX),
    };
    let mut statement = conn.prepare_cached(sql)?;
    let events = statement.query_map(parameters, event)?.collect::<rusqlite::Result<_>>()?;
    Ok(events)
}

/// The statements behind streams, audits and second acceptances. The tests look at their plans.
pub fn list_statements() -> [&'static str; 5] {
    [OF_THREADS, NEWEST_OF_AGENT, NEWEST, FIRST_OF_KIND, VERSIONS]
}

const OF_THREADS: &str = select_events!(
    "JOIN audience a ON a.seq = e.seq
     WHERE a.agent = ? AND a.seq > ? AND e.thread IS NOT NULL ORDER BY a.seq LIMIT ?"
);

const NEWEST_OF_AGENT: &str = select_events!(
    "JOIN audience a ON a.seq = e.seq
     WHERE a.agent = :agent AND a.seq < :before AND (:kind IS NULL OR e.kind = :kind) AND e.at >= :since
     ORDER BY a.seq DESC LIMIT :count"
);

const NEWEST: &str = select_events!(
    "WHERE :agent IS NULL AND e.seq < :before AND (:kind IS NULL OR e.kind = :kind) AND e.at >= :since
     ORDER BY e.seq DESC LIMIT :count"
);

// Being read is no version of a thread.
const VERSIONS: &str = "SELECT generation, state, at, actor, sequence_no FROM events
     WHERE thread = ? AND generation > ? AND kind <> ? ORDER BY generation LIMIT ?";

const FIRST_OF_KIND: &str = "SELECT seq FROM events WHERE thread = ? AND kind = ? ORDER BY generation LIMIT 1";

/// The last place in the log.
pub fn last_seq(conn: &Connection) -> Result<i64> {
    let mut statement = conn.prepare_cached("SELECT coalesce(max(seq), 0) FROM events")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Finds the first event of a kind in a thread.
pub fn find_first(conn: &Connection, thread: Row, kind: EventKind) -> Result<Option<i64>> {
    let mut statement = conn.prepare_cached(FIRST_OF_KIND)?;
    Ok(statement.query_row((thread, kind), |row| row.get(0)).optional()?)
}

/// A version of a thread, as the log tells it.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// The version.
    pub generation: i64,
    /// The state of the thread.
    pub state: State,
    /// When it came to be.
    pub at: Timestamp,
    /// Who made it.
    pub actor: Option<Row>,
    /// The message that came with it.
    pub sequence_no: Option<i64>,
}

/// Lists the versions of a thread after `after`, oldest first.
pub fn list_versions(conn: &Connection, thread: Row, after: i64, count: usize) -> Result<Vec<Version>> {
    let mut statement = conn.prepare_cached(VERSIONS)?;
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let versions = statement.query_map((thread, after, EventKind::ThreadFetched, count), |row| {
        Ok(Version {
            generation: row.get(0)?,
            state: row.get(1)?,
            at: row.get(2)?,
            actor: row.get(3)?,
            sequence_no: row.get(4)?,
        })
    })?;
    Ok(versions.collect::<rusqlite::Result<_>>()?)
}

/// Lists the threads that the events of an agent after `after` happened to, as often as they did; `None` for one that
/// happened to an agent.
pub fn list_threads_after(conn: &Connection, agent: Row, after: i64, count: usize) -> Result<Vec<Option<Row>>> {
    let mut statement = conn.prepare_cached(
        "SELECT e.thread FROM audience a JOIN events e ON e.seq = a.seq
         WHERE a.agent = ? AND a.seq > ? ORDER BY a.seq LIMIT ?",
    )?;
    let threads = statement
        .query_map((agent, after, i64::try_from(count).unwrap_or(i64::MAX)), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(threads)
}

/// When a thread had last changed at the place `seq` in the log; `None` when it was not there yet.
pub fn find_changed_at(conn: &Connection, thread: Row, seq: i64) -> Result<Option<Timestamp>> {
    let mut statement = conn.prepare_cached(
        "SELECT at FROM events INDEXED BY events_of_thread
         WHERE thread = ? AND seq <= ? AND kind <> ? ORDER BY generation DESC LIMIT 1",
    )?;
    Ok(statement.query_row((thread, seq, EventKind::ThreadFetched), |row| row.get(0)).optional()?)
}

/// What was answered to the change that left this event.
pub fn find_receipt(conn: &Connection, seq: i64) -> Result<Receipt> {
    let mut statement =
        conn.prepare_cached("SELECT at, thread, generation, state, sequence_no FROM events WHERE seq = ?")?;
    let (at, thread, generation, state, sequence_no) = statement.query_row([seq], |row| {
        Ok((row.get(0)?, row.get::<_, Row>(1)?, row.get(2)?, row.get(3)?, row.get::<_, Option<i64>>(4)?))
    })?;
    let message = match sequence_no {
        Some(sequence_no) => Some((messages::find_id(conn, thread, sequence_no)?, sequence_no)),
        None => None,
    };
    let thread = threads::get(conn, thread)?;
    Ok(Receipt { thread: thread.id, generation, state, message, at, ends: thread.ends.as_of(state) })
}

fn event(row: &SqlRow<'_>) -> rusqlite::Result<Event> {
    let detail: Option<Stored> = row.get("detail")?;
    let thread = match row.get("thread_id")? {
        Some(id) => Some(ThreadEvent {
            id,
            generation: row.get("generation")?,
            state: row.get("state")?,
            sequence_no: row.get("sequence_no")?,
        }),
        None => None,
    };
    Ok(Event {
        seq: row.get("seq")?,
        at: row.get("at")?,
        kind: row.get("kind")?,
        actor: row.get("actor_handle")?,
        resource_id: Ulid::from_bytes(row.get("resource")?).to_string(),
        thread,
        request_id: row.get("request_id")?,
        detail: detail.map(|detail| detail.0),
    })
}
