//! The gRPC binding (A2A v1.0.1, section 10), on the same port: the service of `a2a.proto`, whose types crate `a2a-pb` has.
//!
//! A request is brought to the JSON form that the one reader of requests takes, and what it comes to is turned into the
//! generated types. An agent is named by a request's `tenant`; without one it is the data file's default agent.

mod from_proto;
mod to_proto;

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use a2a_pb::proto as pb;
use a2a_pb::proto::a2a_service_server::{A2aService, A2aServiceServer};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;
use tonic::codegen::Service as _;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status as GrpcStatus};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::api::a2a::error::{Failure, Status};
use crate::api::a2a::stream::{Element, TaskStream};
use crate::api::a2a::{Door, Operation, Outcome, admit, no_agent, version};
use crate::api::request::{RequestId, log_source};
use crate::api::{App, BODY_MAX, caller};
use crate::domain::agent::Handle;
use crate::domain::json::{DEPTH_MAX, Issues, Value as JsonValue, check_fit};
use crate::error::{Error, Symbol};
use crate::relay::Caller;

type Answer<T> = Result<tonic::Response<T>, GrpcStatus>;

/// Authenticates a call and hands it to the generated service.
pub(in crate::api) async fn serve(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    request: Request,
) -> Response {
    // `application/grpc-web` and its like are something else.
    let is_grpc = |headers: &HeaderMap| {
        let given = headers.get(CONTENT_TYPE).and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"));
        given.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    if !is_grpc(request.headers()) {
        let message = "This is a gRPC service: call it with a gRPC client";
        let mut response = refusal(Error::new(Symbol::InvalidRequest, message), &request_id);
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let admitted = caller::authenticate(&app.relay, request.headers(), &request_id)
        .map_err(Failure::from)
        .and_then(|caller| Ok((admit(&app, &caller, request.headers(), request.uri().query())?, caller)));
    let (extension, caller) = match admitted {
        Ok(admitted) => admitted,
        Err(failure) => return status(&failure, &request_id).into_http::<Body>(),
    };
    let service = Service { app, caller, extension, request_id };
    let mut server = A2aServiceServer::new(service).max_decoding_message_size(BODY_MAX);
    let Ok(response) = server.call(request).await;
    response.into_response()
}

/// The answer to a request that did not get as far as its handler.
pub(in crate::api) fn refusal(error: Error, request_id: &str) -> Response {
    status(&error.into(), request_id).into_http::<Body>()
}

fn status(failure: &Failure, request_id: &str) -> GrpcStatus {
    if let Some(error) = failure.source() {
        log_source(error, request_id);
    }
    let (reason, domain) = failure.reason();
    let metadata: HashMap<String, String> =
        failure.metadata().into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
    let mut details = ErrorDetails::with_error_info(reason, domain, metadata);
    let violations = failure.violations();
    if !violations.is_empty() {
        let violations = violations.into_iter().map(|one| FieldViolation::new(one.field, one.description));
        details.set_bad_request(violations.collect::<Vec<_>>());
    }
    if let Some(seconds) = failure.retry_after_s() {
        details.set_retry_info(Some(Duration::from_secs(seconds)));
    }
    let code = match failure.status() {
        Status::InvalidArgument => Code::InvalidArgument,
        Status::NotFound => Code::NotFound,
        Status::AlreadyExists => Code::AlreadyExists,
        Status::PermissionDenied => Code::PermissionDenied,
        Status::ResourceExhausted => Code::ResourceExhausted,
        Status::FailedPrecondition => Code::FailedPrecondition,
        Status::Aborted => Code::Aborted,
        Status::Unimplemented => Code::Unimplemented,
        Status::Internal => Code::Internal,
        Status::Unavailable => Code::Unavailable,
        Status::Unauthenticated => Code::Unauthenticated,
    };
    GrpcStatus::with_error_details(code, failure.message(), details)
}

/// The service, for one call.
struct Service {
    app: App,
    caller: Caller,
    extension: bool,
    request_id: String,
}

impl Service {
    /// Performs an operation whose parameters are in the form of JSON; `tenant` among them names the agent.
    async fn perform(
        &self,
        operation: Operation,
        tenant: &str,
        params: Result<Value, Error>,
    ) -> Result<Outcome, GrpcStatus> {
        let performing = async {
            let document = serde_json::value::to_raw_value(&params?).map_err(Error::internal)?;
            // What the JSON bindings could not show is not taken here either.
            if check_fit(document.get().as_bytes()).is_err() {
                let message = format!("The message is nested deeper than {DEPTH_MAX}; flatten it");
                return Err(Error::new(Symbol::InvalidRequest, message).into());
            }
            let mut issues = Issues::default();
            let params = JsonValue::root(&document).object(&mut issues);
            let params = issues.take(params)?;
            let agent = self.agent(tenant).await?;
            let door = Door { app: self.app.clone(), caller: self.caller.clone(), agent, extension: self.extension };
            door.perform(operation, &params, None).await
        };
        performing.await.map_err(|failure| status(&failure, &self.request_id))
    }

    async fn agent(&self, tenant: &str) -> Result<Handle, Failure> {
        if tenant.is_empty() {
            let default = self.app.relay.default_agent().await?;
            return Ok(default.ok_or_else(|| no_agent(&"(the default one)"))?.handle);
        }
        Ok(Handle::parse(tenant).map_err(|_| no_agent(&tenant))?)
    }

    fn answer<T>(&self, message: T) -> tonic::Response<T> {
        let mut response = tonic::Response::new(message);
        if self.extension
            && let Ok(value) = MetadataValue::try_from(version::active_extension().as_bytes())
        {
            response.metadata_mut().insert("a2a-extensions", value);
        }
        response
    }

    fn unexpected(&self) -> GrpcStatus {
        status(&Error::internal("an operation came to another's outcome").into(), &self.request_id)
    }

    fn stream(&self, outcome: Outcome) -> Answer<Updates> {
        let Outcome::Stream(stream) = outcome else {
            return Err(self.unexpected());
        };
        let request_id = self.request_id.clone();
        let updates = stream::unfold(*stream, |mut stream: TaskStream| async move {
            let element = stream.next().await?;
            Some((element, stream))
        });
        let updates = updates.map(move |element| match element {
            Element::Response(response, _) => Ok(to_proto::stream_response(response)),
            Element::Cut(failure) => Err(status(&failure, &request_id)),
        });
        Ok(self.answer(Box::pin(updates) as Updates))
    }
}

type Updates = Pin<Box<dyn Stream<Item = Result<pb::StreamResponse, GrpcStatus>> + Send>>;

#[tonic::async_trait]
impl A2aService for Service {
    type SendStreamingMessageStream = Updates;
    type SubscribeToTaskStream = Updates;

    async fn send_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Answer<pb::SendMessageResponse> {
        let request = request.into_inner();
        let params = from_proto::send_message(&request);
        match self.perform(Operation::SendMessage, &request.tenant, params).await? {
            Outcome::Sent(sent) => Ok(self.answer(to_proto::sent(sent))),
            _ => Err(self.unexpected()),
        }
    }

    async fn send_streaming_message(&self, request: tonic::Request<pb::SendMessageRequest>) -> Answer<Updates> {
        let request = request.into_inner();
        let params = from_proto::send_message(&request);
        self.stream(self.perform(Operation::SendStreamingMessage, &request.tenant, params).await?)
    }

    async fn get_task(&self, request: tonic::Request<pb::GetTaskRequest>) -> Answer<pb::Task> {
        let request = request.into_inner();
        let params = from_proto::get_task(&request);
        match self.perform(Operation::GetTask, &request.tenant, params).await? {
            Outcome::Task(task) => Ok(self.answer(to_proto::task(*task))),
            _ => Err(self.unexpected()),
        }
    }

    async fn list_tasks(&self, request: tonic::Request<pb::ListTasksRequest>) -> Answer<pb::ListTasksResponse> {
        let request = request.into_inner();
        let params = from_proto::list_tasks(&request);
        match self.perform(Operation::ListTasks, &request.tenant, params).await? {
            Outcome::Tasks(tasks) => Ok(self.answer(to_proto::tasks(tasks))),
            _ => Err(self.unexpected()),
        }
    }

    async fn cancel_task(&self, request: tonic::Request<pb::CancelTaskRequest>) -> Answer<pb::Task> {
        let request = request.into_inner();
        let params = from_proto::cancel_task(&request);
        match self.perform(Operation::CancelTask, &request.tenant, params).await? {
            Outcome::Task(task) => Ok(self.answer(to_proto::task(*task))),
            _ => Err(self.unexpected()),
        }
    }

    async fn subscribe_to_task(&self, request: tonic::Request<pb::SubscribeToTaskRequest>) -> Answer<Updates> {
        let request = request.into_inner();
        let params = from_proto::subscribe_to_task(&request);
        self.stream(self.perform(Operation::SubscribeToTask, &request.tenant, params).await?)
    }

    async fn create_task_push_notification_config(
        &self,
        request: tonic::Request<pb::TaskPushNotificationConfig>,
    ) -> Answer<pb::TaskPushNotificationConfig> {
        let request = request.into_inner();
        let params = Ok(from_proto::push_config(&request));
        match self.perform(Operation::CreateTaskPushNotificationConfig, &request.tenant, params).await? {
            Outcome::Config(config) => Ok(self.answer(to_proto::push_config(config))),
            _ => Err(self.unexpected()),
        }
    }

    async fn get_task_push_notification_config(
        &self,
        request: tonic::Request<pb::GetTaskPushNotificationConfigRequest>,
    ) -> Answer<pb::TaskPushNotificationConfig> {
        let request = request.into_inner();
        let params = from_proto::push_config_name(&request.tenant, &request.task_id, &request.id);
        match self.perform(Operation::GetTaskPushNotificationConfig, &request.tenant, params).await? {
            Outcome::Config(config) => Ok(self.answer(to_proto::push_config(config))),
            _ => Err(self.unexpected()),
        }
    }

    async fn list_task_push_notification_configs(
        &self,
        request: tonic::Request<pb::ListTaskPushNotificationConfigsRequest>,
    ) -> Answer<pb::ListTaskPushNotificationConfigsResponse> {
        let request = request.into_inner();
        let params = from_proto::list_push_configs(&request);
        match self.perform(Operation::ListTaskPushNotificationConfigs, &request.tenant, params).await? {
            Outcome::Configs(configs) => Ok(self.answer(to_proto::push_configs(configs))),
            _ => Err(self.unexpected()),
        }
    }

    async fn get_extended_agent_card(
        &self,
        request: tonic::Request<pb::GetExtendedAgentCardRequest>,
    ) -> Answer<pb::AgentCard> {
        let request = request.into_inner();
        let params = from_proto::extended_card(&request);
        match self.perform(Operation::GetExtendedAgentCard, &request.tenant, params).await? {
            Outcome::Card(card) => Ok(self.answer(to_proto::card(*card))),
            _ => Err(self.unexpected()),
        }
    }

    async fn delete_task_push_notification_config(
        &self,
        request: tonic::Request<pb::DeleteTaskPushNotificationConfigRequest>,
    ) -> Answer<()> {
        let request = request.into_inner();
        let params = from_proto::push_config_name(&request.tenant, &request.task_id, &request.id);
        match self.perform(Operation::DeleteTaskPushNotificationConfig, &request.tenant, params).await? {
            Outcome::Deleted => Ok(self.answer(())),
            _ => Err(self.unexpected()),
        }
    }
}
