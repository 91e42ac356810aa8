//! `tasks/list`: inbox and sent items, newest first, page by page.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Agent, Answer, TestRelay, message};

/// 2026-04-25T10:00:00Z, when the protocol's examples happen.
const TEN: i64 = 1_777_111_200_000;

/// One page: the task ids in their order, and where the next page begins.
async fn page(reader: &Agent, params: &Value) -> (Vec<String>, Value) {
    let result = reader.rpc("tasks/list", params.clone()).await.result();
    let items = result["items"].as_array().expect("items");
    let ids = items.iter().map(|item| item["task_id"].as_str().expect("an id").to_owned()).collect();
    (ids, result["next_cursor"].clone())
}

/// The task ids of a whole list, when its pages are so large.
async fn walk(reader: &Agent, filter: &Value, limit: usize) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), json!(null));
    loop {
        let params = json!({ "filter": filter, "page": { "limit": limit, "cursor": cursor } });
        let (found, next) = page(reader, &params).await;
        assert!(found.len() == limit || next.is_null(), "a short page is the last one");
        ids.extend(found);
        if next.is_null() {
            return ids;
        }
        cursor = next;
    }
}

/// The inbox under a filter.
async fn filtered(reader: &Agent, filter: Value) -> Vec<String> {
    page(reader, &json!({ "filter": filter, "page": { "limit": 200 } })).await.0
}

/// Hands over so many, fifty in a call and all calls at once; gives their ids, newest first.
async fn hand_many(sender: &Agent, recipient: &Agent, count: usize) -> Vec<String> {
    let params = json!({ "recipient": recipient.handle, "message": message("One of many") });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params });
    let mut calls = tokio::task::JoinSet::new();
    for start in (0..count).step_by(50) {
        let (sender, batch) = (sender.clone(), json!(vec![call.clone(); 50.min(count - start)]));
        calls.spawn(async move { sender.post_a2a(batch.to_string()).await.json() });
    }
    let mut ids = Vec::with_capacity(count);
    for answers in calls.join_all().await {
        for answer in answers.as_array().expect("a batch") {
            ids.push(answer["result"]["task_id"].as_str().expect("a task id").to_owned());
        }
    }
    ids.sort_unstable_by(|left, right| right.cmp(left));
    assert_eq!(ids.len(), count);
    ids
}

#[track_caller]
fn refused_at(answer: Answer, path: &str) {
    assert_eq!(answer.refused("invalid_params").issue_paths(), [path]);
}

mod the_answer {
    use super::*;

    const EXAMPLE: &str = r#"{
      "jsonrpc": "2.0",
      "id": "req-4",
      "method": "tasks/list",
      "params": {
        "filter": {
          "role": "recipient",
          "status": ["pending"],
          "since": "2026-04-20T00:00:00Z"
        },
        "page": {"limit": 50, "cursor": null}
      }
    }"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn has_what_an_inbox_shows() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        bob.rest_with("PUT", "/agents/me/card", json!({ "role": "backend" })).await.json();
        relay.clock.set(TEN);
        let task = bob.hand_to(&frank, "Refactored /users API.").await;
        relay.clock.set(TEN + 1_500);
        bob.say(&task, "And one more").await.result();
        let expected = json!({
            "jsonrpc": "2.0",
            "id": "req-4",
            "result": {
                "items": [{
                    "thread_id": task,
                    "task_id": task,
                    "status": { "state": "pending" },
                    "sender": { "handle": "bob@acme", "name": "bob", "role": "backend" },
                    "recipient": { "handle": "frank@acme", "name": "frank", "role": null },
                    "summary_preview": "Refactored /users API.",
                    "intent": "inform",
                    "unread_messages": 1,
                    "generation": 2,
                    "created_at": "2026-04-25T10:00:00.000Z",
                    "updated_at": "2026-04-25T10:00:01.500Z"
                }],
                "next_cursor": null
            }
        });
        assert_eq!(frank.post_a2a(EXAMPLE).await.json(), expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_an_empty_box_is_empty() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for role in ["recipient", "sender"] {
            let list = bob.rpc("tasks/list", json!({ "filter": { "role": role } })).await.result();
            assert_eq!(list, json!({ "items": [], "next_cursor": null }));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stays_small_however_long_the_letters_are() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        hand_many(&bob, &frank, 199).await;
        bob.hand_to(&frank, &"🦀".repeat(260_000)).await;
        let answer = frank.rpc("tasks/list", json!({ "page": { "limit": 200 } })).await;
        assert_eq!(answer.result()["items"].as_array().map(Vec::len), Some(200));
        assert!(answer.text.len() < 120_000, "{}", answer.text.len());
    }
}

