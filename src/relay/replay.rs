//! Retries: a call that was done before is answered as the first time, whatever has changed since.

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use crate::domain::json::{self, Document};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::thread::Receipt;
use crate::domain::time::Timestamp;
use crate::error::{Error, Result, Symbol};
use crate::relay::Caller;
use crate::store::events;
use crate::store::idempotency::{self, Call, Known};

/// Collects what a call asks for, so that two calls can be compared. Unlabelled fields follow each other in a fixed
/// order, each with its length.
pub(super) struct Payload(Sha256);

impl Payload {
    pub(super) fn of(operation: &str) -> Payload {
        Payload(Sha256::new()).text(operation)
    }

    pub(super) fn text(mut self, text: &str) -> Payload {
        json::digest_text(text, &mut self.0);
        self
    }

    pub(super) fn optional(self, text: Option<&str>) -> Payload {
        match text {
            Some(text) => self.text("+").text(text),
            None => self.text("-"),
        }
    }

    pub(super) fn document(mut self, document: Option<&Document>) -> Payload {
        match document {
            Some(document) => json::digest(document, &mut self.0),
            None => self.0.update(b"-"),
        }
        self
    }

    pub(super) fn documents(mut self, documents: &[Document]) -> Payload {
        self = self.text(&documents.len().to_string());
        documents.iter().fold(self, |payload, document| payload.document(Some(document)))
    }

    pub(super) fn draft(self, draft: Option<&Draft>) -> Payload {
        let Some(draft) = draft else {
            return self.text("-");
        };
        self.optional(draft.role.as_deref())
            .text(&draft.parts.body)
            .documents(draft.parts.documents.as_deref().unwrap_or_default())
            .document(draft.payload.as_ref())
    }

    /// The call, when its caller named it.
    pub(super) fn named(self, caller: &Caller, metadata: &Metadata) -> Option<Call> {
        let key = metadata.idempotency_key.as_deref()?;
        let payload = self.document(metadata.rest.as_ref());
        Some(Call::new(caller.row(), key, payload.0))
    }
}

/// The answer of the first time, if there was one.
pub(super) fn replay(conn: &Connection, now: Timestamp, call: Option<&Call>) -> Result<Option<Receipt>> {
    let Some(call) = call else {
        return Ok(None);
    };
    match idempotency::find(conn, now, call)? {
        None => Ok(None),
        Some(Known::Same(event)) => events::find_receipt(conn, event).map(Some),
        Some(Known::Other) => Err(Error::new(
            Symbol::DuplicateIdempotencyKey,
            "This client_idempotency_key was used for a call with another payload; send a new key",
        )),
    }
}
