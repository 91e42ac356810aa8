//! Retries: a call that was done before is answered as the first time, whatever has changed since.

use sha2::{Digest, Sha256};

use crate::domain::json::{self, Document};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::thread::Receipt;
use crate::domain::time::Timestamp;
use crate::error::{Error, Result, Symbol};
use crate::relay::Caller;
use crate::store::idempotency::{self, Call, Known};
use crate::store::{Connection, events};

/// Collects what a call asks for, so that two calls can be compared: fields in a fixed order, each with its length.
/// Nothing is collected of a call without a name.
pub(super) struct Payload<'a> {
    name: Option<&'a str>,
    sha: Sha256,
}

impl<'a> Payload<'a> {
    pub(super) fn of(operation: &str, metadata: &'a Metadata) -> Payload<'a> {
        let payload = Payload { name: metadata.idempotency_key.as_deref(), sha: Sha256::new() };
        payload.text(operation).document(metadata.rest.as_ref())
    }

    pub(super) fn text(mut self, text: &str) -> Payload<'a> {
        if self.name.is_some() {
            json::digest_text(text, &mut self.sha);
        }
        self
    }

    pub(super) fn optional(self, text: Option<&str>) -> Payload<'a> {
        match text {
            Some(text) => self.text("+").text(text),
            None => self.text("-"),
        }
    }

    /// What few calls have. A call without it is told from others as it was before there was such a thing.
    pub(super) fn extra(self, name: &str, text: Option<&str>) -> Payload<'a> {
        match text {
            Some(text) => self.text(name).text(text),
            None => self,
        }
    }

    pub(super) fn generation(self, generation: Option<i64>) -> Payload<'a> {
        self.optional(generation.map(|generation| generation.to_string()).as_deref())
    }

    pub(super) fn document(mut self, document: Option<&Document>) -> Payload<'a> {
        if self.name.is_some() {
            match document {
                Some(document) => json::digest(document, &mut self.sha),
                None => self.sha.update(b"-"),
            }
        }
        self
    }

    pub(super) fn documents(self, documents: &[Document]) -> Payload<'a> {
        let counted = self.text(&documents.len().to_string());
        documents.iter().fold(counted, |payload, document| payload.document(Some(document)))
    }

    pub(super) fn draft(self, draft: Option<&Draft>) -> Payload<'a> {
        let Some(draft) = draft else {
            return self.text("-");
        };
        self.optional(draft.role.as_deref())
            .text(&draft.parts.body)
            .documents(draft.parts.documents.as_deref().unwrap_or_default())
            .document(draft.payload.as_ref())
            .extra("envelope", draft.envelope.as_ref().map(|envelope| envelope.get()))
    }

    /// The call, when its caller named it.
    pub(super) fn call(self, caller: &Caller) -> Option<Call> {
        self.name.map(|name| Call::new(caller.row(), name, self.sha))
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