mod the_role {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn is_recipient_unless_sender_is_asked_for() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let carol = relay.agent("carol@acme").await;
        let (to_frank, to_bob) = (bob.hand_to(&frank, "a").await, frank.hand_to(&bob, "b").await);
        let to_carol = bob.hand_to(&carol, "c").await;
        for filter in [json!(null), json!({}), json!({ "role": null }), json!({ "role": "recipient" })] {
            assert_eq!(page(&bob, &json!({ "filter": filter })).await.0, std::slice::from_ref(&to_bob), "{filter}");
        }
        assert_eq!(filtered(&bob, json!({ "role": "sender" })).await, [to_carol.clone(), to_frank.clone()]);
        assert_eq!(filtered(&frank, json!({})).await, [to_frank]);
        assert_eq!(filtered(&carol, json!({})).await, [to_carol]);
        assert_eq!(filtered(&carol, json!({ "role": "sender" })).await, Vec::<String>::new());
        assert_eq!(page(&bob, &json!({ "filter": {}, "page": null })).await.0, [to_bob]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_one_of_two() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for role in [json!("both"), json!("Sender"), json!(""), json!(1), json!(["sender"])] {
            refused_at(bob.rpc("tasks/list", json!({ "filter": { "role": role } })).await, "filter.role");
        }
        for filter in [json!("sender"), json!([]), json!(1)] {
            refused_at(bob.rpc("tasks/list", json!({ "filter": filter })).await, "filter");
        }
    }
}

mod the_status {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn names_four_of_which_some_stand_for_two_states() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut by_state = Vec::new();
        for steps in [
            &[][..],
            &["accept"],
            &["accept", "request_input"],
            &["accept", "complete"],
            &["accept", "fail"],
            &["reject"],
            &["cancel"],
        ] {
            let task = bob.hand_to(&frank, "Hello").await;
            for step in steps {
                let with = if *step == "request_input" { json!({ "message": message("?") }) } else { json!({}) };
                let caller = if *step == "cancel" { &bob } else { &frank };
                caller.step_with(&task, step, with).await.result();
            }
            by_state.push(task);
        }
        let [pending, accepted, input_required, completed, failed, rejected, cancelled] =
            <[String; 7]>::try_from(by_state).expect("seven");
        let newest_first = |ids: &[&String]| {
            let mut ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
            ids.sort_unstable_by(|left, right| right.cmp(left));
            ids
        };
        let all = [&pending, &accepted, &input_required, &completed, &failed, &rejected, &cancelled];
        for (status, expected) in [
            (json!(["pending"]), &[&pending][..]),
            (json!(["accepted"]), &[&accepted, &input_required]),
            (json!(["completed"]), &[&completed, &failed]),
            (json!(["cancelled"]), &[&rejected, &cancelled]),
            (json!(["cancelled", "pending"]), &[&pending, &rejected, &cancelled]),
            (json!(["pending", "pending"]), &[&pending]),
            (json!(["completed", "accepted"]), &[&accepted, &input_required, &completed, &failed]),
            (json!(["pending", "accepted", "completed", "cancelled"]), &all),
            (json!([]), &all),
            (json!(null), &all),
        ] {
            for (reader, role) in [(&frank, "recipient"), (&bob, "sender")] {
                let found = filtered(reader, json!({ "role": role, "status": status })).await;
                assert_eq!(found, newest_first(expected), "{role} {status}");
                let filter = json!({ "role": role, "status": status, "since": "2020-01-01T00:00:00Z" });
                assert_eq!(filtered(reader, filter).await, newest_first(expected), "{role} {status} since");
            }
        }
        let list = frank.inbox().await;
        let shown = |task: &String| {
            list.iter().find(|item| item["task_id"] == task.as_str()).expect("listed")["status"].clone()
        };
        assert_eq!(shown(&pending), json!({ "state": "pending" }));
        assert_eq!(shown(&accepted), json!({ "state": "accepted" }));
        assert_eq!(shown(&input_required), json!({ "state": "accepted", "detail": "input_required" }));
        assert_eq!(shown(&completed), json!({ "state": "completed" }));
        assert_eq!(shown(&failed), json!({ "state": "completed", "detail": "failed" }));
        assert_eq!(shown(&rejected), json!({ "state": "cancelled", "detail": "rejected" }));
        assert_eq!(shown(&cancelled), json!({ "state": "cancelled" }));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_a_list_of_these_four() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for (status, path) in [
            (json!("pending"), "filter.status"),
            (json!({}), "filter.status"),
            (json!([1]), "filter.status.0"),
            (json!([null]), "filter.status.0"),
            (json!(["pending", "Pending"]), "filter.status.1"),
            (json!(["failed"]), "filter.status.0"),
            (json!(["rejected"]), "filter.status.0"),
            (json!(["input_required"]), "filter.status.0"),
            (json!([""]), "filter.status.0"),
        ] {
            refused_at(bob.rpc("tasks/list", json!({ "filter": { "status": status } })).await, path);
        }
    }
}

