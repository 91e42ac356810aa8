//! How long it takes until a subscriber knows: from a recipient's call to the event that an A2A client reads.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::bodies;
use crate::handoffs::{self, ask};
use crate::http::{Connection, Request};
use crate::measure::{Plan, Subject};
use crate::report;
use crate::stage::Stage;
use crate::statistics::Latencies;
use crate::subscription::{BINDINGS, Binding, Subscription};

/// Events of one round and binding.
const EVENTS: usize = 300;
/// The relay is at rest before each event, as it is when an agent reports now and then.
const PAUSE: Duration = Duration::from_millis(3);
/// An event that takes longer is lost.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What the rounds have shown.
#[derive(Serialize)]
pub(crate) struct Event {
    scenario: &'static str,
    pub(crate) binding: Binding,
    rounds: u32,
    events: usize,
    /// From just before the recipient's call is written until the subscriber has read the event.
    pub(crate) p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// What the recipient itself waits for its answer: most of it is the disk.
    call_p50_ms: f64,
    call_p99_ms: f64,
}

/// Measures both bindings in turn on one relay, and prints the results.
pub(crate) async fn measure(plan: &Plan, subject: Subject<'_>) -> Result<[Event; 2]> {
    let stage = subject.stage(plan).await?;
    let mut seen = [Seen::default(), Seen::default()];
    for number in 0..plan.rounds {
        let mut order: Vec<_> = BINDINGS.into_iter().zip(&mut seen).collect();
        if number % 2 == 1 {
            order.reverse();
        }
        for (binding, seen) in order {
            follow(&stage, binding, seen).await?;
        }
    }
    stage.stop().await?;
    let [first, second] = seen;
    let events = [first.event(plan, BINDINGS[0]), second.event(plan, BINDINGS[1])];
    for event in &events {
        eprintln!("A2A event by {:?}: median {:.2} ms, p99 {:.2} ms", event.binding, event.p50_ms, event.p99_ms);
        report::line(event)?;
    }
    Ok(events)
}

/// The latencies so far.
#[derive(Default)]
struct Seen {
    events: Latencies,
    calls: Latencies,
}

impl Seen {
    fn event(self, plan: &Plan, binding: Binding) -> Event {
        let events = self.events.len();
        let (event, call) = (self.events.percentiles(), self.calls.percentiles());
        Event {
            scenario: "a2a_event",
            binding,
            rounds: plan.rounds,
            events,
            p50_ms: report::rounded(event.p50),
            p90_ms: report::rounded(event.p90),
            p99_ms: report::rounded(event.p99),
            max_ms: report::rounded(event.max),
            call_p50_ms: report::rounded(call.p50),
            call_p99_ms: report::rounded(call.p99),
        }
    }
}

/// One task, from its acceptance on.
async fn follow(stage: &Stage, binding: Binding, seen: &mut Seen) -> Result<()> {
    let sender = stage.cast.sender(0);
    let recipient = stage.cast.recipients(0).next().ok_or("a cast of one")?;
    let threads = handoffs::create(stage, sender, recipient, 0, 1).await?;
    let thread = *threads.first().ok_or("no handoff was sent")?;
    let mut line = Connection::open(stage.address).await?;
    let mut accept = Request::post(stage.address, &recipient.key, &bodies::accept());
    accept.set_thread(thread);
    ask(&mut line, &accept).await?;
    let mut subscription = Subscription::open(stage, binding, sender, recipient, thread).await?;
    for number in 0..EVENTS {
        // Long enough to be no part of the message before.
        let mark = format!("Report {number:06}.");
        let report = Request::post(stage.address, &recipient.key, &bodies::progress(thread, &mark));
        sleep(PAUSE).await;
        let start = Instant::now();
        let answered = async {
            ask(&mut line, &report).await?;
            Result::Ok(start.elapsed())
        };
        let read = async {
            subscription.wait_for(&mark).await?;
            Result::Ok(start.elapsed())
        };
        let both = async { tokio::try_join!(answered, read) };
        let (call, event) = timeout(WAIT_MAX, both).await.map_err(|_| format!("event {number} did not come"))??;
        seen.calls.push(call);
        seen.events.push(event);
    }
    Ok(())
}
