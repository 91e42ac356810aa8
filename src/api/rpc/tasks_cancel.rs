//! `tasks/cancel`: `tasks/update` with the transition `cancel`.

use crate::api::rpc::wire::{TransitionBody, expected_generation, task_id};
use crate::api::rpc::{Text, result};
use crate::domain::json::{Issues, Object};
use crate::domain::metadata::Metadata;
use crate::domain::transition::Transition;
use crate::error::Result;
use crate::relay::threads::thread_id;
use crate::relay::transitions::Step;
use crate::relay::{Caller, Relay};

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Text> {
    let mut issues = Issues::default();
    let task_id = task_id(&params, &mut issues);
    let expected_generation = expected_generation(&params, &mut issues);
    let metadata = Metadata::read(&params, &mut issues);
    let task_id = issues.take(task_id)?;
    let step = Step { expected_generation, metadata, ..Step::new(thread_id(&task_id)?, Transition::Cancel) };
    result(&TransitionBody::from(&relay.transition(caller, step).await?))
}
