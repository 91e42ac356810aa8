//! Values as people type them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Span;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::domain::agent::{DESCRIPTION_MAX, EMAIL_MAX, Handle, NAME_MAX};
use crate::domain::event::EventKind;
use crate::domain::id::{AgentId, DeadLetterId};
use crate::domain::time::Timestamp;
use crate::relay::agents::AgentName;

/// An agent by its handle or its id.
pub(super) fn agent_name(text: &str) -> Result<AgentName, String> {
    match AgentId::parse(text) {
        Some(id) => Ok(AgentName::Id(id)),
        None => Handle::parse(text).map(AgentName::Handle),
    }
}

/// A dead letter by its id.
pub(super) fn dead_letter_id(text: &str) -> Result<DeadLetterId, String> {
    DeadLetterId::parse(text).ok_or_else(|| "an id has 26 characters; see agentrelay deadletters list".to_owned())
}

/// A name, role or label.
pub(super) fn name(text: &str) -> Result<String, String> {
    between(text, NAME_MAX)
}

/// An email address.
pub(super) fn email(text: &str) -> Result<String, String> {
    between(text, EMAIL_MAX)
}

/// Why somebody is blocked.
pub(super) fn reason(text: &str) -> Result<String, String> {
    between(text, DESCRIPTION_MAX)
}

fn between(text: &str, length_max: usize) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("leave the option out, or say something".into());
    }
    if text.chars().count() > length_max {
        return Err(format!("at most {length_max} characters are taken"));
    }
    Ok(text.to_owned())
}

/// What happened, by its name in the log.
pub(super) fn event_kind() -> impl TypedValueParser<Value = EventKind> {
    PossibleValuesParser::new(EventKind::ALL.iter().map(|kind| kind.name()))
        .try_map(|name| EventKind::from_name(&name).ok_or_else(|| format!("there is no action '{name}'")))
}

/// A moment, or a time from now into the future or the past.
#[derive(Clone, Debug)]
pub(super) enum Moment {
    At(Timestamp),
    Away(Span),
}

impl Moment {
    /// Reads a moment such as `2026-04-25T10:00:00Z` or a time such as `30d`.
    pub(super) fn parse(text: &str) -> Result<Moment, String> {
        if let Some(moment) = Timestamp::parse(text) {
            return Ok(Moment::At(moment));
        }
        match text.parse::<Span>() {
            Ok(span) if span.is_positive() => Ok(Moment::Away(span)),
            _ => Err("write a time such as 12h, 30d or 1y, or a moment such as 2026-04-25T10:00:00Z".into()),
        }
    }

    /// The moment after `now`.
    ///
    /// # Errors
    /// When it is not after `now`, or further away than the calendar reaches.
    pub(super) fn after(self, now: Timestamp) -> Result<Timestamp, String> {
        let moment = self.resolve(now, DateTime::checked_add)?;
        if moment <= now { Err(format!("{moment} is in the past")) } else { Ok(moment) }
    }

    /// The moment before `now`.
    pub(super) fn before(self, now: Timestamp) -> Result<Timestamp, String> {
        self.resolve(now, DateTime::checked_sub)
    }

    fn resolve(
        self,
        now: Timestamp,
        away: impl FnOnce(DateTime, Span) -> Result<DateTime, jiff::Error>,
    ) -> Result<Timestamp, String> {
        let span = match self {
            Moment::At(moment) => return Ok(moment),
            Moment::Away(span) => span,
        };
        // Days, months and years are the calendar's, in UTC.
        let now = jiff::Timestamp::from_millisecond(now.ms()).map(|now| Offset::UTC.to_datetime(now));
        let moment = now.and_then(|now| away(now, span)).and_then(|moment| Offset::UTC.to_timestamp(moment));
        moment
            .map(|moment| Timestamp::from_ms(moment.as_millisecond()))
            .map_err(|_| format!("{span:#} is further away than the calendar reaches"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_named_by_its_handle_or_its_id() {
        assert!(matches!(agent_name("Frank@acme"), Ok(AgentName::Handle(handle)) if handle.as_str() == "frank@acme"));
        assert!(matches!(agent_name("01hxyz4k2vnjqp7r8mwdb3cstf"), Ok(AgentName::Id(_))));
        assert!(agent_name("frank").is_err());
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = Timestamp::parse("2026-01-31T10:00:00Z").expect("a time");
        let after =
            |text: &str| Moment::parse(text).and_then(|moment| moment.after(now)).map(|moment| moment.to_string());
        assert_eq!(after("30d").as_deref(), Ok("2026-03-02T10:00:00.000Z"));
        assert_eq!(after("90m").as_deref(), Ok("2026-01-31T11:30:00.000Z"));
        assert_eq!(after("2 weeks").as_deref(), Ok("2026-02-14T10:00:00.000Z"));
        assert_eq!(after("1y").as_deref(), Ok("2027-01-31T10:00:00.000Z"));
        assert_eq!(after("2026-02-01T00:00:00+02:00").as_deref(), Ok("2026-01-31T22:00:00.000Z"));
        for text in ["", "soon", "30", "-1d", "0d", "2026-01-31", "2026-01-31T10:00:00Z", "99999y"] {
            after(text).expect_err(text);
        }
        let before = Moment::parse("2h").and_then(|moment| moment.before(now)).map(|moment| moment.to_string());
        assert_eq!(before.as_deref(), Ok("2026-01-31T08:00:00.000Z"));
    }
}