mod since {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn compares_the_last_update_inclusive() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut tasks = Vec::new();
        for second in 0..3 {
            relay.clock.set(TEN + second * 1_000);
            tasks.push(bob.hand_to(&frank, "Hello").await);
        }
        let since = async |since: &str| filtered(&frank, json!({ "since": since })).await;
        let newest_first: Vec<String> = tasks.iter().rev().cloned().collect();
        assert_eq!(since("2026-04-25T10:00:00.000Z").await, newest_first);
        assert_eq!(since("2026-04-25T10:00:00.001Z").await, newest_first[..2]);
        assert_eq!(since("2026-04-25T10:00:01Z").await, newest_first[..2]);
        assert_eq!(since("2026-04-25T10:00:02Z").await, newest_first[..1]);
        assert_eq!(since("2026-04-25T10:00:02.001Z").await, Vec::<String>::new());

        relay.clock.set(TEN + 10_000);
        frank.get(&tasks[1]).await;
        assert_eq!(since("2026-04-25T10:00:02.001Z").await, Vec::<String>::new(), "reading is no update");
        bob.say(&tasks[0], "More").await.result();
        assert_eq!(since("2026-04-25T10:00:10Z").await, tasks[..1]);
        frank.step(&tasks[1], "accept").await.result();
        let updated: Vec<String> = [&tasks[1], &tasks[0]].into_iter().cloned().collect();
        assert_eq!(since("2026-04-25T10:00:10Z").await, updated, "newest first by creation");
        assert_eq!(since("2026-04-25T10:00:00Z").await, newest_first, "an order that never changes");
        assert_eq!(filtered(&bob, json!({ "role": "sender", "since": "2026-04-25T10:00:10Z" })).await, updated);
        let accepted = json!({ "since": "2026-04-25T10:00:10Z", "status": ["accepted"] });
        assert_eq!(filtered(&frank, accepted).await, tasks[1..2]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn compares_what_the_clock_said_also_after_it_was_set_back() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let mut tasks = Vec::new();
        for hours in [10, 2, 3, 11] {
            relay.clock.set(TEN + hours * 3_600_000);
            tasks.push(bob.hand_to(&frank, "Hello").await);
        }
        let since = async |since: &str| filtered(&frank, json!({ "since": since })).await;
        assert_eq!(since("2026-04-25T20:00:00Z").await, [tasks[3].clone(), tasks[0].clone()]);
        assert_eq!(since("2026-04-25T13:00:00Z").await, [&tasks[3], &tasks[2], &tasks[0]].map(Clone::clone));
        relay.clock.set(TEN);
        bob.say(&tasks[3], "Before all of them, says the clock").await.result();
        assert_eq!(since("2026-04-25T20:00:00Z").await, tasks[..1]);
        assert_eq!(since("2026-04-25T10:00:00Z").await.len(), 4);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_read_with_any_offset_and_any_fraction() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        relay.clock.set(TEN);
        let task = bob.hand_to(&frank, "Hello").await;
        for (since, found) in [
            ("2026-04-25T10:00:00Z", true),
            ("2026-04-25t10:00:00z", true),
            ("2026-04-25T10:00:00+00:00", true),
            ("2026-04-25T10:00:00-00:00", true),
            ("2026-04-25T12:00:00+02:00", true),
            ("2026-04-25T12:00:00.001+02:00", false),
            ("2026-04-25T04:30:00-05:30", true),
            ("2026-04-25T04:30:01-05:30", false),
            ("2026-04-25T09:59:59.9Z", true),
            ("2026-04-25T10:00:00.000000000Z", true),
            ("2026-04-25T10:00:00.001Z", false),
            ("2026-04-25T10:00:00.001000Z", false),
            ("0001-01-01T00:00:00Z", true),
            ("1969-12-31T23:59:59.999Z", true),
            ("9999-12-30T00:00:00Z", false),
        ] {
            let expected = if found { vec![task.clone()] } else { vec![] };
            assert_eq!(filtered(&frank, json!({ "since": since })).await, expected, "{since}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_refused_when_it_names_no_moment() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        for since in [
            json!("2026-04-25T10:00:00"),
            json!("2026-04-25"),
            json!("10:00:00Z"),
            json!(""),
            json!("yesterday"),
            json!("1777111200"),
            json!("2026-13-01T00:00:00Z"),
            json!("2026-02-30T00:00:00Z"),
            json!("2026-04-25T25:00:00Z"),
            json!("2026-04-25T10:00:00+99:00"),
            json!("2026-04-25T10:00:00Z and more"),
            json!(1_777_111_200),
            json!({}),
            json!(["2026-04-25T10:00:00Z"]),
        ] {
            let answer = bob.rpc("tasks/list", json!({ "filter": { "since": since } })).await;
            assert_eq!(answer.symbol(), "invalid_params", "{since}");
            refused_at(answer, "filter.since");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn is_right_for_few_threads_and_for_more_than_a_thousand() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        relay.clock.set(TEN);
        let old = hand_many(&bob, &frank, 20).await;
        relay.clock.set(TEN + 1_000);
        let many = hand_many(&bob, &frank, 1_050).await;
        relay.clock.set(TEN + 2_000);
        bob.say(&old[3], "Still there?").await.result();
        frank.step(&many[500], "accept").await.result();
        frank.step(&many[7], "accept").await.result();

        let since = |second: &str| format!("2026-04-25T10:00:{second}Z");
        let few = vec![many[7].clone(), many[500].clone(), old[3].clone()];
        let mut most = many.clone();
        most.push(old[3].clone());
        let everything: Vec<String> = many.iter().chain(&old).cloned().collect();
        for (second, expected) in [("00", &everything), ("01", &most), ("02", &few)] {
            for (reader, role) in [(&frank, "recipient"), (&bob, "sender")] {
                let filter = json!({ "role": role, "since": since(second) });
                assert_eq!(&walk(reader, &filter, 200).await, expected, "{role} {second}");
            }
        }
        assert_eq!(walk(&frank, &json!({ "since": since("02") }), 1).await, few);
        let accepted = |second: &str| json!({ "since": since(second), "status": ["accepted"] });
        for second in ["00", "01", "02"] {
            assert_eq!(walk(&frank, &accepted(second), 1).await, few[..2], "{second}");
        }
        let pending = json!({ "since": since("01"), "status": ["pending", "completed"] });
        most.retain(|id| !few[..2].contains(id));
        assert_eq!(walk(&frank, &pending, 200).await, most);
    }
}

mod pages {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn hold_1_to_200_rows_and_50_unless_asked() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 201).await;
        for (limit, count) in [(json!(null), 50), (json!(1), 1), (json!(50), 50), (json!(199), 199), (json!(200), 200)]
        {
            let (found, next) = page(&frank, &json!({ "page": { "limit": limit } })).await;
            assert_eq!(found, tasks[..count], "{limit}");
            assert!(next.is_string(), "{limit}");
        }
        assert_eq!(page(&frank, &json!({})).await.0.len(), 50);
        for limit in [
            json!(0),
            json!(201),
            json!(-1),
            json!("5"),
            json!(1.5),
            json!(true),
            json!([5]),
            json!(1e3),
            json!(u64::MAX),
            json!(i64::MIN),
        ] {
            refused_at(frank.rpc("tasks/list", json!({ "page": { "limit": limit } })).await, "page.limit");
        }
        for page in [json!(5), json!("5"), json!([])] {
            refused_at(frank.rpc("tasks/list", json!({ "page": page })).await, "page");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn end_with_the_last_row_not_with_an_empty_page() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 4).await;
        let (first, next) = page(&frank, &json!({ "page": { "limit": 2 } })).await;
        assert_eq!(first, tasks[..2]);
        let (second, next) = page(&frank, &json!({ "page": { "limit": 2, "cursor": next } })).await;
        assert_eq!((second.as_slice(), next), (&tasks[2..], json!(null)));
        assert_eq!(page(&frank, &json!({ "page": { "limit": 4 } })).await, (tasks, json!(null)));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn show_each_of_500_threads_of_one_millisecond_once_while_they_change() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        relay.clock.set(TEN);
        let tasks = hand_many(&bob, &frank, 500).await;
        assert_eq!(tasks.iter().map(|id| &id[..10]).collect::<BTreeSet<_>>().len(), 1, "one millisecond");

        let (mut seen, mut cursor, mut round) = (Vec::new(), json!(null), 0);
        loop {
            let (found, next) = page(&frank, &json!({ "page": { "limit": 7, "cursor": cursor } })).await;
            seen.extend(found);
            if next.is_null() {
                break;
            }
            cursor = next;
            // Something that was shown changes, something that was not, and something new arrives.
            relay.clock.set(TEN + round);
            round += 1;
            frank.step(&seen[seen.len() - 1], "accept").await.result();
            if let Some(later) = tasks.get(seen.len() + 3) {
                bob.say(later, "Changed meanwhile").await.result();
            }
            bob.hand_to(&frank, "New").await;
        }
        assert_eq!(seen, tasks);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn show_each_thread_that_stays_in_the_filter_once() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 60).await;
        let filter = json!({ "status": ["pending", "cancelled"] });
        let (mut seen, mut cursor) = (Vec::new(), json!(null));
        let mut gone = Vec::new();
        loop {
            let params = json!({ "filter": filter, "page": { "limit": 7, "cursor": cursor } });
            let (found, next) = page(&frank, &params).await;
            seen.extend(found);
            if next.is_null() {
                break;
            }
            cursor = next;
            let ahead = tasks.iter().position(|id| Some(id) == seen.last()).expect("one of them") + 2;
            if let Some(ahead) = tasks.get(ahead) {
                frank.step(ahead, "accept").await.result();
                gone.push(ahead.clone());
            }
            bob.step(&seen[seen.len() - 1], "cancel").await.result();
        }
        let expected: Vec<String> = tasks.into_iter().filter(|id| !gone.contains(id)).collect();
        assert!(gone.len() > 5);
        assert_eq!(seen, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn may_grow_and_shrink_along_the_way() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 12).await;
        let (_, cursor) = page(&frank, &json!({ "page": { "limit": 2 } })).await;
        let (found, _) = page(&frank, &json!({ "page": { "limit": 9, "cursor": cursor } })).await;
        assert_eq!(found, tasks[2..11]);
        let again = page(&frank, &json!({ "page": { "limit": 9, "cursor": cursor } })).await.0;
        assert_eq!(again, found, "a cursor can be used again");
    }
}

