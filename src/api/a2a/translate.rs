//! From a thread to a task. The sender is the A2A client, whose messages are the user's; the recipient is the agent.
//!
//! What the sender attached are further parts of its messages; what the recipient attached are the task's artifacts.

use serde_json::value::RawValue;

use crate::api::a2a::wire::{
    Artifact, ArtifactUpdate, Content, Message, Part, Role, StatusUpdate, StreamResponse, Task, TaskState, TaskStatus,
};
use crate::domain::change::ThreadChange;
use crate::domain::id::{Row, ThreadId};
use crate::domain::json::{Document, Issues, Object, Value, looked_at};
use crate::domain::message::{Draft, Message as ThreadMessage};
use crate::domain::thread::{Receipt, Thread, ThreadArtifact, ThreadView};
use crate::domain::time::Timestamp;
use crate::domain::transition::Side;

/// The media type of AgentRelay's own artifacts, which A2A knows as data.
pub(super) const ARTIFACT_MEDIA_TYPE: &str = "application/vnd.agentrelay.artifact+json";

/// How much of a task is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// At most so many of the last messages; all of them when absent (3.2.4).
    pub(super) history: Option<usize>,
    /// Whether artifacts are shown: `Some` shows an empty list too, when there are none.
    pub(super) artifacts: Artifacts,
}

/// Which artifacts a task shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Artifacts {
    /// Those that there are.
    Present,
    /// The list, be it empty.
    Listed,
    /// None at all.
    Omitted,
}

impl Detail {
    /// Everything.
    pub(super) const FULL: Detail = Detail { history: None, artifacts: Artifacts::Present };
}

/// What every object of a task names.
#[derive(Clone, Debug)]
pub(super) struct Names {
    task_id: String,
    context_id: String,
    recipient: Row,
}

impl Names {
    pub(super) fn new(thread: &Thread, context_id: Option<&str>) -> Names {
        Names { recipient: thread.recipient.row, ..Names::of_new(thread.id, context_id) }
    }

    /// Of a task that was just made; its recipient has attached nothing.
    pub(super) fn of_new(thread: ThreadId, context_id: Option<&str>) -> Names {
        let task_id = thread.to_string();
        let context_id = context_id.map_or_else(|| task_id.clone(), ToOwned::to_owned);
        Names { task_id, context_id, recipient: Row::MIN }
    }

    pub(super) fn of(view: &ThreadView) -> Names {
        Names::new(&view.thread, view.context_id.as_deref())
    }
}

/// The task that a thread is. `metadata` is what the client is shown beside it.
pub(super) fn task(view: ThreadView, detail: Detail, metadata: Option<Document>) -> Task {
    let names = Names::of(&view);
    let ThreadView { thread, messages, artifacts, result_summary, .. } = view;
    let (of_recipient, of_sender): (Vec<_>, Vec<_>) =
        artifacts.into_iter().partition(|artifact| artifact.author == names.recipient);

    let mut history: Vec<Message> = Vec::with_capacity(messages.len());
    let mut last = None;
    for message in messages {
        let (generation, by_recipient) = (message.generation, message.author_id == thread.recipient.id);
        let role = if by_recipient { Role::Agent } else { Role::User };
        let attached = of_sender.iter().filter(|artifact| artifact.generation == generation);
        let attached: Vec<&RawValue> = attached.map(|artifact| &*artifact.document).collect();
        let message = self::message(&names, message, role, &attached);
        // What the agent said with the last change stands in the status, and only there (as the official SDKs have it).
        if by_recipient && generation == thread.generation {
            last = Some(message);
        } else {
            history.push(message);
        }
    }
    let summary = result_summary.filter(|_| thread.state.is_terminal());
    let status = status(&names, TaskState(thread.state), last, summary, thread.updated_at);
    if let Some(count) = detail.history {
        history.drain(..history.len().saturating_sub(count));
    }
    let artifacts = match detail.artifacts {
        Artifacts::Omitted => None,
        Artifacts::Present if of_recipient.is_empty() => None,
        Artifacts::Present | Artifacts::Listed => Some(assemble(&of_recipient)),
    };
    Task { id: names.task_id, context_id: names.context_id, status, artifacts, history, metadata }
}

