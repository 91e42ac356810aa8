//! Boxes by last change: what an agent received, or sent to another one, the latest change first.
//!
//! A change moves its thread to the front, so a cursor that were nothing but a place would miss each thread that changes
//! behind it. A walk is therefore one through the box as it stood when the walk began: a thread that changed since is
//! looked for where it stood then, which the log tells. Which threads a page shows, and how, is true of its own moment.

use std::collections::BTreeSet;

use crate::domain::id::{Row, ThreadId};
use crate::domain::json::Path;
use crate::domain::page::{Limit, ListName, Page};
use crate::domain::thread::{Thread, ThreadView};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};
use crate::error::Result;
use crate::relay::threads::{Detail, view};
use crate::relay::{Caller, Relay};
use crate::store::boxes::{Between, BoxList, Position};
use crate::store::{Connection, boxes, events, threads};

/// Most events in a walk for which its later pages make up. When more has happened, they go on from the place they have
/// come to: what changed in the meantime is at the front again, and a new walk finds it there.
const EVENTS_MAX: usize = 1_000;

/// How much content a page holds, in bytes, before it ends with fewer threads than were asked for.
pub const PAGE_BYTES: usize = 4 << 20;

/// Whose threads a box holds.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    /// Those that the caller received, whoever sent them.
    Inbox,
    /// Those that the caller sent to this agent.
    SentTo(Row),
}

/// Which threads of a box a list shows.
#[derive(Clone, Debug)]
pub struct BoxFilter {
    /// Whose threads.
    pub scope: Scope,
    /// Part of this conversation. A thread for which none was named has its own id as its conversation's.
    pub context_id: Option<String>,
    /// In one of these states; in any when empty.
    pub states: Vec<State>,
    /// Changed at this moment or later.
    pub changed_since: Option<Timestamp>,
}

impl BoxFilter {
    /// A whole box.
    pub fn all(scope: Scope) -> BoxFilter {
        BoxFilter { scope, context_id: None, states: Vec::new(), changed_since: None }
    }
}

/// One page of a box.
#[derive(Clone, Debug)]
pub struct BoxPage {
    /// The threads, as much of them as was asked for.
    pub threads: Vec<ThreadView>,
    /// Where the next page begins; `None` after the last one.
    pub next_cursor: Option<String>,
    /// How many threads the filter lets through at this moment, on all pages together.
    pub total: i64,
}

impl Relay {
    /// Lists the caller's threads, last change first. Nobody learns of it, and no read cursor moves.
    ///
    /// A walk from page to page gives each thread once that the filter lets through all along, also when it changes while
    /// the walk goes on. A thread that is sent meanwhile is not part of it. A page has fewer threads than `limit` also
    /// where they hold more than [`PAGE_BYTES`].
    ///
    /// # Errors
    /// `invalid_params` at `cursor_path` for a cursor of another caller or of another filter.
    pub async fn threads_by_change(
        &self,
        caller: &Caller,
        filter: BoxFilter,
        detail: Detail,
        limit: Limit,
        cursor: Option<&str>,
        cursor_path: Path,
    ) -> Result<BoxPage> {
        let content = Content::of(caller, filter);
        let list = content.name(caller);
        let position = match cursor {
            Some(cursor) => Some(list.position(cursor, cursor_path)?),
            None => None,
        };
        self.store()
            .read(move |conn| {
                let walk = match position {
                    Some(position) => Walk::resume(conn, content.agent, &position)?,
                    None => Walk::begin(conn)?,
                };
                let (positions, total) = content.list(conn, &walk, limit.get() + 1)?;
                let rows: Vec<Row> = positions.iter().map(|position| position.thread).collect();
                let found = positions.into_iter().zip(threads::get_all(conn, &rows)?).collect();
                let page = Page::of(found, limit, &list, |(position, thread)| walk.at(*position, thread));
                let mut shown = BoxPage { threads: Vec::new(), next_cursor: page.next_cursor, total };
                let (mut size, count) = (0, page.items.len());
                for (index, (position, thread)) in page.items.into_iter().enumerate() {
                    let here = walk.at(position, &thread);
                    let view = view(conn, thread, content.side, detail)?;
                    size += view.size();
                    shown.threads.push(view);
                    if size > PAGE_BYTES && index + 1 < count {
                        shown.next_cursor = Some(list.cursor(&here));
                        break;
                    }
                }
                Ok(shown)
            })
            .await
    }
}

/// What a list is about, as the file has it.
struct Content {
    agent: Row,
    side: Side,
    list: BoxList,
    context_id: Option<String>,
}

