//! `tasks/list`: inbox and sent items.

use serde::Serialize;

use crate::api::rpc::wire::{ParticipantBody, page};
use crate::api::rpc::{Text, result};
use crate::api::status::StatusBody;
use crate::domain::id::ThreadId;
use crate::domain::json::{Issues, Object};
use crate::domain::thread::Thread;
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};
use crate::error::Result;
use crate::relay::threads::ThreadFilter;
use crate::relay::{Caller, Relay};

/// What `filter.status` takes.
const STATUSES: [&str; 4] = ["pending", "accepted", "completed", "cancelled"];

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Text> {
    let mut issues = Issues::default();
    let filter = filter(&params, &mut issues);
    let (limit, cursor) = page(&params, &mut issues);
    issues.finish()?;
    let side = filter.side;
    let page = relay.threads(caller, filter, limit, cursor.as_deref()).await?;
    let items = page.items.iter().map(|thread| Item::of(thread, side)).collect();
    result(&Body { items, next_cursor: page.next_cursor })
}

fn filter(params: &Object<'_>, issues: &mut Issues) -> ThreadFilter {
    let mut read = ThreadFilter { side: Side::Recipient, states: Vec::new(), since: None };
    let Some(filter) = params.optional("filter").and_then(|value| value.object(issues)) else {
        return read;
    };
    if let Some(role) = filter.optional("role").and_then(|value| value.string(issues)) {
        match [Side::Recipient, Side::Sender].into_iter().find(|side| side.name() == role) {
            Some(side) => read.side = side,
            None => issues.add(filter.at("role"), "invalid_value", "a role is recipient or sender"),
        }
    }
    for status in filter.optional("status").and_then(|value| value.array(usize::MAX, issues)).unwrap_or_default() {
        let path = status.path.clone();
        let Some(status) = status.string(issues) else {
            continue;
        };
        if !STATUSES.contains(&&*status) {
            issues.add(path, "invalid_value", format!("a status is one of {}", STATUSES.join(", ")));
        }
        for state in State::with_status(&status).filter(|state| !read.states.contains(state)).collect::<Vec<_>>() {
            read.states.push(state);
        }
    }
    if let Some(since) = filter.optional("since").and_then(|value| value.string(issues)) {
        read.since = Timestamp::parse(&since);
        if read.since.is_none() {
            let hint = "expected a time with its offset, such as 2026-04-20T00:00:00Z (RFC 3339)";
            issues.add(filter.at("since"), "invalid_value", hint);
        }
    }
    read
}

#[derive(Serialize)]
struct Body<'a> {
    items: Vec<Item<'a>>,
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct Item<'a> {
    thread_id: ThreadId,
    task_id: ThreadId,
    status: StatusBody,
    sender: ParticipantBody<'a>,
    recipient: ParticipantBody<'a>,
    summary_preview: &'a str,
    intent: &'a str,
    unread_messages: i64,
    generation: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl<'a> Item<'a> {
    fn of(thread: &'a Thread, side: Side) -> Item<'a> {
        Item {
            thread_id: thread.id,
            task_id: thread.id,
            status: thread.state.into(),
            sender: (&*thread.sender).into(),
            recipient: (&*thread.recipient).into(),
            summary_preview: &thread.summary_preview,
            intent: thread.intent,
            unread_messages: match side {
                Side::Sender => thread.unread.0,
                Side::Recipient => thread.unread.1,
            },
            generation: thread.generation,
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}
