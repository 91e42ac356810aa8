//! Whether an answer is the one that a document shows. Ids, times, keys and cursors are other ones in each run: they
//! may differ, but the same one in the document must be the same one in the answers, every time.

use std::collections::BTreeMap;

use serde_json::Value;

/// What stands for what: the document's ids and the relay's.
#[derive(Default)]
pub struct Likeness {
    texts: BTreeMap<String, String>,
    numbers: BTreeMap<u64, u64>,
}

impl Likeness {
    /// The document's text with the relay's ids.
    pub fn translate(&self, text: &str) -> String {
        let translated =
            self.texts.iter().fold(text.to_owned(), |text, (document, relay)| text.replace(document, relay));
        // A place in the log is a plain number: only where it is known to be one may it be replaced.
        self.numbers.iter().fold(translated, |text, (document, relay)| {
            ["after=", "Last-Event-ID: "].iter().fold(text, |text, before| {
                let ends = ['&', ' ', '\n'];
                ends.iter().fold(text, |text, end| {
                    text.replace(&format!("{before}{document}{end}"), &format!("{before}{relay}{end}"))
                })
            })
        })
    }

    /// Makes this text of the document stand for that of the relay.
    pub fn stands_for(mut self, document: &str, relay: &str) -> Likeness {
        self.texts.insert(document.to_owned(), relay.to_owned());
        self
    }

    /// Compares a whole value; the differences, each with its place.
    pub fn compare(&mut self, expected: &Value, found: &Value) -> Vec<String> {
        let mut differences = Vec::new();
        self.compare_at("", "", expected, found, &mut differences);
        differences
    }

    fn compare_at(&mut self, place: &str, key: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
        match (expected, found) {
            (Value::Object(expected), Value::Object(found)) => {
                for key in expected.keys().filter(|key| !found.contains_key(*key)) {
                    differences.push(format!("{place}.{key} is not in the answer"));
                }
                for (key, found) in found {
                    match expected.get(key) {
                        Some(expected) => {
                            self.compare_at(&format!("{place}.{key}"), key, expected, found, differences);
                        }
                        None => differences.push(format!("{place}.{key} is not in the document")),
                    }
                }
            }
            (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
                for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                    self.compare_at(&format!("{place}[{index}]"), key, expected, found, differences);
                }
            }
            (Value::String(expected), Value::String(found)) if self.same_text(key, expected, found) => {}
            (Value::Number(expected), Value::Number(found))
                if matches!(key, "seq" | "next_after") && self.same_place(expected.as_u64(), found.as_u64()) => {}
            _ if expected == found => {}
            _ => differences.push(format!("{place}: the document has {expected}, the answer {found}")),
        }
    }

    /// Whether two lines of text say the same.
    pub fn same_text(&mut self, key: &str, expected: &str, found: &str) -> bool {
        let both = |like: fn(&str) -> bool| like(expected) && like(found);
        if both(is_time) || both(is_request_id) {
            return true;
        }
        if both(is_id) || both(is_key) || key == "next_cursor" {
            return self.stand_for(expected, found);
        }
        without_wait(&self.translate(expected)) == without_wait(found)
    }

    /// Whether two places in the log are the same one.
    pub fn same_place(&mut self, expected: Option<u64>, found: Option<u64>) -> bool {
        let (Some(expected), Some(found)) = (expected, found) else {
            return false;
        };
        let known = *self.numbers.entry(expected).or_insert(found);
        known == found && self.numbers.values().filter(|number| **number == found).count() == 1
    }

    fn stand_for(&mut self, expected: &str, found: &str) -> bool {
        let known = self.texts.entry(expected.to_owned()).or_insert_with(|| found.to_owned());
        known == found && self.texts.values().filter(|text| *text == found).count() == 1
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 26
        && text.starts_with("01")
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn is_request_id(text: &str) -> bool {
    text.strip_prefix("req_").is_some_and(is_id)
}

fn is_key(text: &str) -> bool {
    text.len() == 40 && text.starts_with("ah_live_")
}

fn is_time(text: &str) -> bool {
    text.len() == 24 && text.ends_with('Z') && agentrelay::domain::time::Timestamp::parse(text).is_some()
}

/// How long to wait is the one number in a message that the clock decides.
fn without_wait(text: &str) -> String {
    let Some((before, rest)) = text.split_once("; wait ") else {
        return text.to_owned();
    };
    format!("{before}; wait{}", rest.trim_start_matches(|character: char| character.is_ascii_digit()))
}
