//! A cursor walk sees each thread once, whatever happens between its pages.

use std::time::Duration;

use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::ThreadId;
use agentrelay::domain::time::Timestamp;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};

use crate::laws::model::{TABLE, status};
use crate::laws::{SENT_AT, at_once, hold, relay_with_callers};
use crate::support::{Agent, TestRelay, message};
use crate::{consistency, operations};

/// What may happen between two pages of a walk.
#[derive(Clone, Debug)]
enum Meanwhile {
    Send { out: bool },
    Step(Index, &'static str),
    Say(Index, bool),
    Read(Index),
    RenameOther,
    Block,
}

/// A walk: how many threads there are at first, what became of them, which list, and what happens between its pages.
#[derive(Clone, Debug)]
struct Walk {
    threads: Vec<(bool, Option<&'static str>)>,
    side: &'static str,
    statuses: Vec<&'static str>,
    /// Since how many milliseconds after the threads were sent.
    since: Option<i64>,
    limit: usize,
    between: Vec<Vec<Meanwhile>>,
}

fn walks() -> impl Strategy<Value = Walk> {
    let index = any::<Index>;
    let step = || select(TABLE.iter().map(|row| row.0).collect::<Vec<_>>());
    let meanwhile = prop_oneof![
        2 => any::<bool>().prop_map(|out| Meanwhile::Send { out }),
        6 => (index(), step()).prop_map(|(thread, step)| Meanwhile::Step(thread, step)),
        3 => (index(), any::<bool>()).prop_map(|(thread, sender)| Meanwhile::Say(thread, sender)),
        2 => index().prop_map(Meanwhile::Read),
        1 => Just(Meanwhile::RenameOther),
        1 => Just(Meanwhile::Block),
    ];
    let statuses = subsequence(vec!["pending", "accepted", "completed", "cancelled"], 0..=4);
    (
        prop::collection::vec((prop::bool::weighted(0.7), prop::option::weighted(0.5, step())), 0..40),
        select(vec!["recipient", "sender"]),
        statuses,
        prop::option::weighted(0.3, -1..4_i64),
        prop_oneof![4 => 1..9_usize, 1 => Just(200)],
        prop::collection::vec(prop::collection::vec(meanwhile, 0..6), 0..12),
    )
        .prop_map(|(threads, side, statuses, since, limit, between)| Walk {
            threads,
            side,
            statuses,
            since,
            limit,
            between,
        })
}

#[test]
fn a_cursor_walk_visits_each_thread_once_whatever_happens_between_its_pages() {
    hold(80, &walks(), async |walk| {
        let (mut relay, agents) = relay_with_callers().await;
        relay.clock.set(SENT_AT);
        let mut threads = Threads { relay: &relay, agents: &agents, tasks: Vec::new(), renamed: 0 };
        for (incoming, step) in &walk.threads {
            threads.send(!*incoming).await;
            if let Some(step) = step {
                threads.step(threads.tasks.len() - 1, step).await;
            }
        }
        let since = walk.since.map(|since| Timestamp::from_ms(SENT_AT + since));
        let filter = json!({
            "role": walk.side,
            "status": (!walk.statuses.is_empty()).then_some(&walk.statuses),
            "since": since.map(|since| since.to_string()),
        });

        let mut always: Option<Vec<String>> = None;
        let mut visited: Vec<String> = Vec::new();
        let mut cursor = Value::Null;
        let mut between = walk.between.iter();
        loop {
            let matching = threads.matching(&walk);
            always.get_or_insert_with(|| matching.clone()).retain(|task| matching.contains(task));
            let page = json!({ "limit": walk.limit, "cursor": cursor });
            let page = agents[3].rpc("tasks/list", json!({ "filter": filter, "page": page })).await.result();
            let items = page["items"].as_array().expect("items");
            assert!(items.len() <= walk.limit);
            for item in items {
                let task = item["task_id"].as_str().expect("an id").to_owned();
                assert!(matching.contains(&task), "{task} does not match");
                visited.push(task);
            }
            assert!(visited.len() <= threads.tasks.len(), "it goes round in circles: {visited:?}");
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
            assert_eq!(items.len(), walk.limit, "only the last page is short");
            relay.clock.advance(Duration::from_millis(1));
            for meanwhile in between.next().into_iter().flatten() {
                threads.happen(meanwhile).await;
            }
        }
        // Ids grow with creation, so this says both: newest first, and none twice.
        assert!(visited.is_sorted_by(|newer, older| newer > older), "{visited:?}");
        let missed: Vec<_> = always.iter().flatten().filter(|task| !visited.contains(task)).collect();
        assert!(missed.is_empty(), "never visited: {missed:?}");
        consistency::check(&relay.sqlite());
        relay.stop().await;
    });
}

/// The threads of a walk.
struct Threads<'a> {
    relay: &'a TestRelay,
    agents: &'a [Agent],
    /// In the order of creation.
    tasks: Vec<String>,
    renamed: usize,
}

impl Threads<'_> {
    /// Sends one from Bob to Frank, or out from Frank to Bob.
    async fn send(&mut self, out: bool) {
        let (from, to) = if out { (3, 1) } else { (1, 3) };
        let from = operations::caller(&self.relay.relay, &self.agents[from]);
        let sent = operations::hand(&self.relay.relay, &from, &self.agents[to].handle, "a handoff", None).await;
        // Refused once there is a block.
        self.tasks.extend(sent.ok().map(|receipt| receipt.thread.to_string()));
    }

