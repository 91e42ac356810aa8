//! An A2A client that follows a task.

use std::io;

use a2a_pb::proto as pb;
use serde::Serialize;

use crate::cast::Agent;
use crate::http::{Request, ThreadId};
use crate::sse::{Block, Events};
use crate::stage::Stage;
use crate::{grpc, http};

/// By which binding it follows. The two JSON bindings share their streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Binding {
    HttpJson,
    Grpc,
}

/// Both of them.
pub(crate) const BINDINGS: [Binding; 2] = [Binding::HttpJson, Binding::Grpc];

/// A task that is followed, on a connection of its own.
pub(crate) enum Subscription {
    HttpJson(Events),
    Grpc(Box<grpc::Messages>),
}

impl Subscription {
    /// Subscribes, and reads what every stream begins with: the task.
    pub(crate) async fn open(
        stage: &Stage,
        binding: Binding,
        sender: &Agent,
        recipient: &Agent,
        thread: ThreadId,
    ) -> io::Result<Subscription> {
        let (handle, id) = (&recipient.handle, thread.text());
        let mut subscription = match binding {
            Binding::HttpJson => {
                let path = format!("/a2a/{handle}/tasks/{id}:subscribe");
                let request = Request::get(stage.address, &path, Some(&sender.key));
                let connection = http::Connection::open(stage.address).await?;
                Subscription::HttpJson(Events::open(connection, &request).await?)
            }
            Binding::Grpc => {
                let request = pb::SubscribeToTaskRequest { tenant: handle.clone(), id: id.to_owned() };
                let connection = grpc::Connection::open(stage.address, &sender.key, "SubscribeToTask").await?;
                Subscription::Grpc(Box::new(connection.stream(&Request::grpc(&request)).await?))
            }
        };
        subscription.wait_for(id).await?;
        Ok(subscription)
    }

    /// Reads the next element, whatever it says.
    pub(crate) async fn next_update(&mut self) -> io::Result<()> {
        match self {
            Subscription::HttpJson(events) => while matches!(events.next().await?, Block::Comment) {},
            Subscription::Grpc(messages) => drop(messages.next::<pb::StreamResponse>().await?),
        }
        Ok(())
    }

    /// Reads until something holds this text.
    pub(crate) async fn wait_for(&mut self, text: &str) -> io::Result<()> {
        loop {
            let found = match self {
                Subscription::HttpJson(events) => match events.next().await? {
                    Block::Event(event) => event.windows(text.len()).any(|window| window == text.as_bytes()),
                    Block::Comment => false,
                },
                Subscription::Grpc(messages) => names(&messages.next().await?, text),
            };
            if found {
                return Ok(());
            }
        }
    }
}

/// Whether the task's id or what its status says is this text.
fn names(response: &pb::StreamResponse, text: &str) -> bool {
    match &response.payload {
        Some(pb::stream_response::Payload::Task(task)) => task.id == text,
        Some(pb::stream_response::Payload::StatusUpdate(update)) => {
            let message = update.status.as_ref().and_then(|status| status.message.as_ref());
            message
                .into_iter()
                .flat_map(|message| &message.parts)
                .any(|part| matches!(&part.content, Some(pb::part::Content::Text(said)) if said.contains(text)))
        }
        _ => false,
    }
}
