//! What A2A clients ask for, read from JSON. HTTP+JSON's queries and gRPC's messages are brought to the same form, so that
//! there is one reader for each request, and one text for each mistake.
//!
//! As ProtoJSON has it: names in camel case or as in the Protocol Buffer definition, `null` and the empty string mean
//! absent, enums by name or number, whole numbers also as text, and unknown fields are ignored.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
use serde_json::value::{RawValue, to_raw_value};

use crate::api::a2a::extension::HandoffParams;
use crate::domain::json::{Document, Issues, Object, Value};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::part::{PARTS_MAX, Parts, is_base64};
use crate::domain::time::Timestamp;
use crate::domain::transition::State;
use crate::domain::webhook::{Authentication, NewWebhook, Secret, Target};
use crate::error::Result;

/// Longest id that a client may choose, in characters.
const ID_MAX: usize = 255;
/// Most names in one list: extensions, referenced tasks, media types.
const NAMES_MAX: usize = 100;
/// Largest page of `ListTasks` (A2A v1.0.1, section 3.1.4).
pub(super) const PAGE_MAX: i64 = 100;

/// `SendMessageRequest`.
pub(super) struct SendMessage {
    pub(super) task_id: Option<String>,
    pub(super) context_id: Option<String>,
    pub(super) draft: Draft,
    pub(super) metadata: Metadata,
    pub(super) handoff: HandoffParams,
    pub(super) history: Option<usize>,
    pub(super) return_immediately: bool,
    pub(super) webhook: Option<NewWebhook>,
}

/// `GetTaskRequest`.
pub(super) struct GetTask {
    pub(super) id: String,
    pub(super) history: Option<usize>,
}

/// `ListTasksRequest`.
pub(super) struct ListTasks {
    pub(super) context_id: Option<String>,
    pub(super) status: StatusFilter,
    pub(super) page_size: usize,
    pub(super) page_token: Option<String>,
    pub(super) history: usize,
    pub(super) changed_since: Option<Timestamp>,
    pub(super) artifacts: bool,
}

/// Which states a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusFilter {
    Any,
    Is(State),
    /// One that no thread is ever in.
    Never,
}

/// `CancelTaskRequest`.
pub(super) struct CancelTask {
    pub(super) id: String,
    pub(super) metadata: Metadata,
}

/// `TaskPushNotificationConfig`, as a client writes it.
pub(super) struct CreatePushConfig {
    pub(super) task_id: String,
    pub(super) webhook: NewWebhook,
}

/// A push config by its id, within its task.
pub(super) struct PushConfigName {
    pub(super) task_id: String,
    pub(super) id: String,
}

/// Reads all of a request: every problem is named.
fn all<T>(read: impl FnOnce(&mut Issues) -> Option<T>) -> Result<T> {
    let mut issues = Issues::default();
    let value = read(&mut issues);
    issues.take(value)
}

impl SendMessage {
    pub(super) fn read(params: &Object<'_>) -> Result<SendMessage> {
        all(|issues| {
            let configuration = field(params, "configuration").and_then(|value| value.object(issues));
            let configuration = configuration.unwrap_or_else(|| Object::empty(params.at("configuration")));
            let modes = names(&configuration, "acceptedOutputModes", issues);
            let history = count(&configuration, "historyLength", issues);
            let return_immediately = boolean(&configuration, "returnImmediately", issues);
            let webhook = field(&configuration, "taskPushNotificationConfig");
            let webhook = webhook.and_then(|value| value.object(issues)).and_then(|config| webhook_of(&config, issues));
            let metadata = Metadata::read(params, issues);
            let handoff = HandoffParams::read(params, issues);
            let message = required(params, "message", issues)?.object(issues)?;
            let task_id = string(&message, "taskId", issues);
            let context_id = id(&message, "contextId", issues);
            let draft = draft(&message, &modes, issues);
            Some(SendMessage {
                task_id,
                context_id,
                draft: draft?,
                metadata,
                handoff,
                history,
                return_immediately,
                webhook,
            })
        })
    }
}

impl GetTask {
    pub(super) fn read(params: &Object<'_>) -> Result<GetTask> {
        all(|issues| {
            let history = count(params, "historyLength", issues);
            Some(GetTask { id: required_string(params, "id", issues)?, history })
        })
    }
}