mod a_cursor {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn belongs_to_its_caller_and_its_filter() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        hand_many(&bob, &frank, 3).await;
        hand_many(&frank, &bob, 3).await;
        let filter = json!({ "role": "recipient", "status": ["pending", "accepted"], "since": "2026-01-01T00:00:00Z" });
        let (_, cursor) = page(&frank, &json!({ "filter": filter, "page": { "limit": 1 } })).await;

        let with = |key: &str, value: Value| {
            let mut filter = filter.clone();
            filter[key] = value;
            filter
        };
        for filter in [
            with("role", json!("sender")),
            with("status", json!(["pending"])),
            with("status", json!(null)),
            with("since", json!("2026-01-01T00:00:01Z")),
            with("since", json!(null)),
            json!({}),
        ] {
            let params = json!({ "filter": filter, "page": { "limit": 1, "cursor": cursor } });
            refused_at(frank.rpc("tasks/list", params).await, "page.cursor");
        }
        let params = |filter: Value| json!({ "filter": filter, "page": { "limit": 1, "cursor": cursor } });
        refused_at(bob.rpc("tasks/list", params(filter.clone())).await, "page.cursor");

        // The same filter in other words.
        for filter in [
            filter.clone(),
            with("status", json!(["accepted", "pending", "accepted"])),
            with("since", json!("2026-01-01T01:00:00.000+01:00")),
            with("role", json!(null)),
        ] {
            assert_eq!(page(&frank, &params(filter)).await.0.len(), 1);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn cannot_be_made_up() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 3).await;
        let (_, cursor) = page(&frank, &json!({ "page": { "limit": 1 } })).await;
        let cursor = cursor.as_str().expect("a cursor");
        let (first, rest) = cursor.split_at(1);
        let other_first = if first == "A" { "B" } else { "A" };
        let garbage = [
            json!(""),
            json!("0"),
            json!("1"),
            json!(tasks[0]),
            json!("🦀"),
            json!("A".repeat(10_000)),
            json!(format!("{other_first}{rest}")),
            json!(rest),
            json!(format!("{cursor}A")),
            json!(format!(" {cursor}")),
            json!(1),
            json!({}),
            json!([cursor]),
        ];
        for cursor in garbage {
            refused_at(frank.rpc("tasks/list", json!({ "page": { "cursor": cursor } })).await, "page.cursor");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn outlives_a_restart() {
        let relay = TestRelay::start().await;
        let (bob, frank) = relay.bob_and_frank().await;
        let tasks = hand_many(&bob, &frank, 3).await;
        let (_, cursor) = page(&frank, &json!({ "page": { "limit": 1 } })).await;
        let relay = relay.restart(crate::support::settings()).await;
        let frank = Agent { url: relay.url.clone(), ..frank };
        assert_eq!(page(&frank, &json!({ "page": { "cursor": cursor } })).await.0, tasks[1..]);
    }
}

mod problems {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn are_all_named() {
        let relay = TestRelay::start().await;
        let (bob, _) = relay.bob_and_frank().await;
        let params = json!({
            "filter": { "role": "both", "status": ["pending", "done", 5], "since": "yesterday" },
            "page": { "limit": 0, "cursor": 5 }
        });
        let mut paths = bob.rpc("tasks/list", params).await.refused("invalid_params").issue_paths();
        paths.sort();
        let expected =
            ["filter.role", "filter.since", "filter.status.1", "filter.status.2", "page.cursor", "page.limit"];
        assert_eq!(paths, expected);
    }
}
