//! Laws: what holds for every sequence of calls by anyone, in any interleaving.
//!
//! Each case is a relay of its own, called over HTTP. The cases are the same in every run; `PROPTEST_CASES` asks for
//! more of them, `PROPTEST_RNG_SEED` for others.

mod model;
mod races;
mod retries;
mod sequences;
mod walks;
mod world;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tokio::task::JoinSet;

use crate::support::{Agent, TestRelay};

/// How many agents call.
const CALLERS: usize = 4;
/// A moment, for laws about time.
const SENT_AT: i64 = 1_800_000_000_000;

/// Holds `law` against many values.
fn hold<S: Strategy>(cases: u32, values: &S, law: impl AsyncFn(S::Value)) {
    let chosen = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let config = Config {
        cases: chosen("PROPTEST_CASES").map_or(cases, |cases: u64| u32::try_from(cases).expect("a number of cases")),
        rng_seed: RngSeed::Fixed(chosen("PROPTEST_RNG_SEED").unwrap_or(1)),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let held = TestRunner::new(config).run(values, |value| {
        runtime.block_on(law(value));
        Ok(())
    });
    if let Err(error) = held {
        panic!("{error}");
    }
}

/// A relay with as many agents as call.
async fn relay_with_callers() -> (TestRelay, Vec<Agent>) {
    let relay = TestRelay::start().await;
    let mut agents = Vec::new();
    for name in ["ann", "bob", "cleo", "frank"] {
        agents.push(relay.agent(&format!("{name}@acme")).await);
    }
    (relay, agents)
}

/// Runs all of these at the same moment; gives what they came to, in their order.
async fn at_once<T: Send + 'static>(works: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let mut running = JoinSet::new();
    for (place, work) in works.enumerate() {
        running.spawn(async move { (place, work.await) });
    }
    let mut outcomes = running.join_all().await;
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn count(relay: &TestRelay, sql: &str) -> i64 {
    relay.sqlite().query_row(sql, [], |row| row.get(0)).expect("a number")
}
