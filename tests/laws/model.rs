//! A relay as DESIGN 4 tells it, small enough to be believed: what becomes of a call, and what is to be seen afterwards.
//! It is written from the document's tables, and knows nothing of the relay's own.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::Answer;

/// Index of a caller.
pub type Who = usize;
/// Index of a thread, by creation; `None` is an id that no thread has.
pub type Which = Option<usize>;

/// A call with everything that it says, as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub caller: Who,
    pub key: Option<String>,
    pub verb: Verb,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    Send { to: String, intent: &'static str, action: bool, text: String, artifacts: usize },
    Append { thread: Which, text: String, artifacts: usize, expected: Option<i64> },
    Step { thread: Which, transition: &'static str, session: Option<String>, brings: Brings, expected: Option<i64> },
    Get { thread: Which },
    List { side: Side, status: Option<&'static str> },
}

/// What a step brings along.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brings {
    pub message: Option<String>,
    pub artifacts: usize,
    pub summary: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Sender,
    Recipient,
}
use Side::{Recipient, Sender};

/// The transition table: transition, from, to, who may.
pub const TABLE: [(&str, &[&str], &str, Side); 8] = [
    ("accept", &["pending"], "accepted", Recipient),
    ("complete", &["accepted"], "completed", Recipient),
    ("answer", &["pending"], "completed", Recipient),
    ("cancel", &["pending", "input_required"], "cancelled", Sender),
    ("progress", &["accepted"], "accepted", Recipient),
    ("request_input", &["accepted"], "input_required", Recipient),
    ("reject", &["pending", "accepted", "input_required"], "rejected", Recipient),
    ("fail", &["accepted", "input_required"], "failed", Recipient),
];

const TERMINAL: [&str; 4] = ["completed", "failed", "rejected", "cancelled"];

/// The seven states as AgentRelay clients see them: `status.state` and `status.detail`.
pub fn status(state: &str) -> Value {
    match state {
        "input_required" => json!({ "state": "accepted", "detail": "input_required" }),
        "failed" => json!({ "state": "completed", "detail": "failed" }),
        "rejected" => json!({ "state": "cancelled", "detail": "rejected" }),
        same => json!({ "state": same }),
    }
}

/// Whether a transition takes what is brought: a message, artifacts, a result summary.
fn takes(transition: &str, brings: &Brings) -> bool {
    let (message, artifacts, summary) = (brings.message.is_some(), brings.artifacts > 0, brings.summary.is_some());
    match transition {
        "accept" | "cancel" => !message && !artifacts && !summary,
        "progress" => (message || artifacts) && !summary,
        "request_input" => message && !summary,
        "answer" => message,
        "reject" => !artifacts,
        _ => true,
    }
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub handle: String,
    /// Every handle that it has or had.
    pub handles: Vec<String>,
    pub disabled: bool,
    pub blocks: Vec<Who>,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub id: String,
    pub sender: Who,
    pub recipient: Who,
    pub state: &'static str,
    pub generation: i64,
    pub intent: &'static str,
    pub messages: Vec<(Who, String)>,
    /// Generation, author and number.
    pub artifacts: Vec<(i64, Who, usize)>,
    /// How many messages each side has read.
    pub read: [usize; 2],
    pub session: Option<String>,
    pub summary: Option<String>,
    /// What was answered when it was accepted.
    accepted: Option<Value>,
}

impl Thread {
    pub fn side(&self, who: Who) -> Option<Side> {
        match who {
            _ if who == self.sender => Some(Sender),
            _ if who == self.recipient => Some(Recipient),
            _ => None,
        }
    }

    /// Who may take a step; of anything else, who has its turn.
    pub fn who_may(&self, step: &str) -> Who {
        let row = TABLE.into_iter().find(|(name, ..)| *name == step);
        match row.map(|(.., by)| by) {
            Some(Sender) => self.sender,
            None if self.messages.len().is_multiple_of(2) => self.sender,
            _ => self.recipient,
        }
    }

    /// The other side's messages after the first one and after what this side has read.
    pub fn unread(&self, side: Side) -> usize {
        let other = if side == Sender { self.recipient } else { self.sender };
        let read = self.read[side as usize].max(1);
        self.messages.iter().skip(read).filter(|(author, _)| *author == other).count()
    }
}

/// What should become of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is refused with this symbol.
    Refused(&'static str),
    /// It is answered with exactly this text: its call was done before.
    AsBefore(String),
    /// It is answered with this result: the session had accepted before.
    AcceptedBefore(Value),
    /// It is done.
    Done,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub agents: Vec<Agent>,
    pub threads: Vec<Thread>,
    /// Calls by name that were done, with the text of their answer.
    pub done: HashMap<(Who, String), (Verb, String)>,
}

impl Model {
    pub fn of(handles: &[String]) -> Model {
        let agent = |handle: &String| Agent {
            handle: handle.clone(),
            handles: vec![handle.clone()],
            disabled: false,
            blocks: Vec::new(),
        };
        Model { agents: handles.iter().map(agent).collect(), threads: Vec::new(), done: HashMap::new() }
    }

    /// What should become of a call: the first refusal in DESIGN 4's order, or none.
    pub fn judge(&self, call: &Call) -> Outcome {
        let refused = Outcome::Refused;
        if self.agents[call.caller].disabled {
            return refused("forbidden");
        }
        if let Verb::Step { transition, brings, .. } = &call.verb
            && !takes(transition, brings)
        {
            return refused("invalid_params");
        }
        match &call.verb {
            Verb::List { .. } => Outcome::Done,
            Verb::Send { to, intent, action, .. } => {
                if (*intent == "propose_action") != *action {
                    return refused("invalid_intent_payload");
                }
                if let Some(outcome) = self.replay(call) {
                    return outcome;
                }
                let Some(recipient) = self.recipient(to).filter(|who| !self.agents[*who].disabled) else {
                    return refused("recipient_not_found");
                };
                if recipient == call.caller {
                    return refused("invalid_params");
                }
                if self.agents[recipient].blocks.contains(&call.caller) {
                    return refused("teammate_blocked");
                }
                Outcome::Done
            }
            Verb::Get { thread } | Verb::Append { thread, .. } | Verb::Step { thread, .. } => {
                let Some(thread) = thread.map(|index| &self.threads[index]) else {
                    return refused("thread_not_found");
                };
                let Some(side) = thread.side(call.caller) else {
                    return refused("not_a_participant");
                };
                self.judge_inside(call, thread, side)
            }
        }
    }

    fn judge_inside(&self, call: &Call, thread: &Thread, side: Side) -> Outcome {
        let refused = Outcome::Refused;
        if let Some(outcome) = self.replay(call) {
            return outcome;
        }
        let other = if side == Sender { thread.recipient } else { thread.sender };
        let blocked = self.agents[other].blocks.contains(&call.caller);
        match &call.verb {
            Verb::Append { .. } if TERMINAL.contains(&thread.state) => refused("thread_terminal"),
            Verb::Append { .. } if blocked => refused("teammate_blocked"),
            Verb::Append { expected: Some(expected), .. } if *expected != thread.generation => refused("state_changed"),
            Verb::Step { transition, session, expected, .. } => {
                let (_, from, _, by) = row(transition);
                if side != by {
                    return refused("not_authorized_transition");
                }
                if *transition == "accept" && thread.state == "accepted" {
                    // The same session is answered as the first time, another has lost the race.
                    return match &thread.accepted {
                        Some(first) if *session == thread.session => Outcome::AcceptedBefore(first.clone()),
                        _ if blocked => refused("teammate_blocked"),
                        _ => refused("state_changed"),
                    };
                }
                if !from.contains(&thread.state) {
                    return refused("invalid_transition");
                }
                if *transition != "cancel" && blocked {
                    return refused("teammate_blocked");
                }
                if expected.is_some_and(|expected| expected != thread.generation) {
                    return refused("state_changed");
                }
                Outcome::Done
            }
            _ => Outcome::Done,
        }
    }

    fn replay(&self, call: &Call) -> Option<Outcome> {
        let (verb, answer) = self.done.get(&(call.caller, call.key.clone()?))?;
        Some(if *verb == call.verb {
            Outcome::AsBefore(answer.clone())
        } else {
            Outcome::Refused("duplicate_idempotency_key")
        })
    }

    fn recipient(&self, handle: &str) -> Option<Who> {
        self.agents.iter().position(|agent| agent.handles.iter().any(|known| known == handle))
    }

    /// Checks the answer to a call against its outcome, and takes note of what it did.
    #[track_caller]
    pub fn check(&mut self, call: &Call, outcome: &Outcome, answer: &Answer) {
        match outcome {
            Outcome::Refused(symbol) => {
                answer.clone().refused(symbol);
            }
            Outcome::AsBefore(text) => assert_eq!(answer.text, *text, "{call:?}"),
            Outcome::AcceptedBefore(result) => {
                assert_eq!(answer.result(), *result, "{call:?}");
                self.remember(call, answer);
            }
            Outcome::Done => {
                self.check_done(call, &answer.result());
                self.remember(call, answer);
            }
        }
    }

    fn remember(&mut self, call: &Call, answer: &Answer) {
        if let Some(key) = &call.key {
            self.done.insert((call.caller, key.clone()), (call.verb.clone(), answer.text.clone()));
        }
    }

    #[track_caller]
    fn check_done(&mut self, call: &Call, result: &Value) {
        match &call.verb {
            Verb::Send { to, intent, text, artifacts, .. } => {
                let thread = Thread {
                    id: result["task_id"].as_str().expect("a task id").to_owned(),
                    sender: call.caller,
                    recipient: self.recipient(to).expect("a recipient"),
                    state: "pending",
                    generation: 1,
                    intent,
                    messages: vec![(call.caller, text.clone())],
                    artifacts: vec![(1, call.caller, *artifacts)],
                    read: [1, 0],
                    session: None,
                    summary: None,
                    accepted: None,
                };
                check_change(&thread, result, Some(1));
                self.threads.push(thread);
            }
            Verb::Append { thread, text, artifacts, .. } => {
                let thread = &mut self.threads[thread.expect("a thread")];
                if thread.state == "input_required" && call.caller == thread.sender {
                    thread.state = "accepted";
                }
                thread.change(call.caller, Some(text), *artifacts);
                check_change(thread, result, Some(thread.messages.len()));
            }
            Verb::Step { thread, transition, session, brings, .. } => {
                let thread = &mut self.threads[thread.expect("a thread")];
                thread.state = row(transition).2;
                if *transition == "accept" {
                    thread.session.clone_from(session);
                    thread.accepted = Some(result.clone());
                }
                if brings.summary.is_some() {
                    thread.summary.clone_from(&brings.summary);
                }
                thread.change(call.caller, brings.message.as_ref(), brings.artifacts);
                check_change(thread, result, brings.message.as_ref().map(|_| thread.messages.len()));
            }
            Verb::Get { thread } => {
                let thread = thread.expect("a thread");
                self.check_view(&self.threads[thread], result);
                let thread = &mut self.threads[thread];
                let side = thread.side(call.caller).expect("a participant");
                thread.read[side as usize] = thread.messages.len();
            }
            Verb::List { side, status } => self.check_list(call.caller, *side, *status, result),
        }
    }

    #[track_caller]
    fn check_view(&self, thread: &Thread, result: &Value) {
        let handle = |who: Who| json!(self.agents[who].handle);
        assert_eq!(result["task_id"], *thread.id);
        assert_eq!(result["status"], status(thread.state));
        assert_eq!(result["generation"], thread.generation);
        assert_eq!(result["intent"], thread.intent);
        assert_eq!(result["sender"]["handle"], handle(thread.sender));
        assert_eq!(result["recipient"]["handle"], handle(thread.recipient));
        assert_eq!(result["summary"], *thread.messages[0].1);
        assert_eq!(result["session_id"], json!(thread.session));
        assert_eq!(result["completed_summary"], json!(thread.summary));
        let said: Vec<Value> = thread.messages.iter().map(|(who, text)| json!([handle(*who), text])).collect();
        let messages = result["messages"].as_array().expect("messages");
        assert_eq!(messages.iter().map(|told| json!([told["from"], told["body"]])).collect::<Vec<_>>(), said);
        let places: Vec<_> = messages.iter().map(|told| told["sequence_no"].as_u64()).collect();
        assert_eq!(places, (1..=messages.len() as u64).map(Some).collect::<Vec<_>>());

        let count = |wanted: &dyn Fn(i64, Who) -> bool| {
            let wanted = thread.artifacts.iter().filter(|(generation, author, _)| wanted(*generation, *author));
            wanted.map(|(_, _, number)| number).sum::<usize>()
        };
        let shown = |field: &str| result[field].as_array().expect("a list").len();
        assert_eq!(shown("artifacts"), count(&|generation, _| generation == 1));
        assert_eq!(shown("result_artifacts"), count(&|_, author| author == thread.recipient));
        let last = |generation, _| TERMINAL.contains(&thread.state) && generation == thread.generation;
        assert_eq!(shown("completion_artifacts"), count(&last));
    }

    #[track_caller]
    fn check_list(&self, caller: Who, side: Side, wanted: Option<&str>, result: &Value) {
        let mine = |thread: &&Thread| if side == Sender { thread.sender == caller } else { thread.recipient == caller };
        let shown = |thread: &&Thread| wanted.is_none_or(|wanted| status(thread.state)["state"] == wanted);
        let listed = self.threads.iter().rev().filter(mine).filter(shown);
        let expected: Vec<Value> = listed
            .map(|thread| json!([thread.id, status(thread.state), thread.unread(side), thread.generation]))
            .collect();
        let items = result["items"].as_array().expect("items");
        let items: Vec<Value> = items
            .iter()
            .map(|item| json!([item["task_id"], item["status"], item["unread_messages"], item["generation"]]))
            .collect();
        assert_eq!(items, expected);
    }
}

impl Thread {
    fn change(&mut self, who: Who, message: Option<&String>, artifacts: usize) {
        self.generation += 1;
        self.messages.extend(message.map(|text| (who, text.clone())));
        self.artifacts.push((self.generation, who, artifacts));
    }
}

/// The answer to a change says where the thread stands.
#[track_caller]
fn check_change(thread: &Thread, result: &Value, sequence_no: Option<usize>) {
    assert_eq!(result["task_id"], *thread.id);
    assert_eq!(result["status"], status(thread.state));
    assert_eq!(result["generation"], thread.generation);
    assert_eq!(result["sequence_no"], json!(sequence_no));
    assert_eq!(result["message_id"].is_string(), sequence_no.is_some());
}

fn row(transition: &str) -> (&'static str, &'static [&'static str], &'static str, Side) {
    TABLE.into_iter().find(|(name, ..)| *name == transition).expect("a transition")
}

impl Call {
    /// The call on the wire: its method and its parameters.
    pub fn on_the_wire(&self, model: &Model) -> (&'static str, Value) {
        let id = |thread: &Which| thread.map_or(NO_THREAD, |index| &model.threads[index].id).to_owned();
        let (method, mut params) = match &self.verb {
            Verb::Send { to, intent, action, text, artifacts } => {
                let mut params = json!({ "recipient": to, "intent": intent, "message": message(text) });
                if *action {
                    params["proposed_action"] = json!({ "description": "d", "target_files": ["f"], "rationale": "r" });
                }
                params["artifacts"] = artifacts_of(*artifacts);
                ("message/send", params)
            }
            Verb::Append { thread, text, artifacts, expected } => (
                "message/send",
                json!({
                    "task_id": id(thread),
                    "message": message(text),
                    "artifacts": artifacts_of(*artifacts),
                    "expected_generation": expected,
                }),
            ),
            Verb::Step { thread, transition, session, brings, expected } => (
                "tasks/update",
                json!({
                    "task_id": id(thread),
                    "transition": transition,
                    "session_id": session,
                    "message": brings.message.as_deref().map(message),
                    "artifacts": artifacts_of(brings.artifacts),
                    "result_summary": brings.summary,
                    "expected_generation": expected,
                }),
            ),
            Verb::Get { thread } => ("tasks/get", json!({ "task_id": id(thread) })),
            Verb::List { side, status } => {
                let role = if *side == Sender { "sender" } else { "recipient" };
                let filter = json!({ "role": role, "status": status.map(|status| [status]) });
                ("tasks/list", json!({ "filter": filter, "page": { "limit": 200 } }))
            }
        };
        if let Some(key) = &self.key {
            params["metadata"] = json!({ "client_idempotency_key": key });
        }
        (method, params)
    }
}

/// An id that no thread has.
const NO_THREAD: &str = "01HXYZ4K2VNJQP7R8MWDB3CSTF";

fn message(text: &str) -> Value {
    crate::support::message(text)
}

fn artifacts_of(count: usize) -> Value {
    (0..count).map(|number| json!({ "type": "file_ref", "path": format!("{number}.rs") })).collect()
}
