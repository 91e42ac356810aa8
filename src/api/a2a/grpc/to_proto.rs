//! Outcomes in the generated types.

use std::collections::HashMap;

use a2a_pb::proto as pb;
use a2a_pb::proto::{part, security_scheme, send_message_response, stream_response};
use data_encoding::BASE64;
use prost_types::value::Kind;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::api::a2a::card::AgentCard;
use crate::api::a2a::wire::{
    Artifact, Content, Message, Part, PushConfig, PushConfigList, Role, Sent, StreamResponse, Task, TaskList,
    TaskStatus,
};
use crate::domain::time::Timestamp;
use crate::domain::transition::State;

pub(super) fn sent(sent: Sent) -> pb::SendMessageResponse {
    let payload = match sent {
        Sent::Task(task) => send_message_response::Payload::Task(self::task(*task)),
        Sent::Message(message) => send_message_response::Payload::Message(self::message(*message)),
    };
    pb::SendMessageResponse { payload: Some(payload) }
}

pub(super) fn stream_response(response: StreamResponse) -> pb::StreamResponse {
    let payload = match response {
        StreamResponse::Task(task) => stream_response::Payload::Task(self::task(*task)),
        StreamResponse::StatusUpdate(update) => stream_response::Payload::StatusUpdate(pb::TaskStatusUpdateEvent {
            task_id: update.task_id,
            context_id: update.context_id,
            status: Some(status(update.status)),
            metadata: None,
        }),
        StreamResponse::ArtifactUpdate(update) => {
            stream_response::Payload::ArtifactUpdate(pb::TaskArtifactUpdateEvent {
                task_id: update.task_id,
                context_id: update.context_id,
                artifact: Some(artifact(update.artifact)),
                append: update.append,
                last_chunk: update.last_chunk,
                metadata: None,
            })
        }
    };
    pb::StreamResponse { payload: Some(payload) }
}

pub(super) fn task(task: Task) -> pb::Task {
    pb::Task {
        id: task.id,
        context_id: task.context_id,
        status: Some(status(task.status)),
        artifacts: task.artifacts.unwrap_or_default().into_iter().map(artifact).collect(),
        history: task.history.into_iter().map(message).collect(),
        metadata: task.metadata.as_deref().map(structure),
    }
}

pub(super) fn tasks(list: TaskList) -> pb::ListTasksResponse {
    pb::ListTasksResponse {
        tasks: list.tasks.into_iter().map(task).collect(),
        next_page_token: list.next_page_token,
        page_size: i32::try_from(list.page_size).unwrap_or(i32::MAX),
        total_size: i32::try_from(list.total_size).unwrap_or(i32::MAX),
    }
}

pub(super) fn push_config(config: PushConfig) -> pb::TaskPushNotificationConfig {
    pb::TaskPushNotificationConfig {
        tenant: config.tenant,
        id: config.id,
        task_id: config.task_id,
        url: config.url,
        token: String::new(),
        authentication: config
            .authentication
            .map(|given| pb::AuthenticationInfo { scheme: given.scheme, credentials: String::new() }),
    }
}

pub(super) fn push_configs(list: PushConfigList) -> pb::ListTaskPushNotificationConfigsResponse {
    pb::ListTaskPushNotificationConfigsResponse {
        configs: list.configs.into_iter().map(push_config).collect(),
        next_page_token: list.next_page_token.to_owned(),
    }
}

pub(super) fn card(card: AgentCard) -> pb::AgentCard {
    let texts = |texts: [&str; 3]| texts.map(ToOwned::to_owned).to_vec();
    let scheme = card.security_schemes.bearer.http_auth_security_scheme;
    let scheme = security_scheme::Scheme::HttpAuthSecurityScheme(pb::HttpAuthSecurityScheme {
        description: scheme.description.to_owned(),
        scheme: scheme.scheme.to_owned(),
        bearer_format: scheme.bearer_format.to_owned(),
    });
    let schemes = HashMap::from([("bearer".to_owned(), pb::StringList { list: Vec::new() })]);
    pb::AgentCard {
        name: card.name,
        description: card.description,
        supported_interfaces: card
            .supported_interfaces
            .into_iter()
            .map(|interface| pb::AgentInterface {
                url: interface.url,
                protocol_binding: interface.protocol_binding.to_owned(),
                tenant: interface.tenant,
                protocol_version: interface.protocol_version.to_owned(),
            })
            .collect(),
        version: card.version.to_owned(),
        capabilities: Some(pb::AgentCapabilities {
            streaming: Some(card.capabilities.streaming),
            push_notifications: Some(card.capabilities.push_notifications),
            extensions: card
                .capabilities
                .extensions
                .into_iter()
                .map(|extension| pb::AgentExtension {
                    uri: extension.uri.to_owned(),
                    description: extension.description.to_owned(),
                    required: extension.required,
                    params: extension.params.as_ref().and_then(written),
                })
                .collect(),
            extended_agent_card: Some(card.capabilities.extended_agent_card),
        }),
        security_schemes: HashMap::from([("bearer".to_owned(), pb::SecurityScheme { scheme: Some(scheme) })]),
        security_requirements: vec![pb::SecurityRequirement { schemes }],
        default_input_modes: texts(card.default_input_modes),
        default_output_modes: texts(card.default_output_modes),
        skills: card
            .skills
            .into_iter()
            .map(|skill| pb::AgentSkill {
                id: skill.id,
                name: skill.name,
                description: skill.description,
                tags: skill.tags,
                ..pb::AgentSkill::default()
            })
            .collect(),
        ..pb::AgentCard::default()
    }
}

