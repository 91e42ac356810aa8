//! A2A v1.0: every agent of the relay is an A2A agent. A client hands it a task; the thread behind it waits until the agent
//! takes it on, by whatever protocol that one speaks.
//!
//! There is one translation and three bindings. An `Operation` takes JSON parameters and comes to an `Outcome`; `json_rpc`,
//! `http_json` and `grpc` only frame them. *Task* is A2A's word for a thread and stays in here.

pub(super) mod json_rpc;
pub(super) mod http_json;
pub(super) mod grpc;
pub(super) mod card;
pub(super) mod courier;
mod delivery;
mod guard;
mod sse;
mod version;
mod error;
mod read;
mod push;
mod stream;
mod translate;
mod extension;
mod wire;

use self::card::AgentCard;
use self::error::{Failure, Kind};
use self::read::{CancelTask, GetTask, ListTasks, SendMessage, StatusFilter};
use self::stream::{Resume, TaskStream};
use self::translate::{Artifacts, Detail, Names};
use self::wire::{PushConfig, PushConfigList, Sent, Task, TaskList};
use crate::api::App;
use crate::domain::agent::{Agent, Handle};
use crate::domain::id::ThreadId;
use crate::domain::intent::Intent;
use crate::domain::json::{Object, Path, issue};
use crate::domain::page::Limit;
use crate::domain::thread::{Thread, ThreadView};
use crate::domain::transition::{Side, State, Transition};
use crate::error::{Error, Symbol};
use crate::relay::Caller;
use crate::relay::agents::AgentName;
use crate::relay::boxes::{BoxFilter, Scope};
use crate::relay::send::{Append, Handoff};
use crate::relay::threads::{self, thread_id};
use crate::relay::transitions::Step;

/// What a call comes to, or why it does not.
type Result<T> = std::result::Result<T, Failure>;

/// The eleven operations (A2A v1.0.1, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    SendMessage,
    SendStreamingMessage,
    GetTask,
    ListTasks,
    CancelTask,
    SubscribeToTask,
    CreateTaskPushNotificationConfig,
    GetTaskPushNotificationConfig,
    ListTaskPushNotificationConfigs,
    DeleteTaskPushNotificationConfig,
    GetExtendedAgentCard,
}

impl Operation {
    /// All of them.
    const ALL: [Operation; 11] = [
        Operation::SendMessage,
        Operation::SendStreamingMessage,
        Operation::GetTask,
        Operation::ListTasks,
        Operation::CancelTask,
        Operation::SubscribeToTask,
        Operation::CreateTaskPushNotificationConfig,
        Operation::GetTaskPushNotificationConfig,
        Operation::ListTaskPushNotificationConfigs,
        Operation::DeleteTaskPushNotificationConfig,
        Operation::GetExtendedAgentCard,
    ];

