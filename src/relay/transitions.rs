//! Transitions: what a participant does with a thread.

use crate::domain::event::EventKind;
use crate::domain::id::ThreadId;
use crate::domain::json::Document;
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::thread::{Receipt, Thread};
use crate::domain::transition::{Rule, Side, State, Transition};
use crate::error::{Error, Result, Symbol};
use crate::relay::change::{Next, commit, refuse_if_blocked, refuse_if_changed, remember, standing, state_changed};
use crate::relay::replay::{Payload, replay};
use crate::relay::threads::find_as_participant;
use crate::relay::{Caller, Relay};
use crate::store::idempotency::Call;
use crate::store::{Tx, events};

/// A transition that a caller asks for, with what it brings along.
#[derive(Clone, Debug)]
pub struct Step {
    /// The thread.
    pub thread: ThreadId,
    /// The transition.
    pub transition: Transition,
    /// The caller's session, for `accept`: two sessions of one recipient never work on the same handoff.
    pub session_id: Option<String>,
    /// What the caller says.
    pub message: Option<Draft>,
    /// What it attaches.
    pub artifacts: Vec<Document>,
    /// Its account of how the thread ends.
    pub result_summary: Option<String>,
    /// The version that the caller has seen, when the step is only meant for that one.
    pub expected_generation: Option<i64>,
    /// What the caller says beside that.
    pub metadata: Metadata,
}

impl Step {
    /// A bare step.
    pub fn new(thread: ThreadId, transition: Transition) -> Step {
        Step {
            thread,
            transition,
            session_id: None,
            message: None,
            artifacts: Vec::new(),
            result_summary: None,
            expected_generation: None,
            metadata: Metadata::default(),
        }
    }
}

impl Relay {
    /// Takes a step, if the state machine lets the caller.
    ///
    /// # Errors
    /// In this order: `thread_not_found`, `not_a_participant`, `duplicate_idempotency_key`,
    /// `not_authorized_transition`, `invalid_transition`, `teammate_blocked`, `state_changed`.
    pub async fn transition(&self, caller: &Caller, step: Step) -> Result<Receipt> {
        let call = Payload::of("transition", &step.metadata)
            .text(&step.thread.to_string())
            .text(step.transition.name())
            .optional(step.session_id.as_deref())
            .draft(step.message.as_ref())
            .documents(&step.artifacts)
            .optional(step.result_summary.as_deref())
            .generation(step.expected_generation)
            .call(caller);
        let caller = caller.clone();
        self.store().write(move |tx| take(tx, &caller, call.as_ref(), &step)).await
    }
}

fn take(tx: &mut Tx<'_>, caller: &Caller, call: Option<&Call>, step: &Step) -> Result<Receipt> {
    let (thread, side) = find_as_participant(tx, caller, step.thread)?;
    if let Some(receipt) = replay(tx, tx.now, call)? {
        return Ok(receipt);
    }
    let rule = step.transition.rule();
    if side != rule.by {
        return Err(not_authorized(step.transition, rule));
    }
    if step.transition == Transition::Accept && thread.state == State::Accepted {
        return accept_again(tx, caller, call, &thread, step);
    }
    if !rule.from.contains(&thread.state) {
        return Err(invalid(step.transition, rule, &thread));
    }
    if rule.by == Side::Recipient {
        refuse_if_blocked(tx, thread.sender.row, caller)?;
    }
    refuse_if_changed(&thread, step.expected_generation)?;

    let next = Next {
        thread: &thread,
        side,
        state: rule.to,
        kind: rule.event,
        session_id: step.session_id.as_deref(),
        message: step.message.as_ref(),
        artifacts: &step.artifacts,
        result_summary: step.result_summary.as_deref(),
    };
    commit(tx, caller, call, &next)
}

/// The session that accepted gets its first answer again; another session learns that it came second.
fn accept_again(tx: &Tx<'_>, caller: &Caller, call: Option<&Call>, thread: &Thread, step: &Step) -> Result<Receipt> {
    if thread.session_id != step.session_id {
        refuse_if_blocked(tx, thread.sender.row, caller)?;
        return Err(state_changed(thread));
    }
    let first = events::find_first(tx, thread.row, EventKind::ThreadAccepted)?;
    let first = first.ok_or_else(|| Error::internal("an accepted thread has no event of its acceptance"))?;
    remember(tx, call, first)?;
    events::find_receipt(tx, first)
}

fn not_authorized(transition: Transition, rule: Rule) -> Error {
    Error::new(
        Symbol::NotAuthorizedTransition,
        format!("Only the {} of a thread may {} it", rule.by.name(), transition.name()),
    )
}

fn invalid(transition: Transition, rule: Rule, thread: &Thread) -> Error {
    let from: Vec<&str> = rule.from.iter().map(|state| state.name()).collect();
    let message =
        format!("The thread is {}; {} starts from {}", thread.state.name(), transition.name(), from.join(" or "));
    standing(Error::new(Symbol::InvalidTransition, message), thread)
}
