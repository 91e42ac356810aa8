//! A2A's errors (A2A v1.0.1, sections 3.3.2 and 5.4), and how everything that a relay may refuse looks in each binding.
//!
//! The nine errors of A2A are one table. What is not A2A's own (a missing key, a block, the rate limit) has the native
//! status of its binding, with our symbol as the reason. Outside this file no A2A code writes an error's number.

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Error, Symbol};

/// The domain of A2A's own errors, and of ours, in `google.rpc.ErrorInfo`.
const DOMAIN: &str = "a2a-protocol.org";
const OWN_DOMAIN: &str = "agentrelay";

/// An error that A2A defines. Some of the nine do not occur here: the relay has push notifications and an extended card, and
/// requires no extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TaskNotFound,
    TaskNotCancelable,
    #[cfg_attr(not(test), expect(dead_code, reason = "of the table; it does not occur here"))]
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    #[cfg_attr(not(test), expect(dead_code, reason = "of the table; it does not occur here"))]
    InvalidAgentResponse,
    #[cfg_attr(not(test), expect(dead_code, reason = "of the table; it does not occur here"))]
    ExtendedAgentCardNotConfigured,
    #[cfg_attr(not(test), expect(dead_code, reason = "of the table; it does not occur here"))]
    ExtensionSupportRequired,
    VersionNotSupported,
}

/// One row of the table.
pub(super) struct Row {
    pub(super) rpc_code: i32,
    pub(super) status: Status,
    pub(super) http_status: u16,
    pub(super) reason: &'static str,
}

/// The canonical statuses (google.rpc.Code) that occur here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
}

