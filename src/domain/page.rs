//! Lists come in pages. A cursor says where the next one begins, and for which list.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use crate::domain::json::{Path, issue};
use crate::error::Result;

/// Length of the part of a cursor that ties it to its list, in bytes.
const TIE: usize = 8;

/// How many rows a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u16);

impl Limit {
    /// The default of most lists.
    pub const DEFAULT: Limit = Limit(50);
    /// The most of most lists.
    pub const MAX: u16 = 200;

    /// A limit between 1 and `max`.
    pub fn new(value: i64, max: u16) -> Option<Limit> {
        u16::try_from(value).ok().filter(|limit| (1..=max).contains(limit)).map(Limit)
    }

    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// A list that can be walked: whoever asks, and for what. Two lists with the same words share their cursors.
#[derive(Clone, Debug)]
pub struct ListName(String);

impl ListName {
    /// The list that these words name.
    pub fn new(words: &[&str]) -> ListName {
        // A length before each word: no two lists of words look alike.
        let words: Vec<_> = words.iter().map(|word| format!("{}:{word}", word.len())).collect();
        ListName(words.join(","))
    }

    /// A cursor to `position`, opaque to the caller.
    pub fn cursor(&self, position: &str) -> String {
        let mut bytes = self.tie(position.as_bytes()).to_vec();
        bytes.extend_from_slice(position.as_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// The position in a cursor of this list. Another list's, or anything else, is `invalid_params` at `path`.
    pub fn position(&self, cursor: &str, path: Path) -> Result<String> {
        let decoded = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok();
        let position = decoded.as_deref().and_then(|bytes| {
            let (tie, position) = bytes.split_at_checked(TIE)?;
            (tie == self.tie(position)).then_some(position)
        });
        match position.map(|position| String::from_utf8(position.to_vec())) {
            Some(Ok(position)) => Ok(position),
            _ => Err(issue(
                path,
                "invalid_value",
                "not a cursor of this list; send it as it came, with the filter that it came with",
            )),
        }
    }

    fn tie(&self, position: &[u8]) -> [u8; TIE] {
        let mut sha = Sha256::new();
        sha.update(self.0.as_bytes());
        sha.update([0]);
        sha.update(position);
        let hash = sha.finalize();
        std::array::from_fn(|index| hash[index])
    }
}

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Where the next page begins; `None` after the last one.
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page of at most `limit` of `rows`, which were read with one more, if there is one, to know whether more follow.
    pub fn of(mut rows: Vec<T>, limit: Limit, list: &ListName, position: impl Fn(&T) -> String) -> Page<T> {
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let next_cursor = rows.last().filter(|_| more).map(|last| list.cursor(&position(last)));
        Page { items: rows, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_list() {
        let list = ListName::new(&["inbox", "frank"]);
        let cursor = list.cursor("42");
        assert_eq!(list.position(&cursor, Path::root()).ok().as_deref(), Some("42"));
        assert!(ListName::new(&["inboxf", "rank"]).position(&cursor, Path::root()).is_err());
        for foreign in ["", "42", "AAAA", &cursor[1..], &cursor.to_lowercase()] {
            assert!(list.position(foreign, Path::root()).is_err(), "{foreign}");
        }
    }
}
