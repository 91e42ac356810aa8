//! Moments: integer milliseconds inside, RFC 3339 in UTC outside.

use std::fmt;
use std::sync::Arc;

/// A moment, in milliseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment so many milliseconds after 1970.
    pub const fn from_ms(ms: i64) -> Timestamp {
        Timestamp(ms)
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339 with any offset and any fraction. A time without an offset names no moment and is refused.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let moment: jiff::Timestamp = text.parse().ok()?;
        Some(Timestamp(moment.as_millisecond()))
    }
}

/// RFC 3339 with milliseconds and `Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where operations get their `now` from. Only tests use another clock than the system's.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Clock {
        Clock::new(|| Timestamp(jiff::Timestamp::now().as_millisecond()))
    }

    /// A clock that says what `now` says.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_fractions_are_understood_and_a_missing_zone_is_refused() {
        let moment = Timestamp::parse("2026-04-25T10:00:00Z");
        assert!(moment.is_some());
        assert_eq!(Timestamp::parse("2026-04-25T12:00:00.000000+02:00"), moment);
        assert_eq!(Timestamp::parse("2026-04-25t10:00:00z"), moment);
        assert_eq!(Timestamp::parse("2026-04-25T10:00:00"), None);
        assert_eq!(Timestamp::parse("2026-04-25"), None);
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn times_are_written_with_milliseconds_and_z() {
        assert_eq!(Timestamp::from_ms(1_777_111_200_000).to_string(), "2026-04-25T10:00:00.000Z");
        assert_eq!(Timestamp::from_ms(1).to_string(), "1970-01-01T00:00:00.001Z");
    }
}
