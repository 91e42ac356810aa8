//! Trying again: ever more rarely, for a day, and then no more. And what is not even tried.

use super::*;

const START: i64 = 1_800_000_000_000;

/// How long after `START` the only webhook is to be tried again, and how often it was.
fn waits(story: &Story) -> (i64, i64) {
    let sql = "SELECT due_at, tries FROM webhooks";
    story.relay.sqlite().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a webhook that waits")
}

#[tokio::test]
async fn what_was_not_taken_is_tried_again_ever_more_rarely() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Status(500)).await);
    story.relay.clock.set(START);
    let thread = story.hand_over(&receiver.url).await;
    story.step(thread, "accept").await;
    story.step(thread, "complete").await;
    let mut now = START;
    for tries in 1..=4 {
        story.until(&format!("SELECT tries = {tries} FROM webhooks")).await;
        let (due_at, _) = waits(&story);
        let (delay, expected) = (due_at - now, 1000 << (tries - 1));
        assert!((expected * 4 / 5..=expected * 6 / 5).contains(&delay), "{tries}: {delay}");
        story.relay.clock.set(due_at - 1);
        receiver.only(usize::try_from(tries).expect("a count")).await;
        now = due_at;
        story.relay.clock.set(now);
    }
    receiver.until(5).await;
    assert!(receiver.states().iter().all(|state| state == "WORKING"), "{:?}", receiver.states());
    receiver.replies(Reply::Status(200));
    story.until("SELECT tries >= 5 FROM webhooks").await;
    story.relay.clock.set(waits(&story).0);
    story.until_told().await;
    receiver.only(7).await;
    assert_eq!(receiver.states()[5..], ["WORKING", "COMPLETED"]);
    assert_eq!(story.relay.sqlite().query_row("SELECT tries FROM webhooks", [], |row| row.get(0)), Ok(0));
    story.check();
}

#[tokio::test]
async fn after_the_last_try_it_is_a_dead_letter_and_the_next_update_goes_out() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Status(500)).await);
    story.relay.clock.set(START);
    let thread = story.hand_over(&receiver.url).await;
    story.step(thread, "accept").await;
    let mut tries = 0;
    while tries < TRIES_MAX - 1 {
        tries += 1;
        story.until(&format!("SELECT tries = {tries} FROM webhooks")).await;
        story.relay.clock.set(waits(&story).0);
    }
    story.until("SELECT count(*) = 1 FROM dead_letters").await;
    let (hours, delay) = (60 * 60 * 1000, story.relay.relay.clock().now().ms() - START);
    assert!((19 * hours..30 * hours).contains(&delay), "about a day: {delay}");
    receiver.only(usize::try_from(TRIES_MAX).expect("a count")).await;
    let letter = story.relay.relay.dead_letters(9).await.expect("a list").pop().expect("a letter");
    assert_eq!((letter.tries, letter.generation, &*letter.error), (TRIES_MAX, 2, "answered 500"));
    assert_eq!((letter.sender.as_str(), letter.thread, letter.url), ("bob@acme", thread, receiver.url.clone()));
    story.check();
    receiver.replies(Reply::Status(200));
    story.step(thread, "complete").await;
    story.until_told().await;
    assert_eq!(receiver.states().last().expect("told"), "COMPLETED");
    story.check();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (story, elsewhere) = (Story::begin().await, Receiver::willing().await);
    let receiver = Receiver::start(Reply::Redirect(elsewhere.url.clone())).await;
    let thread = story.hand_over(&receiver.url).await;
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    story.step(thread, "accept").await;
    story.until("SELECT count(*) = 1 FROM dead_letters WHERE error = 'answered 307; redirects are not followed'").await;
    receiver.only(1).await;
    elsewhere.only(0).await;
}

