//! Sending: a message becomes a new task or goes into one that there is (A2A v1.0.1, sections 3.1.1, 3.1.2 and 3.4).

use crate::api::a2a::error::Failure;
use crate::api::a2a::read::SendMessage;
use crate::api::a2a::stream::TaskStream;
use crate::api::a2a::translate::{self, Detail, Names};
use crate::api::a2a::wire::Sent;
use crate::api::a2a::{Door, Outcome, Result, own_door};
use crate::domain::id::ThreadId;
use crate::domain::intent::Intent;
use crate::domain::json::{Path, issue};
use crate::domain::message::Draft;
use crate::domain::transition::State;
use crate::error::{Error, Symbol};
use crate::relay::agents::AgentName;
use crate::relay::send::{Append, Handoff};

impl Door {
    /// Sends a message: a new task, or more of an old one (3.1.1). Waits for the agent unless told not to.
    pub(super) async fn send_message(&self, request: SendMessage) -> Result<Sent> {
        let detail = Detail { history: request.history, ..Detail::FULL };
        let returns_at_once = request.return_immediately;
        let thread = if request.task_id.is_some() {
            self.append(request).await?
        } else {
            let (handoff, said) = self.handoff(request)?;
            let metadata = handoff.metadata.rest.clone();
            let sent = self.app.relay.send(&self.caller, handoff).await;
            let receipt = sent.map_err(|error| self.not_sent(error))?;
            if returns_at_once && !self.extension {
                // All of the answer is known: nothing has to be read.
                let names = Names::of_new(receipt.thread, said.context_id.as_deref());
                let task = translate::new_task(&names, &receipt, said.draft, detail, metadata);
                return Ok(Sent::Task(Box::new(task)));
            }
            receipt.thread
        };
        if returns_at_once {
            let view = self.app.relay.peek(&self.caller, thread).await?;
            return Ok(Sent::Task(Box::new(self.task(view, detail))));
        }
        let mut stopping = self.app.stopping.clone();
        let stop = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
        let patience = self.app.blocking_timeout;
        let view = self.app.relay.wait_for_recipient(&self.caller, thread, patience, stop).await?;
        // Who answered without accepting has not begun a task; but a message alone would lose what came with it.
        let is_answer = view.thread.state == State::Completed && view.thread.ends.accepted_at.is_none();
        let mut task = self.task(view, detail);
        let is_answer = is_answer && task.artifacts.is_none();
        Ok(match task.status.message.take_if(|_| is_answer) {
            Some(message) => Sent::Message(Box::new(message)),
            None => Sent::Task(Box::new(task)),
        })
    }

    /// As [`Door::send_message`], and the task is followed from the message on (3.1.2).
    pub(super) async fn send_streaming_message(&self, request: SendMessage) -> Result<Outcome> {
        let detail = Detail { history: request.history, ..Detail::FULL };
        let thread = if request.task_id.is_some() {
            self.append(request).await?
        } else {
            let (handoff, _) = self.handoff(request)?;
            self.app.relay.send(&self.caller, handoff).await.map_err(|error| self.not_sent(error))?.thread
        };
        let (view, watcher) = self.app.relay.watch(&self.caller, thread).await?;
        Ok(Outcome::Stream(Box::new(TaskStream::new(self, view, watcher, detail, 0))))
    }

    /// The new handoff that a message is, and what is needed to show it.
    fn handoff(&self, request: SendMessage) -> Result<(Handoff, Said)> {
        if *self.caller.handle() == self.agent {
            return Err(own_door());
        }
        let intent = Intent::new(request.handoff.intent, request.handoff.proposed_action)?;
        let said = Said { context_id: request.context_id.clone(), draft: request.draft.clone() };
        let handoff = Handoff {
            metadata: request.metadata,
            context_id: request.context_id,
            webhook: request.webhook,
            ..Handoff::new(self.agent.clone(), intent, request.draft)
        };
        Ok((handoff, said))
    }

    /// Why a handoff was refused. Under a former handle only the relay saw that this is the caller's own door.
    fn not_sent(&self, error: Error) -> Failure {
        let agent = || self.app.relay.find_agent(&AgentName::Handle(self.agent.clone()));
        if error.symbol() == Symbol::InvalidParams && agent().is_ok_and(|agent| agent.row == self.caller.row()) {
            return own_door();
        }
        error.into()
    }

    /// Adds a message to its task.
    async fn append(&self, request: SendMessage) -> Result<ThreadId> {
        let thread = self.sent_task(&request.task_id.unwrap_or_default())?;
        if let Some(given) = &request.context_id
            && *given != self.app.relay.context_id(&thread)?.unwrap_or_else(|| thread.id.to_string())
        {
            let path = Path::root().key("message").key("contextId");
            return Err(issue(path, "invalid_value", "the task is part of another context; leave contextId out").into());
        }
        let mut message = request.draft;
        // A message without metadata of its own shows what its author said beside it.
        message.payload = message.payload.or_else(|| request.metadata.rest.clone());
        let append = Append { metadata: request.metadata, webhook: request.webhook, ..Append::new(thread.id, message) };
        Ok(self.app.relay.append(&self.caller, append).await?.thread)
    }
}

/// What is kept of a message to show it.
struct Said {
    context_id: Option<String>,
    draft: Draft,
}
