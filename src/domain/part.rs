//! Parts: what a message, or an artifact of type `parts`, is made of.
//!
//! A part is a document that travels as it came. It is looked at once, on its way in; afterwards only its text is ever
//! read, to show a thread as text.

use data_encoding::BASE64;

use crate::domain::json::{Document, Issues, Object, Value};

/// Most parts in one message or artifact.
pub const PARTS_MAX: usize = 100;

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

    /// Reads `parts`: at least one, each with its `type`.
    pub fn read(value: Value<'_>, issues: &mut Issues) -> Option<Parts> {
        let path = value.path.clone();
        let elements = value.array(PARTS_MAX, issues)?;
        if elements.is_empty() {
            issues.add(path, "too_small", "at least one part is needed");
            return None;
        }
        let alone = elements.len() == 1;
        let documents: Vec<Document> = elements.iter().map(Value::document).collect();
        let parts: Option<Vec<Part>> = elements.into_iter().map(|element| Part::read(element, true, issues)).collect();
        let parts = parts?;
        let plain = alone && parts.iter().all(|part| part.is_bare_text);
        let body = joined(parts.into_iter().filter_map(|part| part.text));
        Some(Parts { body, documents: (!plain).then_some(documents) })
    }

    /// Whether there are parts that the body does not show.
    pub fn has_more_than_text(&self) -> bool {
        let types = self.documents.iter().flatten().map(|document| {
            let object = Value::root(document).object(&mut Issues::default())?;
            Some(object.member("type")?.string(&mut Issues::default())?.into_owned())
        });
        types.into_iter().any(|kind| kind.as_deref() != Some("text"))
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// What is read of one part.
pub(crate) struct Part {
    text: Option<String>,
    /// Text with no field beside it.
    is_bare_text: bool,
}

impl Part {
    /// Reads one part: exactly one of `text`, `raw`, `url` and `data`. In a message `type` names which; in an artifact
    /// it may be left out.
    pub(crate) fn read(value: Value<'_>, type_needed: bool, issues: &mut Issues) -> Option<Part> {
        const TYPES: [&str; 4] = ["text", "raw", "url", "data"];
        let object = value.object(issues)?;
        let kind = if type_needed || object.optional("type").is_some() {
            let kind = object.required("type", issues)?.string(issues)?;
            let known = TYPES.into_iter().find(|known| *known == kind);
            if known.is_none() {
                issues.add(object.at("type"), "invalid_value", format!("a part's type is one of {}", TYPES.join(", ")));
            }
            known?
        } else {
            let mut given = TYPES.into_iter().filter(|kind| object.member(kind).is_some());
            let (Some(kind), None) = (given.next(), given.next()) else {
                issues.add(
                    object.at("type"),
                    "invalid_value",
                    format!("a part holds exactly one of {}", TYPES.join(", ")),
                );
                return None;
            };
            kind
        };
        let text = match kind {
            "text" => Some(object.required("text", issues)?.string(issues)?.into_owned()),
            "raw" => {
                let raw = object.required("raw", issues)?.string(issues)?;
                if BASE64.decode(raw.as_bytes()).is_err() {
                    issues.add(object.at("raw"), "invalid_value", "expected base64 with padding (RFC 4648, section 4)");
                    return None;
                }
                None
            }
            "url" => {
                object.required("url", issues)?.name(usize::MAX, issues)?;
                None
            }
            _ => {
                if object.member("data").is_none() {
                    issues.add(object.at("data"), "invalid_type", "required");
                    return None;
                }
                None
            }
        };
        let mut sound = optional_string(&object, "media_type", issues);
        sound &= optional_string(&object, "filename", issues);
        sound &= object.optional("metadata").is_none_or(|metadata| metadata.object(issues).is_some());
        if !sound {
            return None;
        }
        let is_bare_text = text.is_some() && object.members().all(|(key, _)| matches!(key, "type" | "text"));
        Some(Part { text, is_bare_text })
    }
}

/// Reads the optional string member `key` and reports whether it is well-formed.
pub(crate) fn optional_string(object: &Object<'_>, key: &str, issues: &mut Issues) -> bool {
    object.optional(key).is_none_or(|value| value.string(issues).is_some())
}