#[tokio::test]
async fn nobody_there_is_a_failed_try() {
    let story = Story::begin().await;
    let thread = story.hand_over("http://127.0.0.1:9/told").await;
    story.hand_over("http://nowhere.invalid/told").await;
    let threads = story.frank.inbox().await;
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    for thread in threads {
        story.frank.step(thread["task_id"].as_str().expect("an id"), "accept").await.result();
    }
    story.until("SELECT count(*) = 2 FROM dead_letters").await;
    let letters = story.relay.relay.dead_letters(9).await.expect("a list");
    for letter in letters {
        let expected = if letter.thread == thread {
            "cannot connect: connection refused"
        } else {
            "the name of the host cannot be resolved"
        };
        assert_eq!(letter.error, expected);
    }
    story.check();
}

#[tokio::test]
async fn private_addresses_are_refused_when_it_comes_to_sending() {
    let story = Story::with(Settings { rate_limit: 0, ..settings() }).await;
    let receiver = Receiver::willing().await;
    let urls = [
        receiver.url.clone(),
        receiver.url.replace("127.0.0.1", "localhost"),
        receiver.url.replace("127.0.0.1", "0x7f000001"),
        receiver.url.replace("127.0.0.1", "[::ffff:127.0.0.1]"),
        receiver.url.replace("127.0.0.1", "0.0.0.0"),
        format!("https://localhost:{}/", receiver.port()),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://10.0.0.1/".to_owned(),
    ];
    let mut threads = Vec::new();
    for url in &urls {
        threads.push(story.hand_over(url).await);
    }
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    for thread in threads {
        story.step(thread, "accept").await;
    }
    story.until(&format!("SELECT count(*) = {} FROM dead_letters", urls.len())).await;
    for letter in story.relay.relay.dead_letters(99).await.expect("a list") {
        assert!(letter.error.starts_with("refused: "), "{letter:?}");
    }
    receiver.only(0).await;
    story.check();
}

#[tokio::test]
async fn a_removed_webhook_is_told_no_more() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Status(500)).await);
    let thread = story.hand_over_with(named("mine", &receiver.url)).await;
    story.step(thread, "accept").await;
    receiver.until(1).await;
    story.relay.relay.remove_webhook(&story.caller(), thread, "mine").await.expect("removed");
    story.relay.clock.advance(Duration::from_secs(3600));
    story.step(thread, "complete").await;
    receiver.only(1).await;
    story.check();
}

#[tokio::test]
async fn one_that_is_removed_while_it_is_told_leaves_nothing_behind() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Hang).await);
    let thread = story.hand_over_with(named("mine", &receiver.url)).await;
    story.step(thread, "accept").await;
    receiver.until(1).await;
    story.relay.relay.remove_webhook(&story.caller(), thread, "mine").await.expect("removed");
    // Its row is used again, by another thread's webhook that stands at the same place.
    let other = Receiver::willing().await;
    let of_other = story.hand_over(&other.url).await;
    story.step(of_other, "accept").await;
    let Story { relay, bob, frank } = story;
    let story = Story { relay: relay.restart(lab()).await, bob, frank };
    story.until_told().await;
    other.only(1).await;
    story.check();
}

#[tokio::test]
async fn a_replaced_webhook_starts_from_the_present() {
    let (story, receiver) = (Story::begin().await, Receiver::start(Reply::Status(500)).await);
    let thread = story.hand_over_with(named("mine", &receiver.at("/old"))).await;
    story.step(thread, "accept").await;
    receiver.until(1).await;
    receiver.replies(Reply::Status(200));
    story.add(thread, named("mine", &receiver.at("/new"))).await;
    story.until_told().await;
    story.step(thread, "complete").await;
    let told = receiver.only(2).await;
    assert_eq!((&*told[1].path, told[1].state()), ("/new", "COMPLETED"));
    story.check();
}

#[tokio::test]
async fn a_disabled_agent_is_told_nothing() {
    let (story, receiver) = (Story::begin().await, Receiver::willing().await);
    let thread = story.hand_over(&receiver.url).await;
    let file = story.relay.data_file();
    crate::support::operate(&file, &["agent", "disable", "bob@acme"]);
    story.step(thread, "accept").await;
    story.until("SELECT tries = 1 FROM webhooks").await;
    receiver.only(0).await;
    crate::support::operate(&file, &["agent", "enable", "bob@acme"]);
    receiver.only(1).await;
    story.check();
}