impl ListTasks {
    pub(super) fn read(params: &Object<'_>) -> Result<ListTasks> {
        all(|issues| {
            let page_size = field(params, "pageSize").and_then(|value| {
                let path = value.path.clone();
                let size = integer(&value, issues)?;
                if !(1..=PAGE_MAX).contains(&size) {
                    issues.add(path, "invalid_value", format!("a page holds 1 to {PAGE_MAX} tasks, got {size}"));
                }
                usize::try_from(size).ok()
            });
            let status = field(params, "status").filter(|value| value.raw.get() != "\"\"");
            let status = status.and_then(|value| state(value, issues));
            let changed_since = field(params, "statusTimestampAfter").and_then(|value| {
                let path = value.path.clone();
                let text = value.string(issues)?;
                let moment = Timestamp::parse(&text);
                if moment.is_none() {
                    issues.add(path, "invalid_value", "expected a time with its zone, such as 2027-10-27T10:00:00Z");
                }
                moment
            });
            Some(ListTasks {
                context_id: string(params, "contextId", issues),
                status: status.unwrap_or(StatusFilter::Any),
                page_size: page_size.unwrap_or(50),
                page_token: string(params, "pageToken", issues),
                history: count(params, "historyLength", issues).unwrap_or(0),
                changed_since,
                artifacts: boolean(params, "includeArtifacts", issues),
            })
        })
    }
}

impl CancelTask {
    pub(super) fn read(params: &Object<'_>) -> Result<CancelTask> {
        all(|issues| {
            let metadata = Metadata::read(params, issues);
            Some(CancelTask { id: required_string(params, "id", issues)?, metadata })
        })
    }
}

/// The `id` of `SubscribeToTaskRequest`.
pub(super) fn subscribed_task(params: &Object<'_>) -> Result<String> {
    all(|issues| required_string(params, "id", issues))
}

impl CreatePushConfig {
    pub(super) fn read(params: &Object<'_>) -> Result<CreatePushConfig> {
        all(|issues| {
            let task_id = required_string(params, "taskId", issues);
            let webhook = webhook_of(params, issues);
            Some(CreatePushConfig { task_id: task_id?, webhook: webhook? })
        })
    }
}

impl PushConfigName {
    pub(super) fn read(params: &Object<'_>) -> Result<PushConfigName> {
        all(|issues| {
            let task_id = required_string(params, "taskId", issues);
            let id = required_string(params, "id", issues);
            Some(PushConfigName { task_id: task_id?, id: id? })
        })
    }
}

/// The `taskId` of `ListTaskPushNotificationConfigsRequest`. All of a task's configs are one page.
pub(super) fn listed_task(params: &Object<'_>) -> Result<String> {
    all(|issues| {
        let size = field(params, "pageSize").and_then(|value| integer(&value, issues));
        if size.is_some_and(|size| size < 0) {
            issues.add(params.at("pageSize"), "too_small", "must not be negative");
        }
        string(params, "pageToken", issues);
        required_string(params, "taskId", issues)
    })
}

/// The `tenant` of any request.
pub(super) fn tenant(params: &Object<'_>) -> Result<Option<String>> {
    all(|issues| Some(string(params, "tenant", issues)))
}

/// A message of a client.
fn draft(message: &Object<'_>, modes: &[String], issues: &mut Issues) -> Option<Draft> {
    let message_id = required(message, "messageId", issues).and_then(|value| value.name(ID_MAX, issues));
    if let Some(role) = required(message, "role", issues) {
        match role.raw.get() {
            r#""ROLE_USER""# | "1" => {}
            _ => issues.add(role.path, "invalid_value", "a client's message has the role ROLE_USER"),
        }
    }
    let extensions = names(message, "extensions", issues);
    let reference_task_ids = names(message, "referenceTaskIds", issues);
    let payload = field(message, "metadata").and_then(|value| {
        let document = value.document();
        value.object(issues).map(|_| document)
    });
    let parts = parts(message, issues);
    let envelope = envelope(&message_id?, &extensions, &reference_task_ids, modes);
    Some(Draft { role: None, parts: parts?, payload, envelope })
}

/// What A2A says around a message, as the thread keeps it.
fn envelope(
    message_id: &str,
    extensions: &[String],
    reference_task_ids: &[String],
    accepted_output_modes: &[String],
) -> Option<Document> {
    #[derive(serde::Serialize)]
    struct Envelope<'a> {
        message_id: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        extensions: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        reference_task_ids: &'a [String],
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        accepted_output_modes: &'a [String],
    }
    to_raw_value(&Envelope { message_id, extensions, reference_task_ids, accepted_output_modes }).ok()
}