    /// Takes a step, by whoever may, if it may.
    async fn step(&self, thread: usize, step: &str) {
        for agent in [&self.agents[1], &self.agents[3]] {
            let content = match step {
                "progress" | "request_input" | "answer" => json!({ "message": message("a message") }),
                _ => json!({}),
            };
            agent.step_with(&self.tasks[thread], step, content).await;
        }
    }

    async fn happen(&mut self, meanwhile: &Meanwhile) {
        let pick = |index: &Index| index.index(self.tasks.len());
        match meanwhile {
            Meanwhile::Send { out } => self.send(*out).await,
            Meanwhile::Step(thread, step) => self.step(pick(thread), step).await,
            Meanwhile::Say(thread, by_frank) => {
                self.agents[if *by_frank { 3 } else { 1 }].say(&self.tasks[pick(thread)], "a message").await;
            }
            Meanwhile::Read(thread) => drop(self.agents[3].get(&self.tasks[pick(thread)]).await),
            Meanwhile::RenameOther => {
                self.renamed += 1;
                let handle = Handle::parse(&format!("bob-{}@acme", self.renamed)).expect("a handle");
                let bob = AgentName::Handle(Handle::parse("bob@acme").expect("a handle"));
                self.relay.relay.rename_agent(Actor::operator("req_law"), bob, handle).await.expect("renamed");
            }
            Meanwhile::Block => drop(self.agents[3].block(&self.agents[1]).await),
        }
    }

    /// The threads that the list is about at this moment.
    fn matching(&self, walk: &Walk) -> Vec<String> {
        let conn = self.relay.sqlite();
        let sql = format!(
            "SELECT threads.ulid, state, updated_at FROM threads JOIN agents ON agents.id = threads.{}
             WHERE agents.handle = 'frank@acme'",
            walk.side
        );
        let mut statement = conn.prepare(&sql).expect("a query");
        let rows = statement.query_map([], |row| {
            let id: ThreadId = row.get(0)?;
            Ok((id.to_string(), row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        });
        rows.expect("threads")
            .map(|row| row.expect("a thread"))
            .filter(|(_, state, updated_at)| {
                let status = status(state)["state"].as_str().expect("a status").to_owned();
                let wanted = walk.statuses.is_empty() || walk.statuses.contains(&status.as_str());
                wanted && walk.since.is_none_or(|since| *updated_at >= SENT_AT + since)
            })
            .map(|(id, ..)| id)
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_threads_of_one_millisecond_are_walked_by_sevens_while_they_change() {
    let (relay, agents) = relay_with_callers().await;
    relay.clock.set(SENT_AT);
    let (bob, frank) = (operations::caller(&relay.relay, &agents[1]), &agents[3]);
    let sent = at_once((0..500).map(|_| {
        let (relay, bob) = (relay.relay.clone(), bob.clone());
        async move { operations::hand(&relay, &bob, "frank@acme", "a handoff", None).await.expect("sent").thread }
    }))
    .await;
    let mut expected: Vec<String> = sent.iter().map(ToString::to_string).collect();
    expected.sort_unstable_by(|left, right| right.cmp(left));

    let mut visited = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = json!({ "page": { "limit": 7, "cursor": cursor } });
        let page = frank.rpc("tasks/list", page).await.result();
        let page_ids = page["items"].as_array().expect("items").iter();
        let page_ids: Vec<String> =
            page_ids.filter_map(|item| item["task_id"].as_str()).map(ToOwned::to_owned).collect();
        // One that was shown changes, one that is still to come does, and a new one comes.
        frank.step(&page_ids[0], "accept").await.result();
        if let Some(coming) = expected.get(visited.len() + 8) {
            frank.step(coming, "reject").await.result();
        }
        visited.extend(page_ids);
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(visited, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_goes_on_after_its_caller_was_renamed() {
    let (relay, agents) = relay_with_callers().await;
    let frank = &agents[3];
    for _ in 0..3 {
        agents[1].hand_to(frank, "a handoff").await;
    }
    let first = frank.rpc("tasks/list", json!({ "page": { "limit": 2 } })).await.result();
    let name = AgentName::Handle(Handle::parse("frank@acme").expect("a handle"));
    let handle = Handle::parse("franklin@acme").expect("a handle");
    relay.relay.rename_agent(Actor::operator("req_law"), name, handle).await.expect("renamed");

    let page = json!({ "limit": 2, "cursor": first["next_cursor"] });
    let rest = frank.rpc("tasks/list", json!({ "page": page })).await.result();
    assert_eq!(rest["items"].as_array().expect("items").len(), 1);
    assert_eq!(rest["next_cursor"], Value::Null);
}
