//! Reading JSON that strangers wrote.
//!
//! Values stay the text they came as (`RawValue`): 42 stays 42, 9007199254740993 keeps its last digit, and keys keep
//! their order, whatever travels through the relay. Readers do not stop at the first mistake: each problem becomes an
//! [`Issue`] with its path, and the caller sees them all at once. `null` means absent for every optional field.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::domain::agent::Handle;
use crate::error::{Error, Result, Symbol};

/// A JSON document that travels as it came.
pub type Document = Box<RawValue>;

/// How deep arrays and objects may be nested in a request.
pub const DEPTH_MAX: usize = 64;

/// What makes JSON unfit to travel through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It nests deeper than [`DEPTH_MAX`].
    TooDeep,
    /// A string escapes half of a surrogate pair (RFC 8259, section 8.2). Many parsers refuse such a document whole, so
    /// that one message would make its thread unreadable.
    LoneSurrogate,
}

/// Looks at brackets and escapes only, so that it can run before any parser.
pub fn check_fit(body: &[u8]) -> std::result::Result<(), Unfit> {
    let (mut depth, mut in_string, mut rest) = (0_usize, false, body);
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => rest = after_escape(after)?,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(Unfit::TooDeep);
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// What follows an escape, whose backslash was read.
fn after_escape(rest: &[u8]) -> std::result::Result<&[u8], Unfit> {
    let code = |digits: &[u8]| u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let [b'u', a, b, c, d, after @ ..] = rest else {
        return Ok(rest.get(1..).unwrap_or_default());
    };
    match (code(&[*a, *b, *c, *d]), after) {
        (Some(0xD800..=0xDBFF), [b'\\', b'u', a, b, c, d, after @ ..])
            if matches!(code(&[*a, *b, *c, *d]), Some(0xDC00..=0xDFFF)) =>
        {
            Ok(after)
        }
        (Some(0xD800..=0xDFFF), _) => Err(Unfit::LoneSurrogate),
        _ => Ok(after),
    }
}

/// One problem with a request's parameters.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Issue {
    /// Where: keys and indexes from the parameters' root.
    pub path: Path,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The kind of problem, in zod's words: `invalid_type`, `too_small`, `too_big`, `invalid_value`, `custom`.
    pub code: &'static str,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub struct Issues(Vec<Issue>);

impl Issues {
    /// Notes a problem.
    pub fn add(&mut self, path: Path, code: &'static str, message: impl Into<String>) {
        self.0.push(Issue { path, message: message.into(), code });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was read, when nothing was wrong.
    pub fn take<T>(self, read: Option<T>) -> Result<T> {
        self.finish()?;
        read.ok_or_else(|| Error::internal("a value that could not be read has left an issue"))
    }

    /// `invalid_params` with every problem, when there was one.
    pub fn finish(self) -> Result<()> {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        let more = match self.0.len() {
            1 => String::new(),
            count => format!(" ({} more)", count - 1),
        };
        let place = if first.path.0.is_empty() { String::new() } else { format!("{}: ", first.path) };
        let error = Error::new(Symbol::InvalidParams, format!("{place}{}{more}", first.message));
        Err(error.with_detail("issues", serde_json::to_value(&self.0).unwrap_or_default()))
    }
}

/// `invalid_params` with this one problem.
pub fn issue(path: Path, code: &'static str, message: impl Into<String>) -> Error {
    let mut issues = Issues::default();
    issues.add(path, code, message);
    match issues.finish() {
        Err(error) => error,
        Ok(()) => Error::new(Symbol::InvalidParams, ""),
    }
}

/// A place in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Path(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    /// The document itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// The member `key` of this place.
    pub fn key(&self, key: &str) -> Path {
        self.then(Segment::Key(key.to_owned()))
    }

    /// The element `index` of this place.
    pub fn index(&self, index: usize) -> Path {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Path {
        let mut path = self.clone();
        path.0.push(segment);
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if position == 0 => write!(f, "{key}")?,
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A value at its place in a document.
#[derive(Clone, Debug)]
pub struct Value<'a> {
    /// Where it stands.
    pub path: Path,
    /// Its text.
    pub raw: &'a RawValue,
}

impl<'a> Value<'a> {
    /// The root of a document.
    pub fn root(raw: &'a RawValue) -> Value<'a> {
        Value { path: Path::root(), raw }
    }

    /// Its text, to keep.
    pub fn document(&self) -> Document {
        self.raw.to_owned()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.raw.get() == "null"
    }

    /// Its members, when it is an object.
    pub fn object(self, issues: &mut Issues) -> Option<Object<'a>> {
        match serde_json::from_str::<Members<'a>>(self.raw.get()) {
            Ok(Members(members)) => Some(Object { path: self.path, members }),
            Err(_) => self.refuse("an object", issues),
        }
    }

    /// Its elements, when it is an array of at most `count_max`.
    pub fn array(self, count_max: usize, issues: &mut Issues) -> Option<Vec<Value<'a>>> {
        let Ok(elements) = serde_json::from_str::<Vec<&'a RawValue>>(self.raw.get()) else {
            return self.refuse("an array", issues);
        };
        if elements.len() > count_max {
            issues.add(self.path, "too_big", format!("at most {count_max} are taken, these are {}", elements.len()));
            return None;
        }
        let elements = elements.into_iter().enumerate();
        Some(elements.map(|(index, raw)| Value { path: self.path.index(index), raw }).collect())
    }

    /// Its text, when it is a string.
    pub fn string(self, issues: &mut Issues) -> Option<Cow<'a, str>> {
        match serde_json::from_str::<Text<'a>>(self.raw.get()) {
            Ok(Text(text)) => Some(text),
            Err(_) => self.refuse("a string", issues),
        }
    }

    /// A string that is not empty and has at most `length_max` characters.
    pub fn name(self, length_max: usize, issues: &mut Issues) -> Option<Cow<'a, str>> {
        let path = self.path.clone();
        let text = self.string(issues)?;
        if text.is_empty() {
            issues.add(path, "too_small", "must not be empty");
            return None;
        }
        if text.chars().count() > length_max {
            issues.add(path, "too_big", format!("at most {length_max} characters are taken"));
            return None;
        }
        Some(text)
    }

    /// A handle.
    pub fn handle(self, issues: &mut Issues) -> Option<Handle> {
        let path = self.path.clone();
        let handle = Handle::parse(&self.string(issues)?);
        handle.map_err(|reason| issues.add(path, "invalid_value", reason)).ok()
    }

    /// Its number, when it is a whole one.
    pub fn integer(self, issues: &mut Issues) -> Option<i64> {
        match serde_json::from_str::<Json>(self.raw.get()) {
            Ok(Json::Number(number)) if number.is_i64() => number.as_i64(),
            _ => self.refuse("a whole number", issues),
        }
    }

    /// Its truth value, when it is one.
    pub fn boolean(self, issues: &mut Issues) -> Option<bool> {
        match self.raw.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.refuse("true or false", issues),
        }
    }

    fn refuse<T>(self, wanted: &str, issues: &mut Issues) -> Option<T> {
        let found = match self.raw.get().as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a string",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        };
        let found = if found == wanted { "one that cannot be read" } else { found };
        issues.add(self.path, "invalid_type", format!("expected {wanted}, received {found}"));
        None
    }
}

