//! Boxes by last change: order, filters, totals, and walks that lose nothing while threads change.

use std::collections::BTreeSet;

use agentrelay::domain::id::{Row, ThreadId};
use agentrelay::domain::intent::Intent;
use agentrelay::domain::json::{Document, Path};
use agentrelay::domain::message::Draft;
use agentrelay::domain::page::Limit;
use agentrelay::domain::time::Timestamp;
use agentrelay::domain::transition::{Carries, Side, State, Transition};
use agentrelay::error::Result;
use agentrelay::relay::agents::AgentName;
use agentrelay::relay::boxes::{BoxFilter, BoxPage, Scope};
use agentrelay::relay::send::Handoff;
use agentrelay::relay::threads::Detail;
use agentrelay::relay::transitions::Step;
use agentrelay::relay::{Actor, Caller};
use serde_json::json;

use crate::support::TestRelay;
use crate::{consistency, operations};

/// A moment.
const TEN: i64 = 1_777_111_200_000;
/// Nothing but the threads themselves.
const BARE: Detail = Detail { messages: 0, artifacts: false };

/// A relay, Bob and Cleo who send to Frank, and Frank.
struct World {
    relay: TestRelay,
    bob: Caller,
    cleo: Caller,
    frank: Caller,
    /// The state of a generator of numbers that are the same in every run.
    chance: u64,
    now: i64,
}

impl World {
    async fn start() -> World {
        let relay = TestRelay::start().await;
        relay.clock.set(TEN);
        let mut callers = Vec::new();
        for handle in ["bob@acme", "cleo@acme", "frank@acme"] {
            callers.push(operations::caller(&relay.relay, &relay.agent(handle).await));
        }
        let [bob, cleo, frank] = <[Caller; 3]>::try_from(callers).expect("three callers");
        World { relay, bob, cleo, frank, chance: 7, now: TEN }
    }

    fn at(&mut self, ms: i64) {
        self.now = ms;
        self.relay.clock.set(ms);
    }

    async fn hand(&self, from: &Caller, to: &Caller, context_id: Option<&str>) -> ThreadId {
        let handoff = Handoff::new(to.handle().clone(), Intent::Inform, Draft::text("A handoff"));
        let handoff = Handoff { context_id: context_id.map(ToOwned::to_owned), ..handoff };
        self.relay.relay.send(from, handoff).await.expect("sent").thread
    }

    async fn say(&self, from: &Caller, thread: ThreadId, text: &str) {
        operations::say(&self.relay.relay, from, thread, text).await.expect("said");
    }

    async fn step(&self, by: &Caller, thread: ThreadId, transition: Transition) {
        self.relay.relay.transition(by, Step::new(thread, transition)).await.expect("taken");
    }

    async fn page(&self, caller: &Caller, filter: &BoxFilter, limit: i64, cursor: Option<&str>) -> Result<BoxPage> {
        let limit = Limit::new(limit, Limit::MAX).expect("a limit");
        self.relay.relay.threads_by_change(caller, filter.clone(), BARE, limit, cursor, cursor_path()).await
    }

    /// The first page of Frank's inbox, in this much detail.
    async fn detailed(&self, messages: usize, artifacts: bool) -> BoxPage {
        let detail = Detail { messages, artifacts };
        let filter = BoxFilter::all(Scope::Inbox);
        let page =
            self.relay.relay.threads_by_change(&self.frank, filter, detail, Limit::DEFAULT, None, cursor_path()).await;
        page.expect("a page")
    }

    /// The ids on the first page of 200.
    async fn list(&self, caller: &Caller, filter: &BoxFilter) -> Vec<ThreadId> {
        ids(&self.page(caller, filter, 200, None).await.expect("a page"))
    }

