//! Any calls about one thread, all at the same moment: there is an order of them that the transition table allows.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::consistency;
use crate::laws::model::{Call, Outcome, TABLE};
use crate::laws::world::{By, Deed, Pick, Said, World};
use crate::laws::{at_once, hold, relay_with_callers};

/// The states from which a race starts, and how a thread gets there.
const STARTS: [&[&str]; 3] = [&[], &["accept"], &["accept", "request_input"]];

#[test]
fn whatever_comes_at_once_there_is_an_order_of_it_that_the_table_allows() {
    let step = (any::<bool>(), select(TABLE.iter().map(|row| row.0).collect::<Vec<_>>()), 0..2_u8)
        .prop_map(|(fits, step, session)| Racer::Step { fits, step, session });
    let racer = prop_oneof![4 => step, 1 => select(vec![By::Sender, By::Recipient]).prop_map(Racer::Append)];
    let race = (select(STARTS.to_vec()), prop::collection::vec(racer, 2..=16));
    hold(120, &race, async |(start, racers)| {
        let mut world = World::new().await;
        let said = Said { text: "a longer text", artifacts: 0, key: None };
        let by = |fits: bool, step: &str| {
            if fits == (step == "cancel") { By::Sender } else { By::Recipient }
        };
        let send =
            Deed::Send { who: 1, to: Some(3), former: false, intent: "inform", action: false, said: said.clone() };
        world.perform(&send).await;
        let deed = |fits: bool, step: &'static str, session: u8| {
            let (who, said) = (by(fits, step), said.clone());
            Deed::Step { who, thread: Pick::Latest, step, session, fits: true, said, expected: None }
        };
        for step in start {
            world.perform(&deed(true, step, 0)).await;
        }

        let calls: Vec<Call> = racers
            .iter()
            .filter_map(|racer| match racer {
                Racer::Step { fits, step, session } => world.call(&deed(*fits, step, *session)),
                Racer::Append(who) => {
                    world.call(&Deed::Append { who: *who, thread: Pick::Latest, said: said.clone(), expected: None })
                }
            })
            .collect();
        let answers = world.at_once(&calls).await;

        // Those that were done, in the order of the versions that they made. The model may stand at each of them.
        let (mut done, refused): (Vec<_>, Vec<_>) =
            calls.iter().zip(&answers).partition(|(_, answer)| answer.status == 200);
        done.sort_by_key(|(_, answer)| answer.result()["generation"].as_i64());
        let mut moments = vec![world.model.clone()];
        let mut answered_again = Vec::new();
        for (call, answer) in done {
            if answer.result()["generation"] != world.model.threads[0].generation + 1 {
                answered_again.push((call, answer));
                continue;
            }
            assert_eq!(world.model.judge(call), Outcome::Done, "{call:?}");
            world.model.check(call, &Outcome::Done, answer);
            moments.push(world.model.clone());
        }
        // An accept by the session that had accepted makes no version. It is answered as the first one was.
        for (call, answer) in answered_again {
            let as_before = Outcome::AcceptedBefore(answer.result());
            assert!(moments.iter().any(|model| model.judge(call) == as_before), "{call:?}: {}", answer.text);
        }
        for (call, answer) in refused {
            let symbol = answer.symbol();
            let refusable = moments.iter().any(|model| {
                let outcome = model.judge(call);
                matches!(outcome, Outcome::Refused(expected) if expected == symbol)
            });
            assert!(refusable, "{call:?}: {}", answer.text);
        }
        world.check_the_file();
        world.relay.stop().await;
    });
}

/// Somebody in a race about one thread.
#[derive(Clone, Debug)]
enum Racer {
    Step { fits: bool, step: &'static str, session: u8 },
    Append(By),
}

#[test]
fn of_sixteen_accepts_one_session_wins() {
    let sessions =
        prop_oneof![Just((0..16).map(Some).collect::<Vec<_>>()), prop::collection::vec(prop::option::of(0..4_u8), 16),];
    hold(24, &sessions, async |sessions| {
        let (mut relay, agents) = relay_with_callers().await;
        let (bob, frank) = (&agents[1], &agents[3]);
        let task = bob.hand_to(frank, "who takes this?").await;
        let answers = at_once(sessions.iter().map(|session| {
            let (frank, task) = (frank.clone(), task.clone());
            let session = session.map(|session| format!("session {session}"));
            async move { frank.step_with(&task, "accept", json!({ "session_id": session })).await }
        }))
        .await;

        let thread = bob.get(&task).await;
        let winner = &thread["session_id"];
        for (session, answer) in sessions.iter().zip(&answers) {
            if json!(session.map(|session| format!("session {session}"))) == *winner {
                assert_eq!(answer.result()["generation"], 2);
            } else {
                let refusal = answer.clone().refused("state_changed").error();
                assert_eq!(refusal["details"], json!({ "state": "accepted", "generation": 2 }));
            }
        }
        assert!(answers.iter().any(|answer| answer.status == 200));
        assert_eq!(thread["generation"], 2);
        consistency::check(&relay.sqlite());
        relay.stop().await;
    });
}
