//! Dead letters: what the operator can do about them, in the relay and at the command line.

use super::*;
use crate::support::{command, operate};
use agentrelay::domain::id::DeadLetterId;
use agentrelay::error::Symbol;
use agentrelay::relay::dead_letters::Letters;
use serde_json::Value;

/// A story with so many dead letters, all for `receiver`, which answers 500.
async fn with_letters(receiver: &Receiver, count: usize) -> Story {
    let story = Story::begin().await;
    receiver.replies(Reply::Status(500));
    let mut threads = Vec::new();
    for _ in 0..count {
        threads.push(story.hand_over(&receiver.at("/told?key=querysecret")).await);
    }
    story.relay.sqlite().execute("UPDATE webhooks SET tries = ?", [TRIES_MAX - 1]).expect("almost given up on");
    for thread in threads {
        story.step(thread, "accept").await;
    }
    story.until(&format!("SELECT count(*) = {count} FROM dead_letters")).await;
    receiver.forget();
    story
}

fn list(story: &Story) -> Vec<Value> {
    let listed = operate(&story.relay.data_file(), &["deadletters", "list", "--output", "json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    listed["dead_letters"].as_array().expect("a list").clone()
}

fn ids(story: &Story) -> Vec<String> {
    list(story).iter().map(|letter| letter["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn they_are_listed_newest_first_without_secrets() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 3).await;
    let letters = list(&story);
    let (first, ids) = (&letters[0], ids(&story));
    assert!(ids.is_sorted_by(|newer, older| newer > older), "{ids:?}");
    assert_eq!(first["sender"], "bob@acme");
    assert_eq!(first["url"], receiver.url);
    assert_eq!((&first["tries"], &first["error"]), (&TRIES_MAX.into(), &"answered 500".into()));
    assert_eq!((&first["status"], &first["generation"]), (&"dead".into(), &2.into()));
    let table = operate(&story.relay.data_file(), &["deadletters", "list", "--limit", "2"]);
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("ID ") && table.contains(&ids[0]) && !table.contains(&ids[2]), "{table}");
    story.check();
}

#[tokio::test]
async fn one_that_is_tried_once_more_and_arrives_is_gone() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 2).await;
    let (file, ids) = (story.relay.data_file(), ids(&story));
    receiver.replies(Reply::Status(200));
    operate(&file, &["deadletters", "retry", &ids[0]]);
    let told = receiver.only(1).await;
    assert_eq!(told[0].state(), "WORKING");
    story.until("SELECT count(*) = 1 FROM dead_letters").await;
    operate(&file, &["deadletters", "retry", "--all"]);
    receiver.until(2).await;
    story.until("SELECT count(*) = 0 FROM dead_letters").await;
    assert_eq!(operate(&file, &["deadletters", "list"]), "");
    story.check();
}

#[tokio::test]
async fn one_that_fails_again_stays_and_says_why() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 1).await;
    receiver.replies(Reply::Status(410));
    let retried = story.relay.relay.retry_dead_letters(Letters::All).await;
    assert_eq!(retried.expect("retried"), 1);
    story.until("SELECT error = 'answered 410' FROM dead_letters").await;
    receiver.only(1).await;
    let letter = story.relay.relay.dead_letters(9).await.expect("a list").pop().expect("a letter");
    assert_eq!((letter.tries, letter.retrying), (TRIES_MAX + 1, false));
    story.check();
}

#[tokio::test]
async fn they_are_dropped_by_id_or_all_together() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 4).await;
    let (file, ids) = (story.relay.data_file(), ids(&story));
    let dropped = operate(&file, &["deadletters", "drop", &ids[0], &ids[1], "--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&dropped).expect("JSON"), serde_json::json!({ "dropped": 2 }));
    assert_eq!(self::ids(&story), ids[2..]);
    operate(&file, &["deadletters", "drop", "--all"]);
    assert_eq!(list(&story), [Value::Null; 0]);
    receiver.only(0).await;
    story.check();
}

#[tokio::test]
async fn an_unknown_one_is_not_found_and_then_nothing_is_done() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 1).await;
    let (file, known) = (story.relay.data_file(), ids(&story).remove(0));
    let unknown = "01HXYZ4K2VNJQP7R8MWDB3CSTF";
    for verb in ["retry", "drop"] {
        let ran = command(&file).args(["deadletters", verb, &known, unknown]).output().expect("a command");
        assert_eq!(ran.status.code(), Some(3), "{ran:?}");
        assert!(String::from_utf8_lossy(&ran.stderr).starts_with("error: No dead letter"), "{ran:?}");
        for wrong in [&["deadletters", verb][..], &["deadletters", verb, "x"], &["deadletters", verb, &known, "--all"]]
        {
            let ran = command(&file).args(wrong).output().expect("a command");
            assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        }
    }
    receiver.only(0).await;
    assert_eq!(ids(&story), std::slice::from_ref(&known));
    let both = vec![DeadLetterId::parse(&known).expect("an id"), DeadLetterId::parse(unknown).expect("an id")];
    let refused = story.relay.relay.drop_dead_letters(Letters::Ids(both)).await.expect_err("refused");
    assert_eq!(refused.symbol(), Symbol::RecipientNotFound);
}

#[tokio::test]
async fn they_leave_with_their_webhook_and_stay_when_it_is_replaced() {
    let receiver = Receiver::willing().await;
    let story = with_letters(&receiver, 1).await;
    let letter = story.relay.relay.dead_letters(9).await.expect("a list").pop().expect("a letter");
    let new = Receiver::willing().await;
    story.add(letter.thread, named(&letter.webhook, &new.url)).await;
    story.relay.relay.retry_dead_letters(Letters::Ids(vec![letter.id])).await.expect("retried");
    new.only(1).await;
    receiver.only(0).await;
    story.until("SELECT count(*) = 0 FROM dead_letters").await;

    let story = with_letters(&receiver, 1).await;
    let letter = story.relay.relay.dead_letters(9).await.expect("a list").pop().expect("a letter");
    story.relay.relay.remove_webhook(&story.caller(), letter.thread, &letter.webhook).await.expect("removed");
    assert_eq!(list(&story), [Value::Null; 0]);
    story.check();
}
