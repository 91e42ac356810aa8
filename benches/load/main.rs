//! The load benchmark: how fast a relay is, seen from its network side.
//!
//! `cargo bench --bench load -- --help` explains the options, `options.rs` is the same text. The path of a measurement:
//! `seed` fills a file, `stage` starts a server on a copy of it, `scenario` prepares what the connections will say,
//! `drive` lets them say it, `measure` takes turns between relay and ceiling, `report` prints. What is no rate of calls has
//! a file of its own: `startup`, `a2a_event`, `a2a_idle`.

// What is measured, and how it is told.
mod measure;
mod options;
mod report;
mod startup;
mod a2a_event;
mod a2a_idle;
mod targets;

// What the connections say.
mod bodies;
mod cast;
mod handoffs;
mod scenario;
mod script;

// To whom they say it.
mod ceiling;
mod fill;
mod remote;
mod seed;
mod server;
mod stage;

// How fast they do.
mod drive;
mod http;
mod grpc;
mod sse;
mod subscription;
mod process;
mod statistics;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::measure::{Plan, Subject, compare};
use crate::options::{Choice, Options};
use crate::remote::Remote;
use crate::scenario::Scenario;
use crate::seed::Seed;

/// Nobody acts on the kind of an error here: it is printed.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Threads in the file unless the options say otherwise, and in the small and the large file of `--all`.
const THREADS: u64 = 10_000;
const THREADS_LARGE: u64 = 1_000_000;

fn main() -> ExitCode {
    let outcome = if std::env::args_os().nth(1).is_some_and(|argument| argument == ceiling::ARGUMENT) {
        ceiling::serve().map(|()| true)
    } else if std::env::args_os().len() == 1 {
        // `cargo test --all-targets` starts benchmarks without arguments, and does not want to wait for figures.
        eprintln!("Nothing was measured; run `cargo bench --bench load`");
        Ok(true)
    } else {
        client(&Options::parse())
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("caused by: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs until done or interrupted. Either way the servers end, because what holds them is dropped.
fn client(options: &Options) -> Result<bool> {
    // Two threads gave the highest ceiling on two cores: 115,000 calls per second on 64 connections against 98,000 with
    // one thread, whose core then was the limit; on 16 connections and on one they made no difference.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            outcome = run(options) => outcome,
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// Answers whether everything went well: no call failed, and with `--all` every target was met.
async fn run(options: &Options) -> Result<bool> {
    let plan = Plan {
        program: options.program.clone().unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_agentrelay"))),
        seconds: options.seconds,
        rounds: options.rounds,
    };
    if options.all {
        let small = Seed::prepare(None, THREADS).await?;
        let large = Seed::prepare(options.data.as_deref(), options.threads.unwrap_or(THREADS_LARGE)).await?;
        return targets::measure_all(&plan, &small, &large).await;
    }
    if let Some(url) = &options.url {
        let remote = Remote::meet(url, &options.key_file, options.pid).await?;
        return each(options, &plan, &[Subject::Remote(&remote), Subject::Ceiling(&remote.cast)]).await;
    }
    let seed = Seed::prepare(options.data.as_deref(), options.threads.unwrap_or(THREADS)).await?;
    startup::measure(&plan, &seed).await?;
    let mut subjects = vec![Subject::Relay { seed: &seed, grouping: true }, Subject::Ceiling(&seed.cast)];
    if options.ungrouped {
        subjects.push(Subject::Relay { seed: &seed, grouping: false });
    }
    each(options, &plan, &subjects).await
}

/// Each choice, and where calls are counted, with each number of connections. The first subject is the relay.
async fn each(options: &Options, plan: &Plan, subjects: &[Subject<'_>]) -> Result<bool> {
    let relay = subjects[0];
    let choices = if options.scenario.is_empty() { Choice::value_variants() } else { &options.scenario };
    let mut errors = 0;
    for &choice in choices {
        let everybody = |scenario| subjects.iter().map(|&subject| (scenario, subject)).collect::<Vec<_>>();
        let contestants = match choice {
            Choice::Get => everybody(Scenario::Get),
            Choice::List => everybody(Scenario::List),
            Choice::Create => everybody(Scenario::Create),
            Choice::Append => everybody(Scenario::Append),
            Choice::AcceptComplete => everybody(Scenario::AcceptComplete),
            Choice::A2aSend => scenario::SENDS.map(|scenario| (scenario, relay)).to_vec(),
            Choice::A2aEvent => {
                a2a_event::measure(plan, relay).await?;
                continue;
            }
            Choice::A2aIdle => {
                a2a_idle::measure(plan, relay).await?;
                continue;
            }
        };
        for &connections in &options.connections {
            let measured = compare(plan, connections, contestants.iter().copied()).await?;
            report::print(plan, connections, &measured)?;
            errors += measured.iter().map(measure::Contestant::errors).sum::<u64>();
        }
    }
    Ok(errors == 0)
}
