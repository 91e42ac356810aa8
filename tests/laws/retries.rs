//! A call that was made before is answered as before, at once and whatever happens in between.

use std::collections::HashMap;

use agentrelay::api::Settings;
use agentrelay::domain::agent::Handle;
use agentrelay::domain::id::{AgentId, ThreadId};
use agentrelay::domain::transition::Transition;
use agentrelay::relay::Actor;
use agentrelay::relay::agents::AgentName;
use agentrelay::relay::transitions::Step;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::consistency;
use crate::laws::model::Who;
use crate::laws::{SENT_AT, at_once, count, hold, relay_with_callers};
use crate::support::{Agent, Answer, TestRelay, message, settings};

/// What may happen to a thread between a call and its retry.
#[derive(Clone, Copy, Debug)]
enum Weather {
    RecipientDisabled,
    SenderBlocked,
    RecipientBlocked,
    Ended,
    Renamed,
    AlmostAWeek,
    Restarted,
}

/// Calls that succeed side by side: on which of five threads, by whom, what. The first makes one of its own.
fn named_call(which: usize, tasks: &[String]) -> (Who, &'static str, Value) {
    let said = message("said once");
    let metadata = json!({ "client_idempotency_key": format!("key {which}"), "ticket": 42 });
    match which {
        0 => (1, "message/send", json!({ "recipient": "frank@acme", "message": said, "metadata": metadata })),
        1 => (1, "message/send", json!({ "task_id": tasks[0], "message": said, "metadata": metadata })),
        2 => (
            3,
            "tasks/update",
            json!({ "task_id": tasks[1], "transition": "accept", "session_id": "s", "metadata": metadata }),
        ),
        3 => (1, "tasks/cancel", json!({ "task_id": tasks[2], "metadata": metadata })),
        4 => (
            3,
            "tasks/update",
            json!({ "task_id": tasks[3], "transition": "progress", "message": said, "metadata": metadata }),
        ),
        _ => (
            3,
            "tasks/update",
            json!({ "task_id": tasks[4], "transition": "complete", "result_summary": "done", "metadata": metadata }),
        ),
    }
}

#[test]
fn the_same_key_and_payload_get_the_same_answer_at_once_and_whatever_happens_in_between() {
    let weather = select(vec![
        Weather::RecipientDisabled,
        Weather::SenderBlocked,
        Weather::RecipientBlocked,
        Weather::Ended,
        Weather::Renamed,
        Weather::AlmostAWeek,
        Weather::Restarted,
    ]);
    let calls = prop::collection::vec(0..6_usize, 1..24).prop_shuffle();
    hold(64, &(calls, prop::collection::vec(weather, 0..5)), async |(calls, weather)| {
        let (mut relay, mut agents) = relay_with_callers().await;
        relay.clock.set(SENT_AT);
        let mut tasks = Vec::new();
        for _ in 0..5 {
            tasks.push(agents[1].hand_to(&agents[3], "a handoff").await);
        }
        for task in &tasks[3..] {
            agents[3].step(task, "accept").await.result();
        }
        let make = |agents: &[Agent], which: usize| {
            let (who, method, params) = named_call(which, &tasks);
            let agent = agents[who].clone();
            async move { agent.rpc(method, params).await }
        };

        let answers = at_once(calls.iter().map(|which| make(&agents, *which))).await;
        let mut first: HashMap<usize, Answer> = HashMap::new();
        for (which, answer) in calls.iter().zip(answers) {
            answer.result();
            let first = first.entry(*which).or_insert_with(|| answer.clone());
            assert_eq!(answer.text, first.text, "call {which}");
        }
        let events = count(&relay, "SELECT count(*) FROM events WHERE thread IS NOT NULL");
        assert_eq!(count(&relay, "SELECT count(*) FROM idempotency"), i64::try_from(first.len()).expect("a number"));

        for weather in weather {
            relay = change(relay, &mut agents, &tasks, weather).await;
        }
        let steps = "SELECT count(*) FROM events WHERE kind LIKE 'thread.%' AND request_id <> 'req_weather'";
        assert_eq!(count(&relay, steps), events);
        for (which, first) in &first {
            let again = make(&agents, *which).await;
            // A disabled agent is not answered at all, not even as before.
            if agents[named_call(*which, &tasks).0].handle == "disabled" {
                again.refused("forbidden");
            } else {
                assert_eq!(again.text, first.text, "call {which}");
            }
        }
        assert_eq!(count(&relay, steps), events);

        // A name belongs to its caller and to its payload.
        for which in first.keys() {
            let (who, method, mut params) = named_call(*which, &tasks);
            params["metadata"]["ticket"] = json!(43);
            if agents[who].handle != "disabled" {
                agents[who].rpc(method, params.clone()).await.refused("duplicate_idempotency_key");
            }
            let metadata = params["metadata"].clone();
            let other = json!({ "recipient": "ann@acme", "message": message("mine"), "metadata": metadata });
            agents[2].rpc("message/send", other).await.result();
        }
        consistency::check(&relay.sqlite());
        relay.stop().await;
    });
}

