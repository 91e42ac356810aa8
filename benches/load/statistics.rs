//! Latencies and medians. Every latency is kept, so percentiles are exact.

use std::time::Duration;

/// Latencies in microseconds; four bytes each, so that minutes of calls fit into some megabytes.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

/// What is reported of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PercentilesMs {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Latencies {
    pub(crate) fn push(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Latencies) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All 0 when there are no latencies.
    pub(crate) fn percentiles(mut self) -> PercentilesMs {
        self.0.sort_unstable();
        let at = |percent: usize| {
            let rank = (self.0.len() * percent).div_ceil(100).max(1);
            let micros = self.0.get(rank - 1).copied().unwrap_or_default();
            f64::from(micros) / 1000.0
        };
        PercentilesMs { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

/// The middle value; of an even number the mean of the two in the middle. `None` when there is no value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(values[values.len() / 2 - 1], upper))
}