/// The task that a handoff has just become.
pub(super) fn new_task(
    names: &Names,
    receipt: &Receipt,
    draft: Draft,
    detail: Detail,
    metadata: Option<Document>,
) -> Task {
    let own_id = receipt.message.map(|(id, _)| id.to_string()).unwrap_or_default();
    let shown = detail.history != Some(0);
    Task {
        id: names.task_id.clone(),
        context_id: names.context_id.clone(),
        status: TaskStatus { state: TaskState(receipt.state), message: None, timestamp: receipt.at },
        artifacts: None,
        history: if shown { vec![said(names, own_id, draft, Role::User, &[])] } else { Vec::new() },
        metadata,
    }
}

/// The result summary is the last status' message, after what the recipient said with it.
fn status(
    names: &Names,
    state: TaskState,
    message: Option<Message>,
    summary: Option<String>,
    timestamp: Timestamp,
) -> TaskStatus {
    let message = match (message, summary) {
        (Some(mut message), Some(summary)) => {
            message.parts.push(Part::text(summary));
            Some(message)
        }
        (None, Some(summary)) => Some(Message {
            message_id: format!("{}-result", names.task_id),
            context_id: names.context_id.clone(),
            task_id: names.task_id.clone(),
            role: Role::Agent,
            parts: vec![Part::text(summary)],
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }),
        (message, None) => message,
    };
    TaskStatus { state, message, timestamp }
}

/// A message of a thread, with what its author attached to it.
fn message(names: &Names, message: ThreadMessage, role: Role, attached: &[&RawValue]) -> Message {
    said(names, message.id.to_string(), message.draft, role, attached)
}

/// What somebody said.
pub(super) fn said(names: &Names, own_id: String, draft: Draft, role: Role, attached: &[&RawValue]) -> Message {
    let mut parts = match draft.parts.documents {
        None => vec![Part::text(draft.parts.body)],
        Some(documents) => documents.iter().filter_map(|document| part(document)).collect(),
    };
    parts.extend(attached.iter().flat_map(|document| attached_parts(document)));
    let envelope = draft.envelope.as_deref().and_then(looked_at);
    let word = |key: &str| text(envelope.as_ref()?, key);
    let words = |key: &str| envelope.as_ref().map(|envelope| texts(envelope, key)).unwrap_or_default();
    Message {
        message_id: word("message_id").unwrap_or(own_id),
        context_id: names.context_id.clone(),
        task_id: names.task_id.clone(),
        role,
        parts,
        extensions: words("extensions"),
        reference_task_ids: words("reference_task_ids"),
        metadata: draft.payload,
    }
}

/// A part as it is kept.
fn part(document: &RawValue) -> Option<Part> {
    let kept = looked_at(document)?;
    let content = if let Some(value) = text(&kept, "text") {
        Content::Text(value)
    } else if let Some(value) = text(&kept, "raw") {
        Content::Raw(value)
    } else if let Some(value) = text(&kept, "url") {
        Content::Url(value)
    } else {
        Content::Data(kept.member("data")?.document())
    };
    Some(Part {
        content,
        metadata: kept.optional("metadata").map(|value| value.document()),
        filename: text(&kept, "filename"),
        media_type: text(&kept, "media_type"),
    })
}

/// The parts that an artifact is, where there can be no artifacts.
fn attached_parts(document: &RawValue) -> Vec<Part> {
    looked_at(document).map(|kept| parts_of_artifact(&kept, document)).unwrap_or_default()
}

fn parts_of_artifact(kept: &Object<'_>, document: &RawValue) -> Vec<Part> {
    let kind = text(kept, "type").unwrap_or_default();
    if kind == "parts" {
        let parts = kept.optional("parts").and_then(|parts| parts.array(usize::MAX, &mut Issues::default()));
        return parts.unwrap_or_default().iter().filter_map(|element| part(element.raw)).collect();
    }
    let mut parts = vec![Part {
        content: Content::Data(document.to_owned()),
        metadata: None,
        filename: None,
        media_type: Some(ARTIFACT_MEDIA_TYPE.to_owned()),
    }];
    if let (true, Some(diff)) = (kind == "file_diff", text(kept, "diff")) {
        parts.push(Part {
            filename: text(kept, "path"),
            media_type: Some("text/x-diff".to_owned()),
            ..Part::text(diff)
        });
    }
    parts
}

/// An artifact of the recipient, and how it goes together with those before it.
struct Chunk {
    artifact: Artifact,
    append: bool,
    last: bool,
}

