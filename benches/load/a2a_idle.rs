//! What subscribers cost while nothing happens: the memory of a relay that a thousand of them follow.

use std::time::Duration;

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::bodies;
use crate::cast::Agent;
use crate::handoffs::{self, ask};
use crate::http::{Connection, Request, ThreadId};
use crate::measure::{Plan, Subject};
use crate::process;
use crate::report;
use crate::stage::Stage;
use crate::subscription::{BINDINGS, Binding, Subscription};

/// Who sends the tasks that are followed: each of them so many.
const SENDERS: usize = 4;
const TASKS: usize = 250;
const SUBSCRIBERS: usize = SENDERS * TASKS;
/// Longer than the relay's streams are silent: every one of them has said that it lives.
const SETTLE: Duration = Duration::from_secs(6);

/// What the rounds have shown. Resident memory; each a maximum over the rounds, absent where the system does not tell.
#[derive(Serialize)]
pub(crate) struct Idle {
    scenario: &'static str,
    pub(crate) binding: Binding,
    rounds: u32,
    subscribers: usize,
    /// A second after the start.
    before_mib: Option<f64>,
    /// When the tasks were sent, and nobody follows them yet.
    sent_mib: Option<f64>,
    /// With all subscribers.
    subscribed_mib: Option<f64>,
    /// That, less the idle server of the same round.
    pub(crate) more_mib: Option<f64>,
}

/// Measures each binding on relays of its own, and prints the results.
pub(crate) async fn measure(plan: &Plan, subject: Subject<'_>) -> Result<[Idle; 2]> {
    let idle = [of_binding(plan, subject, BINDINGS[0]).await?, of_binding(plan, subject, BINDINGS[1]).await?];
    for idle in &idle {
        let more = idle.more_mib.unwrap_or_default();
        eprintln!("A2A idle by {:?}: {more:.1} MiB for {SUBSCRIBERS} subscribers", idle.binding);
        report::line(idle)?;
    }
    Ok(idle)
}

async fn of_binding(plan: &Plan, subject: Subject<'_>, binding: Binding) -> Result<Idle> {
    let mut largest: [Option<f64>; 4] = [None; 4];
    for _ in 0..plan.rounds {
        let stage = subject.stage(plan).await?;
        let round = subscribe(&stage, binding).await?;
        stage.stop().await?;
        let [idle, _, subscribed] = round;
        let more = subscribed.zip(idle).map(|(subscribed, idle)| subscribed - idle);
        for (largest, mib) in largest.iter_mut().zip(round.into_iter().chain([more])) {
            *largest = largest.iter().copied().chain(mib.map(report::rounded)).reduce(f64::max);
        }
    }
    let [before_mib, sent_mib, subscribed_mib, more_mib] = largest;
    Ok(Idle {
        scenario: "a2a_idle",
        binding,
        rounds: plan.rounds,
        subscribers: SUBSCRIBERS,
        before_mib,
        sent_mib,
        subscribed_mib,
        more_mib,
    })
}

/// Memory before there were tasks, before there were subscribers, and with them.
async fn subscribe(stage: &Stage, binding: Binding) -> Result<[Option<f64>; 3]> {
    let resident = || Some(process::memory(stage.pid?)?.resident_mib);
    sleep(Duration::from_secs(1)).await;
    let idle = resident();

    let pairs = (0..SENDERS).map(|number| {
        let recipient = stage.cast.recipients(number).next().ok_or("a cast of one")?;
        Ok((stage.cast.sender(number), recipient))
    });
    let pairs: Vec<(&Agent, &Agent)> = pairs.collect::<Result<_>>()?;
    let mut tasks: Vec<(&Agent, &Agent, ThreadId)> = Vec::with_capacity(SUBSCRIBERS);
    for (number, (sender, recipient)) in pairs.into_iter().enumerate() {
        let threads = handoffs::create(stage, sender, recipient, number, TASKS).await?;
        tasks.extend(threads.into_iter().map(|thread| (sender, recipient, thread)));
    }
    let sent = resident();

    let mut subscriptions = Vec::with_capacity(SUBSCRIBERS);
    for &(sender, recipient, thread) in &tasks {
        subscriptions.push(Subscription::open(stage, binding, sender, recipient, thread).await?);
    }
    sleep(SETTLE).await;
    let subscribed = resident();

    // They were there all the time: each still hears of its task.
    let mut line = Connection::open(stage.address).await?;
    for &(_, recipient, thread) in &tasks {
        let mut accept = Request::post(stage.address, &recipient.key, &bodies::accept());
        accept.set_thread(thread);
        ask(&mut line, &accept).await?;
    }
    let heard = subscriptions.iter_mut().map(Subscription::next_update);
    timeout(SETTLE, try_join_all(heard)).await.map_err(|_| "a subscriber was not told")??;
    Ok([idle, sent, subscribed])
}
