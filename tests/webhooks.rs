//! Webhooks: a sender is told what happens to its thread, at least once and in order, whatever its receiver does.

use std::time::Duration;

use agentrelay::api::Settings;
use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::ThreadId;
use agentrelay::domain::intent::Intent;
use agentrelay::domain::message::Draft;
use agentrelay::domain::webhook::{Authentication, NewWebhook, Secret, TRIES_MAX, Target};
use agentrelay::relay::Caller;
use agentrelay::relay::send::Handoff;

use self::receiver::{Receiver, Reply};
use crate::consistency;
use crate::operations::caller;
use crate::support::{Agent, TestRelay, settings};

mod configs;
mod deadletters;
mod delivery;
mod receiver;
mod retries;

/// Settings that let webhooks lead to the receivers of these tests.
fn lab() -> Settings {
    Settings { rate_limit: 0, allow_private_webhooks: true, ..settings() }
}

/// A relay in a lab, Bob who hands over and wants to be told, and Frank who works.
struct Story {
    relay: TestRelay,
    bob: Agent,
    frank: Agent,
}

impl Story {
    async fn begin() -> Story {
        Story::with(lab()).await
    }

    async fn with(settings: Settings) -> Story {
        let relay = TestRelay::with(settings).await;
        let (bob, frank) = relay.bob_and_frank().await;
        Story { relay, bob, frank }
    }

    fn caller(&self) -> Caller {
        caller(&self.relay.relay, &self.bob)
    }

    /// Bob hands something to Frank and wants to be told at `url`.
    async fn hand_over(&self, url: &str) -> ThreadId {
        self.hand_over_with(webhook(url)).await
    }

    async fn hand_over_with(&self, webhook: NewWebhook) -> ThreadId {
        hand_over(&self.relay, &self.bob, &self.frank, webhook).await
    }

    /// Frank takes a step.
    async fn step(&self, thread: ThreadId, transition: &str) {
        self.frank.step(&thread.to_string(), transition).await.result();
    }

    async fn add(&self, thread: ThreadId, webhook: NewWebhook) -> String {
        let added = self.relay.relay.add_webhook(&self.caller(), thread, webhook).await;
        added.expect("a webhook").name
    }

    /// Waits until nothing has to be told any more.
    async fn until_told(&self) {
        self.until("SELECT count(*) = 0 FROM webhooks WHERE due_at IS NOT NULL").await;
    }

    /// Waits until `sql` is true of the data file.
    async fn until(&self, sql: &str) {
        let conn = self.relay.sqlite();
        eventually(sql, || conn.query_row(sql, [], |row| row.get::<_, bool>(0)).expect("an answer")).await;
    }

    #[track_caller]
    fn check(&self) {
        consistency::check(&self.relay.sqlite());
    }
}

async fn hand_over(relay: &TestRelay, from: &Agent, to: &Agent, webhook: NewWebhook) -> ThreadId {
    let recipient = Handle::parse(&to.handle).expect("a handle");
    let handoff = Handoff::new(recipient, Intent::Inform, Draft::text("please look"));
    let handoff = Handoff { webhook: Some(webhook), ..handoff };
    relay.relay.send(&caller(&relay.relay, from), handoff).await.expect("sent").thread
}

fn webhook(url: &str) -> NewWebhook {
    NewWebhook { name: None, target: Target { url: url.to_owned(), token: None, authentication: None } }
}

fn named(name: &str, url: &str) -> NewWebhook {
    NewWebhook { name: Some(name.to_owned()), ..webhook(url) }
}

fn with_authentication(url: &str, scheme: &str, credentials: &str) -> NewWebhook {
    let mut webhook = webhook(url);
    webhook.target.authentication =
        Some(Authentication { scheme: scheme.to_owned(), credentials: Some(Secret::new(credentials)) });
    webhook
}

/// Waits until `done`, but not for ever.
async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..1_500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}