fn written(params: &impl Serialize) -> Option<prost_types::Struct> {
    Some(structure(&serde_json::value::to_raw_value(params).ok()?))
}

fn status(status: TaskStatus) -> pb::TaskStatus {
    let state = match status.state.0 {
        State::Pending => pb::TaskState::Submitted,
        State::Accepted => pb::TaskState::Working,
        State::InputRequired => pb::TaskState::InputRequired,
        State::Completed => pb::TaskState::Completed,
        State::Failed => pb::TaskState::Failed,
        State::Rejected => pb::TaskState::Rejected,
        State::Cancelled => pb::TaskState::Canceled,
    };
    pb::TaskStatus {
        state: state.into(),
        message: status.message.map(message),
        timestamp: Some(timestamp(status.timestamp)),
    }
}

fn timestamp(moment: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(moment.ms().rem_euclid(1000) * 1_000_000).unwrap_or(0);
    prost_types::Timestamp { seconds: moment.ms().div_euclid(1000), nanos }
}

fn message(message: Message) -> pb::Message {
    let role = match message.role {
        Role::User => pb::Role::User,
        Role::Agent => pb::Role::Agent,
    };
    pb::Message {
        message_id: message.message_id,
        context_id: message.context_id,
        task_id: message.task_id,
        role: role.into(),
        parts: message.parts.into_iter().map(part).collect(),
        metadata: message.metadata.as_deref().map(structure),
        extensions: message.extensions,
        reference_task_ids: message.reference_task_ids,
    }
}

fn artifact(artifact: Artifact) -> pb::Artifact {
    pb::Artifact {
        artifact_id: artifact.artifact_id,
        name: artifact.name.unwrap_or_default(),
        description: artifact.description.unwrap_or_default(),
        parts: artifact.parts.into_iter().map(part).collect(),
        metadata: artifact.metadata.as_deref().map(structure),
        extensions: artifact.extensions,
    }
}

fn part(part: Part) -> pb::Part {
    let content = match part.content {
        Content::Text(text) => part::Content::Text(text),
        // It was looked at when it came.
        Content::Raw(base64) => part::Content::Raw(BASE64.decode(base64.as_bytes()).unwrap_or_default()),
        Content::Url(url) => part::Content::Url(url),
        Content::Data(data) => part::Content::Data(value(&data)),
    };
    pb::Part {
        content: Some(content),
        metadata: part.metadata.as_deref().map(structure),
        filename: part.filename.unwrap_or_default(),
        media_type: part.media_type.unwrap_or_default(),
    }
}

fn structure(document: &RawValue) -> prost_types::Struct {
    match value(document).kind {
        Some(Kind::StructValue(structure)) => structure,
        _ => prost_types::Struct::default(),
    }
}

/// A document in doubles, which is all that a `google.protobuf.Value` knows of numbers. One with a number beyond them is
/// shown as its text.
fn value(document: &RawValue) -> prost_types::Value {
    match serde_json::from_str(document.get()) {
        Ok(parsed) => converted(parsed),
        Err(_) => prost_types::Value { kind: Some(Kind::StringValue(document.get().to_owned())) },
    }
}

fn converted(parsed: serde_json::Value) -> prost_types::Value {
    let kind = match parsed {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(truth) => Kind::BoolValue(truth),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(elements) => {
            Kind::ListValue(prost_types::ListValue { values: elements.into_iter().map(converted).collect() })
        }
        serde_json::Value::Object(members) => Kind::StructValue(prost_types::Struct {
            fields: members.into_iter().map(|(key, member)| (key, converted(member))).collect(),
        }),
    };
    prost_types::Value { kind: Some(kind) }
}
