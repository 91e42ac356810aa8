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
mod send;
mod tasks;
mod push;
mod stream;
mod translate;
mod extension;
mod wire;

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::http::HeaderMap;
use futures_util::FutureExt;

use self::card::AgentCard;
use self::error::{Failure, Kind};
use self::read::{CancelTask, GetTask, ListTasks, SendMessage};
use self::stream::{Resume, TaskStream};
use self::translate::Detail;
use self::wire::{PushConfig, PushConfigList, Sent, Task, TaskList};
use crate::api::App;
use crate::domain::agent::{Agent, Handle};
use crate::domain::json::{Object, issue};
use crate::domain::thread::{Thread, ThreadView};
use crate::domain::transition::Side;
use crate::error::{Error, Symbol};
use crate::relay::Caller;
use crate::relay::agents::AgentName;
use crate::relay::threads::thread_id;

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

/// Counts a caller's call and looks which version it speaks. Gives whether it activates the relay's extension.
fn admit(app: &App, caller: &Caller, headers: &HeaderMap, query: Option<&str>) -> Result<bool> {
    app.rate_limit.count(caller.row(), Instant::now())?;
    version::check(headers, query)?;
    Ok(version::extension_active(headers, query))
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
        let performed = AssertUnwindSafe(self.dispatch(operation, params, resume)).catch_unwind().await;
        performed.unwrap_or_else(|_| Err(Error::internal("an operation panicked").into()))
    }

    async fn dispatch(&self, operation: Operation, params: &Object<'_>, resume: Option<Resume>) -> Result<Outcome> {
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

    /// A task of the caller's, which it sent to this agent.
    fn sent_task(&self, id: &str) -> Result<Thread> {
        let (thread, side) = self.app.relay.find_thread(&self.caller, thread_id(id)?)?;
        self.check_door(&thread)?;
        if side == Side::Recipient {
            return Err(own_door());
        }
        Ok(thread)
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
