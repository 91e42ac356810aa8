//! Every way a request can fail: the symbol table, and the one error type of the crate.
//!
//! An [`Error`] says what happened in two voices: a symbol, a message and details for the caller, and a private source
//! for the log. The layers below `api` return it without knowing any transport; each dialect turns it into its own
//! envelope at the last step. Outside this file nobody writes an error's number.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

/// The stable name of a way to fail. Callers match on [`Symbol::name`]; messages may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// The body is not JSON.
    ParseError,
    /// JSON, but not a JSON-RPC 2.0 request; or an HTTP request that no route can take.
    InvalidRequest,
    /// The method or route does not exist.
    MethodNotFound,
    /// A parameter is missing, has the wrong type or is out of range. `details.issues` lists every problem.
    InvalidParams,
    /// No key, or one that is unknown, revoked or expired.
    Unauthenticated,
    /// A known caller who may not do this.
    Forbidden,
    /// Too many calls; `Retry-After` says how long to wait.
    RateLimited,
    /// No enabled agent has this handle.
    RecipientNotFound,
    /// The caller is neither sender nor recipient of the thread.
    NotAParticipant,
    /// No thread has this id.
    ThreadNotFound,
    /// The thread has ended: nothing can be added.
    ThreadTerminal,
    /// The transition does not start from the thread's state.
    InvalidTransition,
    /// The transition belongs to the other participant.
    NotAuthorizedTransition,
    /// Somebody else changed the thread first.
    StateChanged,
    /// The idempotency key was used with another payload.
    DuplicateIdempotencyKey,
    /// Intent and proposed action do not go together.
    InvalidIntentPayload,
    /// The other side has blocked the caller.
    TeammateBlocked,
    /// Anything unexpected. The request id leads to the log line.
    Internal,
}

/// One row of the error table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// JSON-RPC's `error.code`.
    pub rpc_code: i32,
    /// The HTTP status of a single call.
    pub http_status: u16,
    /// The symbol as callers see it.
    pub name: &'static str,
}

impl Symbol {
    /// All symbols, in the order of the table.
    pub const ALL: [Symbol; 18] = [
        Symbol::ParseError,
        Symbol::InvalidRequest,
        Symbol::MethodNotFound,
        Symbol::InvalidParams,
        Symbol::Unauthenticated,
        Symbol::Forbidden,
        Symbol::RateLimited,
        Symbol::RecipientNotFound,
        Symbol::NotAParticipant,
        Symbol::ThreadNotFound,
        Symbol::ThreadTerminal,
        Symbol::InvalidTransition,
        Symbol::NotAuthorizedTransition,
        Symbol::StateChanged,
        Symbol::DuplicateIdempotencyKey,
        Symbol::InvalidIntentPayload,
        Symbol::TeammateBlocked,
        Symbol::Internal,
    ];

    /// The error table.
    pub const fn row(self) -> Row {
        match self {
            Symbol::ParseError => row(-32700, 400, "parse_error"),
            Symbol::InvalidRequest => row(-32600, 400, "invalid_request"),
            Symbol::MethodNotFound => row(-32601, 404, "method_not_found"),
            Symbol::InvalidParams => row(-32602, 400, "invalid_params"),
            Symbol::Unauthenticated => row(-32001, 401, "unauthenticated"),
            Symbol::Forbidden => row(-32002, 403, "forbidden"),
            Symbol::RateLimited => row(-32003, 429, "rate_limited"),
            Symbol::RecipientNotFound => row(-32004, 404, "recipient_not_found"),
            Symbol::NotAParticipant => row(-32005, 403, "not_a_participant"),
            Symbol::ThreadNotFound => row(-32006, 404, "thread_not_found"),
            Symbol::ThreadTerminal => row(-32007, 409, "thread_terminal"),
            Symbol::InvalidTransition => row(-32008, 409, "invalid_transition"),
            Symbol::NotAuthorizedTransition => row(-32009, 403, "not_authorized_transition"),
            Symbol::StateChanged => row(-32010, 409, "state_changed"),
            Symbol::DuplicateIdempotencyKey => row(-32011, 409, "duplicate_idempotency_key"),
            Symbol::InvalidIntentPayload => row(-32012, 400, "invalid_intent_payload"),
            Symbol::TeammateBlocked => row(-32013, 403, "teammate_blocked"),
            Symbol::Internal => row(-32099, 500, "internal"),
        }
    }