/// An object at its place in a document.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    path: Path,
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// An object without members, for an absent one.
    pub fn empty(path: Path) -> Object<'a> {
        Object { path, members: Vec::new() }
    }

    /// Where it stands.
    pub fn path(&self) -> Path {
        self.path.clone()
    }

    /// Where the member `key` stands or would stand.
    pub fn at(&self, key: &str) -> Path {
        self.path.key(key)
    }

    /// With this member too, in the place of one of the same name.
    pub fn with(mut self, key: &'a str, raw: &'a RawValue) -> Object<'a> {
        self.members.push((Cow::Borrowed(key), raw));
        self
    }

    /// The member `key`, be it `null` or not. Of several with the same name the last one counts, as in most parsers.
    pub fn member(&self, key: &str) -> Option<Value<'a>> {
        let (_, raw) = self.members.iter().rev().find(|(name, _)| name == key)?;
        Some(Value { path: self.at(key), raw })
    }

    /// The optional member `key`: `null` means absent.
    pub fn optional(&self, key: &str) -> Option<Value<'a>> {
        self.member(key).filter(|value| !value.is_null())
    }

    /// The member `key`, which must be there.
    pub fn required(&self, key: &str, issues: &mut Issues) -> Option<Value<'a>> {
        let value = self.optional(key);
        if value.is_none() {
            issues.add(self.at(key), "invalid_type", "required");
        }
        value
    }

    /// Looks whether the optional member `key` is a string.
    pub fn check_string(&self, key: &str, issues: &mut Issues) {
        self.optional(key).map(|value| value.string(issues));
    }

    /// Looks whether the optional member `key` is an object.
    pub fn check_object(&self, key: &str, issues: &mut Issues) {
        self.optional(key).map(|value| value.object(issues));
    }

    /// All members in the order they came.
    pub fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.members.iter().map(|(key, raw)| (&**key, *raw))
    }
}

