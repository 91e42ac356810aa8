//! The query of a URL, read with the same care as a body: every problem is named.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::domain::json::{Issues, Path};
use crate::domain::page::Limit;
use crate::domain::time::Timestamp;

/// The parameters of a request's URL. What cannot be decoded is the issue of whoever reads it.
pub(in crate::api) struct Query(Option<Vec<(String, String)>>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query, Infallible> {
        let query = axum::extract::Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        Ok(Query(query.ok().map(|query| query.0)))
    }
}

impl Query {
    /// The parameter `key`; `None` when it is absent or empty.
    pub(super) fn text(&self, key: &str, issues: &mut Issues) -> Option<String> {
        let Some(parameters) = &self.0 else {
            issues.add(Path::root().key(key), "invalid_value", "the query of the URL cannot be decoded");
            return None;
        };
        let (_, value) = parameters.iter().rev().find(|(name, _)| name == key)?;
        Some(value.clone()).filter(|value| !value.is_empty())
    }

    /// The whole number `key`, within `range`.
    pub(super) fn integer(&self, key: &str, range: std::ops::RangeInclusive<i64>, issues: &mut Issues) -> Option<i64> {
        let number = self.text(key, issues)?.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let message = match *range.end() {
                i64::MAX => format!("expected a whole number of at least {}", range.start()),
                end => format!("expected a whole number from {} to {end}", range.start()),
            };
            issues.add(Path::root().key(key), "invalid_value", message);
        }
        number
    }

    /// The page size `limit`, at most `max`.
    pub(super) fn limit(&self, max: u16, issues: &mut Issues) -> Limit {
        let limit = self.integer("limit", 1..=i64::from(max), issues);
        limit.and_then(|limit| Limit::new(limit, max)).unwrap_or(Limit::DEFAULT)
    }

    /// The moment `key`.
    pub(super) fn moment(&self, key: &str, issues: &mut Issues) -> Option<Timestamp> {
        // In a query a plus is a space; whoever forgot to encode it still meant one.
        let moment = Timestamp::parse(&self.text(key, issues)?.replace(' ', "+"));
        if moment.is_none() {
            let hint = "expected a time with its offset, such as 2026-04-20T00:00:00Z (RFC 3339)";
            issues.add(Path::root().key(key), "invalid_value", hint);
        }
        moment
    }
}
