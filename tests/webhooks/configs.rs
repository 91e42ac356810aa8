//! Adding, finding and removing webhooks: who may, what is refused, and what is never shown again.

use super::*;
use agentrelay::domain::webhook::{NAME_MAX, URL_MAX, WEBHOOKS_MAX};
use agentrelay::error::{Error, Symbol};
use serde_json::Value;

fn issue_paths(error: &Error) -> Vec<String> {
    assert_eq!(error.symbol(), Symbol::InvalidParams, "{error}");
    let path = |issue: &Value| {
        let segments = issue["path"].as_array().expect("a path").iter();
        segments.map(|segment| segment.as_str().expect("a key")).collect::<Vec<_>>().join(".")
    };
    error.details()["issues"].as_array().expect("issues").iter().map(path).collect()
}

#[tokio::test]
async fn only_the_sender_of_a_thread_has_webhooks() {
    let story = Story::begin().await;
    let relay = &story.relay.relay;
    let thread = story.hand_over("https://you.example/told").await;
    let mallory = story.relay.agent("mallory@acme").await;
    for (agent, symbol) in [(&story.frank, Symbol::Forbidden), (&mallory, Symbol::NotAParticipant)] {
        let caller = caller(relay, agent);
        let refused = relay.add_webhook(&caller, thread, webhook("https://you.example")).await;
        assert_eq!(refused.expect_err("refused").symbol(), symbol);
        assert_eq!(relay.webhooks(&caller, thread).await.expect_err("refused").symbol(), symbol);
        assert_eq!(relay.webhook(&caller, thread, "x").await.expect_err("refused").symbol(), symbol);
        assert_eq!(relay.remove_webhook(&caller, thread, "x").await.expect_err("refused").symbol(), symbol);
    }
    let append = agentrelay::relay::send::Append::new(thread, Draft::text("and tell me"));
    let append = agentrelay::relay::send::Append { webhook: Some(webhook("https://you.example")), ..append };
    let refused = relay.append(&caller(relay, &story.frank), append).await.expect_err("refused");
    assert_eq!(refused.symbol(), Symbol::Forbidden);
    let unknown = ThreadId::parse("01HXYZ4K2VNJQP7R8MWDB3CSTF").expect("an id");
    let refused = relay.add_webhook(&story.caller(), unknown, webhook("https://you.example")).await;
    assert_eq!(refused.expect_err("refused").symbol(), Symbol::ThreadNotFound);
    story.check();
}

#[tokio::test]
async fn a_webhook_is_found_by_its_name_replaced_and_removed() {
    let story = Story::begin().await;
    let (relay, bob) = (&story.relay.relay, story.caller());
    let thread = story.hand_over_with(named("b", "https://b.example")).await;
    let made_up = story.add(thread, webhook("https://made.example")).await;
    assert!(ThreadId::parse(&made_up).is_some(), "{made_up}");
    story.add(thread, named("a", "https://a.example")).await;
    story.add(thread, named("a", "https://again.example")).await;
    let listed = relay.webhooks(&bob, thread).await.expect("a list");
    let listed: Vec<_> = listed.iter().map(|webhook| (&*webhook.name, &*webhook.target.url)).collect();
    assert_eq!(
        listed,
        [(&*made_up, "https://made.example"), ("a", "https://again.example"), ("b", "https://b.example")]
    );
    let found = relay.webhook(&bob, thread, "a").await.expect("an answer").expect("found");
    assert_eq!(found.target.url, "https://again.example");
    for _ in 0..2 {
        relay.remove_webhook(&bob, thread, "a").await.expect("removed");
        assert!(relay.webhook(&bob, thread, "a").await.expect("an answer").is_none());
    }
    assert_eq!(relay.webhooks(&bob, thread).await.expect("a list").len(), 2);
    // No change of the thread, and nothing in the log.
    assert_eq!(story.bob.get(&thread.to_string()).await["generation"], 1);
    story.step(thread, "reject").await;
    story.add(thread, named("late", "https://late.example")).await;
    story.check();
}

#[tokio::test]
async fn every_problem_is_named_before_anything_is_written() {
    let story = Story::begin().await;
    let (relay, bob) = (&story.relay.relay, story.caller());
    let thread = story.hand_over("https://you.example/told").await;
    let mut wrong = named(&"n".repeat(NAME_MAX + 1), "ftp://you.example");
    wrong.target.token = Some(Secret::new("two\nlines"));
    wrong.target.authentication =
        Some(Authentication { scheme: "no name".to_owned(), credentials: Some(Secret::new("")) });
    let paths = ["name", "url", "token", "authentication.scheme", "authentication.credentials"];
    let refused = relay.add_webhook(&bob, thread, wrong.clone()).await.expect_err("refused");
    assert_eq!(issue_paths(&refused), paths);
    let recipient = Handle::parse("frank@acme").expect("a handle");
    let handoff = Handoff::new(recipient, Intent::Inform, Draft::text("please look"));
    let refused = relay.send(&bob, Handoff { webhook: Some(wrong), ..handoff }).await.expect_err("refused");
    assert_eq!(issue_paths(&refused), paths.map(|path| format!("webhook.{path}")));
    let long = webhook(&format!("https://you.example/{}", "a".repeat(URL_MAX)));
    let refused = relay.add_webhook(&bob, thread, long).await.expect_err("refused");
    assert_eq!(issue_paths(&refused), ["url"]);
    assert_eq!(story.frank.inbox().await.len(), 1);
}

