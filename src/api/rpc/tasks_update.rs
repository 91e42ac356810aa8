//! `tasks/update`: a transition.

use crate::api::rpc::result;
use crate::api::rpc::wire::{TransitionBody, artifacts, expected_generation, task_id};
use crate::domain::json::{Document, Issues, Object};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::transition::Transition;
use crate::error::Result;
use crate::relay::threads::thread_id;
use crate::relay::transitions::Step;
use crate::relay::{Caller, Relay};

/// Longest session id, in characters.
const SESSION_ID_MAX: usize = 255;

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Document> {
    let mut issues = Issues::default();
    let task_id = task_id(&params, &mut issues);
    let transition = params.required("transition", &mut issues).and_then(|value| {
        let transition = Transition::from_name(&value.string(&mut issues)?);
        if transition.is_none() {
            let names: Vec<_> = Transition::ALL.into_iter().map(Transition::name).collect();
            issues.add(
                params.at("transition"),
                "invalid_value",
                format!("a transition is one of {}", names.join(", ")),
            );
        }
        transition
    });
    let session_id = params.optional("session_id").and_then(|value| value.name(SESSION_ID_MAX, &mut issues));
    let message = params.optional("message").and_then(|value| Draft::read(value, &mut issues));
    let artifacts = artifacts(&params, &mut issues);
    let result_summary = params.optional("result_summary").and_then(|value| value.string(&mut issues));
    let expected_generation = expected_generation(&params, &mut issues);
    let metadata = Metadata::read(&params, &mut issues);
    let Some((task_id, transition)) = task_id.zip(transition) else {
        return issues.take(None);
    };
    // What its author said beside a message goes with it, as in message/send.
    let message = message.map(|message| Draft { payload: metadata.rest.clone(), ..message });
    // An id that is none names no thread, but its caller hears of every other mistake first.
    let thread = thread_id(&task_id);
    let step = thread.map(|thread| Step {
        session_id: session_id.map(std::borrow::Cow::into_owned),
        message,
        artifacts,
        result_summary: result_summary.map(std::borrow::Cow::into_owned),
        expected_generation,
        metadata,
        ..Step::new(thread, transition)
    });
    if let Ok(step) = &step
        && issues.is_empty()
    {
        step.check(&mut issues);
    }
    issues.finish()?;
    result(&TransitionBody::from(&relay.transition(caller, step?).await?))
}
