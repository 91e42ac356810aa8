//! Reading threads: one as a whole, and the boxes they lie in.

use crate::domain::event::EventKind;
use crate::domain::id::{Row, ThreadId};
use crate::domain::json::Path;
use crate::domain::page::{Limit, ListName, Page};
use crate::domain::thread::{Thread, ThreadView};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};
use crate::error::{Error, Result, Symbol};
use crate::relay::{Caller, Relay};
use crate::store::events::Change;
use crate::store::threads::Mailbox;
use crate::store::{Connection, Tx, artifacts, events, messages, threads};

/// Most messages of a thread that is read on the calling thread: a page or two for each, in one range.
const SHORT_MAX: i64 = 50;

/// Which threads a list shows.
#[derive(Clone, Debug)]
pub struct ThreadFilter {
    /// The caller's side of them.
    pub side: Side,
    /// Their states; all when empty.
    pub states: Vec<State>,
    /// Changed at this moment or later.
    pub since: Option<Timestamp>,
}

/// How much of a thread a view has.
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// So many of its last messages. The one that came with its last change is there in any case.
    pub messages: usize,
    /// Its artifacts.
    pub artifacts: bool,
}

impl Detail {
    /// All of it.
    pub const WHOLE: Detail = Detail { messages: usize::MAX, artifacts: true };
}

/// The id in `text`. What is no id at all is the id of no thread.
pub fn thread_id(text: &str) -> Result<ThreadId> {
    ThreadId::parse(text).ok_or_else(|| not_found(&text))
}

fn not_found(id: &dyn std::fmt::Display) -> Error {
    let id: String = id.to_string().chars().take(40).collect();
    Error::new(Symbol::ThreadNotFound, format!("No thread has the id '{id}'; tasks/list shows those that you are in"))
}

/// The thread, and the side of it that the caller is on.
pub(super) fn find_as_participant(conn: &Connection, caller: &Caller, id: ThreadId) -> Result<(Thread, Side)> {
    let thread = threads::find(conn, id)?.ok_or_else(|| not_found(&id))?;
    let side = thread.side(caller.row()).ok_or_else(|| {
        Error::new(Symbol::NotAParticipant, "You are neither the sender nor the recipient of this thread")
    })?;
    Ok((thread, side))
}

impl Relay {
    /// Reads a whole thread, and notes that the caller has.
    pub async fn thread(&self, caller: &Caller, id: ThreadId) -> Result<ThreadView> {
        let view = self.peek(caller, id).await?;
        let (thread, side) = (&view.thread, view.side);
        let (read, unread) = match side {
            Side::Sender => (thread.read.0, thread.unread.0),
            Side::Recipient => (thread.read.1, thread.unread.1),
        };
        if read < thread.message_count || unread > 0 {
            let (caller, thread, seen) = (caller.clone(), thread.row, thread.message_count);
            let request_id = caller.request_id().to_owned();
            let marked = self.store().write(move |tx| mark_read(tx, &caller, thread, side, seen)).await;
            // On a full disk, say, reading goes on. The thread stays unread, and the next look tries again.
            if let Err(error) = marked {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(request_id, source, "a thread was read and could not be marked so");
            }
        }
        Ok(view)
    }

    /// The record of a thread that the caller takes part in, and its side, looked up on the calling thread.
    pub fn find_thread(&self, caller: &Caller, id: ThreadId) -> Result<(Thread, Side)> {
        self.store().look_up(|conn| find_as_participant(conn, caller, id))
    }

    /// The conversation that a thread is part of; `None` for one of its own.
    pub fn context_id(&self, thread: &Thread) -> Result<Option<String>> {
        Ok(self.store().look_up(|conn| threads::find_handoff(conn, thread))?.2)
    }

    /// Reads a whole thread; nobody learns of it.
    pub async fn peek(&self, caller: &Caller, id: ThreadId) -> Result<ThreadView> {
        let short = self.store().look_up_together(|conn| {
            let (thread, side) = find_as_participant(conn, caller, id)?;
            if thread.message_count > SHORT_MAX { Ok(None) } else { view(conn, thread, side, Detail::WHOLE).map(Some) }
        })?;
        if let Some(view) = short {
            return Ok(view);
        }
        let reader = caller.clone();
        let read = move |conn: &Connection| {
            let (thread, side) = find_as_participant(conn, &reader, id)?;
            view(conn, thread, side, Detail::WHOLE)
        };
        self.store().read(read).await
    }

    /// Lists the caller's threads, newest first. The order never changes, so a walk sees each thread once.
    pub async fn threads(
        &self,
        caller: &Caller,
        filter: ThreadFilter,
        limit: Limit,
        cursor: Option<&str>,
    ) -> Result<Page<Thread>> {
        let mut states: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        states.sort_unstable();
        let since = filter.since.map(|since| since.ms().to_string()).unwrap_or_default();
        let list = ListName::new(&["threads", &caller.id().to_string(), filter.side.name(), &states.join(","), &since]);
        let before = match cursor {
            Some(cursor) => Some(list.position(cursor, Path::root().key("page").key("cursor"))?),
            None => None,
        };
        let agent = caller.row();
        self.store()
            .read(move |conn| {
                let before = match before.as_deref().and_then(ThreadId::parse) {
                    Some(id) => threads::find_row(conn, id)?.unwrap_or(Row::MAX),
                    None => Row::MAX,
                };
                let mailbox = Mailbox { agent, side: filter.side, states: filter.states, since: filter.since };
                let rows = threads::list_rows(conn, &mailbox, before, limit.get() + 1)?;
                let found = threads::get_all(conn, &rows)?;
                Ok(Page::of(found, limit, &list, |thread| thread.id.to_string()))
            })
            .await
    }
}

pub(super) fn view(conn: &Connection, thread: Thread, side: Side, detail: Detail) -> Result<ThreadView> {
    let (metadata, intent, context_id) = threads::find_handoff(conn, &thread)?;
    let messages = match i64::try_from(detail.messages).unwrap_or(i64::MAX) {
        0 => messages::find_latest(conn, &thread)?.into_iter().collect(),
        count => messages::list_between(conn, &thread, thread.message_count.saturating_sub(count) + 1, i64::MAX)?,
    };
    let artifacts = if detail.artifacts { artifacts::list_between(conn, thread.row, 0, i64::MAX)? } else { Vec::new() };
    let result_summary =
        if thread.state.is_terminal() { threads::find_result_summary(conn, thread.row)? } else { None };
    Ok(ThreadView { thread, side, intent, context_id, metadata, messages, artifacts, result_summary })
}

/// The read cursor only moves forward. The recipient's first look is an event that the sender can see.
fn mark_read(tx: &mut Tx<'_>, caller: &Caller, thread: Row, side: Side, seen: i64) -> Result<()> {
    let thread = threads::get(tx, thread)?;
    let read = match side {
        Side::Sender => thread.read.0,
        Side::Recipient => thread.read.1,
    };
    let seen = seen.max(read);
    let unread = messages::count_unread(tx, thread.row, caller.row(), seen)?;
    threads::update_read(tx, thread.row, side, seen, unread)?;
    if side == Side::Recipient && read == 0 {
        events::append_to_thread(tx, &caller.actor(), EventKind::ThreadFetched, Change::of(&thread), None)?;
    }
    Ok(())
}