    /// The name, which is also the JSON-RPC method's and the gRPC method's.
    const fn name(self) -> &'static str {
        match self {
            Operation::SendMessage => "SendMessage",
            Operation::SendStreamingMessage => "SendStreamingMessage",
            Operation::GetTask => "GetTask",
            Operation::ListTasks => "ListTasks",
            Operation::CancelTask => "CancelTask",
            Operation::SubscribeToTask => "SubscribeToTask",
            Operation::CreateTaskPushNotificationConfig => "CreateTaskPushNotificationConfig",
            Operation::GetTaskPushNotificationConfig => "GetTaskPushNotificationConfig",
            Operation::ListTaskPushNotificationConfigs => "ListTaskPushNotificationConfigs",
            Operation::DeleteTaskPushNotificationConfig => "DeleteTaskPushNotificationConfig",
            Operation::GetExtendedAgentCard => "GetExtendedAgentCard",
        }
    }

    /// From the name.
    fn from_name(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

/// What an operation comes to.
enum Outcome {
    Sent(Sent),
    Task(Box<Task>),
    Tasks(TaskList),
    Config(PushConfig),
    Configs(PushConfigList),
    Deleted,
    Card(Box<AgentCard>),
    Stream(Box<TaskStream>),
}

/// A caller at an agent's door.
#[derive(Clone)]
struct Door {
    app: App,
    caller: Caller,
    /// Whose door, as the client called it: the present handle or a former one.
    agent: Handle,
    /// Whether the client activated the relay's extension.
    extension: bool,
}

impl Door {
    /// Performs an operation. `resume` is for streams alone: from where on a client wants to go on.
    async fn perform(&self, operation: Operation, params: &Object<'_>, resume: Option<Resume>) -> Result<Outcome> {
        self.check_tenant(params)?;
        match operation {
            Operation::SendMessage => self.send_message(SendMessage::read(params)?).await.map(Outcome::Sent),
            Operation::SendStreamingMessage => self.send_streaming_message(SendMessage::read(params)?).await,
            Operation::GetTask => self.get_task(GetTask::read(params)?).await,
            Operation::ListTasks => self.list_tasks(ListTasks::read(params)?).await.map(Outcome::Tasks),
            Operation::CancelTask => self.cancel_task(CancelTask::read(params)?).await,
            Operation::SubscribeToTask => self.subscribe_to_task(&read::subscribed_task(params)?, resume).await,
            Operation::CreateTaskPushNotificationConfig => self.create_push_config(params).await,
            Operation::GetTaskPushNotificationConfig => self.get_push_config(params).await,
            Operation::ListTaskPushNotificationConfigs => self.list_push_configs(params).await,
            Operation::DeleteTaskPushNotificationConfig => self.delete_push_config(params).await,
            Operation::GetExtendedAgentCard => {
                let agent = self.agent()?;
                Ok(Outcome::Card(Box::new(AgentCard::extended(&self.app, &agent))))
            }
        }
    }

    /// A `tenant` repeats whose door this is (section 4.4.6).
    fn check_tenant(&self, params: &Object<'_>) -> Result<()> {
        let Some(tenant) = read::tenant(params)? else {
            return Ok(());
        };
        let named = Handle::parse(&tenant).ok();
        if named.as_ref() == Some(&self.agent) {
            return Ok(());
        }
        // Both may be handles of one agent, a former one and the present one.
        let find = |handle: Handle| self.app.relay.find_agent(&AgentName::Handle(handle)).ok();
        if let Some(named) = named.and_then(find)
            && find(self.agent.clone()).is_some_and(|agent| agent.row == named.row)
        {
            return Ok(());
        }
        let message =
            format!("this is the door of {}; leave tenant out or send it as the agent's card has it", self.agent);
        Err(issue(params.at("tenant"), "invalid_value", message).into())
    }

    /// Sends a message: a new task, or more of an old one (3.1.1). Waits for the agent unless told not to.
    async fn send_message(&self, request: SendMessage) -> Result<Sent> {
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
    async fn send_streaming_message(&self, request: SendMessage) -> Result<Outcome> {
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
        let (thread, context_id) = self.sent_task(&request.task_id.unwrap_or_default())?;
        if let Some(given) = &request.context_id
            && *given != context_id
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

    async fn get_task(&self, request: GetTask) -> Result<Outcome> {
        let view = self.app.relay.peek(&self.caller, thread_id(&request.id)?).await?;
        self.check_door(&view.thread)?;
        let detail = Detail { history: request.history, ..Detail::FULL };
        Ok(Outcome::Task(Box::new(self.task(view, detail))))
    }

    /// Lists the tasks that the caller sent to this agent or, at its own door, those that were sent to it (3.1.4).
    async fn list_tasks(&self, request: ListTasks) -> Result<TaskList> {
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
    async fn cancel_task(&self, request: CancelTask) -> Result<Outcome> {
        let (thread, _) = self.sent_task(&request.id)?;
        if thread.state != State::Cancelled {
            let step = Step { metadata: request.metadata, ..Step::new(thread.id, Transition::Cancel) };
            let cancelled = self.app.relay.transition(&self.caller, step).await;
            // Another call may have cancelled it in between. The error's details do not tell: they call a rejected one cancelled too.
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
    async fn subscribe_to_task(&self, id: &str, resume: Option<Resume>) -> Result<Outcome> {
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

    /// A task of the caller's, which it sent to this agent, with its context.
    fn sent_task(&self, id: &str) -> Result<(Thread, String)> {
        let (thread, side) = self.app.relay.find_thread(&self.caller, thread_id(id)?)?;
        self.check_door(&thread)?;
        if side == Side::Recipient {
            return Err(own_door());
        }
        let context_id = self.app.relay.context_id(&thread)?.unwrap_or_else(|| thread.id.to_string());
        Ok((thread, context_id))
    }

    /// The task that a thread is, as this caller sees it.
    fn task(&self, view: ThreadView, detail: Detail) -> Task {
        let metadata = extension::task_metadata(&view, self.extension);
        translate::task(view, detail, metadata)
    }

    /// Another agent's task is not found at this door, whoever asks.
    fn check_door(&self, thread: &Thread) -> Result<()> {
        if thread.recipient.handle == self.agent {
            return Ok(());
        }
        let found = self.app.relay.find_agent(&AgentName::Handle(self.agent.clone()));
        match found {
            Ok(agent) if agent.id == thread.recipient.id => Ok(()),
            Ok(_) => Err(Failure::task_not_found()),
            Err(error) if error.symbol() == Symbol::RecipientNotFound => Err(Failure::task_not_found()),
            Err(error) => Err(error.into()),
        }
    }

    /// The agent behind the door, if it may be sent to.
    fn agent(&self) -> Result<Agent> {
        let agent = self.app.relay.find_agent(&AgentName::Handle(self.agent.clone()))?;
        if agent.disabled_at.is_some() {
            return Err(no_agent(&self.agent).into());
        }
        Ok(agent)
    }
}

/// At its own door an agent reads what was sent to it. It works on that with the AgentRelay methods.
fn own_door() -> Failure {
    let message = "Under your own handle you read your inbox; answer it with tasks/update at POST /a2a";
    Failure::A2a(Kind::UnsupportedOperation, message.to_owned())
}

/// What is kept of a message to show it.
struct Said {
    context_id: Option<String>,
    draft: crate::domain::message::Draft,
}

/// Nobody lives here.
fn no_agent(handle: &dyn std::fmt::Display) -> Error {
    let handle: String = handle.to_string().chars().take(120).collect();
    Error::new(Symbol::RecipientNotFound, format!("No agent with handle '{handle}'; GET /agents shows who is there"))
}

#[cfg(test)]
mod documented {
    /// The rows of a table of docs/a2a.md, by its label, without its heading and without the marks of code.
    pub(super) fn table(name: &str) -> Vec<Vec<String>> {
        let page = include_str!("../../../docs/a2a.md");
        let label = format!("<!-- table: {name} -->");
        let rows = page.lines().skip_while(|line| *line != label).skip(1);
        let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
        let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        let rows: Vec<Vec<String>> = rows.map(cells).collect();
        assert!(!rows.is_empty(), "docs/a2a.md has no table '{name}'");
        rows
    }
}
