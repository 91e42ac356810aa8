//! Tasks that there are: read, listed, cancelled and followed (A2A v1.0.1, sections 3.1.3 to 3.1.6).

use crate::api::a2a::error::{Failure, Kind};
use crate::api::a2a::read::{CancelTask, GetTask, ListTasks, StatusFilter};
use crate::api::a2a::stream::{Resume, TaskStream};
use crate::api::a2a::translate::{Artifacts, Detail};
use crate::api::a2a::wire::TaskList;
use crate::api::a2a::{Door, Outcome, Result};
use crate::domain::json::Path;
use crate::domain::page::Limit;
use crate::domain::transition::{State, Transition};
use crate::relay::agents::AgentName;
use crate::relay::boxes::{BoxFilter, Scope};
use crate::relay::threads::{self, thread_id};
use crate::relay::transitions::Step;

impl Door {
    pub(super) async fn get_task(&self, request: GetTask) -> Result<Outcome> {
        let view = self.app.relay.peek(&self.caller, thread_id(&request.id)?).await?;
        self.check_door(&view.thread)?;
        let detail = Detail { history: request.history, ..Detail::FULL };
        Ok(Outcome::Task(Box::new(self.task(view, detail))))
    }

    /// Lists the tasks that the caller sent to this agent or, at its own door, those that were sent to it (3.1.4).
    pub(super) async fn list_tasks(&self, request: ListTasks) -> Result<TaskList> {
        let agent = self.app.relay.find_agent(&AgentName::Handle(self.agent.clone()))?;
        let scope = if agent.row == self.caller.row() { Scope::Inbox } else { Scope::SentTo(agent.row) };
        let states = match request.status {
            StatusFilter::Any => Vec::new(),
            StatusFilter::Is(state) => vec![state],
            StatusFilter::Never => {
                let (next_page_token, page_size) = (String::new(), request.page_size);
                return Ok(TaskList { tasks: Vec::new(), next_page_token, page_size, total_size: 0 });
            }
        };
        let filter = BoxFilter { scope, context_id: request.context_id, states, changed_since: request.changed_since };
        // One more: the last message may stand in the status and not in the history.
        let messages = if request.history == 0 { 0 } else { request.history.saturating_add(1) };
        let shown = threads::Detail { messages, artifacts: request.artifacts };
        let limit = i64::try_from(request.page_size).ok().and_then(|size| Limit::new(size, Limit::MAX));
        let limit = limit.unwrap_or(Limit::DEFAULT);
        let token = request.page_token.as_deref();
        let path = Path::root().key("pageToken");
        let page = self.app.relay.threads_by_change(&self.caller, filter, shown, limit, token, path).await?;
        let artifacts = if request.artifacts { Artifacts::Listed } else { Artifacts::Omitted };
        let detail = Detail { history: Some(request.history), artifacts };
        Ok(TaskList {
            tasks: page.threads.into_iter().map(|view| self.task(view, detail)).collect(),
            next_page_token: page.next_cursor.unwrap_or_default(),
            page_size: request.page_size,
            total_size: page.total,
        })
    }

    /// Cancels a task that nobody works on. Once more changes nothing (3.3.1).
    pub(super) async fn cancel_task(&self, request: CancelTask) -> Result<Outcome> {
        let thread = self.sent_task(&request.id)?;
        if thread.state != State::Cancelled {
            let step = Step { metadata: request.metadata, ..Step::new(thread.id, Transition::Cancel) };
            let cancelled = self.app.relay.transition(&self.caller, step).await;
            // Another call may have cancelled it in between.
            if let Err(error) = cancelled
                && self.app.relay.find_thread(&self.caller, thread.id)?.0.state != State::Cancelled
            {
                return Err(error.into());
            }
        }
        let view = self.app.relay.peek(&self.caller, thread.id).await?;
        Ok(Outcome::Task(Box::new(self.task(view, Detail::FULL))))
    }

    /// Follows a task from now on, or from where the client was cut off (3.1.6).
    pub(super) async fn subscribe_to_task(&self, id: &str, resume: Option<Resume>) -> Result<Outcome> {
        let id = thread_id(id)?;
        let (thread, _) = self.app.relay.find_thread(&self.caller, id)?;
        self.check_door(&thread)?;
        let resumed = match resume {
            Some(Resume { generation, told }) => {
                let watched = self.app.relay.watch_from(&self.caller, id, generation, told).await?;
                watched.map(|(view, watcher)| TaskStream::new(self, view, watcher, Detail::FULL, told))
            }
            None => None,
        };
        let stream = match resumed {
            // What it had not heard yet may be the end.
            Some(stream) => stream,
            None if thread.state.is_terminal() => {
                let message = "The task has ended and changes no more; read it with GetTask";
                return Err(Failure::A2a(Kind::UnsupportedOperation, message.to_owned()));
            }
            None => {
                let (view, watcher) = self.app.relay.watch(&self.caller, id).await?;
                TaskStream::new(self, view, watcher, Detail::FULL, 0)
            }
        };
        Ok(Outcome::Stream(Box::new(stream)))
    }
}