impl Status {
    /// The name in `google.rpc.Status`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Status::InvalidArgument => "INVALID_ARGUMENT",
            Status::NotFound => "NOT_FOUND",
            Status::AlreadyExists => "ALREADY_EXISTS",
            Status::PermissionDenied => "PERMISSION_DENIED",
            Status::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Status::FailedPrecondition => "FAILED_PRECONDITION",
            Status::Aborted => "ABORTED",
            Status::Unimplemented => "UNIMPLEMENTED",
            Status::Internal => "INTERNAL",
            Status::Unavailable => "UNAVAILABLE",
            Status::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl Kind {
    /// The nine, in the order of the specification's table.
    #[cfg(test)]
    pub(super) const ALL: [Kind; 9] = [
        Kind::TaskNotFound,
        Kind::TaskNotCancelable,
        Kind::PushNotificationNotSupported,
        Kind::UnsupportedOperation,
        Kind::ContentTypeNotSupported,
        Kind::InvalidAgentResponse,
        Kind::ExtendedAgentCardNotConfigured,
        Kind::ExtensionSupportRequired,
        Kind::VersionNotSupported,
    ];

    /// The table.
    #[rustfmt::skip]
    pub(super) const fn row(self) -> Row {
        match self {
            Kind::TaskNotFound                   => row(-32001, Status::NotFound,           404, "TASK_NOT_FOUND"),
            Kind::TaskNotCancelable              => row(-32002, Status::FailedPrecondition, 400, "TASK_NOT_CANCELABLE"),
            Kind::PushNotificationNotSupported   => row(-32003, Status::FailedPrecondition, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
            Kind::UnsupportedOperation           => row(-32004, Status::FailedPrecondition, 400, "UNSUPPORTED_OPERATION"),
            Kind::ContentTypeNotSupported        => row(-32005, Status::InvalidArgument,    400, "CONTENT_TYPE_NOT_SUPPORTED"),
            Kind::InvalidAgentResponse           => row(-32006, Status::Internal,           500, "INVALID_AGENT_RESPONSE"),
            Kind::ExtendedAgentCardNotConfigured => row(-32007, Status::FailedPrecondition, 400, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
            Kind::ExtensionSupportRequired       => row(-32008, Status::FailedPrecondition, 400, "EXTENSION_SUPPORT_REQUIRED"),
            Kind::VersionNotSupported            => row(-32009, Status::FailedPrecondition, 400, "VERSION_NOT_SUPPORTED"),
        }
    }
}

const fn row(rpc_code: i32, status: Status, http_status: u16, reason: &'static str) -> Row {
    Row { rpc_code, status, http_status, reason }
}

/// A refusal on its way to an A2A client.
#[derive(Debug)]
pub(super) enum Failure {
    /// One of A2A's own.
    A2a(Kind, String),
    /// One of the relay's. Some of these are A2A's by another name.
    Relay(Error),
}

impl From<Error> for Failure {
    /// The same failure, by A2A's name where it has one. One text for a missing task and for another's: a stranger's
    /// answer is the same, byte for byte.
    fn from(error: Error) -> Failure {
        match error.symbol() {
            Symbol::ThreadNotFound | Symbol::NotAParticipant => Failure::task_not_found(),
            Symbol::ThreadTerminal => Failure::A2a(Kind::UnsupportedOperation, error.message().to_owned()),
            Symbol::InvalidTransition => Failure::A2a(Kind::TaskNotCancelable, error.message().to_owned()),
            Symbol::ParseError
            | Symbol::InvalidRequest
            | Symbol::MethodNotFound
            | Symbol::InvalidParams
            | Symbol::Unauthenticated
            | Symbol::Forbidden
            | Symbol::RateLimited
            | Symbol::RecipientNotFound
            | Symbol::NotAuthorizedTransition
            | Symbol::StateChanged
            | Symbol::DuplicateIdempotencyKey
            | Symbol::InvalidIntentPayload
            | Symbol::TeammateBlocked
            | Symbol::Internal => Failure::Relay(error),
        }
    }
}

/// A refusal's field, for `google.rpc.BadRequest`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Violation {
    pub(super) field: String,
    pub(super) description: String,
}

impl Failure {
    /// No such task, or none of the caller's with this agent.
    pub(super) fn task_not_found() -> Failure {
        Failure::A2a(
            Kind::TaskNotFound,
            "No task of yours with this agent has this id; ListTasks shows those".to_owned(),
        )
    }

    /// The public sentence.
    pub(super) fn message(&self) -> &str {
        match self {
            Failure::A2a(_, message) => message,
            Failure::Relay(error) => error.message(),
        }
    }

    /// The canonical status, which is gRPC's.
    pub(super) fn status(&self) -> Status {
        let error = match self {
            Failure::A2a(kind, _) => return kind.row().status,
            Failure::Relay(error) => error,
        };
        match error.symbol() {
            Symbol::ParseError | Symbol::InvalidRequest | Symbol::InvalidParams | Symbol::InvalidIntentPayload => {
                Status::InvalidArgument
            }
            Symbol::MethodNotFound => Status::Unimplemented,
            Symbol::Unauthenticated => Status::Unauthenticated,
            Symbol::Forbidden | Symbol::TeammateBlocked | Symbol::NotAuthorizedTransition | Symbol::NotAParticipant => {
                Status::PermissionDenied
            }
            Symbol::RateLimited => Status::ResourceExhausted,
            Symbol::RecipientNotFound | Symbol::ThreadNotFound => Status::NotFound,
            Symbol::ThreadTerminal | Symbol::InvalidTransition => Status::FailedPrecondition,
            Symbol::StateChanged => Status::Aborted,
            Symbol::DuplicateIdempotencyKey => Status::AlreadyExists,
            Symbol::Internal if error.http_status() == 503 => Status::Unavailable,
            Symbol::Internal => Status::Internal,
        }
    }

    /// The HTTP status in the HTTP+JSON binding.
    pub(super) fn http_status(&self) -> u16 {
        match self {
            Failure::A2a(kind, _) => kind.row().http_status,
            Failure::Relay(error) => error.http_status(),
        }
    }

    /// `error.code` in the JSON-RPC binding: A2A's, JSON-RPC's own, or the one code for what neither of them knows.
    pub(super) fn rpc_code(&self) -> i32 {
        const OTHER: i32 = -32000;
        const INTERNAL: i32 = -32603;
        let symbol = match self {
            Failure::A2a(kind, _) => return kind.row().rpc_code,
            Failure::Relay(error) => error.symbol(),
        };
        match symbol {
            Symbol::ParseError | Symbol::InvalidRequest | Symbol::MethodNotFound | Symbol::InvalidParams => {
                symbol.row().rpc_code
            }
            Symbol::InvalidIntentPayload => Symbol::InvalidParams.row().rpc_code,
            Symbol::Internal => INTERNAL,
            _ => OTHER,
        }
    }

    /// The HTTP status of a JSON-RPC answer: an error is an answer, unless HTTP itself has something to say, as it has of
    /// keys, waiting and sizes.
    pub(super) fn rpc_http_status(&self) -> u16 {
        match self {
            Failure::Relay(error)
                if matches!(error.symbol(), Symbol::Unauthenticated | Symbol::Forbidden | Symbol::RateLimited)
                    || matches!(error.http_status(), 405 | 413 | 500 | 503) =>
            {
                error.http_status()
            }
            _ => 200,
        }
    }

    /// The reason and its domain. Wrong parameters have the reason by which the official SDKs know them: without it their
    /// clients over HTTP+JSON and gRPC could not tell them from other failures.
    pub(super) fn reason(&self) -> (&'static str, &'static str) {
        match self {
            Failure::A2a(kind, _) => (kind.row().reason, DOMAIN),
            Failure::Relay(error) if error.symbol() == Symbol::InvalidParams => ("INVALID_PARAMS", DOMAIN),
            Failure::Relay(error) => (error.symbol().name(), OWN_DOMAIN),
        }
    }

    /// What else is known, as text: `google.rpc.ErrorInfo` holds nothing else.
    pub(super) fn metadata(&self) -> Vec<(&str, String)> {
        let Failure::Relay(error) = self else {
            return Vec::new();
        };
        let details = error.details().iter().filter(|(key, _)| *key != "issues");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        details.map(|(key, value)| (key.as_str(), text(value))).collect()
    }

    /// The fields that are wrong.
    pub(super) fn violations(&self) -> Vec<Violation> {
        match self {
            Failure::Relay(error) => {
                let violation = |(field, description)| Violation { field: a2a_name(field), description };
                error.issues().map(violation).collect()
            }
            Failure::A2a(..) => Vec::new(),
        }
    }

    /// The details, in the JSON form of `google.protobuf.Any`.
    pub(super) fn details(&self) -> Vec<Value> {
        let (reason, domain) = self.reason();
        let mut info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": domain,
        });
        let metadata = self.metadata();
        if !metadata.is_empty() {
            info["metadata"] = metadata.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text))).collect();
        }
        let mut details = vec![info];
        let violations = self.violations();
        if !violations.is_empty() {
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": violations,
            }));
        }
        details
    }

    /// Seconds after which another try may succeed.
    pub(super) fn retry_after_s(&self) -> Option<u64> {
        match self {
            Failure::Relay(error) => error.retry_after_s(),
            Failure::A2a(..) => None,
        }
    }

    /// Whether the caller did not say who it is.
    pub(super) fn is_unauthenticated(&self) -> bool {
        matches!(self, Failure::Relay(error) if error.symbol() == Symbol::Unauthenticated)
    }

    /// Whether it is only what the relay's log should say more about.
    pub(super) fn source(&self) -> Option<&Error> {
        match self {
            Failure::Relay(error) => Some(error),
            Failure::A2a(..) => None,
        }
    }
}

