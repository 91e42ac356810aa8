//! The command line. Its doc comments are the help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measure how fast a relay is, as calls per second and as a share of what HTTP alone could do
///
/// Starts a release build of the relay on a seeded file, calls it over HTTP/1.1 keep-alive connections (for gRPC over
/// HTTP/2, one call at a time on each too), and prints one JSON object per measurement on standard output. Each round on the relay is followed or preceded by one on a server
/// that only parses the body and checks the key (the ceiling), with the same client: compare the ratios, not the
/// absolute figures, between machines. What A2A sends is compared with `message/send` in the same way (`send_ratio`).
///
/// Run it as `cargo bench --bench load -- [OPTIONS]`. Leave the machine alone meanwhile.
#[derive(Debug, Parser)]
#[command(name = "load")]
pub(crate) struct Options {
    /// Measure everything that has a target, and print whether each was met; the exit code is 1 if one was not
    ///
    /// Seeds a file with 10,000 threads and one with 1,000,000 (or --threads), which takes some minutes and 2 GB.
    #[arg(long, conflicts_with_all = ["url", "scenario", "connections", "ungrouped"])]
    pub(crate) all: bool,

    /// What to measure: one or more, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) scenario: Vec<Choice>,

    /// How many connections call at the same time, each one call at a time; `a2a-event` and `a2a-idle` have their own
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = connections)]
    pub(crate) connections: Vec<usize>,

    /// Length of one round in seconds
    #[arg(long, default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// How often relay and ceiling take turns; the figures are medians
    ///
    /// On a machine that does other work too, many short rounds say more than a few long ones: `--seconds 2 --rounds 9`.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Threads in the file before measuring [default: 10000; with --all 1000000]
    #[arg(long)]
    pub(crate) threads: Option<u64>,

    /// Keep the seeded file here, and use it again if it exists; measuring works on copies beside it
    ///
    /// Put it on the disk that you want to know about. Without this option the file lies in Cargo's target folder.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,

    /// Compare with the same relay committing each write by itself
    #[arg(long)]
    pub(crate) ungrouped: bool,

    /// Start this relay instead of the one that Cargo has just built
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,

    /// Measure a relay that runs already, such as `http://127.0.0.1:7420`; start it with `--rate-limit 0`
    ///
    /// Handoffs are really sent, between the agents whose keys are given: use a data file made for the purpose.
    #[arg(long, value_name = "URL", requires = "key_file", conflicts_with_all = ["data", "threads", "ungrouped", "program"])]
    pub(crate) url: Option<String>,

    /// File with the key of an agent on that relay; give at least two
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) key_file: Vec<PathBuf>,

    /// Process id of that relay, if it runs on this machine: for its CPU time and memory
    #[arg(long, requires = "url")]
    pub(crate) pid: Option<u32>,

    /// Cargo passes this to every benchmark.
    #[arg(long, hide = true)]
    pub(crate) bench: bool,
}

/// What can be measured by itself, reading first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Choice {
    /// `tasks/get` of threads with 20 messages, read before, so that no read cursor moves
    Get,
    /// `tasks/list` of an inbox's first 50 threads in any state
    List,
    /// `message/send` of new handoffs, each with a fresh idempotency key
    Create,
    /// `message/send` into threads of the same connection
    Append,
    /// `tasks/update`: accept and complete a handoff, two calls
    AcceptComplete,
    /// A2A's `SendMessage`, not waiting for the agent, by each of the three bindings, and `message/send` beside them
    #[value(name = "a2a-send")]
    A2aSend,
    /// The time from a recipient's `tasks/update` until an A2A subscriber has read of it
    #[value(name = "a2a-event")]
    A2aEvent,
    /// The memory that 1,000 A2A subscribers cost while nothing happens
    #[value(name = "a2a-idle")]
    A2aIdle,
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1024) => Ok(count),
        _ => Err("give a number from 1 to 1024".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 0.1..=3600.0) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("give a number of seconds from 0.1 to 3600".to_owned()),
    }
}