/// Parts as the thread keeps them: with their `type`, everything else as it came.
fn parts(message: &Object<'_>, issues: &mut Issues) -> Option<Parts> {
    let value = required(message, "parts", issues)?;
    let path = value.path.clone();
    let elements = value.array(PARTS_MAX, issues)?;
    if elements.is_empty() {
        issues.add(path, "too_small", "at least one part is required");
        return None;
    }
    let mut texts = Vec::new();
    let mut documents = Vec::with_capacity(elements.len());
    for element in elements {
        let Some(kept) = element.object(issues).and_then(|part| kept_part(&part, &mut texts, issues)) else {
            continue;
        };
        documents.push(kept);
    }
    let is_plain = matches!(&*documents, [only] if only.plain);
    let body = texts.join("\n");
    let documents = documents.into_iter().filter_map(|kept| RawValue::from_string(kept.json).ok());
    Some(Parts { body, documents: if is_plain { None } else { Some(documents.collect()) } })
}

/// A part on its way into the thread.
struct KeptPart {
    json: String,
    /// Whether it is nothing but text.
    plain: bool,
}

/// The four kinds of content, each named by the member that holds it.
const CONTENTS: [&str; 4] = ["text", "raw", "url", "data"];

fn kept_part(part: &Object<'_>, texts: &mut Vec<String>, issues: &mut Issues) -> Option<KeptPart> {
    // `null` is a value where there is no other: protobuf's Value has a null.
    let held: Vec<&str> = CONTENTS.into_iter().filter(|kind| part.optional(kind).is_some()).collect();
    let kind = match *held {
        [kind] => kind,
        [] if part.member("data").is_some() => "data",
        _ => {
            let message = format!("a part holds exactly one of {}", CONTENTS.join(", "));
            issues.add(part.path(), "invalid_value", message);
            return None;
        }
    };
    let content = part.member(kind)?;
    let raw = content.raw;
    let held = match kind {
        "text" => {
            texts.push(content.string(issues)?.into_owned());
            raw.get().to_owned()
        }
        "raw" => base64(content, issues)?,
        "url" => {
            content.name(usize::MAX, issues)?;
            raw.get().to_owned()
        }
        _ => raw.get().to_owned(),
    };
    let mut json = format!(r#"{{"type":"{kind}","{kind}":{held}"#);
    let mut plain = kind == "text";
    for (name, kept_name) in [("mediaType", "media_type"), ("filename", "filename")] {
        if let Some(value) = text(part, name, issues) {
            json.extend([",\"", kept_name, "\":", value.get()]);
            plain = false;
        }
    }
    if let Some(value) = field(part, "metadata") {
        json.extend([r#","metadata":"#, value.raw.get()]);
        plain = false;
        value.object(issues)?;
    }
    json.push('}');
    Some(KeptPart { json, plain })
}

/// Bytes as ProtoJSON takes them, standard or URL-safe, with padding or without; kept in the standard form with padding.
fn base64(value: Value<'_>, issues: &mut Issues) -> Option<String> {
    let path = value.path.clone();
    let text = value.string(issues)?;
    if is_base64(&text) {
        return Some(format!("\"{text}\""));
    }
    let decoded = [&BASE64URL, &BASE64_NOPAD, &BASE64URL_NOPAD]
        .into_iter()
        .find_map(|encoding| encoding.decode(text.as_bytes()).ok())
        .filter(|_| !text.trim_end_matches('=').contains('='));
    if decoded.is_none() {
        issues.add(path, "invalid_value", "expected base64 (RFC 4648)");
    }
    decoded.map(|bytes| format!("\"{}\"", BASE64.encode(&bytes)))
}

/// A push config's webhook.
fn webhook_of(config: &Object<'_>, issues: &mut Issues) -> Option<NewWebhook> {
    let name = id(config, "id", issues);
    let url = required_string(config, "url", issues);
    let token = string(config, "token", issues).map(Secret::new);
    let authentication = field(config, "authentication").and_then(|value| value.object(issues));
    let authentication = authentication.and_then(|authentication| {
        let credentials = string(&authentication, "credentials", issues).map(Secret::new);
        Some(Authentication { scheme: required_string(&authentication, "scheme", issues)?, credentials })
    });
    let webhook = NewWebhook { name, target: Target { url: url?, token, authentication } };
    webhook.check(&config.path(), issues);
    Some(webhook)
}

/// The names of `TaskState`, in the order of their numbers. Unspecified is no filter; none of our threads ever waits for
/// authentication.
const STATES: [(&str, StatusFilter); 9] = [
    ("TASK_STATE_UNSPECIFIED", StatusFilter::Any),
    ("TASK_STATE_SUBMITTED", StatusFilter::Is(State::Pending)),
    ("TASK_STATE_WORKING", StatusFilter::Is(State::Accepted)),
    ("TASK_STATE_COMPLETED", StatusFilter::Is(State::Completed)),
    ("TASK_STATE_FAILED", StatusFilter::Is(State::Failed)),
    ("TASK_STATE_CANCELED", StatusFilter::Is(State::Cancelled)),
    ("TASK_STATE_INPUT_REQUIRED", StatusFilter::Is(State::InputRequired)),
    ("TASK_STATE_REJECTED", StatusFilter::Is(State::Rejected)),
    ("TASK_STATE_AUTH_REQUIRED", StatusFilter::Never),
];

fn state(value: Value<'_>, issues: &mut Issues) -> Option<StatusFilter> {
    let path = value.path.clone();
    // In a query a number is text.
    let number = value.raw.get().trim_matches('"').parse::<usize>().ok();
    let name = value.string(&mut Issues::default()).unwrap_or_default();
    let found = match number {
        Some(number) => STATES.get(number),
        None => STATES.iter().find(|(known, _)| *known == name),
    };
    if found.is_none() {
        let names: Vec<&str> = STATES.iter().map(|(name, _)| *name).collect();
        issues.add(path, "invalid_value", format!("a status is one of {}", names.join(", ")));
    }
    found.map(|(_, filter)| *filter)
}

/// The member `key`, by its name in camel case or as in the Protocol Buffer definition.
pub(super) fn field<'a>(object: &Object<'a>, key: &str) -> Option<Value<'a>> {
    object.optional(key).or_else(|| {
        let snake = snake_case(key)?;
        object.optional(&snake)
    })
}

fn snake_case(key: &str) -> Option<String> {
    if !key.contains(|character: char| character.is_ascii_uppercase()) {
        return None;
    }
    let mut snake = String::with_capacity(key.len() + 4);
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    Some(snake)
}

fn required<'a>(object: &Object<'a>, key: &str, issues: &mut Issues) -> Option<Value<'a>> {
    let value = field(object, key);
    if value.is_none() {
        issues.add(object.at(key), "invalid_type", "required");
    }
    value
}