    /// The symbol as callers see it, such as `thread_not_found`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }
}

const fn row(rpc_code: i32, http_status: u16, name: &'static str) -> Row {
    Row { rpc_code, http_status, name }
}

/// A refusal or a failure, on its way to the caller.
#[derive(Debug)]
pub struct Error(Box<Parts>);

#[derive(Debug)]
struct Parts {
    symbol: Symbol,
    message: Cow<'static, str>,
    details: Map<String, Value>,
    status: Option<u16>,
    retry_after_s: Option<u64>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// `Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal with its public message, which says what to do next.
    pub fn new(symbol: Symbol, message: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Parts {
            symbol,
            message: message.into(),
            details: Map::new(),
            status: None,
            retry_after_s: None,
            source: None,
        }))
    }

    /// An unexpected failure. The caller sees a fixed text; `source` goes to the log.
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let mut error = Error::new(
            Symbol::Internal,
            "The relay could not finish this request; retry, and look for the request id in its log if that fails",
        );
        error.0.source = Some(source.into());
        error
    }

    /// The body is larger than the relay takes.
    pub fn too_large(limit_bytes: usize) -> Error {
        Error::new(
            Symbol::InvalidRequest,
            format!("The body is larger than {limit_bytes} bytes; send less, or a link to the rest"),
        )
        .with_status(413)
    }

    /// The route exists, the HTTP method does not.
    pub fn method_not_allowed(method: &str, path: &str) -> Error {
        Error::new(
            Symbol::InvalidRequest,
            format!("{path} does not take {method}; the Allow header lists what it takes"),
        )
        .with_status(405)
    }

    /// The relay runs but its file cannot be used.
    pub fn unavailable(mut failure: Error) -> Error {
        failure.0.symbol = Symbol::Internal;
        failure.0.message = "The data file cannot be read and written now; see the relay's log".into();
        failure.with_status(503)
    }

    /// The relay stops; whoever waits comes back when it runs again.
    pub fn stopping() -> Error {
        Error::new(Symbol::Internal, "The relay is stopping; go on when it runs again").with_status(503)
    }

    /// Adds an entry to `details`.
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Error {
        self.0.details.insert(key.to_owned(), value.into());
        self
    }

    /// Tells the caller when to come back. Never 0.
    pub fn with_retry_after(mut self, seconds: u64) -> Error {
        self.0.retry_after_s = Some(seconds.max(1));
        self
    }

    fn with_status(mut self, status: u16) -> Error {
        self.0.status = Some(status);
        self
    }

    /// The stable name.
    pub fn symbol(&self) -> Symbol {
        self.0.symbol
    }

    /// The public sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Structured context; empty when there is none.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// The problems with the parameters: where, and what.
    pub fn issues(&self) -> impl Iterator<Item = (String, String)> {
        let issues = self.0.details.get("issues").and_then(Value::as_array).into_iter().flatten();
        issues.map(|issue| {
            let segments = issue["path"].as_array().into_iter().flatten();
            let path = segments.fold(String::new(), |path, segment| match segment {
                Value::String(key) if path.is_empty() => key.clone(),
                Value::String(key) => format!("{path}.{key}"),
                index => format!("{path}[{index}]"),
            });
            (path, issue["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// The HTTP status: the table's, but for the few answers that HTTP itself defines (405, 413, 503).
    pub fn http_status(&self) -> u16 {
        self.0.status.unwrap_or(self.0.symbol.row().http_status)
    }

    /// Seconds for the `Retry-After` header.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.0.retry_after_s
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}
