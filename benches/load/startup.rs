//! How a relay starts: the time until it is ready, and the memory that it has then.

use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::Result;
use crate::measure::Plan;
use crate::process;
use crate::report;
use crate::seed::Seed;
use crate::server::Server;
use crate::stage;
use crate::statistics::median;

/// What the starts have shown.
#[derive(Serialize)]
pub(crate) struct Startup {
    scenario: &'static str,
    subject: &'static str,
    threads: u64,
    rounds: u32,
    /// From before the process was started to the first 200 of `/readyz`; the median.
    pub(crate) ready_ms: f64,
    ready_max_ms: f64,
    /// A second later, without a call in between; the maximum.
    pub(crate) idle_rss_mib: Option<f64>,
    pub(crate) program_mib: f64,
}

/// Starts the relay on a copy of the seeded file, some times in a row, and prints the result.
pub(crate) async fn measure(plan: &Plan, seed: &Seed) -> Result<Startup> {
    let (_folder, data) = stage::copy(&seed.path).await?;
    let mut ready_ms = Vec::new();
    let mut idle_rss_mib: Option<f64> = None;
    for _ in 0..plan.rounds {
        let server = Server::relay(&plan.program, &data, true).await?;
        ready_ms.push(server.ready().await?.as_secs_f64() * 1e3);
        sleep(Duration::from_secs(1)).await;
        let resident_mib = process::memory(server.pid).map(|memory| memory.resident_mib);
        idle_rss_mib = idle_rss_mib.into_iter().chain(resident_mib).reduce(f64::max);
        server.stop().await?;
    }
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 bytes")]
    let program_bytes = plan.program.metadata()?.len() as f64;
    let startup = Startup {
        scenario: "startup",
        subject: "relay",
        threads: seed.threads,
        rounds: plan.rounds,
        ready_ms: report::rounded(median(ready_ms.iter().copied()).ok_or("no rounds")?),
        ready_max_ms: report::rounded(ready_ms.into_iter().fold(0.0, f64::max)),
        idle_rss_mib: idle_rss_mib.map(report::rounded),
        program_mib: report::rounded(program_bytes / f64::from(1 << 20)),
    };
    eprintln!("startup with {} threads: ready after {:.1} ms", seed.threads, startup.ready_ms);
    report::line(&startup)?;
    Ok(startup)
}