    fn random(&mut self, below: usize) -> usize {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.chance >> 33).expect("a number") % below
    }

    /// Something happens: a handoff, a message, a step or a look, if the relay lets it.
    async fn happen(&mut self) {
        let threads = everything(&self.relay);
        let thread = threads.get(self.random(threads.len().max(1)));
        let (from, back) = match self.random(3) {
            0 => (self.cleo.clone(), self.frank.clone()),
            1 => (self.frank.clone(), self.bob.clone()),
            _ => (self.bob.clone(), self.frank.clone()),
        };
        let (choice, step) = (self.random(8), self.random(Transition::ALL.len()));
        let relay = &self.relay.relay;
        match (choice, thread) {
            (0, _) => drop(self.hand(&from, &back, None).await),
            (1, _) => drop(self.hand(&from, &back, Some("a talk")).await),
            // Into the conversation of a thread for which none was named.
            (2, Some(thread)) => drop(self.hand(&from, &back, Some(&thread.id.to_string())).await),
            (3, Some(thread)) => drop(operations::say(relay, &from, thread.id, "More").await),
            (4, Some(thread)) => drop(relay.thread(&back, thread.id).await),
            (_, Some(thread)) => {
                let mut step = Step::new(thread.id, Transition::ALL[step]);
                let speaks = match step.transition.rule().message {
                    Carries::Required => true,
                    Carries::Optional => choice == 5,
                    Carries::Nothing => false,
                };
                step.message = speaks.then(|| Draft::text("So"));
                for caller in [&self.frank, &from] {
                    drop(relay.transition(caller, step.clone()).await);
                }
            }
            (_, None) => {}
        }
    }
}

fn cursor_path() -> Path {
    Path::root().key("page_token")
}

fn ids(page: &BoxPage) -> Vec<ThreadId> {
    page.threads.iter().map(|view| view.thread.id).collect()
}

/// A thread as the file has it.
struct Stored {
    id: ThreadId,
    sender: Row,
    recipient: Row,
    state: State,
    updated_at: i64,
    context_id: Option<String>,
}

/// All threads, last change first.
fn everything(relay: &TestRelay) -> Vec<Stored> {
    let conn = relay.sqlite();
    let sql = "SELECT ulid, sender, recipient, state, updated_at, context_id FROM threads
                   LEFT JOIN handoffs ON thread = threads.id ORDER BY updated_at DESC, threads.id DESC";
    let mut statement = conn.prepare(sql).expect("a query");
    let threads = statement.query_map([], |row| {
        Ok(Stored {
            id: row.get(0)?,
            sender: row.get(1)?,
            recipient: row.get(2)?,
            state: row.get(3)?,
            updated_at: row.get(4)?,
            context_id: row.get(5)?,
        })
    });
    threads.expect("threads").map(|thread| thread.expect("a thread")).collect()
}

/// What a list has to show, thread by thread: looked for in the whole file.
fn expected(relay: &TestRelay, caller: &Caller, filter: &BoxFilter) -> Vec<ThreadId> {
    let holds = |thread: &Stored| {
        let scope = match filter.scope {
            Scope::Inbox => thread.recipient == caller.row(),
            Scope::SentTo(recipient) => (thread.sender, thread.recipient) == (caller.row(), recipient),
        };
        let own = thread.id.to_string();
        let context = filter.context_id.as_ref().is_none_or(|id| thread.context_id.as_ref().unwrap_or(&own) == id);
        let state = filter.states.is_empty() || filter.states.contains(&thread.state);
        scope && context && state && filter.changed_since.is_none_or(|since| thread.updated_at >= since.ms())
    };
    everything(relay).into_iter().filter(holds).map(|thread| thread.id).collect()
}

mod the_order {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_that_of_the_last_changes() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let mut threads = Vec::new();
        for ms in 0..4 {
            world.at(TEN + ms);
            threads.push(world.hand(&bob, &frank, None).await);
        }
        let inbox = BoxFilter::all(Scope::Inbox);
        let sent = BoxFilter::all(Scope::SentTo(frank.row()));
        let [first, second, third, fourth] = <[ThreadId; 4]>::try_from(threads).expect("four");
        assert_eq!(world.list(&frank, &inbox).await, [fourth, third, second, first]);

