//! `--all`: the measurements that have a target, and whether each target was met.

use serde::Serialize;

use crate::measure::{Contestant, Plan, Round, Subject, compare};
use crate::report;
use crate::scenario::{SENDS, Scenario};
use crate::seed::Seed;
use crate::statistics::median;
use crate::subscription::Binding;
use crate::{Result, a2a_event, a2a_idle, startup};

/// Measures on a small and a large file, prints the table on standard error, and answers whether all targets were met
/// and no call failed.
pub(crate) async fn measure_all(plan: &Plan, small: &Seed, large: &Seed) -> Result<bool> {
    let few = Subject::Relay { seed: small, grouping: true };
    let few_ungrouped = Subject::Relay { seed: small, grouping: false };
    let many = Subject::Relay { seed: large, grouping: true };
    let ceiling = Subject::Ceiling(&small.cast);

    let start = startup::measure(plan, large).await?;
    // Whose rates are compared stand side by side, to be measured at the same speed of the machine.
    let create = match_of(plan, Scenario::Create, 64, [few_ungrouped, few, ceiling, many]).await?;
    let list = match_of(plan, Scenario::List, 16, [few, ceiling, many]).await?;
    let get = match_of(plan, Scenario::Get, 16, [few, ceiling, many]).await?;
    // These two have no target but the memory.
    let append = match_of(plan, Scenario::Append, 64, [few, ceiling]).await?;
    let accept = match_of(plan, Scenario::AcceptComplete, 64, [few, ceiling]).await?;
    let sends = contest(plan, 64, SENDS.map(|scenario| (scenario, few))).await?;
    let events = a2a_event::measure(plan, few).await?;
    let idle = a2a_idle::measure(plan, few).await?;

    let all = || [&create[..], &list[..], &get[..], &append[..], &accept[..], &sends[..]].into_iter().flatten();
    let relays = || all().filter(|contestant| matches!(contestant.subject, Subject::Relay { grouping: true, .. }));
    let errors: u64 = all().map(Contestant::errors).sum();
    let [create_ungrouped, create_few, create_ceiling, create_many] = &create;
    let [list_few, list_ceiling, list_many] = &list;
    let [get_few, get_ceiling, get_many] = &get;
    let [send, send_json_rpc, send_http_json, send_grpc] = &sends;
    let event_ms = |binding| events.iter().find(|event| event.binding == binding).map(|event| event.p50_ms);
    let idle_mib = |binding| idle.iter().find(|idle| idle.binding == binding)?.more_mib;
    let tail = create_few.median(|round| Some(round.latency_ms.p99 / round.latency_ms.p50));

    let targets = [
        Target::at_least(0.09, "create: share of the ceiling", rate(create_few, create_ceiling)),
        Target::at_least(3.5, "create: times the rate without grouping", rate(create_few, create_ungrouped)),
        Target::at_most(8.0, "create: p99 over p50", tail),
        Target::at_least(0.07, "create, large file: share of the ceiling", rate(create_many, create_ceiling)),
        Target::at_most(1.35, "create, large over small file: CPU a call", cost(create_many, create_few)),
        Target::at_least(0.10, "list: share of the ceiling", rate(list_few, list_ceiling)),
        Target::at_most(1.2, "list, large over small file: CPU a call", cost(list_many, list_few)),
        Target::at_least(0.22, "get: share of the ceiling", rate(get_few, get_ceiling)),
        Target::at_most(1.35, "get, large over small file: CPU a call", cost(get_many, get_few)),
        Target::at_most(15.0, "resident when idle, MiB", start.idle_rss_mib),
        Target::at_most(40.0, "resident under load, MiB", relays().filter_map(Contestant::peak_mib).reduce(f64::max)),
        Target::at_most(50.0, "ready on the large file, ms", Some(start.ready_ms)),
        Target::at_most(15.0, "size of the program, MiB", Some(start.program_mib)),
        Target::at_least(0.8, "A2A send, JSON-RPC: share of message/send", rate(send_json_rpc, send)),
        Target::at_least(0.8, "A2A send, HTTP+JSON: share of message/send", rate(send_http_json, send)),
        Target::at_least(0.8, "A2A send, gRPC: share of message/send", rate(send_grpc, send)),
        Target::at_most(20.0, "A2A event to a subscriber, SSE: median, ms", event_ms(Binding::HttpJson)),
        Target::at_most(20.0, "A2A event to a subscriber, gRPC: median, ms", event_ms(Binding::Grpc)),
        Target::at_most(40.0, "1,000 idle subscribers, SSE: more MiB", idle_mib(Binding::HttpJson)),
        Target::at_most(40.0, "1,000 idle subscribers, gRPC: more MiB", idle_mib(Binding::Grpc)),
    ];
    eprintln!("\nsmall file: {} threads, large file: {}", small.threads, large.threads);
    eprintln!("{:<44} {:>9} {:>9}", "", "target", "measured");
    for target in &targets {
        target.print()?;
    }
    if errors > 0 {
        eprintln!("{errors} calls failed");
    }
    Ok(errors == 0 && targets.iter().all(|target| target.met == Some(true)))
}

