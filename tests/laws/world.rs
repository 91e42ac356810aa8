//! A relay and its model, side by side, and what people may do to both.

use std::collections::HashMap;

use agentrelay::domain::agent::Handle;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::Value as SqlValue;

use crate::consistency;
use crate::laws::model::{Brings, Call, Model, Outcome, Side, TABLE, Thread, Verb, Which, Who};
use crate::laws::{CALLERS, at_once, relay_with_callers};
use crate::support::{Agent, Answer, TestRelay};

/// Something that somebody does, before it is known what is there to do it to.
#[derive(Clone, Debug)]
pub enum Deed {
    Send {
        who: Who,
        to: Option<Who>,
        former: bool,
        intent: &'static str,
        action: bool,
        said: Said,
    },
    Append {
        who: By,
        thread: Pick,
        said: Said,
        expected: Option<bool>,
    },
    Step {
        who: By,
        thread: Pick,
        step: &'static str,
        session: u8,
        fits: bool,
        said: Said,
        expected: Option<bool>,
    },
    Get {
        who: By,
        thread: Pick,
    },
    List {
        who: Who,
        side: Side,
        status: Option<&'static str>,
    },
    /// A call that was made before, once more.
    Again(prop::sample::Index),
    Block(Who, Who),
    Unblock(Who, Who),
    Disable(Who),
    Enable(Who),
    Rename(Who),
    Rotate(Who),
}

/// Who calls about a thread.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// Of a step the side that may take it; of another call the side whose turn it is, by the number of messages.
    WhoeverMay,
    Sender,
    Recipient,
    Anyone(Who),
}

/// Which thread.
#[derive(Clone, Debug)]
pub enum Pick {
    Any(prop::sample::Index),
    Latest,
    None,
}

/// What is said: one of few texts, so that calls repeat by chance; and by which of few names, if any.
#[derive(Clone, Debug)]
pub struct Said {
    pub text: &'static str,
    pub artifacts: usize,
    pub key: Option<u8>,
}

pub fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let who = || 0..CALLERS;
    let by = || {
        prop_oneof![
            12 => Just(By::WhoeverMay),
            1 => Just(By::Sender),
            1 => Just(By::Recipient),
            1 => who().prop_map(By::Anyone),
        ]
    };
    let pick = || {
        prop_oneof![
            10 => any::<prop::sample::Index>().prop_map(Pick::Any),
            10 => Just(Pick::Latest),
            1 => Just(Pick::None),
        ]
    };
    let said = || {
        let text = select(vec!["", "hello", "é🦀\n\u{2028}\"\\", "a longer text, of several words"]);
        (text, prop_oneof![4 => Just(0_usize), 1 => 1..3_usize], prop::option::weighted(0.3, 0..4_u8))
            .prop_map(|(text, artifacts, key)| Said { text, artifacts, key })
    };
    let expected = || prop::option::weighted(0.2, any::<bool>());
    // Most steps need an accepted thread, and half of them end it.
    let step = || {
        prop_oneof![
            5 => Just("accept"),
            4 => select(vec!["progress", "request_input"]),
            6 => select(TABLE.map(|row| row.0).to_vec()),
        ]
    };
    let send = {
        let intent = prop_oneof![
            6 => Just(("inform", false)),
            3 => Just(("propose_action", true)),
            1 => (select(vec!["inform", "ask_question", "propose_action"]), any::<bool>()),
        ];
        (who(), prop::option::weighted(0.95, who()), prop::bool::weighted(0.1), intent, said())
            .prop_map(|(who, to, former, (intent, action), said)| Deed::Send { who, to, former, intent, action, said })
    };
    let deed = prop_oneof![
        5 => send,
        12 => (by(), pick(), said(), expected())
            .prop_map(|(who, thread, said, expected)| Deed::Append { who, thread, said, expected }),
        30 => (by(), pick(), step(), 0..3_u8, prop::bool::weighted(0.9), said(), expected())
            .prop_map(|(who, thread, step, session, fits, said, expected)| {
                Deed::Step { who, thread, step, session, fits, said, expected }
            }),
        8 => (by(), pick()).prop_map(|(who, thread)| Deed::Get { who, thread }),
        6 => (
            who(),
            select(vec![Side::Sender, Side::Recipient]),
            prop::option::of(select(vec!["pending", "accepted", "completed", "cancelled"])),
        )
            .prop_map(|(who, side, status)| Deed::List { who, side, status }),
        8 => any::<prop::sample::Index>().prop_map(Deed::Again),
        2 => (who(), who()).prop_map(|(blocker, blocked)| Deed::Block(blocker, blocked)),
        2 => (who(), who()).prop_map(|(blocker, blocked)| Deed::Unblock(blocker, blocked)),
        1 => who().prop_map(Deed::Disable),
        3 => who().prop_map(Deed::Enable),
        1 => who().prop_map(Deed::Rename),
        1 => who().prop_map(Deed::Rotate),
    ];
    prop::collection::vec(deed, 1..60)
}

