//! Events: one row of the log for everything that happened.

use crate::domain::agent::Handle;
use crate::domain::id::ThreadId;
use crate::domain::json::Document;
use crate::domain::time::Timestamp;
use crate::domain::transition::State;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What happened. The part before the dot is the kind of thing that it happened to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind { $($(#[$doc])* $kind,)* }

        impl EventKind {
            /// All kinds.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind,)*];

            /// The name in the log and on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(EventKind::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// A handoff was sent.
    ThreadCreated = "thread.created",
    /// A message was added.
    ThreadMessage = "thread.message",
    /// The recipient accepted.
    ThreadAccepted = "thread.accepted",
    /// The recipient reported on its work.
    ThreadProgressed = "thread.progressed",
    /// The recipient asked the sender something.
    ThreadInputRequested = "thread.input_requested",
    /// The recipient finished.
    ThreadCompleted = "thread.completed",
    /// The recipient answered at once.
    ThreadAnswered = "thread.answered",
    /// The recipient gave up.
    ThreadFailed = "thread.failed",
    /// The recipient declined.
    ThreadRejected = "thread.rejected",
    /// The sender took the handoff back.
    ThreadCancelled = "thread.cancelled",
    /// The recipient read the thread for the first time. No change of the thread.
    ThreadFetched = "thread.fetched",
    /// An agent was created.
    AgentCreated = "agent.created",
    /// An agent got another handle.
    AgentRenamed = "agent.renamed",
    /// An agent was disabled.
    AgentDisabled = "agent.disabled",
    /// An agent was enabled again.
    AgentEnabled = "agent.enabled",
    /// An agent became the data file's default.
    AgentMadeDefault = "agent.made_default",
    /// An agent's card changed.
    AgentCardChanged = "agent.card_changed",
    /// A key was minted.
    KeyMinted = "key.minted",
    /// A key was revoked.
    KeyRevoked = "key.revoked",
    /// A key was minted and all older ones revoked.
    KeyRotated = "key.rotated",
    /// An agent blocked another.
    BlockAdded = "block.added",
    /// An agent lifted a block.
    BlockRemoved = "block.removed",
}

impl EventKind {
    /// From the name in the log.
    pub fn from_name(name: &str) -> Option<EventKind> {
        EventKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// What it happened to: `thread`, `agent`, `key` or `block`.
    pub fn resource_type(self) -> &'static str {
        self.name().split('.').next().unwrap_or_default()
    }
}

/// One row of the log, as its readers see it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its place in the log: ascending, and the only order there is.
    pub seq: i64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// Who did it; `None` is the operator.
    pub actor: Option<Handle>,
    /// The id of what it happened to.
    pub resource_id: String,
    /// The thread, when it happened to one.
    pub thread: Option<ThreadEvent>,
    /// The request that caused it.
    pub request_id: String,
    /// What else there is to know, as a JSON object.
    pub detail: Option<Document>,
}

/// What an event says of its thread.
#[derive(Clone, Debug)]
pub struct ThreadEvent {
    /// The thread.
    pub id: ThreadId,
    /// Its version after the event.
    pub generation: i64,
    /// Its state after the event.
    pub state: State,
    /// The message that the event added.
    pub sequence_no: Option<i64>,
}