async fn change(relay: TestRelay, agents: &mut [Agent], tasks: &[String], weather: Weather) -> TestRelay {
    let operator = || Actor::operator("req_weather");
    let name = |who: Who| AgentName::Id(AgentId::parse(&agents[who].id).expect("an id"));
    match weather {
        Weather::RecipientDisabled => {
            relay.relay.disable_agent(operator(), name(3)).await.expect("disabled");
            "disabled".clone_into(&mut agents[3].handle);
        }
        Weather::SenderBlocked => {
            relay.relay.block(operator(), name(3), name(1), None).await.expect("blocked");
        }
        Weather::RecipientBlocked => {
            relay.relay.block(operator(), name(1), name(3), None).await.expect("blocked");
        }
        Weather::Ended => {
            // By the sender, whom nothing keeps from it, where it still can.
            let sender = relay.relay.authenticate(Some(&agents[1].key), "req_weather").expect("the sender");
            for task in tasks {
                let thread = ThreadId::parse(task).expect("an id");
                drop(relay.relay.transition(&sender, Step::new(thread, Transition::Cancel)).await);
            }
        }
        Weather::Renamed => {
            let handle = format!("frank-{}@acme", agents[3].id.to_lowercase());
            let handle = Handle::parse(&handle).expect("a handle");
            relay.relay.rename_agent(operator(), name(3), handle).await.expect("renamed");
        }
        Weather::AlmostAWeek => {
            relay.clock.set(SENT_AT + 7 * 24 * 3_600_000 - 1);
            relay.relay.upkeep().await.expect("upkeep");
        }
        Weather::Restarted => {
            let settings = Settings { rate_limit: 0, ..settings() };
            let relay = relay.restart(settings).await;
            for agent in agents {
                agent.url.clone_from(&relay.url);
            }
            return relay;
        }
    }
    relay
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_of_one_call_at_once_make_one_row() {
    let (relay, agents) = relay_with_callers().await;
    let key = json!({ "client_idempotency_key": "fifty" });
    let params = json!({ "recipient": "frank@acme", "message": message("once"), "metadata": key });
    let answers = at_once((0..50).map(|_| {
        let (bob, params) = (agents[1].clone(), params.clone());
        async move { bob.rpc("message/send", params).await }
    }))
    .await;
    answers[0].result();
    for answer in &answers {
        assert_eq!(answer.text, answers[0].text);
    }
    assert_eq!(count(&relay, "SELECT count(*) FROM threads"), 1);
    consistency::check(&relay.sqlite());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_that_was_answered_again_is_remembered_by_its_key() {
    let (relay, agents) = relay_with_callers().await;
    let (bob, frank) = (&agents[1], &agents[3]);
    let task = bob.hand_to(frank, "a handoff").await;
    let first = frank.step(&task, "accept").await;
    let named = json!({ "metadata": { "client_idempotency_key": "again" } });
    let again = frank.step_with(&task, "accept", named.clone()).await;
    assert_eq!(again.text, first.text);

    // Whatever becomes of the thread: the same call is answered the same way, and its key names no other.
    frank.step(&task, "complete").await.result();
    assert_eq!(frank.step_with(&task, "accept", named.clone()).await.text, again.text);
    let other = json!({ "recipient": "bob@acme", "message": message("another call"), "metadata": named["metadata"] });
    frank.rpc("message/send", other).await.refused("duplicate_idempotency_key");
    drop(relay);
}