        world.at(TEN + 10);
        world.say(&bob, second, "More").await;
        world.at(TEN + 11);
        world.step(&frank, first, Transition::Accept).await;
        assert_eq!(world.list(&frank, &inbox).await, [first, second, fourth, third]);
        assert_eq!(world.list(&bob, &sent).await, [first, second, fourth, third]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_one_millisecond_is_that_of_creation_and_the_clock_may_be_set_back() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let (older, newer) = (world.hand(&bob, &frank, None).await, world.hand(&bob, &frank, None).await);
        world.at(TEN - 5);
        let back = world.hand(&bob, &frank, None).await;
        assert_eq!(world.list(&frank, &BoxFilter::all(Scope::Inbox)).await, [newer, older, back]);
        world.say(&bob, newer, "Earlier, says the clock").await;
        assert_eq!(world.list(&frank, &BoxFilter::all(Scope::Inbox)).await, [older, back, newer]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_not_changed_by_looking_and_looking_leaves_no_trace() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let thread = world.hand(&bob, &frank, None).await;
        world.say(&bob, thread, "More").await;
        world.at(TEN + 1);
        let other = world.hand(&bob, &frank, None).await;
        let events = "SELECT count(*) FROM events";
        let count = || world.relay.sqlite().query_row(events, [], |row| row.get::<_, i64>(0)).expect("a number");
        let before = count();
        for _ in 0..2 {
            let page = world.detailed(usize::MAX, true).await;
            assert_eq!(ids(&page), [other, thread]);
            assert_eq!((page.threads[1].thread.read, page.threads[1].thread.unread), ((1, 0), (0, 1)));
        }
        assert_eq!(count(), before);
        world.relay.relay.thread(&frank, thread).await.expect("read");
        assert_eq!(ids(&world.detailed(0, false).await), [other, thread], "reading is no change");
    }
}

mod a_filter {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn by_scope_shows_a_pair_nobody_elses_threads() {
        let world = World::start().await;
        let World { bob, cleo, frank, .. } = &world;
        let from_bob = world.hand(bob, frank, None).await;
        let from_cleo = world.hand(cleo, frank, None).await;
        let to_bob = world.hand(frank, bob, None).await;
        let to_cleo = world.hand(bob, cleo, None).await;
        for (caller, scope, threads) in [
            (frank, Scope::Inbox, vec![from_cleo, from_bob]),
            (bob, Scope::Inbox, vec![to_bob]),
            (cleo, Scope::Inbox, vec![to_cleo]),
            (bob, Scope::SentTo(frank.row()), vec![from_bob]),
            (bob, Scope::SentTo(cleo.row()), vec![to_cleo]),
            (cleo, Scope::SentTo(frank.row()), vec![from_cleo]),
            (frank, Scope::SentTo(bob.row()), vec![to_bob]),
            (frank, Scope::SentTo(cleo.row()), vec![]),
            (cleo, Scope::SentTo(bob.row()), vec![]),
            (bob, Scope::SentTo(bob.row()), vec![]),
            (bob, Scope::SentTo(12_345), vec![]),
        ] {
            let page = world.page(caller, &BoxFilter::all(scope), 50, None).await.expect("a page");
            assert_eq!(ids(&page), threads, "{} {scope:?}", caller.handle());
            assert_eq!(page.total, i64::try_from(threads.len()).expect("a number"));
            let side = if matches!(scope, Scope::Inbox) { Side::Recipient } else { Side::Sender };
            assert!(page.threads.iter().all(|view| view.side == side));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn by_state_and_moment_is_exact() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let mut threads = Vec::new();
        for ms in 0..3 {
            world.at(TEN + ms);
            threads.push(world.hand(&bob, &frank, None).await);
        }
        world.at(TEN + 9);
        world.step(&frank, threads[0], Transition::Accept).await;
        let filter = |states: &[State], since: Option<i64>| BoxFilter {
            states: states.to_vec(),
            changed_since: since.map(|since| Timestamp::from_ms(TEN + since)),
            ..BoxFilter::all(Scope::Inbox)
        };
        for (states, since, expected) in [
            (&[][..], Some(0), vec![threads[0], threads[2], threads[1]]),
            (&[], Some(2), vec![threads[0], threads[2]]),
            (&[], Some(3), vec![threads[0]]),
            (&[], Some(9), vec![threads[0]]),
            (&[], Some(10), vec![]),
            (&[State::Pending], None, vec![threads[2], threads[1]]),
            (&[State::Pending], Some(2), vec![threads[2]]),
            (&[State::Accepted, State::Accepted], None, vec![threads[0]]),
            (&[State::Pending, State::Accepted], Some(2), vec![threads[0], threads[2]]),
            (&[State::Failed, State::Completed], None, vec![]),
        ] {
            let page = world.page(&frank, &filter(states, since), 50, None).await.expect("a page");
            assert_eq!(ids(&page), expected, "{states:?} {since:?}");
            assert_eq!(page.total, i64::try_from(expected.len()).expect("a number"), "{states:?} {since:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn by_conversation_finds_named_ones_and_threads_without_one_by_their_id() {
        let world = World::start().await;
        let World { bob, cleo, frank, .. } = &world;
        let alone = world.hand(bob, frank, None).await;
        let named = world.hand(bob, frank, Some("a talk")).await;
        let also = world.hand(cleo, frank, Some("a talk")).await;
        let joined = world.hand(bob, frank, Some(&alone.to_string())).await;
        let list = async |caller: &Caller, scope, context: &str| {
            let filter = BoxFilter { context_id: Some(context.to_owned()), ..BoxFilter::all(scope) };
            let page = world.page(caller, &filter, 50, None).await.expect("a page");
            assert_eq!(page.total, i64::try_from(page.threads.len()).expect("a number"));
            ids(&page)
        };
        assert_eq!(list(frank, Scope::Inbox, "a talk").await, [also, named]);
        assert_eq!(list(bob, Scope::SentTo(frank.row()), "a talk").await, [named]);
        assert_eq!(list(cleo, Scope::SentTo(frank.row()), "a talk").await, [also]);
        assert_eq!(list(frank, Scope::Inbox, &alone.to_string()).await, [joined, alone]);
        assert_eq!(list(bob, Scope::SentTo(frank.row()), &alone.to_string()).await, [joined, alone]);
        // A stranger's, somebody else's side of it, one that has another name, none at all.
        assert_eq!(list(cleo, Scope::Inbox, &alone.to_string()).await, []);
        assert_eq!(list(cleo, Scope::SentTo(frank.row()), &alone.to_string()).await, []);
        assert_eq!(list(bob, Scope::Inbox, "a talk").await, []);
        assert_eq!(list(frank, Scope::Inbox, &named.to_string()).await, []);
        assert_eq!(list(frank, Scope::Inbox, "").await, []);
        assert_eq!(list(frank, Scope::Inbox, "another").await, []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shows_the_threads_of_the_blocked_and_the_disabled() {
        let world = World::start().await;
        let World { relay, bob, frank, .. } = &world;
        let thread = world.hand(bob, frank, None).await;
        let name = |caller: &Caller| AgentName::Id(caller.id());
        relay.relay.block(frank.actor(), name(frank), name(bob), None).await.expect("blocked");
        assert_eq!(world.list(frank, &BoxFilter::all(Scope::Inbox)).await, [thread]);
        assert_eq!(world.list(bob, &BoxFilter::all(Scope::SentTo(frank.row()))).await, [thread]);
        relay.relay.disable_agent(Actor::operator("req_boxes"), name(frank)).await.expect("disabled");
        assert_eq!(world.list(bob, &BoxFilter::all(Scope::SentTo(frank.row()))).await, [thread]);
        assert_eq!(world.list(frank, &BoxFilter::all(Scope::Inbox)).await, [thread]);
    }
}

mod the_total {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_right_for_every_filter_whatever_happens() {
        let mut world = World::start().await;
        for round in 0..12 {
            for _ in 0..25 {
                let by = i64::try_from(world.random(4)).expect("a number") - 1;
                world.at(world.now + by);
                world.happen().await;
            }
            let alone = everything(&world.relay)[round].id.to_string();
            let contexts = [None, Some("a talk".to_owned()), Some(alone), Some("nobody's".to_owned())];
            let moments = [None, Some(TEN), Some(world.now - 5), Some(world.now + 1)];
            let states = [vec![], vec![State::Pending], vec![State::Accepted, State::Completed, State::Cancelled]];
            for (caller, scope) in [
                (&world.frank, Scope::Inbox),
                (&world.frank, Scope::SentTo(world.bob.row())),
                (&world.bob, Scope::SentTo(world.frank.row())),
                (&world.cleo, Scope::Inbox),
            ] {
                for context_id in &contexts {
                    for (since, states) in moments.iter().flat_map(|since| states.iter().map(move |it| (since, it))) {
                        let changed_since = since.map(Timestamp::from_ms);
                        let (context_id, states) = (context_id.clone(), states.clone());
                        let filter = BoxFilter { scope, context_id, states, changed_since };
                        let expected = expected(&world.relay, caller, &filter);
                        let page = world.page(caller, &filter, 3, None).await.expect("a page");
                        assert_eq!(ids(&page), expected[..expected.len().min(3)], "{filter:?}");
                        assert_eq!(page.total, i64::try_from(expected.len()).expect("a number"), "{filter:?}");
                        assert_eq!(page.next_cursor.is_some(), expected.len() > 3, "{filter:?}");
                    }
                }
            }
        }
        assert!(everything(&world.relay).len() > 80);
        consistency::check(&world.relay.sqlite());
    }
}

mod a_walk {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn visits_each_of_300_threads_of_one_millisecond_once_while_they_change() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let mut threads = Vec::new();
        for _ in 0..300 {
            threads.push(world.hand(&bob, &frank, Some("a talk")).await);
        }
        threads.reverse();
        let inbox = BoxFilter::all(Scope::Inbox);
        let pair = BoxFilter::all(Scope::SentTo(frank.row()));
        let talk = BoxFilter { context_id: Some("a talk".to_owned()), ..inbox.clone() };
        for (caller, filter, advance) in [(&frank, &inbox, 0), (&bob, &pair, 1), (&frank, &talk, -1)] {
            let before = expected(&world.relay, caller, filter);
            let (mut visited, mut cursor) = (Vec::new(), None);
            loop {
                let page = world.page(caller, filter, 7, cursor.as_deref()).await.expect("a page");
                visited.extend(ids(&page));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
                assert_eq!(page.threads.len(), 7, "only the last page is short");
                // One that was shown changes, one that is next does, one far behind, and a new one comes.
                world.at(world.now + advance);
                world.say(&bob, visited[visited.len() - 1], "Shown").await;
                for ahead in [visited.len(), visited.len() + 30] {
                    if let Some(thread) = before.get(ahead) {
                        world.say(&frank, *thread, "To come").await;
                        let accept = Step::new(*thread, Transition::Accept);
                        drop(world.relay.relay.transition(&frank, accept).await);
                    }
                }
                world.hand(&bob, &frank, Some("a talk")).await;
            }
            assert_eq!(visited, before);
        }
        assert_eq!(everything(&world.relay).iter().filter(|thread| threads.contains(&thread.id)).count(), 300);
        consistency::check(&world.relay.sqlite());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn visits_once_what_the_filter_lets_through_all_along() {
        let mut world = World::start().await;
        let mut longest = 0;
        for case in 0..24 {
            for _ in 0..20 {
                world.at(world.now + i64::from(case % 2));
                world.happen().await;
            }
            let (scope, caller) = match case % 3 {
                0 => (Scope::SentTo(world.frank.row()), world.bob.clone()),
                _ => (Scope::Inbox, world.frank.clone()),
            };
            let filter = BoxFilter {
                scope,
                context_id: (case % 4 == 3).then(|| "a talk".to_owned()),
                states: if case % 2 == 0 { vec![] } else { vec![State::Pending, State::Accepted, State::Rejected] },
                changed_since: (case % 5 == 4).then(|| Timestamp::from_ms(world.now - 8)),
            };
            let limit = i64::try_from(1 + world.random(6)).expect("a limit");
            let there: Vec<ThreadId> = everything(&world.relay).into_iter().map(|thread| thread.id).collect();
            let mut always: BTreeSet<ThreadId> = there.iter().copied().collect();
            let (mut visited, mut cursor) = (Vec::new(), None);
            loop {
                let now = expected(&world.relay, &caller, &filter);
                always.retain(|thread| now.contains(thread));
                let page = world.page(&caller, &filter, limit, cursor.as_deref()).await.expect("a page");
                for thread in ids(&page) {
                    assert!(now.contains(&thread), "case {case}: {thread} does not match");
                    visited.push(thread);
                }
                assert_eq!(page.total, i64::try_from(now.len()).expect("a number"));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
                for _ in 0..world.random(4) {
                    // The clock stands, goes on, or is set back.
                    let by = i64::try_from(world.random(6)).expect("a number") - 2;
                    world.at(world.now + by);
                    world.happen().await;
                }
            }
            // In the order from when the walk began, so also none twice, and none that came later.
            let places: Vec<_> = visited.iter().map(|id| there.iter().position(|there| there == id)).collect();
            assert!(places.iter().all(Option::is_some), "case {case}: a new one was visited");
            assert!(places.is_sorted_by(|former, next| former < next), "case {case}: {places:?}");
            let missed: Vec<_> = always.iter().filter(|thread| !visited.contains(thread)).collect();
            assert!(missed.is_empty(), "case {case}: never visited: {missed:?}");
            longest = longest.max(visited.len());
        }
        assert!(longest > 40, "{longest}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn finds_the_thread_of_the_very_last_event_before_it_and_none_after_it() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let first = world.hand(&bob, &frank, None).await;
        world.at(TEN - 5);
        let last = world.hand(&bob, &frank, None).await;
        let inbox = BoxFilter::all(Scope::Inbox);
        let page = world.page(&frank, &inbox, 1, None).await.expect("a page");
        assert_eq!(ids(&page), [first]);
        world.at(TEN - 9);
        world.hand(&bob, &frank, None).await;
        world.at(TEN + 9);
        world.say(&bob, last, "To the front").await;
        let rest = world.page(&frank, &inbox, 9, page.next_cursor.as_deref()).await.expect("a page");
        assert_eq!((ids(&rest), rest.next_cursor), (vec![last], None));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn goes_on_without_what_changed_when_more_than_a_thousand_things_happened() {
        let mut world = World::start().await;
        let (bob, frank) = (world.bob.clone(), world.frank.clone());
        let mut threads = Vec::new();
        for _ in 0..4 {
            threads.push(world.hand(&bob, &frank, None).await);
        }
        let inbox = BoxFilter::all(Scope::Inbox);
        let first = world.page(&frank, &inbox, 1, None).await.expect("a page");
        assert_eq!(ids(&first), threads[3..]);
        world.at(TEN + 1);
        world.say(&bob, threads[1], "Changed").await;
        for _ in 0..999 {
            world.say(&bob, threads[3], "Shown already").await;
        }
        let rest = async || ids(&world.page(&frank, &inbox, 9, first.next_cursor.as_deref()).await.expect("a page"));
        assert_eq!(rest().await, [threads[2], threads[1], threads[0]], "a thousand are made up for");
        world.say(&bob, threads[3], "One too many").await;
        assert_eq!(rest().await, [threads[2], threads[0]]);
        assert_eq!(world.list(&frank, &inbox).await, [threads[3], threads[1], threads[2], threads[0]]);
    }
}

mod a_cursor {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn belongs_to_its_caller_and_its_filter() {
        let world = World::start().await;
        let World { bob, cleo, frank, .. } = &world;
        for _ in 0..3 {
            world.hand(bob, frank, None).await;
            world.hand(frank, bob, None).await;
        }
        let since = |ms| Some(Timestamp::from_ms(ms));
        let filter = BoxFilter {
            scope: Scope::SentTo(frank.row()),
            context_id: None,
            states: vec![State::Pending, State::Accepted],
            changed_since: since(TEN),
        };
        let cursor = world.page(bob, &filter, 1, None).await.expect("a page").next_cursor.expect("a cursor");
        for other in [
            BoxFilter { scope: Scope::Inbox, ..filter.clone() },
            BoxFilter { scope: Scope::SentTo(cleo.row()), ..filter.clone() },
            BoxFilter { states: vec![], ..filter.clone() },
            BoxFilter { states: vec![State::Pending], ..filter.clone() },
            BoxFilter { changed_since: since(TEN + 1), ..filter.clone() },
            BoxFilter { changed_since: None, ..filter.clone() },
            BoxFilter { context_id: Some(String::new()), ..filter.clone() },
            BoxFilter { context_id: Some("a talk".to_owned()), ..filter.clone() },
        ] {
            refused(&world, bob, &other, &cursor).await;
        }
        refused(&world, cleo, &filter, &cursor).await;
        for made_up in ["", "1", "🦀", &cursor[1..], &format!("{cursor}A"), &frank.id().to_string()] {
            refused(&world, bob, &filter, made_up).await;
        }
        // The same filter in other words.
        let same = BoxFilter { states: vec![State::Accepted, State::Pending, State::Accepted], ..filter };
        let rest = world.page(bob, &same, 5, Some(&cursor)).await.expect("a page");
        assert_eq!((rest.threads.len(), rest.next_cursor), (2, None));
    }

    async fn refused(world: &World, caller: &Caller, filter: &BoxFilter, cursor: &str) {
        let error = world.page(caller, filter, 1, Some(cursor)).await.expect_err("a foreign cursor");
        assert_eq!(error.symbol().name(), "invalid_params");
        assert_eq!(error.details()["issues"][0]["path"], json!(["page_token"]));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn ends_with_the_last_thread_not_with_an_empty_page() {
        let world = World::start().await;
        let World { bob, frank, .. } = &world;
        for _ in 0..4 {
            world.hand(bob, frank, None).await;
        }
        let inbox = BoxFilter::all(Scope::Inbox);
        let first = world.page(frank, &inbox, 2, None).await.expect("a page");
        let second = world.page(frank, &inbox, 2, first.next_cursor.as_deref()).await.expect("a page");
        assert_eq!((second.threads.len(), second.next_cursor), (2, None));
        assert_eq!(world.page(frank, &inbox, 4, None).await.expect("a page").next_cursor, None);
        let nothing = world.page(bob, &inbox, 4, None).await.expect("a page");
        assert_eq!((nothing.threads.len(), nothing.next_cursor, nothing.total), (0, None, 0));
    }
}

mod the_detail {
    use super::*;

    fn bodies(page: &BoxPage) -> Vec<&str> {
        page.threads[0].messages.iter().map(|message| message.draft.parts.body.as_str()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_the_last_messages_and_always_the_one_of_the_last_change() {
        let world = World::start().await;
        let World { bob, frank, .. } = &world;
        let thread = world.hand(bob, frank, None).await;
        assert_eq!(bodies(&world.detailed(0, false).await), ["A handoff"]);
        for text in ["two", "three"] {
            world.say(bob, thread, text).await;
        }
        assert_eq!(bodies(&world.detailed(0, false).await), ["three"]);
        assert_eq!(bodies(&world.detailed(1, false).await), ["three"]);
        assert_eq!(bodies(&world.detailed(2, false).await), ["two", "three"]);
        world.step(frank, thread, Transition::Accept).await;
        assert_eq!(bodies(&world.detailed(0, false).await), Vec::<&str>::new());
        assert_eq!(bodies(&world.detailed(1, false).await), ["three"]);
        for all in [3, 4, usize::MAX] {
            assert_eq!(bodies(&world.detailed(all, false).await), ["A handoff", "two", "three"]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn has_artifacts_when_they_are_asked_for_and_otherwise_all_that_a_thread_has() {
        let world = World::start().await;
        let World { relay, bob, frank, .. } = &world;
        let document =
            |text: &str| Document::from(serde_json::value::RawValue::from_string(text.to_owned()).expect("JSON"));
        let mut handoff = Handoff::new(frank.handle().clone(), Intent::Inform, Draft::text("Look"));
        handoff.artifacts = vec![document(r#"{"type":"link","url":"https://acme.example"}"#)];
        handoff.metadata.rest = Some(document(r#"{"ticket":42}"#));
        handoff.context_id = Some("a talk".to_owned());
        let thread = relay.relay.send(bob, handoff).await.expect("sent").thread;
        world.step(frank, thread, Transition::Accept).await;
        let mut step = Step::new(thread, Transition::Complete);
        step.result_summary = Some("Done".to_owned());
        step.artifacts = vec![document(r#"{"type":"link","url":"https://acme.example/2"}"#)];
        relay.relay.transition(frank, step).await.expect("completed");

        for asked in [false, true] {
            let page = world.detailed(0, asked).await;
            let view = &page.threads[0];
            assert_eq!(view.artifacts.len(), if asked { 2 } else { 0 });
            assert_eq!(view.result_summary.as_deref(), Some("Done"));
            assert_eq!(view.context_id.as_deref(), Some("a talk"));
            assert_eq!(view.metadata.rest.as_ref().map(|rest| rest.get()), Some(r#"{"ticket":42}"#));
            assert_eq!((view.intent.name(), view.side, view.messages.len()), ("inform", Side::Recipient, 0));
        }
    }
}

#[tokio::test]
async fn a_page_of_large_threads_ends_early_and_the_walk_goes_on() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let sender = operations::caller(&relay.relay, &bob);
    let large = "x".repeat(900_000);
    for number in 0..7 {
        operations::hand(&relay.relay, &sender, &frank.handle, &format!("{number} {large}"), None).await.expect("sent");
    }
    let recipient = operations::caller(&relay.relay, &frank);
    let detail = Detail { messages: 1, artifacts: false };
    let (mut sizes, mut cursor) = (Vec::new(), None);
    loop {
        let filter = BoxFilter::all(Scope::Inbox);
        let list =
            relay.relay.threads_by_change(&recipient, filter, detail, Limit::DEFAULT, cursor.as_deref(), Path::root());
        let page = list.await.expect("a page");
        sizes.push(page.threads.len());
        assert_eq!(page.total, 7);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [5, 2]);
}

#[tokio::test]
async fn what_is_pending_between_two_is_found_among_what_others_sent() {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let carol = relay.agent("carol@acme").await;
    let (sender, other) = (operations::caller(&relay.relay, &bob), operations::caller(&relay.relay, &carol));
    let mut sent = Vec::new();
    for number in 0..60 {
        let mine = number % 12 == 0;
        let caller = if mine { &sender } else { &other };
        let receipt = operations::hand(&relay.relay, caller, &frank.handle, "x", None).await.expect("sent");
        if mine {
            sent.push(receipt.thread);
        }
    }
    // The last one is accepted: in another index, and at the front.
    frank.step(&sent[1].to_string(), "accept").await.result();
    let accepted = sent.remove(1);
    sent.push(accepted);
    let recipient = relay
        .relay
        .agent(AgentName::Handle(agentrelay::domain::agent::Handle::parse(&frank.handle).expect("a handle")))
        .await
        .expect("frank")
        .row;
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let filter = BoxFilter::all(Scope::SentTo(recipient));
        let (detail, limit) = (Detail { messages: 0, artifacts: false }, Limit::new(2, Limit::MAX).expect("a limit"));
        let list = relay.relay.threads_by_change(&sender, filter, detail, limit, cursor.as_deref(), Path::root());
        let page = list.await.expect("a page");
        assert_eq!(page.total, 5);
        found.extend(page.threads.iter().map(|view| view.thread.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    sent.reverse();
    assert_eq!(found, sent);
}