/// The text of the member `key`; empty means absent.
pub(super) fn string(object: &Object<'_>, key: &str, issues: &mut Issues) -> Option<String> {
    let text = field(object, key)?.string(issues)?;
    Some(text.into_owned()).filter(|text| !text.is_empty())
}

fn required_string(object: &Object<'_>, key: &str, issues: &mut Issues) -> Option<String> {
    let before = issues.len();
    let text = string(object, key, issues);
    if text.is_none() && issues.len() == before {
        issues.add(object.at(key), "invalid_type", "required");
    }
    text
}

/// An id that the client chose.
fn id(object: &Object<'_>, key: &str, issues: &mut Issues) -> Option<String> {
    let text = string(object, key, issues)?;
    if text.chars().count() > ID_MAX {
        issues.add(object.at(key), "too_big", format!("at most {ID_MAX} characters are taken"));
        return None;
    }
    Some(text)
}

/// The member `key` as it came, when it is text; empty means absent.
fn text<'a>(object: &Object<'a>, key: &str, issues: &mut Issues) -> Option<&'a RawValue> {
    let value = field(object, key)?;
    let raw = value.raw;
    value.string(issues).filter(|text| !text.is_empty()).map(|_| raw)
}

fn names(object: &Object<'_>, key: &str, issues: &mut Issues) -> Vec<String> {
    let elements = field(object, key).and_then(|value| value.array(NAMES_MAX, issues)).unwrap_or_default();
    elements
        .into_iter()
        .filter_map(|element| element.name(usize::MAX, issues))
        .map(std::borrow::Cow::into_owned)
        .collect()
}

fn boolean(object: &Object<'_>, key: &str, issues: &mut Issues) -> bool {
    field(object, key).and_then(|value| value.boolean(issues)).unwrap_or(false)
}

/// A whole number, also as text.
fn integer(value: &Value<'_>, issues: &mut Issues) -> Option<i64> {
    let (path, raw) = (value.path.clone(), value.raw.get());
    let number = match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => text.parse::<i32>().ok().map(i64::from),
        // 3.0 and 3e0 are whole too.
        None => serde_json::from_str::<f64>(raw).ok().filter(|number| number.fract() == 0.0).and_then(in_32_bits),
    };
    if number.is_none() {
        issues.add(path, "invalid_type", "expected a whole number of 32 bits");
    }
    number
}

fn in_32_bits(number: f64) -> Option<i64> {
    let range = f64::from(i32::MIN)..=f64::from(i32::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    range.contains(&number).then_some(number as i64)
}

/// A number of messages.
fn count(object: &Object<'_>, key: &str, issues: &mut Issues) -> Option<usize> {
    let value = field(object, key)?;
    let number = integer(&value, issues)?;
    let count = usize::try_from(number).ok();
    if count.is_none() {
        issues.add(value.path, "too_small", format!("must not be negative, got {number}"));
    }
    count
}
