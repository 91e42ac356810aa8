//! Why a command failed, for the one who typed it.

use std::error::Error as StdError;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::Exit;
use crate::cli::console;
use crate::config::{Output, Unusable};
use crate::error::{Error, Symbol};

/// What SQLite says when another process kept the data file to itself for too long.
const LOCKED: &str = "database is locked";

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    causes: Vec<String>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, code: exit.name(), message: message.into(), details: Map::new(), causes: Vec::new() }
    }

    /// The command line or a setting is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// What was named does not exist.
    pub fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Exit::NotFound, message)
    }

    /// Adds what was behind it.
    #[must_use]
    pub fn because(mut self, cause: &(dyn StdError + 'static)) -> Failure {
        self.causes = causes(cause);
        self
    }

    /// Says what went wrong and returns how the program ends: a sentence for people on standard error, and for programs
    /// that asked for JSON a document on standard output.
    pub fn report(&self, output: Output) -> ExitCode {
        if output == Output::Json {
            self.print_document();
        }
        console::note(&format!("error: {}", self.message));
        for cause in &self.causes {
            console::note(&format!("  because: {cause}"));
        }
        self.exit.into()
    }

    pub(super) fn print_document(&self) {
        let document = Document { error: Body { code: self.code, message: &self.message, details: &self.details } };
        // When not even that can be printed, the sentence and the exit code still say it.
        let _ = console::print_document(&document);
    }
}

#[derive(Serialize)]
struct Document<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: &'a str,
    details: &'a Map<String, Value>,
}

/// The error and what was behind it, outermost first, each said once.
fn causes(error: &(dyn StdError + 'static)) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = error.source();
    }
    causes
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let behind = error.source().map(causes).unwrap_or_default();
        let (exit, message) = match error.symbol() {
            Symbol::Internal if behind.iter().any(|cause| cause.contains(LOCKED)) => {
                (Exit::TryLater, "another process keeps the data file locked; try again".to_owned())
            }
            // The public text sends an agent to the relay's log. Here whoever reads it is at the log already.
            Symbol::Internal if !behind.is_empty() => (Exit::Failure, "this failed unexpectedly".to_owned()),
            symbol => (Exit::of(symbol), error.message().to_owned()),
        };
        Failure {
            exit,
            code: if exit == Exit::TryLater { exit.name() } else { error.symbol().name() },
            message,
            details: error.details().clone(),
            causes: behind,
        }
    }
}

impl From<Unusable> for Failure {
    fn from(Unusable(reason): Unusable) -> Failure {
        Failure::usage(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_data_file_means_try_later_however_deep_it_is_said() {
        let busy = || {
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), Some(LOCKED.into()))
        };
        for error in [Error::from(busy()), Error::internal(busy().to_string()), Error::unavailable(busy().into())] {
            let failure = Failure::from(error);
            assert_eq!((failure.exit, failure.code), (Exit::TryLater, "try_later"));
        }
    }

    #[test]
    fn an_unexpected_failure_names_its_causes_and_a_refusal_is_its_own_sentence() {
        let failure = Failure::from(Error::internal("disk on fire"));
        assert_eq!(
            (failure.exit, failure.code, &*failure.causes),
            (Exit::Failure, "internal", &["disk on fire".to_owned()][..])
        );
        let failure = Failure::from(Error::new(Symbol::RecipientNotFound, "No agent has the handle 'x@y'"));
        assert_eq!((failure.exit, &*failure.message), (Exit::NotFound, "No agent has the handle 'x@y'"));
        assert!(failure.causes.is_empty());
    }
}
