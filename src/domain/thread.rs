//! Threads: a handoff's record, from the moment it was sent.

use std::sync::Arc;

use crate::domain::agent::Participant;
use crate::domain::id::{MessageId, Row, ThreadId};
use crate::domain::intent::Intent;
use crate::domain::json::Document;
use crate::domain::message::Message;
use crate::domain::metadata::Metadata;
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};

/// Longest `summary_preview`, in characters.
pub const PREVIEW_MAX: usize = 240;

/// What a list shows of a thread, and all that a decision about it needs.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its row in the data file.
    pub row: Row,
    /// Its id.
    pub id: ThreadId,
    /// Who sent it.
    pub sender: Arc<Participant>,
    /// To whom.
    pub recipient: Arc<Participant>,
    /// Where it stands.
    pub state: State,
    /// Its version: the number of changes so far.
    pub generation: i64,
    /// How many messages it holds.
    pub message_count: i64,
    /// The name of its intent, one of [`Intent::NAMES`].
    pub intent: &'static str,
    /// The beginning of its summary.
    pub summary_preview: String,
    /// The recipient's session that accepted it.
    pub session_id: Option<String>,
    /// Up to which message each side has read: sender, recipient.
    pub read: (i64, i64),
    /// How many messages wait for each side: sender, recipient.
    pub unread: (i64, i64),
    /// When it was sent.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When, and whether, it was accepted, completed, cancelled.
    pub ends: Ends,
}

/// When a thread reached what its readers ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// When the recipient accepted.
    pub accepted_at: Option<Timestamp>,
    /// When the recipient completed or failed.
    pub completed_at: Option<Timestamp>,
    /// When it was cancelled or rejected.
    pub cancelled_at: Option<Timestamp>,
}

impl Ends {
    /// These times with `state` reached at `now`.
    pub fn reaching(self, state: State, now: Timestamp) -> Ends {
        match state {
            State::Pending | State::InputRequired => self,
            State::Accepted => Ends { accepted_at: self.accepted_at.or(Some(now)), ..self },
            State::Completed | State::Failed => Ends { completed_at: Some(now), ..self },
            State::Rejected | State::Cancelled => Ends { cancelled_at: Some(now), ..self },
        }
    }

    /// These times as they were when the thread was in `state`: an end that had not come yet is taken away.
    pub fn as_of(self, state: State) -> Ends {
        if state.is_terminal() {
            return self;
        }
        Ends {
            accepted_at: self.accepted_at.filter(|_| state != State::Pending),
            completed_at: None,
            cancelled_at: None,
        }
    }
}

impl Thread {
    /// The side that the agent in `row` is on; `None` for a stranger.
    pub fn side(&self, row: Row) -> Option<Side> {
        match row {
            _ if row == self.sender.row => Some(Side::Sender),
            _ if row == self.recipient.row => Some(Side::Recipient),
            _ => None,
        }
    }

    /// The participant across from `side`.
    pub fn other(&self, side: Side) -> &Participant {
        match side {
            Side::Sender => &self.recipient,
            Side::Recipient => &self.sender,
        }
    }
}

/// A whole thread, as one of its participants sees it.
#[derive(Clone, Debug)]
pub struct ThreadView {
    /// The record.
    pub thread: Thread,
    /// The side of the one who looks.
    pub side: Side,
    /// The intent with its proposed action.
    pub intent: Intent,
    /// The conversation that it is part of; one of its own when absent.
    pub context_id: Option<String>,
    /// What the sender said beside the content.
    pub metadata: Metadata,
    /// Its messages, in order. A list may show the last ones only.
    pub messages: Vec<Message>,
    /// Its artifacts, in order. A list may show none.
    pub artifacts: Vec<ThreadArtifact>,
    /// The recipient's account of how it ended.
    pub result_summary: Option<String>,
}

impl ThreadView {
    /// About how many bytes its content has.
    pub fn size(&self) -> usize {
        let documents = |documents: &[Document]| documents.iter().map(|document| document.get().len()).sum::<usize>();
        let messages = self.messages.iter().map(|message| {
            let parts = message.draft.parts.documents.as_deref();
            message.draft.parts.body.len() + parts.map_or(0, documents)
        });
        let artifacts = self.artifacts.iter().map(|artifact| artifact.document.get().len());
        messages.sum::<usize>() + artifacts.sum::<usize>()
    }
}

/// An artifact in its thread.
#[derive(Clone, Debug)]
pub struct ThreadArtifact {
    /// The thread's version that it came with.
    pub generation: i64,
    /// Whose it is.
    pub author: Row,
    /// The artifact.
    pub document: Document,
}

/// What is answered to a change of a thread, now and to each retry of it.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The thread.
    pub thread: ThreadId,
    /// Its version after the change.
    pub generation: i64,
    /// Its state after the change.
    pub state: State,
    /// The message that the change added: its id and its place.
    pub message: Option<(MessageId, i64)>,
    /// When it was changed.
    pub at: Timestamp,
    /// The times that stood after the change.
    pub ends: Ends,
}

/// The first [`PREVIEW_MAX`] characters of `summary`.
pub fn preview(summary: &str) -> &str {
    summary.char_indices().nth(PREVIEW_MAX).map_or(summary, |(end, _)| &summary[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_never_holds_half_a_character() {
        let text = "é🦀".repeat(200);
        assert_eq!(preview(&text).chars().count(), PREVIEW_MAX);
        assert!(text.starts_with(preview(&text)));
        assert_eq!(preview("short"), "short");
    }
}
