//! Boxes: the threads that an agent received, or sent to another one, by their last change.
//!
//! An index has each state of a box in the order of its changes. A list merges one read per state, and counts the threads
//! from what triggers have counted, so that neither costs more in a larger file.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow};

use crate::domain::id::{Row, ThreadId};
use crate::domain::time::Timestamp;
use crate::domain::transition::State;
use crate::error::Result;

/// Whose threads a box holds.
#[derive(Clone, Copy, Debug)]
pub enum Between {
    /// Those that this agent received, whoever sent them.
    AnybodyAnd {
        /// The agent.
        recipient: Row,
    },
    /// Those that one agent sent to another.
    Both {
        /// Who sent them.
        sender: Row,
        /// To whom.
        recipient: Row,
    },
}

/// What a list by change is about.
#[derive(Clone, Debug)]
pub struct BoxList {
    /// Whose threads.
    pub between: Between,
    /// In which states. None of them is there twice.
    pub states: Vec<State>,
    /// Changed at this moment or later.
    pub since: Option<Timestamp>,
}

/// Where a thread stands in a list by change: the later, the nearer to its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// When the thread changed.
    pub at: Timestamp,
    /// The thread. Many can change in one millisecond.
    pub thread: Row,
}

impl Position {
    /// Before the first thread of any list.
    pub const BEGINNING: Position = Position { at: Timestamp::from_ms(i64::MAX), thread: Row::MAX };
}

/// What decides whether a thread is in a list, and where.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Where it stands.
    pub position: Position,
    /// Who sent it.
    pub sender: Row,
    /// To whom.
    pub recipient: Row,
    /// Its state.
    pub state: State,
}

impl BoxList {
    /// Whether a thread is in the list.
    pub fn holds(&self, line: &Line) -> bool {
        let between = match self.between {
            Between::AnybodyAnd { recipient } => line.recipient == recipient,
            Between::Both { sender, recipient } => (line.sender, line.recipient) == (sender, recipient),
        };
        between && self.states.contains(&line.state) && self.since.is_none_or(|since| line.position.at >= since)
    }

    fn since_ms(&self) -> i64 {
        self.since.map_or(i64::MIN, Timestamp::ms)
    }
}

/// Lists where threads stand, last change first: those behind `after`, without those in `except`. At most `count` of each
/// state, and the first `count` of the list are among them.
pub fn list_positions(
    conn: &Connection,
    list: &BoxList,
    after: Position,
    except: &BTreeSet<Row>,
    count: usize,
) -> Result<Vec<Position>> {
    let (Position { at, thread }, since) = (after, list.since_ms());
    let mut found = Vec::with_capacity(count);
    for state in &list.states {
        let mut statement = conn.prepare_cached(by_change(list.between, *state))?;
        // Read one by one: how many of `except` stand in between is not known.
        let mut walk = match list.between {
            Between::AnybodyAnd { recipient } => statement.query((recipient, state, at, thread, since))?,
            Between::Both { sender, recipient } => statement.query((recipient, state, at, thread, since, sender))?,
        };
        // Where others' threads stand in between, the walk ends with the last of these two.
        let mut left = match list.between {
            Between::Both { .. } if *state == State::Pending => {
                count_ever(conn, &BoxList { states: vec![State::Pending], ..list.clone() })?
            }
            _ => i64::MAX,
        };
        let enough = found.len() + count;
        while left > 0
            && found.len() < enough
            && let Some(row) = walk.next()?
        {
            left -= 1;
            let position = Position { at: row.get(0)?, thread: row.get(1)? };
            if !except.contains(&position.thread) {
                found.push(position);
            }
        }
    }
    Ok(found)
}

/// How many threads are in a list.
pub fn count(conn: &Connection, list: &BoxList) -> Result<i64> {
    if list.since.is_some() { count_since(conn, list) } else { count_ever(conn, list) }
}

/// From one row for each sender and state.
fn count_ever(conn: &Connection, list: &BoxList) -> Result<i64> {
    let mut statement = conn.prepare_cached(counted(list.between))?;
    let mut counts = match list.between {
        Between::AnybodyAnd { recipient } => statement.query([recipient])?,
        Between::Both { sender, recipient } => statement.query((sender, recipient))?,
    };
    let mut total = 0;
    while let Some(row) = counts.next()? {
        if list.states.contains(&row.get(0)?) {
            total += row.get::<_, i64>(1)?;
        }
    }
    Ok(total)
}

