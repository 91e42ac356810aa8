//! Any calls, one after the other: each comes out as DESIGN 4 says, and the file stays consistent.

use crate::laws::model::{Call, Side, Verb};
use crate::laws::world::{Deed, Said, World, deeds};
use crate::laws::{CALLERS, hold};

#[test]
fn any_sequence_of_calls_comes_out_as_the_table_says_and_leaves_a_consistent_file() {
    hold(160, &deeds(), async |deeds| {
        let mut world = World::new().await;
        for (who, to) in [(0, 1), (1, 3), (3, 1)] {
            let said = Said { text: "hello", artifacts: 0, key: None };
            let to = Some(to);
            world.perform(&Deed::Send { who, to, former: false, intent: "inform", action: false, said }).await;
        }
        for deed in &deeds {
            world.perform(deed).await;
        }
        world.check_the_file();
        // What anyone can see in the end is what the model sees.
        for who in 0..CALLERS {
            world.perform(&Deed::Enable(who)).await;
            for side in [Side::Sender, Side::Recipient] {
                world.perform(&Deed::List { who, side, status: None }).await;
            }
        }
        for thread in 0..world.model.threads.len() {
            let caller = world.model.threads[thread].recipient;
            world.make(Call { caller, key: None, verb: Verb::Get { thread: Some(thread) } }).await;
        }
        world.check_the_file();
        world.relay.stop().await;
    });
}