#[tokio::test]
async fn a_thread_has_so_many_webhooks_and_no_more() {
    let story = Story::begin().await;
    let (relay, bob) = (&story.relay.relay, story.caller());
    let thread = story.hand_over_with(named("0", "https://you.example")).await;
    for number in 1..WEBHOOKS_MAX {
        story.add(thread, named(&number.to_string(), "https://you.example")).await;
    }
    for one_more in [webhook("https://you.example"), named("more", "https://you.example")] {
        let refused = relay.add_webhook(&bob, thread, one_more).await.expect_err("refused");
        assert_eq!(issue_paths(&refused), ["name"]);
    }
    story.add(thread, named("7", "https://replaced.example")).await;
    relay.remove_webhook(&bob, thread, "3").await.expect("removed");
    story.add(thread, webhook("https://you.example")).await;
    assert_eq!(relay.webhooks(&bob, thread).await.expect("a list").len(), WEBHOOKS_MAX);
    story.check();
}

#[tokio::test]
async fn a_call_with_a_webhook_can_be_retried_and_another_webhook_is_another_payload() {
    let story = Story::begin().await;
    let (relay, bob) = (&story.relay.relay, story.caller());
    let send = |url: &str| {
        let recipient = Handle::parse("frank@acme").expect("a handle");
        let mut handoff = Handoff::new(recipient, Intent::Inform, Draft::text("please look"));
        handoff.metadata.idempotency_key = Some("once".to_owned());
        handoff.webhook = Some(webhook(url));
        relay.send(&bob, handoff)
    };
    let first = send("https://you.example").await.expect("sent");
    let again = send("https://you.example").await.expect("sent");
    assert_eq!(first.thread, again.thread);
    let refused = send("https://other.example").await.expect_err("another payload");
    assert_eq!(refused.symbol(), Symbol::DuplicateIdempotencyKey);
    assert_eq!(relay.webhooks(&bob, first.thread).await.expect("a list").len(), 1);
    story.check();
}

#[tokio::test]
async fn secrets_are_shown_nowhere() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Status(500)).await);
    let (relay, bob) = (&story.relay.relay, story.caller());
    let mut webhook = with_authentication(&receiver.at("/told?key=querysecret"), "Bearer", "credentialsecret");
    webhook.target.token = Some(Secret::new("tokensecret"));
    webhook.name = Some("mine".to_owned());
    let thread = story.hand_over_with(webhook.clone()).await;
    let mut shown = vec![format!("{webhook:?}")];
    let added = relay.add_webhook(&bob, thread, webhook).await.expect("added");
    assert!(added.target.token.is_none());
    assert!(added.target.authentication.as_ref().is_some_and(|given| given.credentials.is_none()));
    shown.push(format!("{added:?}"));
    shown.push(format!("{:?}", relay.webhooks(&bob, thread).await.expect("a list")));
    let found = relay.webhook(&bob, thread, "mine").await.expect("an answer").expect("found");
    assert!(found.target.token.is_none() && found.target.authentication.expect("one").credentials.is_none());
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    story.step(thread, "accept").await;
    story.until("SELECT count(*) = 1 FROM dead_letters").await;
    shown.push(format!("{:?}", relay.dead_letters(10).await.expect("a list")));
    for output in ["table", "json"] {
        let file = story.relay.data_file();
        shown.push(crate::support::operate(&file, &["deadletters", "list", "--output", output]));
        shown.push(crate::support::operate(&file, &["audit", "--output", output]));
    }
    shown.push(story.bob.get(&thread.to_string()).await.to_string());
    shown.push(story.frank.get(&thread.to_string()).await.to_string());
    shown.push(story.bob.rest("GET", "/events?wait=1&after=0").await.text);
    for text in shown {
        assert!(!text.contains("secret"), "{text}");
    }
    story.check();
}

#[tokio::test]
async fn a_relay_that_fails_to_tell_logs_no_secret() {
    let story = Story::begin().await;
    let mut webhook = with_authentication("http://127.0.0.1:9/told?key=querysecret", "Bearer", "credentialsecret");
    webhook.target.token = Some(Secret::new("tokensecret"));
    let thread = story.hand_over_with(webhook).await;
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    let Story { mut relay, frank, .. } = story;
    relay.stop().await;
    let process =
        crate::support::RelayProcess::start(&relay.data_file(), &["--allow-private-webhooks", "--log-level", "trace"]);
    Agent { url: process.url.clone(), ..frank }.step(&thread.to_string(), "accept").await.result();
    eventually("a line in the log", || process.log().contains("could not be told")).await;
    assert!(!process.log().contains("secret"), "{}", process.log());
}