impl Chunk {
    /// `position` counts the artifacts of one change from 0.
    fn of(artifact: &ThreadArtifact, position: usize) -> Option<Chunk> {
        let kept = looked_at(&artifact.document)?;
        let parts = parts_of_artifact(&kept, &artifact.document);
        let is_parts = text(&kept, "type").as_deref() == Some("parts");
        let own = |key: &str| text(&kept, key).filter(|_| is_parts);
        let flag =
            |key: &str| kept.optional(key).filter(|_| is_parts).and_then(|value| value.boolean(&mut Issues::default()));
        let append = flag("append").unwrap_or(false);
        Some(Chunk {
            append,
            last: flag("last_chunk").unwrap_or(!append),
            artifact: Artifact {
                artifact_id: own("artifact_id").unwrap_or_else(|| format!("{}-{position}", artifact.generation)),
                name: own("name").or_else(|| name_of(&kept)),
                description: own("description"),
                parts,
                metadata: kept.optional("metadata").filter(|_| is_parts).map(|value| value.document()),
                extensions: texts(&kept, "extensions"),
            },
        })
    }
}

/// What one of the documented types would be called in a list.
fn name_of(kept: &Object<'_>) -> Option<String> {
    ["path", "title", "command", "schema_url", "url"].into_iter().find_map(|key| text(kept, key))
}

/// Gives each artifact its position among those of its change.
fn chunks(artifacts: &[ThreadArtifact]) -> impl Iterator<Item = Chunk> {
    let (mut generation, mut position) = (0, 0);
    artifacts.iter().filter_map(move |artifact| {
        position = if artifact.generation == generation { position + 1 } else { 0 };
        generation = artifact.generation;
        Chunk::of(artifact, position)
    })
}

/// The artifacts as they have become: a chunk continues the one of its id, a whole one takes its place.
fn assemble(artifacts: &[ThreadArtifact]) -> Vec<Artifact> {
    let mut whole: Vec<Artifact> = Vec::with_capacity(artifacts.len());
    for chunk in chunks(artifacts) {
        let earlier = whole.iter_mut().find(|earlier| earlier.artifact_id == chunk.artifact.artifact_id);
        match earlier {
            Some(earlier) if chunk.append => {
                earlier.parts.extend(chunk.artifact.parts);
                earlier.name = chunk.artifact.name.or(earlier.name.take());
                earlier.description = chunk.artifact.description.or(earlier.description.take());
                earlier.metadata = chunk.artifact.metadata.or(earlier.metadata.take());
            }
            Some(earlier) => *earlier = chunk.artifact,
            None => whole.push(chunk.artifact),
        }
    }
    whole
}

/// What a change of the thread is to those who follow the task: its artifacts, then the status.
pub(super) fn updates(names: &Names, change: ThreadChange) -> Vec<StreamResponse> {
    let of_recipient: Vec<_> =
        change.artifacts.into_iter().filter(|artifact| artifact.author == names.recipient).collect();
    let mut updates: Vec<StreamResponse> = chunks(&of_recipient)
        .map(|chunk| {
            StreamResponse::ArtifactUpdate(Box::new(ArtifactUpdate {
                task_id: names.task_id.clone(),
                context_id: names.context_id.clone(),
                artifact: chunk.artifact,
                append: chunk.append,
                last_chunk: chunk.last,
            }))
        })
        .collect();
    let said = change.message.filter(|_| change.by == Side::Recipient);
    let said = said.map(|said| message(names, said, Role::Agent, &[]));
    updates.push(StreamResponse::StatusUpdate(Box::new(StatusUpdate {
        task_id: names.task_id.clone(),
        context_id: names.context_id.clone(),
        status: status(names, TaskState(change.state), said, change.result_summary, change.at),
    })));
    updates
}

/// The same for a webhook, each as the body of one request.
pub(super) fn told(thread: &Thread, context_id: Option<&str>, change: &ThreadChange) -> Vec<Vec<u8>> {
    let updates = updates(&Names::new(thread, context_id), change.clone());
    updates.iter().map(|update| serde_json::to_vec(update).unwrap_or_default()).collect()
}

/// The member `key`, when it is text.
fn text(kept: &Object<'_>, key: &str) -> Option<String> {
    kept.optional(key)?.string(&mut Issues::default()).map(std::borrow::Cow::into_owned)
}

/// The texts in the member `key`.
fn texts(kept: &Object<'_>, key: &str) -> Vec<String> {
    let elements = kept.optional(key).and_then(|value| value.array(usize::MAX, &mut Issues::default()));
    let text = |value: Value<'_>| value.string(&mut Issues::default()).map(std::borrow::Cow::into_owned);
    elements.unwrap_or_default().into_iter().filter_map(text).collect()
}
