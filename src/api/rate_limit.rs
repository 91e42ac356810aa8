//! The rate limit: so many calls in any 60 seconds, per agent. An exact window: it holds the times of the last calls,
//! so that the answer to "when again?" is true.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::id::Row;
use crate::error::{Error, Result, Symbol};

const WINDOW: Duration = Duration::from_secs(60);

/// The calls of each agent within the last window.
#[derive(Debug)]
pub(super) struct RateLimit {
    calls_max: usize,
    calls: Mutex<HashMap<Row, VecDeque<Instant>>>,
}

impl RateLimit {
    /// At most `calls_max` calls in a window; 0 for no limit.
    pub(super) fn new(calls_max: u32) -> RateLimit {
        RateLimit { calls_max: usize::try_from(calls_max).unwrap_or(usize::MAX), calls: Mutex::default() }
    }

    /// The most calls in a window; 0 for no limit.
    pub(super) fn calls_max(&self) -> usize {
        self.calls_max
    }

    /// Counts a call of `agent` now. One that is refused does not count.
    pub(super) fn count(&self, agent: Row, now: Instant) -> Result<()> {
        if self.calls_max == 0 {
            return Ok(());
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(agent).or_default();
        while calls.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            calls.pop_front();
        }
        if calls.len() < self.calls_max {
            calls.push_back(now);
            return Ok(());
        }
        let wait = calls.front().map_or(WINDOW, |first| WINDOW.saturating_sub(now.duration_since(*first)));
        // Rounded up: after so many whole seconds a call does succeed.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let message = format!(
            "More than {} calls within 60 seconds; wait {seconds} s, as the Retry-After header says",
            self.calls_max
        );
        Err(Error::new(Symbol::RateLimited, message).with_retry_after(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_sixty_seconds_hold_at_most_the_limit_and_the_wait_is_enough() {
        let limit = RateLimit::new(3);
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        for ms in [0, 10_500, 20_000] {
            limit.count(1, at(ms)).expect("within the limit");
        }
        let refused = limit.count(1, at(30_000)).expect_err("the fourth");
        assert_eq!(refused.retry_after_s(), Some(30));
        limit.count(2, at(30_000)).expect("another agent");
        limit.count(1, at(60_000)).expect("after the wait");
        assert_eq!(limit.count(1, at(60_001)).expect_err("the window slides").retry_after_s(), Some(11));
        limit.count(1, at(60_001 + 11_000)).expect("after the wait");
    }

    #[test]
    fn zero_turns_it_off() {
        let limit = RateLimit::new(0);
        let now = Instant::now();
        assert!((0..1_000).all(|_| limit.count(1, now).is_ok()));
    }
}
