//! JSON-RPC 2.0's envelope, the same in both dialects that have it.

use serde_json::value::RawValue;

use crate::api::document::parse;
use crate::domain::json::{Document, Issues, Object, Path, Value};
use crate::error::{Error, Result, Symbol};

/// One call.
pub(super) struct Call<'a> {
    /// As it came; `None` for a notification.
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: String,
    params: Option<Value<'a>>,
}

impl<'a> Call<'a> {
    /// Reads an envelope (JSON-RPC 2.0, section 4). The error comes with the id, where it can be read.
    pub(super) fn read(document: &'a RawValue) -> std::result::Result<Call<'a>, (Option<&'a RawValue>, Error)> {
        let refused = |id, message: &'static str| Err((id, Error::new(Symbol::InvalidRequest, message)));
        let mut ignored = Issues::default();
        let Some(envelope) = Value::root(document).object(&mut ignored) else {
            return refused(None, "A call is a JSON object with jsonrpc, method, id and params");
        };
        let id = match envelope.member("id") {
            Some(id) if is_id(id.raw) => Some(id.raw),
            Some(_) => return refused(None, "An id is a string, a number or null"),
            None => None,
        };
        let text = |key: &str| envelope.optional(key).and_then(|value| value.string(&mut Issues::default()));
        if text("jsonrpc").as_deref() != Some("2.0") {
            return refused(id, "A call has jsonrpc: \"2.0\"");
        }
        let Some(method) = text("method") else {
            return refused(id, "A call has a method, which is a string");
        };
        let params = envelope.optional("params");
        if params.as_ref().is_some_and(|params| !params.raw.get().starts_with(['{', '['])) {
            return refused(id, "A call's params are an object");
        }
        let params = params.map(|params| Value::root(params.raw));
        Ok(Call { id, method: method.into_owned(), params })
    }

    /// The parameters by name; absent ones are none.
    pub(super) fn params(&self) -> Result<Object<'a>> {
        let mut issues = Issues::default();
        let object = match &self.params {
            Some(params) => params.clone().object(&mut issues),
            None => Some(Object::empty(Path::root())),
        };
        issues.take(object)
    }
}

fn is_id(raw: &RawValue) -> bool {
    !raw.get().starts_with(['{', '[', 't', 'f'])
}

/// The id in a body that was not looked at any further.
pub(super) fn readable_id(bytes: &[u8]) -> Option<&RawValue> {
    let envelope = Value::root(parse(bytes).ok()?).object(&mut Issues::default())?;
    envelope.member("id").map(|id| id.raw).filter(|raw| is_id(raw))
}

/// Begins the answer to a call; its result follows, and a closing brace.
pub(super) fn begin_result(body: &mut Vec<u8>, id: &RawValue) {
    body.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    body.extend_from_slice(id.get().as_bytes());
    body.extend_from_slice(br#","result":"#);
}

/// The id of an answer to a call whose own cannot be read.
pub(super) fn null() -> Document {
    RawValue::NULL.to_owned()
}
