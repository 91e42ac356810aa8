//! Artifacts: structured attachments of a handoff, a message or a result.
//!
//! An artifact is a document that travels as it came, further fields and all. A path in it is data: the relay never
//! opens it.

use crate::domain::json::{Document, Issues, Object, Value};
use crate::domain::part::check_parts;

/// Most artifacts in one call.
pub const ARTIFACTS_MAX: usize = 100;

/// The types, in the words of the protocol.
const TYPES: [&str; 6] = ["file_diff", "file_ref", "test_command", "api_contract", "link", "parts"];

/// Reads a list of artifacts.
pub fn read(value: Value<'_>, issues: &mut Issues) -> Vec<Document> {
    let elements = value.array(ARTIFACTS_MAX, issues).unwrap_or_default();
    let documents = elements.iter().map(Value::document).collect();
    for element in elements {
        check(element, issues);
    }
    documents
}

fn check(value: Value<'_>, issues: &mut Issues) -> Option<()> {
    let artifact = value.object(issues)?;
    let kind = artifact.required("type", issues)?.string(issues)?;
    match &*kind {
        "file_diff" => {
            string(&artifact, "path", issues);
            string(&artifact, "diff", issues);
        }
        "file_ref" => {
            string(&artifact, "path", issues);
            artifact.check_string("git_sha", issues);
            lines(&artifact, issues);
        }
        "test_command" => {
            string(&artifact, "command", issues);
            artifact.check_string("cwd", issues);
        }
        "api_contract" => {
            artifact.check_string("schema_url", issues);
            if artifact.optional("schema_url").is_some() == artifact.optional("inline").is_some() {
                let message = "an api_contract has one of schema_url and inline";
                issues.add(artifact.at("schema_url"), "invalid_value", message);
            }
        }
        "link" => {
            string(&artifact, "url", issues);
            artifact.check_string("title", issues);
        }
        "parts" => parts(&artifact, issues),
        _ => {
            let message = format!("an artifact's type is one of {}", TYPES.join(", "));
            issues.add(artifact.at("type"), "invalid_value", message);
        }
    }
    Some(())
}

fn string(artifact: &Object<'_>, key: &str, issues: &mut Issues) {
    artifact.required(key, issues).and_then(|value| value.string(issues));
}

fn lines(artifact: &Object<'_>, issues: &mut Issues) {
    let Some(elements) = artifact.optional("lines").and_then(|value| value.array(usize::MAX, issues)) else {
        return;
    };
    let count = elements.len();
    let numbers: Vec<i64> = elements.into_iter().filter_map(|element| element.integer(issues)).collect();
    let in_order = matches!(*numbers, [from, to] if (1..=to).contains(&from));
    // Elements that are no numbers have been named already.
    if !in_order && numbers.len() == count {
        let message = "expected [from, to], counted from 1, from no greater than to";
        issues.add(artifact.at("lines"), "invalid_value", message);
    }
}

fn parts(artifact: &Object<'_>, issues: &mut Issues) {
    for key in ["artifact_id", "name", "description"] {
        artifact.check_string(key, issues);
    }
    artifact.check_object("metadata", issues);
    artifact.optional("last_chunk").map(|value| value.boolean(issues));
    let append = artifact.optional("append").and_then(|value| value.boolean(issues));
    if append == Some(true) && artifact.optional("artifact_id").is_none() {
        let message = "required with append: it says which artifact continues";
        issues.add(artifact.at("artifact_id"), "invalid_type", message);
    }
    if let Some(parts) = artifact.required("parts", issues) {
        check_parts(parts, issues);
    }
}