/// Compares subjects at one scenario, and reports.
async fn match_of<'a, const N: usize>(
    plan: &Plan,
    scenario: Scenario,
    connections: usize,
    subjects: [Subject<'a>; N],
) -> Result<[Contestant<'a>; N]> {
    contest(plan, connections, subjects.map(|subject| (scenario, subject))).await
}

/// Compares and reports.
async fn contest<'a, const N: usize>(
    plan: &Plan,
    connections: usize,
    contestants: [(Scenario, Subject<'a>); N],
) -> Result<[Contestant<'a>; N]> {
    let contestants = compare(plan, connections, contestants).await?;
    report::print(plan, connections, &contestants)?;
    contestants.try_into().map_err(|_| "a contestant got lost".into())
}

/// How fast one is, as a multiple of the other.
fn rate(ours: &Contestant, theirs: &Contestant) -> Option<f64> {
    median(ours.ratios(theirs, |round: &Round| Some(round.calls_per_s)))
}

/// What a call costs the one, as a multiple of the other.
fn cost(ours: &Contestant, theirs: &Contestant) -> Option<f64> {
    median(ours.ratios(theirs, |round: &Round| round.cpu_us_per_call))
}

/// A figure, and where it should be.
#[derive(Serialize)]
struct Target {
    scenario: &'static str,
    name: &'static str,
    at_least: Option<f64>,
    at_most: Option<f64>,
    /// Absent where the system does not tell.
    measured: Option<f64>,
    met: Option<bool>,
}

impl Target {
    fn at_least(limit: f64, name: &'static str, measured: Option<f64>) -> Target {
        let met = measured.map(|measured| measured >= limit);
        let measured = measured.map(report::rounded);
        Target { scenario: "target", name, at_least: Some(limit), at_most: None, measured, met }
    }

    fn at_most(limit: f64, name: &'static str, measured: Option<f64>) -> Target {
        let met = measured.map(|measured| measured <= limit);
        let measured = measured.map(report::rounded);
        Target { scenario: "target", name, at_least: None, at_most: Some(limit), measured, met }
    }

    /// One line for people, one for programs.
    fn print(&self) -> Result<()> {
        let limit = match (self.at_least, self.at_most) {
            (Some(limit), _) => format!("≥ {limit}"),
            (None, Some(limit)) => format!("≤ {limit}"),
            (None, None) => String::new(),
        };
        let measured = self.measured.map_or_else(|| "unknown".to_owned(), |measured| format!("{measured:.3}"));
        let met = match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        eprintln!("{:<44} {limit:>9} {measured:>9} {met}", self.name);
        report::line(self)
    }
}