/// A relay and its model, side by side.
pub struct World {
    pub relay: TestRelay,
    agents: Vec<Agent>,
    pub model: Model,
    made: Vec<Call>,
    /// Threads that have ended, as they stood then.
    ended: HashMap<usize, Vec<SqlValue>>,
    renamed: usize,
}

impl World {
    pub async fn new() -> World {
        let (relay, agents) = relay_with_callers().await;
        let handles: Vec<String> = agents.iter().map(|agent| agent.handle.clone()).collect();
        let model = Model::of(&handles);
        World { relay, agents, model, made: Vec::new(), ended: HashMap::new(), renamed: 0 }
    }

    pub async fn perform(&mut self, deed: &Deed) {
        let actor = Actor::operator("req_law");
        let name = |who: Who| AgentName::Handle(Handle::parse(&self.model.agents[who].handle).expect("a handle"));
        match *deed {
            Deed::Block(blocker, blocked) => self.block(blocker, blocked).await,
            Deed::Unblock(blocker, blocked) => self.unblock(blocker, blocked).await,
            Deed::Disable(who) => {
                self.relay.relay.disable_agent(actor, name(who)).await.expect("disabled");
                self.model.agents[who].disabled = true;
            }
            Deed::Enable(who) => {
                self.relay.relay.enable_agent(actor, name(who)).await.expect("enabled");
                self.model.agents[who].disabled = false;
            }
            Deed::Rename(who) => {
                self.renamed += 1;
                let handle = format!("renamed-{}@acme", self.renamed);
                let new = Handle::parse(&handle).expect("a handle");
                self.relay.relay.rename_agent(actor, name(who), new).await.expect("renamed");
                self.model.agents[who].handles.push(handle.clone());
                self.model.agents[who].handle = handle;
            }
            Deed::Rotate(who) => self.rotate(who).await,
            _ => {
                if let Some(call) = self.call(deed) {
                    self.make(call).await;
                }
            }
        }
    }

    /// The call that a deed comes to. `None` when there is nothing yet that it could be about.
    pub fn call(&self, deed: &Deed) -> Option<Call> {
        let key = |said: &Said| said.key.map(|key| format!("key {key}"));
        let about = |by: By, thread: Which, step: &str| match (by, thread) {
            (By::Anyone(who), _) => who,
            (_, None) => 0,
            (By::Sender, Some(thread)) => self.model.threads[thread].sender,
            (By::Recipient, Some(thread)) => self.model.threads[thread].recipient,
            (By::WhoeverMay, Some(thread)) => self.model.threads[thread].who_may(step),
        };
        let expect = |expected: Option<bool>, thread: Which| {
            let generation = thread.map_or(1, |thread| self.model.threads[thread].generation);
            expected.map(|right| if right { generation } else { generation + 1 })
        };
        Some(match deed {
            Deed::Send { who, to, former, intent, action, said } => {
                let to = match to {
                    Some(to) if *former => self.model.agents[*to].handles[0].clone(),
                    Some(to) => self.model.agents[*to].handle.clone(),
                    None => "nobody@acme".to_owned(),
                };
                let (text, artifacts) = (said.text.to_owned(), said.artifacts);
                let verb = Verb::Send { to, intent, action: *action, text, artifacts };
                Call { caller: *who, key: key(said), verb }
            }
            Deed::Append { who, thread, said, expected } => {
                let thread = self.thread(thread)?;
                let (text, artifacts) = (said.text.to_owned(), said.artifacts);
                let verb = Verb::Append { thread, text, artifacts, expected: expect(*expected, thread) };
                Call { caller: about(*who, thread, said.text), key: key(said), verb }
            }
            Deed::Step { who, thread, step, session, fits, said, expected } => {
                let thread = self.thread(thread)?;
                let (caller, expected) = (about(*who, thread, step), expect(*expected, thread));
                let verb = Verb::Step {
                    thread,
                    transition: step,
                    session: (*session > 0).then(|| format!("session {session}")),
                    brings: brings(step, said, *fits),
                    expected,
                };
                Call { caller, key: key(said), verb }
            }
            Deed::Get { who, thread } => {
                let thread = self.thread(thread)?;
                Call { caller: about(*who, thread, "get"), key: None, verb: Verb::Get { thread } }
            }
            Deed::List { who, side, status } => {
                Call { caller: *who, key: None, verb: Verb::List { side: *side, status: *status } }
            }
            Deed::Again(index) if !self.made.is_empty() => index.get(&self.made).clone(),
            _ => return None,
        })
    }

    fn thread(&self, pick: &Pick) -> Option<Which> {
        match pick {
            Pick::None => Some(None),
            _ if self.model.threads.is_empty() => None,
            Pick::Any(index) => Some(Some(index.index(self.model.threads.len()))),
            Pick::Latest => Some(Some(self.model.threads.len() - 1)),
        }
    }

