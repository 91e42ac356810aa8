//! Parts: what a message, or an artifact of type `parts`, is made of.
//!
//! A part is a document that travels as it came. It is looked at once, on its way in; afterwards only its text is ever
//! read, to show a thread as text.

use data_encoding::BASE64;

use crate::domain::json::{Document, Issues, Value, looked_at};

/// Most parts in one message or artifact.
pub const PARTS_MAX: usize = 100;

/// The kinds of part, each named by the member that holds it.
const KINDS: [&str; 4] = ["text", "raw", "url", "data"];

/// The parts of one message.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The text parts, joined by newlines.
    pub body: String,
    /// All parts as they came; `None` for a single part that is nothing but the body.
    pub documents: Option<Vec<Document>>,
}

impl Parts {
    /// One part of text.
    pub fn text(body: impl Into<String>) -> Parts {
        Parts { body: body.into(), documents: None }
    }

    /// Reads the `parts` of a message, each with its `type`.
    pub fn read(value: Value<'_>, issues: &mut Issues) -> Option<Parts> {
        let elements = elements(value, issues)?;
        let documents: Vec<Document> = elements.iter().map(Value::document).collect();
        let texts: Vec<String> = elements.into_iter().filter_map(|element| read_part(element, true, issues)).collect();
        let parts = Parts { body: texts.join("\n"), documents: Some(documents) };
        let plain = parts.documents.iter().flatten().count() == 1 && !parts.has_more_than_text();
        Some(if plain { Parts { documents: None, ..parts } } else { parts })
    }

    /// Whether there is something in the parts that the body does not show.
    pub fn has_more_than_text(&self) -> bool {
        self.documents.iter().flatten().any(|document| {
            let part = looked_at(document);
            part.is_none_or(|part| part.members().any(|(key, _)| !matches!(key, "type" | "text")))
        })
    }
}

/// Looks at the `parts` of an artifact.
pub(crate) fn check_parts(value: Value<'_>, issues: &mut Issues) {
    for element in elements(value, issues).unwrap_or_default() {
        read_part(element, false, issues);
    }
}

fn elements<'a>(value: Value<'a>, issues: &mut Issues) -> Option<Vec<Value<'a>>> {
    let path = value.path.clone();
    let elements = value.array(PARTS_MAX, issues)?;
    if elements.is_empty() {
        issues.add(path, "too_small", "at least one part is needed");
    }
    Some(elements)
}

/// Looks at one part, which holds exactly one of [`KINDS`], and gives its text when it is one. In a message `type` names
/// the kind; in an artifact it may be left out.
fn read_part(value: Value<'_>, type_needed: bool, issues: &mut Issues) -> Option<String> {
    let part = value.object(issues)?;
    part.check_string("media_type", issues);
    part.check_string("filename", issues);
    part.check_object("metadata", issues);

    let mut held: Vec<&str> = KINDS.into_iter().filter(|kind| part.optional(kind).is_some()).collect();
    if held.is_empty() && part.member("data").is_some() {
        held.push("data"); // null is a value, where nothing else is
    }
    let named = if type_needed || part.optional("type").is_some() {
        let named = part.required("type", issues)?.string(issues)?;
        let Some(named) = KINDS.into_iter().find(|kind| *kind == named) else {
            issues.add(part.at("type"), "invalid_value", format!("a part's type is one of {}", KINDS.join(", ")));
            return None;
        };
        Some(named)
    } else {
        None
    };
    let kind = match (named, held.as_slice()) {
        (Some(named), []) => named,
        (Some(named), [held]) if *held == named => named,
        (None, [held]) => held,
        _ => {
            let message = format!("a part holds exactly one of {}, the one of its type", KINDS.join(", "));
            issues.add(part.at("type"), "invalid_value", message);
            return None;
        }
    };
    match kind {
        "text" => return Some(part.required("text", issues)?.string(issues)?.into_owned()),
        "raw" => {
            let raw = part.required("raw", issues)?.string(issues)?;
            if !is_base64(&raw) {
                issues.add(part.at("raw"), "invalid_value", "expected base64 with padding (RFC 4648, section 4)");
            }
        }
        "url" => drop(part.required("url", issues)?.name(usize::MAX, issues)),
        _ if held.is_empty() => issues.add(part.at("data"), "invalid_type", "required"),
        _ => {}
    }
    None
}

/// Whether this is base64 in its standard form, with padding at the end. Some decoders take it for the end of one text and go
/// on with the next; others then refuse it all.
pub fn is_base64(text: &str) -> bool {
    BASE64.decode(text.as_bytes()).is_ok() && !text.trim_end_matches('=').contains('=')
}