/// A2A's name for a place that the relay has named: what only the relay finds out is said of a webhook.
fn a2a_name(field: String) -> String {
    match &*field {
        "name" => "id".to_owned(),
        "webhook.name" => "configuration.taskPushNotificationConfig.id".to_owned(),
        _ => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::a2a::documented;

    #[test]
    fn the_table_is_the_documented_one() {
        let table = Kind::ALL.map(|kind| {
            let row = kind.row();
            let (code, status) = (row.rpc_code.to_string(), row.status.name().to_owned());
            vec![format!("{kind:?}Error"), code, status, row.http_status.to_string(), row.reason.to_owned()]
        });
        assert_eq!(documented::table("a2a_errors"), table);
    }

    #[test]
    fn what_is_not_a2as_own_is_as_documented() {
        let documented = documented::table("native_errors");
        for symbol in Symbol::ALL {
            let failure = Failure::from(Error::new(symbol, "a refusal"));
            let row = documented.iter().find(|row| row[0] == symbol.name());
            if matches!(failure, Failure::A2a(..)) {
                assert!(row.is_none(), "{symbol:?} is one of A2A's");
                continue;
            }
            // A call that only one side may make is refused at the door.
            if symbol == Symbol::NotAuthorizedTransition {
                continue;
            }
            let status = failure.status().name();
            let shown = [symbol.name(), &failure.rpc_code().to_string(), status, &failure.http_status().to_string()];
            assert_eq!(row.map(Vec::as_slice).unwrap_or_default(), shown, "{symbol:?}");
        }
    }

    #[test]
    fn a_reason_is_the_errors_name_in_upper_snake_case() {
        for kind in Kind::ALL {
            let name = format!("{kind:?}");
            let mut snake = String::new();
            for character in name.chars() {
                if character.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.extend(character.to_uppercase());
            }
            assert_eq!(kind.row().reason, snake);
        }
    }
}
