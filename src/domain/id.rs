//! Identifiers: monotonic ULIDs, 16 bytes in the file and 26 upper-case characters on the wire.
//!
//! Beside its id a record has a [`Row`], the integer by which the file's tables refer to each other. A row never leaves
//! the process; an id always does.

use std::fmt;

use ulid::Ulid;

use crate::domain::time::Timestamp;

/// The integer row key of a record in the data file.
pub type Row = i64;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Ulid);

        impl $name {
            /// Reads the text form, in either case.
            pub fn parse(text: &str) -> Option<$name> {
                parse(text).map($name)
            }

            /// The moment that it was made at, or a later one if the clock was set back before.
            pub fn made_at(self) -> Timestamp {
                Timestamp::from_ms(i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX))
            }

            /// The form in the data file.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// From the form in the data file.
            pub fn from_bytes(bytes: [u8; 16]) -> $name {
                $name(Ulid::from_bytes(bytes))
            }
        }

        impl From<Ulid> for $name {
            fn from(ulid: Ulid) -> $name {
                $name(ulid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

ids! {
    /// An agent's id. It outlives renames.
    AgentId
    /// A key's id: names a key without being one.
    KeyId
    /// A thread's id; `task_id` and `thread_id` on the wire.
    ThreadId
    /// A message's id.
    MessageId
    /// The id of an update that was given up on.
    DeadLetterId
}

/// Crockford's alphabet reads `I` and `L` as 1 and `O` as 0; here a text either is an id or is not one.
fn parse(text: &str) -> Option<Ulid> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() && !matches!(byte.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U');
    // The first character holds three bits only.
    if text.len() != 26 || !text.bytes().all(plain) || text.as_bytes()[0] > b'7' {
        return None;
    }
    Ulid::from_string(&text.to_ascii_uppercase()).ok()
}

/// Makes ids that only ever grow, also when the clock is set back.
#[derive(Debug)]
pub struct Ids {
    last: Ulid,
}

impl Ids {
    /// Ids greater than `last`, the greatest one in the file.
    pub fn after(last: Option<[u8; 16]>) -> Ids {
        Ids { last: last.map_or(Ulid::nil(), Ulid::from_bytes) }
    }

    /// The next id.
    pub fn next(&mut self, now: Timestamp) -> Ulid {
        let fresh = random_ulid(now);
        self.last = if fresh.timestamp_ms() > self.last.timestamp_ms() {
            fresh
        } else {
            // The random part is 80 bits wide: it runs over after 2^79 ids in one millisecond, on average.
            self.last.increment().unwrap_or(fresh)
        };
        self.last
    }
}

/// A ULID of its own, for what needs no order.
pub fn random_ulid(now: Timestamp) -> Ulid {
    let mut random = [0; 16];
    fill_random(&mut random);
    Ulid::from_parts(u64::try_from(now.ms()).unwrap_or(0), u128::from_le_bytes(random) >> 48)
}

/// Fills `bytes` from the system's random source.
///
/// # Panics
/// When the system has none: nothing that a relay does would be safe then.
pub fn fill_random(bytes: &mut [u8]) {
    #[expect(clippy::expect_used, reason = "a system without randomness cannot mint a key; there is no way on")]
    getrandom::fill(bytes).expect("the system's random source answers");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_within_a_millisecond_and_when_the_clock_is_set_back() {
        let mut ids = Ids::after(None);
        let mut last = ids.next(Timestamp::from_ms(5_000));
        for ms in [5_000, 5_000, 4_000, 0, 5_001, 5_001] {
            let next = ids.next(Timestamp::from_ms(ms));
            assert!(next > last);
            last = next;
        }
        assert!(Ids::after(Some(last.to_bytes())).next(Timestamp::from_ms(1)) > last);
    }

    #[test]
    fn an_id_is_read_in_either_case_and_look_alikes_are_not() {
        let id = ThreadId::parse("01hxyz4k2vnjqp7r8mwdb3cstf").expect("lower case");
        assert_eq!(id.to_string(), "01HXYZ4K2VNJQP7R8MWDB3CSTF");
        for other in ["", "01HXYZ4K2VNJQP7R8MWDB3CST", "O1HXYZ4K2VNJQP7R8MWDB3CSTF", "9ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            assert_eq!(ThreadId::parse(other), None, "{other}");
        }
    }
}
