//! Artifacts: structured attachments of a handoff, a message or a result.
//!
//! An artifact is a document that travels as it came, further fields and all. A path in it is data: the relay never
//! opens it.

use crate::domain::json::{Document, Issues, Object, Value};
use crate::domain::part::{PARTS_MAX, Part, optional_string};

/// Most artifacts in one call.
pub const ARTIFACTS_MAX: usize = 100;

/// The types, in the words of the protocol.
const TYPES: [&str; 6] = ["file_diff", "file_ref", "test_command", "api_contract", "link", "parts"];

/// Reads a list of artifacts. `None` after a problem.
pub fn read(value: Value<'_>, issues: &mut Issues) -> Option<Vec<Document>> {
    let elements = value.array(ARTIFACTS_MAX, issues)?;
    let documents: Vec<Document> = elements.iter().map(Value::document).collect();
    let mut sound = true;
    for element in elements {
        sound &= read_one(element, issues).is_some();
    }
    sound.then_some(documents)
}

fn read_one(value: Value<'_>, issues: &mut Issues) -> Option<()> {
    let artifact = value.object(issues)?;
    let kind = artifact.required("type", issues)?.string(issues)?;
    let sound = match &*kind {
        "file_diff" => string(&artifact, "path", issues) & string(&artifact, "diff", issues),
        "file_ref" => {
            string(&artifact, "path", issues) & optional_string(&artifact, "git_sha", issues) & lines(&artifact, issues)
        }
        "test_command" => string(&artifact, "command", issues) & optional_string(&artifact, "cwd", issues),
        "api_contract" => api_contract(&artifact, issues),
        "link" => string(&artifact, "url", issues) & optional_string(&artifact, "title", issues),
        "parts" => parts(&artifact, issues),
        _ => {
            issues.add(
                artifact.at("type"),
                "invalid_value",
                format!("an artifact's type is one of {}", TYPES.join(", ")),
            );
            false
        }
    };
    sound.then_some(())
}

fn string(artifact: &Object<'_>, key: &str, issues: &mut Issues) -> bool {
    artifact.required(key, issues).and_then(|value| value.string(issues)).is_some()
}

fn lines(artifact: &Object<'_>, issues: &mut Issues) -> bool {
    let Some(value) = artifact.optional("lines") else {
        return true;
    };
    let Some(elements) = value.array(usize::MAX, issues) else {
        return false;
    };
    let numbers: Option<Vec<i64>> = elements.into_iter().map(|element| element.integer(issues)).collect();
    match numbers.as_deref() {
        Some([from, to]) if (1..=*to).contains(from) => true,
        Some(_) => {
            issues.add(
                artifact.at("lines"),
                "invalid_value",
                "expected [from, to], counted from 1, from no greater than to",
            );
            false
        }
        None => false,
    }
}

fn api_contract(artifact: &Object<'_>, issues: &mut Issues) -> bool {
    match (artifact.optional("schema_url"), artifact.optional("inline")) {
        (Some(url), None) => url.string(issues).is_some(),
        (None, Some(_)) => true,
        _ => {
            issues.add(artifact.at("schema_url"), "invalid_value", "an api_contract has one of schema_url and inline");
            false
        }
    }
}

fn parts(artifact: &Object<'_>, issues: &mut Issues) -> bool {
    let mut sound = true;
    for key in ["artifact_id", "name", "description"] {
        sound &= optional_string(artifact, key, issues);
    }
    let mut flag = |key: &str| {
        artifact.optional(key).is_some_and(|value| {
            let flag = value.boolean(issues);
            sound &= flag.is_some();
            flag == Some(true)
        })
    };
    let (append, _) = (flag("append"), flag("last_chunk"));
    if append && artifact.optional("artifact_id").is_none() {
        issues.add(
            artifact.at("artifact_id"),
            "invalid_type",
            "required with append: it says which artifact continues",
        );
        sound = false;
    }
    sound &= artifact.optional("metadata").is_none_or(|metadata| metadata.object(issues).is_some());
    let Some(elements) = artifact.required("parts", issues).and_then(|value| value.array(PARTS_MAX, issues)) else {
        return false;
    };
    if elements.is_empty() {
        issues.add(artifact.at("parts"), "too_small", "at least one part is needed");
        return false;
    }
    for element in elements {
        sound &= Part::read(element, false, issues).is_some();
    }
    sound
}