    pub async fn make(&mut self, call: Call) {
        let outcome = self.model.judge(&call);
        let (method, params) = call.on_the_wire(&self.model);
        let answer = self.agents[call.caller].rpc(method, params).await;
        self.model.check(&call, &outcome, &answer);
        if let (Outcome::Done, Verb::Step { thread: Some(thread), .. }) = (&outcome, &call.verb)
            && !matches!(self.model.threads[*thread].state, "pending" | "accepted" | "input_required")
        {
            self.ended.insert(*thread, self.stands(*thread));
        }
        if call.key.is_some() {
            self.made.push(call);
        }
    }

    /// All that a thread's end keeps for good. Read cursors go on moving.
    fn stands(&self, thread: usize) -> Vec<SqlValue> {
        let sql =
            "SELECT id, ulid, sender, recipient, state, generation, message_count, intent, created_at, updated_at,
                       accepted_at, completed_at, cancelled_at, session_id, summary_preview, result_summary
                   FROM threads ORDER BY id LIMIT 1 OFFSET ?";
        let row = |row: &rusqlite::Row<'_>| (0..16).map(|column| row.get(column)).collect();
        self.relay.sqlite().query_row(sql, [i64::try_from(thread).expect("an index")], row).expect("a thread")
    }

    async fn block(&mut self, blocker: Who, blocked: Who) {
        let other = self.agents[blocked].clone();
        let other = Agent { handle: self.model.agents[blocked].handle.clone(), ..other };
        let answer = self.agents[blocker].block(&other).await;
        match () {
            () if self.model.agents[blocker].disabled => drop(answer.refused("forbidden")),
            () if blocker == blocked => drop(answer.refused("invalid_params")),
            () => {
                assert_eq!(answer.status, 201, "{}", answer.text);
                self.model.agents[blocker].blocks.push(blocked);
            }
        }
    }

    async fn unblock(&mut self, blocker: Who, blocked: Who) {
        let path = format!("/agents/me/block/{}", self.model.agents[blocked].handle);
        let answer = self.agents[blocker].rest("DELETE", &path).await;
        if self.model.agents[blocker].disabled {
            answer.refused("forbidden");
        } else {
            assert_eq!(answer.status, 204, "{}", answer.text);
            self.model.agents[blocker].blocks.retain(|other| *other != blocked);
        }
    }

    async fn rotate(&mut self, who: Who) {
        let old = self.agents[who].clone();
        let answer = old.rest("POST", "/agents/me/keys/rotate").await;
        if self.model.agents[who].disabled {
            answer.refused("forbidden");
        } else {
            let new = answer.json()["api_key"].as_str().expect("a key").to_owned();
            self.agents[who] = old.with_key(&new);
            old.rest("GET", "/agents/me").await.refused("unauthenticated");
        }
    }

    /// Makes all these calls at the same moment.
    pub async fn at_once(&self, calls: &[Call]) -> Vec<Answer> {
        let made = calls.iter().map(|call| {
            let (agent, (method, params)) = (self.agents[call.caller].clone(), call.on_the_wire(&self.model));
            async move { agent.rpc(method, params).await }
        });
        at_once(made).await
    }

    /// The file holds what the model holds, and is consistent.
    pub fn check_the_file(&self) {
        let conn = self.relay.sqlite();
        consistency::check(&conn);
        for (thread, stood) in &self.ended {
            assert_eq!(self.stands(*thread), *stood, "a thread changed after its end");
        }
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a number");
        let size = |number: usize| i64::try_from(number).expect("a number");
        let read = |thread: &&Thread| thread.read[Side::Recipient as usize] > 0;
        let (threads, changes) = (&self.model.threads, |thread: &Thread| thread.generation);
        assert_eq!(count("SELECT count(*) FROM threads"), size(threads.len()));
        assert_eq!(
            count("SELECT count(*) FROM events WHERE kind = 'thread.fetched'"),
            size(threads.iter().filter(read).count())
        );
        assert_eq!(
            count("SELECT count(*) FROM events WHERE thread IS NOT NULL AND kind <> 'thread.fetched'"),
            threads.iter().map(changes).sum::<i64>()
        );
    }
}

/// What a step brings: what fits it, or anything.
fn brings(step: &str, said: &Said, fits: bool) -> Brings {
    let (text, long) = (Some(said.text.to_owned()), said.text.len() > 5);
    let all = Brings { message: text.clone(), artifacts: said.artifacts, summary: text.clone().filter(|_| long) };
    match step {
        _ if !fits => all,
        "accept" | "cancel" => Brings::default(),
        "progress" | "request_input" => Brings { summary: None, ..all },
        "answer" => all,
        "reject" => Brings { artifacts: 0, message: text.filter(|_| long), ..all },
        _ => Brings { message: text.filter(|_| long), ..all },
    }
}