impl Content {
    fn of(caller: &Caller, filter: BoxFilter) -> Content {
        let agent = caller.row();
        let (side, between) = match filter.scope {
            Scope::Inbox => (Side::Recipient, Between::AnybodyAnd { recipient: agent }),
            Scope::SentTo(recipient) => (Side::Sender, Between::Both { sender: agent, recipient }),
        };
        let wanted = |state: &State| filter.states.is_empty() || filter.states.contains(state);
        let states = State::ALL.into_iter().filter(wanted).collect();
        let list = BoxList { between, states, since: filter.changed_since };
        Content { agent, side, list, context_id: filter.context_id }
    }

    /// The same filter in other words has the same name.
    fn name(&self, caller: &Caller) -> ListName {
        let states: Vec<&str> = self.list.states.iter().map(|state| state.name()).collect();
        let other = match self.list.between {
            Between::AnybodyAnd { .. } => String::new(),
            Between::Both { recipient, .. } => recipient.to_string(),
        };
        let since = self.list.since.map(|since| since.ms().to_string()).unwrap_or_default();
        // An empty name of a conversation is a name.
        let context = self.context_id.as_ref().map(|context_id| format!("={context_id}")).unwrap_or_default();
        ListName::new(&["box", &caller.id().to_string(), &other, &states.join(","), &since, &context])
    }

    /// The next `count` positions of a walk, and how many threads there are in all.
    fn list(&self, conn: &Connection, walk: &Walk, count: usize) -> Result<(Vec<Position>, i64)> {
        let found = match &self.context_id {
            Some(context_id) => self.find_in_conversation(conn, walk, context_id)?,
            None => self.find_in_box(conn, walk, count)?,
        };
        let mut positions = found.unchanged;
        for thread in found.changed {
            // Whatever was sent since the walk began stood nowhere.
            if let Some(at) = events::find_changed_at(conn, thread, walk.began_at)? {
                positions.push(Position { at, thread });
            }
        }
        positions.retain(|position| *position < walk.last);
        positions.sort_unstable_by(|left, right| right.cmp(left));
        positions.truncate(count);
        Ok((positions, found.total))
    }

    fn find_in_box(&self, conn: &Connection, walk: &Walk, count: usize) -> Result<Found> {
        let changed = boxes::get_all(conn, &walk.changed)?.into_iter().filter(|line| self.list.holds(line));
        Ok(Found {
            unchanged: boxes::list_positions(conn, &self.list, walk.last, &walk.changed, count)?,
            changed: changed.map(|line| line.position.thread).collect(),
            total: boxes::count(conn, &self.list)?,
        })
    }

    /// A conversation is read as a whole: it is as long as those who talk make it.
    fn find_in_conversation(&self, conn: &Connection, walk: &Walk, context_id: &str) -> Result<Found> {
        let mut lines = boxes::list_of_context(conn, self.agent, context_id)?;
        if let Some(id) = ThreadId::parse(context_id) {
            lines.extend(boxes::find_without_context(conn, id)?);
        }
        let held = lines.iter().filter(|line| self.list.holds(line)).map(|line| line.position);
        let (changed, unchanged): (Vec<_>, Vec<_>) = held.partition(|position| walk.changed.contains(&position.thread));
        let total = i64::try_from(changed.len() + unchanged.len()).unwrap_or(i64::MAX);
        Ok(Found { unchanged, changed: changed.into_iter().map(|position| position.thread).collect(), total })
    }
}

/// Threads that the filter lets through.
struct Found {
    /// Where those stand that have not changed since the walk began; some are behind it.
    unchanged: Vec<Position>,
    /// Those that have.
    changed: Vec<Row>,
    /// How many there are, also beyond these.
    total: i64,
}

/// A walk from page to page.
struct Walk {
    /// The last place in the log when it began.
    began_at: i64,
    /// Where the last thread stood that it has given.
    last: Position,
    /// Threads that have changed since it began, and perhaps some that were only read.
    changed: BTreeSet<Row>,
}

impl Walk {
    fn begin(conn: &Connection) -> Result<Walk> {
        Ok(Walk { began_at: events::last_seq(conn)?, last: Position::BEGINNING, changed: BTreeSet::new() })
    }

    fn resume(conn: &Connection, agent: Row, position: &str) -> Result<Walk> {
        // Whoever makes up a cursor walks from somewhere through its own box.
        let mut words = position.split(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(i64::MAX);
        let (began_at, at) = (number(), Timestamp::from_ms(number()));
        let thread = match words.next().and_then(ThreadId::parse) {
            Some(id) => threads::find_row(conn, id)?.unwrap_or(Row::MAX),
            None => Row::MAX,
        };
        let events = events::list_threads_after(conn, agent, began_at, EVENTS_MAX + 1)?;
        let changed = if events.len() > EVENTS_MAX { BTreeSet::new() } else { events.into_iter().flatten().collect() };
        Ok(Walk { began_at, last: Position { at, thread }, changed })
    }

    /// A walk's place at this thread, in words for a cursor.
    fn at(&self, position: Position, thread: &Thread) -> String {
        format!("{} {} {}", self.began_at, position.at.ms(), thread.id)
    }
}
