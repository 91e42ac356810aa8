//! Changes: what made each version of a thread, as those who follow it see it.

use crate::domain::message::Message;
use crate::domain::thread::{Thread, ThreadArtifact, ThreadView};
use crate::domain::time::Timestamp;
use crate::domain::transition::{Side, State};

/// What made one version of a thread.
#[derive(Clone, Debug)]
pub struct ThreadChange {
    /// The version.
    pub generation: i64,
    /// The state it left the thread in.
    pub state: State,
    /// When.
    pub at: Timestamp,
    /// Which side did it.
    pub by: Side,
    /// The message that came with it.
    pub message: Option<Message>,
    /// The artifacts that came with it, in order.
    pub artifacts: Vec<ThreadArtifact>,
    /// The recipient's account of how the thread ended, with the change that ended it.
    pub result_summary: Option<String>,
}

impl ThreadView {
    /// The thread as the change `standing` had left it, with `artifacts` of the one after it.
    pub fn as_of(mut self, standing: &ThreadChange, artifacts: usize) -> ThreadView {
        let generation = standing.generation;
        self.messages.retain(|message| message.generation <= generation);
        let mut of_the_next = 0;
        self.artifacts.retain(|artifact| {
            of_the_next += usize::from(artifact.generation == generation + 1);
            artifact.generation <= generation || (artifact.generation == generation + 1 && of_the_next <= artifacts)
        });
        self.result_summary = self.result_summary.filter(|_| standing.state.is_terminal());
        let ends = self.thread.ends.as_of(standing.state);
        self.thread = Thread { state: standing.state, generation, updated_at: standing.at, ends, ..self.thread };
        self
    }
}
