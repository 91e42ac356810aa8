//! What is told, to whom, and with which proof.

use super::*;
use crate::support::{RelayProcess, command, message};
use serde_json::json;

#[tokio::test]
async fn a_sender_is_told_everything_after_the_handoff_once_and_in_order() {
    let (story, receiver) = (Story::begin().await, Receiver::willing().await);
    let thread = story.hand_over(&receiver.url).await;
    for transition in ["accept", "request_input"] {
        let with = if transition == "accept" { json!({}) } else { json!({ "message": message("which one?") }) };
        story.frank.step_with(&thread.to_string(), transition, with).await.result();
    }
    story.bob.say(&thread.to_string(), "the first").await.result();
    story.step(thread, "complete").await;
    let told = receiver.only(4).await;
    assert_eq!(receiver.states(), ["WORKING", "INPUT_REQUIRED", "WORKING", "COMPLETED"]);
    assert!(told.iter().all(|delivery| delivery.task() == thread.to_string()));
    assert!(told.iter().all(|delivery| delivery.header("content-type") == "application/a2a+json"));
    assert!(told.iter().all(|delivery| delivery.header("user-agent").starts_with("agentrelay/")));
    assert!(told.iter().all(|delivery| delivery.header("authorization").is_empty()));
    story.until_told().await;
    story.check();
}

