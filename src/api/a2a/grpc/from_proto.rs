//! Requests in the generated types, brought to the form that they have in the JSON bindings.

use a2a_pb::proto as pb;
use a2a_pb::proto::part::Content;
use data_encoding::BASE64;
use prost_types::value::Kind;
use serde_json::{Map, Number, Value, json};

use crate::domain::json::{Path, issue};
use crate::domain::time::Timestamp;
use crate::error::{Error, Result};

/// Above this, not every whole number is a double: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn send_message(request: &pb::SendMessageRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    put(&mut params, "message", request.message.as_ref().map(message).transpose()?);
    put(&mut params, "metadata", structure(request.metadata.as_ref())?);
    if let Some(configuration) = &request.configuration {
        let mut given = Map::new();
        given.insert("acceptedOutputModes".to_owned(), json!(configuration.accepted_output_modes));
        given.insert("returnImmediately".to_owned(), json!(configuration.return_immediately));
        put(&mut given, "historyLength", configuration.history_length.map(Value::from));
        let push = configuration.task_push_notification_config.as_ref();
        put(&mut given, "taskPushNotificationConfig", push.map(push_config));
        params.insert("configuration".to_owned(), given.into());
    }
    Ok(params.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings, which may fail")]
pub(super) fn get_task(request: &pb::GetTaskRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    params.insert("id".to_owned(), json!(request.id));
    put(&mut params, "historyLength", request.history_length.map(Value::from));
    Ok(params.into())
}

pub(super) fn list_tasks(request: &pb::ListTasksRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    params.insert("contextId".to_owned(), json!(request.context_id));
    params.insert("pageToken".to_owned(), json!(request.page_token));
    params.insert("status".to_owned(), json!(request.status));
    put(&mut params, "pageSize", request.page_size.map(Value::from));
    put(&mut params, "historyLength", request.history_length.map(Value::from));
    put(&mut params, "includeArtifacts", request.include_artifacts.map(Value::from));
    let after = request.status_timestamp_after.as_ref().map(moment).transpose()?;
    put(&mut params, "statusTimestampAfter", after.map(|after| json!(after)));
    Ok(params.into())
}

pub(super) fn cancel_task(request: &pb::CancelTaskRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    params.insert("id".to_owned(), json!(request.id));
    put(&mut params, "metadata", structure(request.metadata.as_ref())?);
    Ok(params.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings, which may fail")]
pub(super) fn subscribe_to_task(request: &pb::SubscribeToTaskRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    params.insert("id".to_owned(), json!(request.id));
    Ok(params.into())
}

pub(super) fn push_config(config: &pb::TaskPushNotificationConfig) -> Value {
    let mut params = with_tenant(&config.tenant);
    params.insert("id".to_owned(), json!(config.id));
    params.insert("taskId".to_owned(), json!(config.task_id));
    params.insert("url".to_owned(), json!(config.url));
    params.insert("token".to_owned(), json!(config.token));
    let authentication = config.authentication.as_ref();
    let authentication =
        authentication.map(|given| json!({ "scheme": given.scheme, "credentials": given.credentials }));
    put(&mut params, "authentication", authentication);
    params.into()
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings, which may fail")]
pub(super) fn push_config_name(tenant: &str, task_id: &str, id: &str) -> Result<Value> {
    let mut params = with_tenant(tenant);
    params.insert("taskId".to_owned(), json!(task_id));
    params.insert("id".to_owned(), json!(id));
    Ok(params.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings, which may fail")]
pub(super) fn list_push_configs(request: &pb::ListTaskPushNotificationConfigsRequest) -> Result<Value> {
    let mut params = with_tenant(&request.tenant);
    params.insert("taskId".to_owned(), json!(request.task_id));
    params.insert("pageSize".to_owned(), json!(request.page_size));
    params.insert("pageToken".to_owned(), json!(request.page_token));
    Ok(params.into())
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings, which may fail")]
pub(super) fn extended_card(request: &pb::GetExtendedAgentCardRequest) -> Result<Value> {
    Ok(with_tenant(&request.tenant).into())
}

fn with_tenant(tenant: &str) -> Map<String, Value> {
    Map::from_iter([("tenant".to_owned(), json!(tenant))])
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value);
    }
}

fn message(message: &pb::Message) -> Result<Value> {
    let mut object = Map::new();
    object.insert("messageId".to_owned(), json!(message.message_id));
    object.insert("contextId".to_owned(), json!(message.context_id));
    object.insert("taskId".to_owned(), json!(message.task_id));
    object.insert("role".to_owned(), json!(message.role));
    object.insert("parts".to_owned(), message.parts.iter().map(part).collect::<Result<_>>()?);
    object.insert("extensions".to_owned(), json!(message.extensions));
    object.insert("referenceTaskIds".to_owned(), json!(message.reference_task_ids));
    put(&mut object, "metadata", structure(message.metadata.as_ref())?);
    Ok(object.into())
}

fn part(part: &pb::Part) -> Result<Value> {
    let mut object = Map::new();
    let (kind, content) = match &part.content {
        Some(Content::Text(text)) => ("text", json!(text)),
        Some(Content::Raw(bytes)) => ("raw", json!(BASE64.encode(bytes))),
        Some(Content::Url(url)) => ("url", json!(url)),
        Some(Content::Data(data)) => ("data", value(data)?),
        None => return Ok(object.into()),
    };
    object.insert(kind.to_owned(), content);
    object.insert("filename".to_owned(), json!(part.filename));
    object.insert("mediaType".to_owned(), json!(part.media_type));
    put(&mut object, "metadata", structure(part.metadata.as_ref())?);
    Ok(object.into())
}

fn structure(given: Option<&prost_types::Struct>) -> Result<Option<Value>> {
    let Some(given) = given else {
        return Ok(None);
    };
    let members = given.fields.iter().map(|(key, member)| Ok((key.clone(), value(member)?)));
    Ok(Some(Value::Object(members.collect::<Result<_>>()?)))
}

/// A `google.protobuf.Value` knows doubles only; one that is a whole number is written as such, as `ProtoJSON` does.
fn value(given: &prost_types::Value) -> Result<Value> {
    Ok(match &given.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(truth)) => Value::Bool(*truth),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::NumberValue(number)) => Value::Number(self::number(*number)?),
        Some(Kind::StructValue(members)) => structure(Some(members))?.unwrap_or_default(),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(value).collect::<Result<_>>()?),
    })
}

fn number(number: f64) -> Result<Number> {
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| not_json("a number"))
}

fn not_json(what: &str) -> Error {
    issue(Path::root(), "invalid_value", format!("{what} that JSON does not know: not finite, or out of range"))
}

fn moment(given: &prost_types::Timestamp) -> Result<String> {
    let ms = given.seconds.checked_mul(1000).and_then(|ms| ms.checked_add(i64::from(given.nanos) / 1_000_000));
    let moment = ms.map(|ms| Timestamp::from_ms(ms).to_string()).filter(|text| Timestamp::parse(text).is_some());
    moment.ok_or_else(|| not_json("a time"))
}
