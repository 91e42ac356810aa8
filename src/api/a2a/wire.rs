//! A2A's objects (A2A v1.0.1, section 4), as the two JSON bindings write them. gRPC has generated types of its own, into
//! which `grpc` turns these.
//!
//! Whatever a client sent as JSON stays the text that it was: the objects hold documents, not values.

use serde::Serialize as Derive;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::domain::json::Document;
use crate::domain::time::Timestamp;
use crate::domain::transition::State;

/// `Task` (4.1.1).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifacts: Option<Vec<Artifact>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) history: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Document>,
}

/// `TaskStatus` (4.1.2).
#[derive(Clone, Debug, Derive)]
pub(super) struct TaskStatus {
    pub(super) state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message>,
    pub(super) timestamp: Timestamp,
}

/// `TaskState` (4.1.3): the thread's state, by A2A's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskState(pub(super) State);

impl TaskState {
    /// The name (ProtoJSON: as in the Protocol Buffer definition).
    pub(super) const fn name(self) -> &'static str {
        match self.0 {
            State::Pending => "TASK_STATE_SUBMITTED",
            State::Accepted => "TASK_STATE_WORKING",
            State::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            State::Completed => "TASK_STATE_COMPLETED",
            State::Failed => "TASK_STATE_FAILED",
            State::Rejected => "TASK_STATE_REJECTED",
            State::Cancelled => "TASK_STATE_CANCELED",
        }
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// `Message` (4.1.4).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "A2A's names")]
pub(super) struct Message {
    pub(super) message_id: String,
    pub(super) context_id: String,
    pub(super) task_id: String,
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Document>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) extensions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reference_task_ids: Vec<String>,
}

/// `Role` (4.1.5): the sender is the user, the recipient the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Derive)]
pub(super) enum Role {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// `Part` (4.1.6).
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) content: Content,
    pub(super) metadata: Option<Document>,
    pub(super) filename: Option<String>,
    pub(super) media_type: Option<String>,
}

/// What a part holds: one of four.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(String),
    /// Base64 with padding (RFC 4648, section 4).
    Raw(String),
    Url(String),
    Data(Document),
}

impl Part {
    /// A part of nothing but text.
    pub(super) fn text(text: impl Into<String>) -> Part {
        Part { content: Content::Text(text.into()), metadata: None, filename: None, media_type: None }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = serializer.serialize_map(None)?;
        match &self.content {
            Content::Text(text) => part.serialize_entry("text", text)?,
            Content::Raw(base64) => part.serialize_entry("raw", base64)?,
            Content::Url(url) => part.serialize_entry("url", url)?,
            Content::Data(data) => part.serialize_entry("data", data)?,
        }
        if let Some(metadata) = &self.metadata {
            part.serialize_entry("metadata", metadata)?;
        }
        if let Some(filename) = &self.filename {
            part.serialize_entry("filename", filename)?;
        }
        if let Some(media_type) = &self.media_type {
            part.serialize_entry("mediaType", media_type)?;
        }
        part.end()
    }
}

/// `Artifact` (4.1.7).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "A2A's names")]
pub(super) struct Artifact {
    pub(super) artifact_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<Document>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) extensions: Vec<String>,
}

/// `TaskStatusUpdateEvent` (4.2.1).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
}

/// `TaskArtifactUpdateEvent` (4.2.2).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) artifact: Artifact,
    pub(super) append: bool,
    pub(super) last_chunk: bool,
}

/// `StreamResponse` (3.2.3).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) enum StreamResponse {
    Task(Box<Task>),
    StatusUpdate(Box<StatusUpdate>),
    ArtifactUpdate(Box<ArtifactUpdate>),
}

/// `SendMessageResponse`: a task, or the recipient's direct answer.
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) enum Sent {
    Task(Box<Task>),
    Message(Box<Message>),
}

/// `ListTasksResponse` (3.1.4).
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskList {
    pub(super) tasks: Vec<Task>,
    /// Empty on the last page, and always there.
    pub(super) next_page_token: String,
    pub(super) page_size: usize,
    pub(super) total_size: i64,
}

/// `TaskPushNotificationConfig` (4.3.1), without its secrets: nobody reads them again.
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushConfig {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) task_id: String,
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authentication: Option<AuthenticationInfo>,
}

/// `AuthenticationInfo` (4.3.2), without the credentials.
#[derive(Clone, Debug, Derive)]
pub(super) struct AuthenticationInfo {
    pub(super) scheme: String,
}

/// `ListTaskPushNotificationConfigsResponse`.
#[derive(Clone, Debug, Derive)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushConfigList {
    pub(super) configs: Vec<PushConfig>,
    pub(super) next_page_token: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::a2a::documented;

    #[test]
    fn each_state_has_the_documented_name() {
        let states = State::ALL.map(|state| vec![state.name().to_owned(), TaskState(state).name().to_owned()]);
        assert_eq!(documented::table("a2a_states"), states);
    }
}