#[tokio::test]
async fn many_changes_at_once_keep_their_order() {
    let (story, receiver) = (Story::begin().await, Receiver::willing().await);
    let thread = story.hand_over(&receiver.url).await.to_string();
    story.frank.step(&thread, "accept").await.result();
    let said = (0..20).map(|number| {
        let (bob, frank, thread) = (story.bob.clone(), story.frank.clone(), thread.clone());
        tokio::spawn(async move {
            let author = if number % 2 == 0 { bob } else { frank };
            author.say(&thread, "more").await.result();
        })
    });
    for task in said.collect::<Vec<_>>() {
        task.await.expect("said");
    }
    story.frank.step(&thread, "complete").await.result();
    let told = receiver.only(22).await;
    let times: Vec<&str> = told
        .iter()
        .map(|delivery| delivery.body["statusUpdate"]["status"]["timestamp"].as_str().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(told.last().expect("the last").state(), "COMPLETED");
    story.until_told().await;
    story.check();
}

#[tokio::test]
async fn authentication_and_token_arrive_as_they_were_given() {
    let (story, receiver) = (Story::begin().await, Receiver::willing().await);
    for (scheme, credentials) in
        [("Bearer", "abc.def"), ("Basic", "Ym9iOnNlY3JldA=="), ("X-Lab", r#"id="7", proof="~""#)]
    {
        let mut webhook = with_authentication(&receiver.at(&format!("/{scheme}?key=1")), scheme, credentials);
        webhook.target.token = Some(Secret::new(format!("token of {scheme}")));
        let thread = story.hand_over_with(webhook).await;
        story.step(thread, "accept").await;
        let told = receiver.until(1).await.pop().expect("a delivery");
        assert_eq!(told.header("authorization"), format!("{scheme} {credentials}"));
        assert_eq!(told.header("x-a2a-notification-token"), format!("token of {scheme}"));
        assert_eq!(told.path, format!("/{scheme}?key=1"));
        assert!(told.header("host").starts_with("127.0.0.1:"));
        story.until_told().await;
        receiver.forget();
    }
    let mut bare = with_authentication(&receiver.url, "Negotiate", "");
    bare.target.authentication = Some(Authentication { scheme: "Negotiate".to_owned(), credentials: None });
    let thread = story.hand_over_with(bare).await;
    story.step(thread, "accept").await;
    assert_eq!(receiver.until(1).await[0].header("authorization"), "Negotiate");
}

#[tokio::test]
async fn every_webhook_of_a_thread_is_told_by_itself() {
    let story = Story::begin().await;
    let (one, other) = (Receiver::willing().await, Receiver::willing().await);
    let thread = story.hand_over(&one.url).await;
    story.step(thread, "accept").await;
    story.add(thread, webhook(&other.url)).await;
    story.step(thread, "complete").await;
    one.only(2).await;
    other.only(1).await;
    assert_eq!((one.states(), other.states()), (vec!["WORKING".into(), "COMPLETED".into()], vec!["COMPLETED".into()]));
    story.until_told().await;
    story.check();
}

#[tokio::test]
async fn a_message_can_bring_a_webhook_that_is_told_what_follows() {
    let (story, receiver) = (Story::begin().await, Receiver::willing().await);
    let recipient = Handle::parse("frank@acme").expect("a handle");
    let handoff = Handoff::new(recipient, Intent::Inform, Draft::text("please look"));
    let thread = story.relay.relay.send(&story.caller(), handoff).await.expect("sent").thread;
    let append = agentrelay::relay::send::Append::new(thread, Draft::text("and tell me"));
    let append = agentrelay::relay::send::Append { webhook: Some(named("mine", &receiver.url)), ..append };
    story.relay.relay.append(&story.caller(), append.clone()).await.expect("added");
    story.step(thread, "accept").await;
    receiver.only(1).await;
    // The same name again: from the present on, also when it comes with a change.
    receiver.replies(Reply::Status(500));
    story.bob.say(&thread.to_string(), "not told").await.result();
    receiver.until(2).await;
    receiver.replies(Reply::Status(200));
    story.relay.relay.append(&story.caller(), append).await.expect("added");
    story.until_told().await;
    receiver.forget();
    story.step(thread, "complete").await;
    receiver.only(1).await;
    assert_eq!(receiver.states(), ["COMPLETED"]);
    story.check();
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_neither_another_senders_nor_the_same_senders_other_webhooks() {
    let story = Story::begin().await;
    let (hanging, willing) = (Receiver::start(Reply::Hang).await, Receiver::willing().await);
    let eve = story.relay.agent("eve@acme").await;
    let mut threads = Vec::new();
    for _ in 0..10 {
        threads.push(story.hand_over(&hanging.url).await);
    }
    for thread in &threads {
        story.step(*thread, "accept").await;
    }
    hanging.until(10).await;
    let of_bob = story.hand_over(&willing.at("/bob")).await;
    story.step(of_bob, "accept").await;
    willing.until(1).await;
    // Now every place that Bob has is taken.
    for _ in 0..10 {
        threads.push(story.hand_over(&hanging.url).await);
    }
    for thread in &threads[10..] {
        story.step(*thread, "accept").await;
    }
    hanging.only(16).await;
    let of_eve = hand_over(&story.relay, &eve, &story.frank, webhook(&willing.at("/eve"))).await;
    let began = std::time::Instant::now();
    story.step(of_eve, "accept").await;
    story.step(of_eve, "complete").await;
    let told = willing.only(3).await;
    assert_eq!(told.iter().map(|delivery| &*delivery.path).collect::<Vec<_>>(), ["/bob", "/eve", "/eve"]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut story = story;
    let began = std::time::Instant::now();
    story.relay.stop().await;
    assert!(began.elapsed() < Duration::from_secs(3), "a stop waits for nobody who hangs: {:?}", began.elapsed());
    story.check();
}

#[tokio::test]
async fn delivery_goes_on_after_a_restart() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Hang).await);
    let thread = story.hand_over(&receiver.url).await;
    story.step(thread, "accept").await;
    receiver.until(1).await;
    story.step(thread, "complete").await;
    let relay = story.relay.restart(lab()).await;
    let story = Story { relay, ..story };
    receiver.replies(Reply::Status(200));
    receiver.until(3).await;
    story.until_told().await;
    assert_eq!(receiver.states(), ["WORKING", "WORKING", "COMPLETED"], "the one under way came twice");
    story.check();
}

#[tokio::test]
async fn delivery_goes_on_after_the_relay_was_killed() {
    let receiver = Receiver::start(Reply::Hang).await;
    let story = Story::begin().await;
    let thread = story.hand_over(&receiver.url).await;
    let Story { mut relay, bob, frank } = story;
    relay.stop().await;
    let file = relay.data_file();
    let process = RelayProcess::start(&file, &["--allow-private-webhooks"]);
    let at = |agent: &Agent, url: &str| Agent { url: url.to_owned(), ..agent.clone() };
    at(&frank, &process.url).step(&thread.to_string(), "accept").await.result();
    receiver.until(1).await;
    at(&bob, &process.url).say(&thread.to_string(), "and?").await.result();
    process.kill();
    receiver.replies(Reply::Status(200));
    let process = RelayProcess::start(&file, &["--allow-private-webhooks"]);
    at(&frank, &process.url).step(&thread.to_string(), "complete").await.result();
    receiver.until(4).await;
    assert_eq!(receiver.states(), ["WORKING", "WORKING", "WORKING", "COMPLETED"]);
    let conn = relay.sqlite();
    let due = "SELECT count(*) FROM webhooks WHERE due_at IS NOT NULL";
    eventually(due, || conn.query_row(due, [], |row| row.get::<_, i64>(0)).expect("a count") == 0).await;
    consistency::check(&conn);
}

#[tokio::test]
async fn over_tls_the_receiver_proves_who_it_is_to_whom_the_machine_trusts() {
    let receiver = Receiver::with_tls().await;
    let story = Story::begin().await;
    let good = receiver.url.replace("127.0.0.1", "localhost");
    let thread = story.hand_over(&good).await;
    let Story { mut relay, frank, .. } = story;
    relay.stop().await;
    let file = relay.data_file();
    let certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/webhooks/localhost.pem");
    let conn = relay.sqlite();
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("a count");
    // The machine's own authorities know nothing of this receiver.
    let process = RelayProcess::start(&file, &["--allow-private-webhooks"]);
    Agent { url: process.url.clone(), ..frank.clone() }.step(&thread.to_string(), "accept").await.result();
    eventually("a failed try", || count("SELECT tries FROM webhooks") > 0).await;
    receiver.only(0).await;
    process.kill();
    conn.execute("UPDATE webhooks SET due_at = 1", []).expect("due now");
    let mut trusting = command(&file);
    trusting.env("SSL_CERT_FILE", certificate);
    let process = RelayProcess::start_by(trusting, &file, &["--allow-private-webhooks"]);
    Agent { url: process.url.clone(), ..frank }.step(&thread.to_string(), "complete").await.result();
    receiver.only(2).await;
    assert_eq!(receiver.states(), ["WORKING", "COMPLETED"]);
    eventually("all is told", || count("SELECT count(*) FROM webhooks WHERE due_at IS NOT NULL") == 0).await;
    consistency::check(&conn);
}

#[tokio::test]
async fn a_large_update_and_a_talkative_receiver_are_no_trouble() {
    let story = Story::begin().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let app = axum::Router::new().fallback(async || "x".repeat(4 << 20));
        axum::serve(listener, app).await
    });
    let thread = story.hand_over(&url).await;
    story.frank.step(&thread.to_string(), "accept").await.result();
    let with = json!({ "message": message(&"long ".repeat(150_000)) });
    story.frank.step_with(&thread.to_string(), "progress", with).await.result();
    story.until_told().await;
    story.check();
}
