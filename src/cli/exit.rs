//! Exit codes: how a script knows what went wrong without reading it.

use std::process::ExitCode;

use crate::error::Symbol;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Something failed, here or outside.
    Failure = 1,
    /// The command line, a setting or a value in it is wrong.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// The caller may not do this.
    NotAllowed = 4,
    /// Something else is there already, or was faster.
    Conflict = 5,
    /// The same command may succeed later (`EX_TEMPFAIL`).
    TryLater = 75,
}

impl Exit {
    /// The exit code of a symbol.
    pub const fn of(symbol: Symbol) -> Exit {
        match symbol {
            Symbol::ParseError | Symbol::InvalidRequest | Symbol::InvalidParams | Symbol::InvalidIntentPayload => {
                Exit::Usage
            }
            Symbol::MethodNotFound | Symbol::RecipientNotFound | Symbol::ThreadNotFound => Exit::NotFound,
            Symbol::Unauthenticated
            | Symbol::Forbidden
            | Symbol::NotAParticipant
            | Symbol::NotAuthorizedTransition
            | Symbol::TeammateBlocked => Exit::NotAllowed,
            Symbol::ThreadTerminal
            | Symbol::InvalidTransition
            | Symbol::StateChanged
            | Symbol::DuplicateIdempotencyKey => Exit::Conflict,
            Symbol::RateLimited => Exit::TryLater,
            Symbol::Internal => Exit::Failure,
        }
    }

    /// The name in a JSON error that has no symbol of the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Exit::Failure => "failure",
            Exit::Usage => "usage",
            Exit::NotFound => "not_found",
            Exit::NotAllowed => "not_allowed",
            Exit::Conflict => "conflict",
            Exit::TryLater => "try_later",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
