//! Measuring: contestants take turns at the same scenario, round by round.
//!
//! The machine's speed changes from one second to the next, and with it every absolute figure. Figures of one round,
//! taken a moment apart, share that speed; so ratios are taken within a round, and the median over the rounds counts.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::interval;

use crate::Result;
use crate::cast::Cast;
use crate::drive::{Line, drive};
use crate::process::{self, Memory};
use crate::remote::Remote;
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::stage::Stage;
use crate::statistics::{PercentilesMs, median};

/// Who is measured.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Relay { seed: &'a Seed, grouping: bool },
    Remote(&'a Remote),
    Ceiling(&'a Cast),
}

/// How long, how often, and with which relay.
pub(crate) struct Plan {
    pub(crate) program: PathBuf,
    pub(crate) seconds: Duration,
    pub(crate) rounds: u32,
}

/// One subject's rounds at one scenario.
pub(crate) struct Contestant<'a> {
    pub(crate) scenario: Scenario,
    pub(crate) subject: Subject<'a>,
    pub(crate) rounds: Vec<Round>,
    stage: Option<Stage>,
}

/// What one round has shown.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) calls: usize,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) calls_per_s: f64,
    pub(crate) latency_ms: PercentilesMs,
    pub(crate) cpu_us_per_call: Option<f64>,
    pub(crate) memory: Option<Memory>,
    pub(crate) wal_max_bytes: Option<u64>,
}

/// Lets the contestants take turns, every other round in the opposite order, so that none always comes first.
pub(crate) async fn compare<'a>(
    plan: &Plan,
    connections: usize,
    contestants: impl IntoIterator<Item = (Scenario, Subject<'a>)>,
) -> Result<Vec<Contestant<'a>>> {
    let contestant = |(scenario, subject)| Contestant { scenario, subject, rounds: Vec::new(), stage: None };
    let mut contestants: Vec<Contestant> = contestants.into_iter().map(contestant).collect();
    for number in 0..plan.rounds {
        let mut order: Vec<&mut Contestant> = contestants.iter_mut().collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for contestant in order {
            contestant.play(plan, connections).await?;
        }
    }
    for contestant in &mut contestants {
        if let Some(stage) = contestant.stage.take() {
            stage.stop().await?;
        }
    }
    Ok(contestants)
}

impl Contestant<'_> {
    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(figure))
    }

    /// A figure of each round, divided by the other's in the same round.
    pub(crate) fn ratios(&self, other: &Contestant, figure: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        pairs.filter_map(|(ours, theirs)| Some(figure(ours)? / figure(theirs)?)).collect()
    }

    /// Calls that failed, in all rounds.
    pub(crate) fn errors(&self) -> u64 {
        self.rounds.iter().map(|round| round.errors).sum()
    }

    /// The most memory that the server ever had, in MiB.
    pub(crate) fn peak_mib(&self) -> Option<f64> {
        let peaks = self.rounds.iter().filter_map(|round| Some(round.memory?.peak_mib));
        peaks.reduce(f64::max)
    }

    async fn play(&mut self, plan: &Plan, connections: usize) -> Result<()> {
        let scenario = self.scenario;
        let stage = match self.stage.take() {
            Some(stage) => stage,
            None => self.subject.stage(plan).await?,
        };
        let round = round(plan, scenario, connections, &stage).await?;
        eprintln!(
            "{scenario}, connections: {connections}, {:.0} calls/s, p99 {:.1} ms, {}",
            round.calls_per_s, round.latency_ms.p99, self.subject
        );
        if let Some(error) = &round.first_error {
            eprintln!("{} calls failed, the first one with {error}", round.errors);
        }
        self.rounds.push(round);
        if scenario.writes() {
            stage.stop().await?;
        } else {
            self.stage = Some(stage);
        }
        Ok(())
    }
}

impl Subject<'_> {
    /// Starts the server, if it does not run yet.
    pub(crate) async fn stage(self, plan: &Plan) -> Result<Stage> {
        match self {
            Subject::Relay { seed, grouping } => Stage::relay(&plan.program, seed, grouping).await,
            Subject::Remote(remote) => Ok(Stage::remote(remote)),
            Subject::Ceiling(cast) => Stage::ceiling(cast).await,
        }
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Relay { seed, grouping: true } => write!(f, "relay with {} threads", seed.threads),
            Subject::Relay { seed, grouping: false } => write!(f, "relay with {} threads, ungrouped", seed.threads),
            Subject::Remote(remote) => write!(f, "relay at {}", remote.address),
            Subject::Ceiling(_) => f.write_str("ceiling"),
        }
    }
}

async fn round(plan: &Plan, scenario: Scenario, connections: usize, stage: &Stage) -> Result<Round> {
    /// Fills caches, moves read cursors, starts threads: what a server that has run for a day has behind it.
    const WARM_UP: Duration = Duration::from_millis(500);

    let mut lines = Vec::with_capacity(connections);
    let scripts = scenario.scripts(stage, connections, WARM_UP + plan.seconds).await?;
    for (number, script) in scripts.into_iter().enumerate() {
        lines.push(Line { connection: scenario.connect(stage, number).await?, script });
    }
    let (lines, warm_up) = drive(lines, WARM_UP).await;
    let cpu_time = || process::cpu_time(stage.pid?);
    let cpu_before = cpu_time();
    let mut wal_max_bytes = None;
    let measured = tokio::select! {
        (_, measured) = drive(lines, plan.seconds) => measured,
        never = watch(stage.wal.as_deref(), &mut wal_max_bytes) => match never {},
    };
    let cpu = cpu_time().zip(cpu_before).map(|(after, before)| after.saturating_sub(before));

    let calls = measured.latencies.len();
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 calls")]
    let calls_f64 = calls as f64;
    Ok(Round {
        calls,
        errors: warm_up.errors + measured.errors,
        first_error: warm_up.first_error.or(measured.first_error),
        calls_per_s: calls_f64 / measured.elapsed.as_secs_f64(),
        latency_ms: measured.latencies.percentiles(),
        cpu_us_per_call: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / calls_f64),
        memory: stage.pid.and_then(process::memory),
        wal_max_bytes,
    })
}

/// Looks at the size of the write-ahead log for as long as it is polled.
async fn watch(wal: Option<&Path>, max_bytes: &mut Option<u64>) -> Infallible {
    let mut often = interval(Duration::from_millis(50));
    loop {
        often.tick().await;
        let bytes = wal.and_then(|wal| Some(fs::metadata(wal).ok()?.len()));
        *max_bytes = (*max_bytes).max(bytes);
    }
}
