//! The report: one JSON object per line of standard output.

use std::io::Write;

use serde::Serialize;

use crate::Result;
use crate::measure::{Contestant, Plan, Round, Subject};
use crate::scenario::Scenario;
use crate::statistics::median;

/// Prints one line per contestant. The ceiling, if it took part, is what each is divided by; and what A2A sends, by what
/// `message/send` does.
pub(crate) fn print(plan: &Plan, connections: usize, contestants: &[Contestant]) -> Result<()> {
    let ceiling = contestants.iter().find(|contestant| matches!(contestant.subject, Subject::Ceiling(_)));
    let send = contestants.iter().find(|contestant| contestant.scenario == Scenario::Create);
    for contestant in contestants {
        let send = send.filter(|_| contestant.scenario.is_a2a_send());
        line(&Measurement::new(plan, connections, contestant, ceiling, send))?;
    }
    Ok(())
}

/// Prints any object as one line.
pub(crate) fn line(object: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, object)?;
    writeln!(out)?;
    Ok(())
}

/// One contestant at one scenario. Rates, percentiles and CPU time are medians over the rounds; calls and errors are
/// sums; maxima are maxima.
#[derive(Serialize)]
struct Measurement<'a> {
    scenario: Scenario,
    connections: usize,
    subject: &'static str,
    threads: Option<u64>,
    grouping: Option<bool>,
    rounds: usize,
    seconds: f64,
    calls: usize,
    errors: u64,
    first_error: Option<&'a str>,
    calls_per_s: Option<f64>,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    cpu_us_per_call: Option<f64>,
    rss_mib: Option<f64>,
    rss_peak_mib: Option<f64>,
    wal_max_bytes: Option<u64>,
    ceiling_ratio: Option<f64>,
    /// One for each round.
    ceiling_ratios: Vec<f64>,
    /// Of A2A's ways to send: the share of what `message/send` does.
    send_ratio: Option<f64>,
    send_ratios: Vec<f64>,
}

impl Measurement<'_> {
    fn new<'a>(
        plan: &Plan,
        connections: usize,
        contestant: &'a Contestant,
        ceiling: Option<&Contestant>,
        send: Option<&Contestant>,
    ) -> Measurement<'a> {
        let rounds = &contestant.rounds;
        let (subject, threads, grouping) = match contestant.subject {
            Subject::Relay { seed, grouping } => ("relay", Some(seed.threads), Some(grouping)),
            Subject::Remote(_) => ("relay", None, None),
            Subject::Ceiling(_) => ("ceiling", None, None),
        };
        let median_of = |figure: fn(&Round) -> f64| contestant.median(|round| Some(figure(round))).map(rounded);
        let max_of = |figure: fn(&Round) -> Option<f64>| rounds.iter().filter_map(figure).reduce(f64::max).map(rounded);
        let ratios = |other: Option<&Contestant>| -> Vec<f64> {
            other.map(|other| contestant.ratios(other, |round| Some(round.calls_per_s))).unwrap_or_default()
        };
        let (ceiling_ratios, send_ratios) = (ratios(ceiling), ratios(send));
        Measurement {
            scenario: contestant.scenario,
            connections,
            subject,
            threads,
            grouping,
            rounds: rounds.len(),
            seconds: plan.seconds.as_secs_f64(),
            calls: rounds.iter().map(|round| round.calls).sum(),
            errors: contestant.errors(),
            first_error: rounds.iter().find_map(|round| round.first_error.as_deref()),
            calls_per_s: median_of(|round| round.calls_per_s),
            p50_ms: median_of(|round| round.latency_ms.p50),
            p90_ms: median_of(|round| round.latency_ms.p90),
            p99_ms: median_of(|round| round.latency_ms.p99),
            max_ms: max_of(|round| Some(round.latency_ms.max)),
            cpu_us_per_call: contestant.median(|round| round.cpu_us_per_call).map(rounded),
            rss_mib: max_of(|round| Some(round.memory?.resident_mib)),
            rss_peak_mib: max_of(|round| Some(round.memory?.peak_mib)),
            wal_max_bytes: rounds.iter().filter_map(|round| round.wal_max_bytes).max(),
            ceiling_ratio: median(ceiling_ratios.iter().copied()).map(rounded),
            ceiling_ratios: ceiling_ratios.into_iter().map(rounded).collect(),
            send_ratio: median(send_ratios.iter().copied()).map(rounded),
            send_ratios: send_ratios.into_iter().map(rounded).collect(),
        }
    }
}

/// Four decimals: more would be noise, and hard to read.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
