//! The state machine: seven states, and who may move a thread from one to the next.

use crate::domain::event::EventKind;
use crate::domain::json::{Issues, Path};

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Sent, and waiting for the recipient.
    Pending,
    /// The recipient works on it.
    Accepted,
    /// The recipient waits for an answer by the sender.
    InputRequired,
    /// Done.
    Completed,
    /// The recipient tried and could not.
    Failed,
    /// The recipient would not.
    Rejected,
    /// The sender took it back.
    Cancelled,
}

impl State {
    /// All states.
    pub const ALL: [State; 7] = [
        State::Pending,
        State::Accepted,
        State::InputRequired,
        State::Completed,
        State::Failed,
        State::Rejected,
        State::Cancelled,
    ];

    /// The name in the data file.
    pub const fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Accepted => "accepted",
            State::InputRequired => "input_required",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Rejected => "rejected",
            State::Cancelled => "cancelled",
        }
    }

    /// From the name in the data file.
    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// What AgentRelay clients see: four states, and a detail where it says more.
    pub const fn status(self) -> (&'static str, Option<&'static str>) {
        match self {
            State::Pending => ("pending", None),
            State::Accepted => ("accepted", None),
            State::InputRequired => ("accepted", Some("input_required")),
            State::Completed => ("completed", None),
            State::Failed => ("completed", Some("failed")),
            State::Rejected => ("cancelled", Some("rejected")),
            State::Cancelled => ("cancelled", None),
        }
    }

    /// The states that AgentRelay clients see as `status`; none when there is no such status.
    pub fn with_status(status: &str) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |state| state.status().0 == status)
    }

    /// Whether the recipient has let go of it: it has ended, or the sender has to say something.
    pub const fn waits_for_sender(self) -> bool {
        self.is_terminal() || matches!(self, State::InputRequired)
    }

    /// Whether the thread has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::Rejected | State::Cancelled)
    }
}

/// Which side of a thread an agent is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// It sent the handoff.
    Sender,
    /// The handoff was sent to it.
    Recipient,
}

impl Side {
    /// `sender` or `recipient`.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Recipient => "recipient",
        }
    }
}

/// A step that a participant asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Start working.
    Accept,
    /// Report on the work.
    Progress,
    /// Ask the sender something that the work needs.
    RequestInput,
    /// Finish the work.
    Complete,
    /// Give one reply that needs no work.
    Answer,
    /// Give up on the work.
    Fail,
    /// Decline the work.
    Reject,
    /// Take the handoff back.
    Cancel,
}

/// Whether a transition takes something along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// It must.
    Required,
    /// It can.
    Optional,
    /// It does not.
    Nothing,
}

/// What a caller brings along with a transition.
#[derive(Clone, Copy, Debug)]
pub struct Brings {
    /// A message.
    pub message: bool,
    /// At least one artifact.
    pub artifacts: bool,
    /// A result summary.
    pub result_summary: bool,
}

/// One row of the transition table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The states it starts from.
    pub from: &'static [State],
    /// The state it leads to.
    pub to: State,
    /// Who may ask for it.
    pub by: Side,
    /// The event it leaves in the log.
    pub event: EventKind,
    /// Whether it takes a message along.
    pub message: Carries,
    /// Whether it takes artifacts along.
    pub artifacts: Carries,
    /// Whether it takes a result summary along.
    pub result_summary: Carries,
}

impl Transition {
    /// All transitions, in the order of the table.
    pub const ALL: [Transition; 8] = [
        Transition::Accept,
        Transition::Progress,
        Transition::RequestInput,
        Transition::Complete,
        Transition::Answer,
        Transition::Fail,
        Transition::Reject,
        Transition::Cancel,
    ];

    /// The transition table. One more step has no name: a message by the sender takes a thread from input required
    /// back to accepted ([`State::after_message`]).
    pub const fn rule(self) -> Rule {
        use Carries::{Nothing, Optional, Required};
        use Side::{Recipient, Sender};
        use State::{Accepted, Cancelled, Completed, Failed, InputRequired, Pending, Rejected};
        #[rustfmt::skip]
        let rule = match self {
            //                                         from                                 to             by         event                       message   artifacts  summary
            Transition::Accept       => rule(&[Pending],                           Accepted,      Recipient, EventKind::ThreadAccepted,       Nothing,  Nothing,  Nothing),
            Transition::Progress     => rule(&[Accepted],                          Accepted,      Recipient, EventKind::ThreadProgressed,     Optional, Optional, Nothing),
            Transition::RequestInput => rule(&[Accepted],                          InputRequired, Recipient, EventKind::ThreadInputRequested, Required, Optional, Nothing),
            Transition::Complete     => rule(&[Accepted],                          Completed,     Recipient, EventKind::ThreadCompleted,      Optional, Optional, Optional),
            Transition::Answer       => rule(&[Pending],                           Completed,     Recipient, EventKind::ThreadAnswered,       Required, Optional, Optional),
            Transition::Fail         => rule(&[Accepted, InputRequired],           Failed,        Recipient, EventKind::ThreadFailed,         Optional, Optional, Optional),
            Transition::Reject       => rule(&[Pending, Accepted, InputRequired],  Rejected,      Recipient, EventKind::ThreadRejected,       Optional, Nothing,  Optional),
            Transition::Cancel       => rule(&[Pending, InputRequired],            Cancelled,     Sender,    EventKind::ThreadCancelled,      Nothing,  Nothing,  Nothing),
        };
        rule
    }

    /// Looks whether a caller brings what the transition takes: nothing is dropped silently.
    pub fn check(self, brings: Brings, issues: &mut Issues) {
        let (name, rule) = (self.name(), self.rule());
        let fields = [
            ("message", rule.message, brings.message),
            ("artifacts", rule.artifacts, brings.artifacts),
            ("result_summary", rule.result_summary, brings.result_summary),
        ];
        for (field, carries, brought) in fields {
            let path = Path::root().key(field);
            match carries {
                Carries::Required if !brought => issues.add(path, "invalid_type", format!("required with {name}")),
                Carries::Nothing if brought => {
                    issues.add(path, "custom", format!("{name} takes no {field}; leave it out"));
                }
                _ => {}
            }
        }
        if self == Transition::Progress && !brings.message && !brings.artifacts {
            issues.add(Path::root().key("message"), "invalid_type", "progress needs a message, artifacts or both");
        }
    }

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Transition::Accept => "accept",
            Transition::Progress => "progress",
            Transition::RequestInput => "request_input",
            Transition::Complete => "complete",
            Transition::Answer => "answer",
            Transition::Fail => "fail",
            Transition::Reject => "reject",
            Transition::Cancel => "cancel",
        }
    }

    /// From the name on the wire.
    pub fn from_name(name: &str) -> Option<Transition> {
        Transition::ALL.into_iter().find(|transition| transition.name() == name)
    }
}

const fn rule(
    from: &'static [State],
    to: State,
    by: Side,
    event: EventKind,
    message: Carries,
    artifacts: Carries,
    result_summary: Carries,
) -> Rule {
    Rule { from, to, by, event, message, artifacts, result_summary }
}

impl State {
    /// Where a message leaves the thread: an answer by the sender ends the recipient's wait. `None` when the thread
    /// has ended and takes no message.
    pub const fn after_message(self, by: Side) -> Option<State> {
        match (self, by) {
            (State::InputRequired, Side::Sender) => Some(State::Accepted),
            (state, _) if state.is_terminal() => None,
            (state, _) => Some(state),
        }
    }
}