/// Nobody counts these beforehand: it costs as much as there are.
fn count_since(conn: &Connection, list: &BoxList) -> Result<i64> {
    let since = list.since_ms();
    let mut total = 0;
    for state in &list.states {
        let mut statement = conn.prepare_cached(changed_since(list.between, *state))?;
        let read = |row: &SqlRow<'_>| row.get::<_, i64>(0);
        total += match list.between {
            Between::AnybodyAnd { recipient } => statement.query_row((recipient, state, since), read)?,
            Between::Both { sender, recipient } => statement.query_row((recipient, state, since, sender), read)?,
        };
    }
    Ok(total)
}

/// The threads in these rows.
pub fn get_all<'a>(conn: &Connection, rows: impl IntoIterator<Item = &'a Row>) -> Result<Vec<Line>> {
    let mut statement =
        conn.prepare_cached("SELECT updated_at, id, sender, recipient, state FROM threads WHERE id = ?")?;
    let lines = rows.into_iter().map(|row| statement.query_row([row], line));
    Ok(lines.collect::<rusqlite::Result<_>>()?)
}

/// Lists the threads of a conversation that an agent takes part in.
pub fn list_of_context(conn: &Connection, agent: Row, context_id: &str) -> Result<Vec<Line>> {
    let mut statement = conn.prepare_cached(OF_CONTEXT)?;
    let lines = statement.query_map((agent, context_id), line)?;
    Ok(lines.collect::<rusqlite::Result<_>>()?)
}

/// Finds the thread with this id, if no conversation was named for it.
pub fn find_without_context(conn: &Connection, id: ThreadId) -> Result<Option<Line>> {
    Ok(conn.prepare_cached(WITHOUT_CONTEXT)?.query_row([id], line).optional()?)
}

fn line(row: &SqlRow<'_>) -> rusqlite::Result<Line> {
    Ok(Line {
        position: Position { at: row.get(0)?, thread: row.get(1)? },
        sender: row.get(2)?,
        recipient: row.get(3)?,
        state: row.get(4)?,
    })
}

/// The statements behind a list by change of threads in a state. The tests look at their plans.
pub fn list_statements(between: Between, state: State) -> [&'static str; 5] {
    [by_change(between, state), counted(between), changed_since(between, state), OF_CONTEXT, WITHOUT_CONTEXT]
}

// An order of the tables is asked for, and kept.
const OF_CONTEXT: &str = "SELECT t.updated_at, t.id, t.sender, t.recipient, t.state
     FROM contexts c CROSS JOIN threads t ON t.id = c.thread WHERE c.agent = ? AND c.context_id = ?";

const WITHOUT_CONTEXT: &str = "SELECT t.updated_at, t.id, t.sender, t.recipient, t.state
     FROM threads t LEFT JOIN handoffs h ON h.thread = t.id WHERE t.ulid = ? AND h.context_id IS NULL";

const fn by_change(between: Between, state: State) -> &'static str {
    match (between, state) {
        (Between::AnybodyAnd { .. }, _) => {
            "SELECT updated_at, id FROM threads INDEXED BY threads_inbox_by_change
             WHERE recipient = ? AND state = ? AND (updated_at, id) < (?, ?) AND updated_at >= ?
             ORDER BY updated_at DESC, id DESC"
        }
        (Between::Both { .. }, State::Pending) => {
            "SELECT updated_at, id FROM threads INDEXED BY threads_inbox_by_change
             WHERE recipient = ? AND state = ? AND (updated_at, id) < (?, ?) AND updated_at >= ? AND sender = ?
             ORDER BY updated_at DESC, id DESC"
        }
        (Between::Both { .. }, _) => {
            "SELECT updated_at, id FROM threads INDEXED BY threads_pair_by_change
             WHERE recipient = ? AND state = ? AND (updated_at, id) < (?, ?) AND updated_at >= ? AND sender = ?
                 AND state <> 'pending'
             ORDER BY updated_at DESC, id DESC"
        }
    }
}

const fn counted(between: Between) -> &'static str {
    match between {
        Between::AnybodyAnd { .. } => "SELECT state, threads FROM boxes WHERE recipient = ?",
        Between::Both { .. } => "SELECT state, threads FROM boxes WHERE sender = ? AND recipient = ?",
    }
}

const fn changed_since(between: Between, state: State) -> &'static str {
    match (between, state) {
        (Between::AnybodyAnd { .. }, _) => {
            "SELECT count(*) FROM threads INDEXED BY threads_inbox_by_change
             WHERE recipient = ? AND state = ? AND updated_at >= ?"
        }
        (Between::Both { .. }, State::Pending) => {
            "SELECT count(*) FROM threads INDEXED BY threads_inbox_by_change
             WHERE recipient = ? AND state = ? AND updated_at >= ? AND sender = ?"
        }
        (Between::Both { .. }, _) => {
            "SELECT count(*) FROM threads INDEXED BY threads_pair_by_change
             WHERE recipient = ? AND state = ? AND updated_at >= ? AND sender = ? AND state <> 'pending'"
        }
    }
}