/// The members of a document that was looked at before.
pub fn looked_at(document: &RawValue) -> Option<Object<'_>> {
    Value::root(document).object(&mut Issues::default())
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Members<'de>, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), raw)) = map.next_entry()? {
                    members.push((key, raw));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}

/// Feeds `raw` to `digest` so that two documents agree when they say the same: spaces, the order of keys and the way a
/// string is escaped do not matter. A number is its text: 1 and 1.0 differ.
pub fn digest(raw: &RawValue, digest: &mut Sha256) {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(mut members) = serde_json::from_str(text).unwrap_or(Members(Vec::new()));
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            digest.update(b"{");
            for (key, value) in members {
                digest_text(&key, digest);
                self::digest(value, digest);
            }
            digest.update(b"}");
        }
        Some(b'[') => {
            digest.update(b"[");
            for element in serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default() {
                self::digest(element, digest);
            }
            digest.update(b"]");
        }
        Some(b'"') => match serde_json::from_str::<Text<'_>>(text) {
            Ok(Text(text)) => digest_text(&text, digest),
            Err(_) => digest_text(text, digest),
        },
        _ => {
            digest.update(b"#");
            digest_text(text, digest);
        }
    }
}

/// Feeds a text with its length, so that no two sequences of texts look alike.
pub fn digest_text(text: &str, digest: &mut Sha256) {
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Document {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    fn fingerprint(text: &str) -> Vec<u8> {
        let mut sha = Sha256::new();
        digest(&raw(text), &mut sha);
        sha.finalize().to_vec()
    }

    #[test]
    fn documents_that_say_the_same_have_the_same_digest() {
        assert_eq!(fingerprint(r#"{"a": 1, "b": ["x"]}"#), fingerprint(r#"{"b":["\u0078"],"a":1}"#));
        for other in
            [r#"{"a":1,"b":"x"}"#, r#"{"a":1.0,"b":["x"]}"#, r#"{"a":"1","b":["x"]}"#, r#"{"a":1,"b":["x",[]]}"#]
        {
            assert_ne!(fingerprint(r#"{"a":1,"b":["x"]}"#), fingerprint(other), "{other}");
        }
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check_fit(deep(DEPTH_MAX).as_bytes()), Ok(()));
        assert_eq!(check_fit(deep(DEPTH_MAX + 1).as_bytes()), Err(Unfit::TooDeep));
        assert_eq!(check_fit(format!(r#""\"{}""#, deep(100)).as_bytes()), Ok(()));
        assert_eq!(check_fit("[],".repeat(100).as_bytes()), Ok(()));
    }

    #[test]
    fn half_a_surrogate_pair_is_no_character() {
        for text in
            [r#""\ud83e\udd80""#, r#""\\ud800""#, r#""\u00e9\n""#, r#"{"a":"\uD83E\uDD80"}"#, "", r#""\u"#, r#""\"#]
        {
            assert_eq!(check_fit(text.as_bytes()), Ok(()), "{text}");
        }
        for text in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud83e\u0041""#,
            r#"{"\uDEAD":1}"#,
            r#""\\\ud800""#,
            r#""\ud83e\ud83e\udd80""#,
        ] {
            assert_eq!(check_fit(text.as_bytes()), Err(Unfit::LoneSurrogate), "{text}");
        }
    }

    #[test]
    fn every_problem_is_named_with_its_path() {
        let document = raw(r#"{"a": 1, "b": {"c": [true, "x"]}}"#);
        let mut issues = Issues::default();
        let object = Value::root(&document).object(&mut issues).expect("an object");
        assert_eq!(object.required("a", &mut issues).and_then(|value| value.string(&mut issues)), None);
        let inner = object.required("b", &mut issues).and_then(|value| value.object(&mut issues)).expect("b");
        for element in inner.required("c", &mut issues).and_then(|value| value.array(9, &mut issues)).expect("c") {
            element.string(&mut issues);
        }
        assert!(object.required("d", &mut issues).is_none());
        let error = issues.finish().expect_err("three problems");
        assert_eq!(error.message(), "a: expected a string, received a number (2 more)");
        let paths: Vec<_> = error.details()["issues"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|issue| issue["path"].to_string())
            .collect();
        assert_eq!(paths, [r#"["a"]"#, r#"["b","c",0]"#, r#"["d"]"#]);
    }
}
