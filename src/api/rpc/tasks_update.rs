//! `tasks/update`: a transition.

use crate::api::rpc::wire::{TransitionBody, artifacts, expected_generation, task_id};
use crate::api::rpc::{Text, result};
use crate::domain::json::{Issues, Object};
use crate::domain::message::Draft;
use crate::domain::metadata::Metadata;
use crate::domain::transition::{Brings, Transition};
use crate::error::Result;
use crate::relay::threads::thread_id;
use crate::relay::transitions::Step;
use crate::relay::{Caller, Relay};

/// Longest session id, in characters.
const SESSION_ID_MAX: usize = 255;

pub(super) async fn serve(relay: &Relay, caller: &Caller, params: Object<'_>) -> Result<Text> {
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
    if let Some(transition) = transition {
        let brings = |key: &str| params.optional(key).is_some();
        let brings = Brings {
            message: brings("message"),
            artifacts: brings("artifacts") && !is_empty(&params, "artifacts"),
            result_summary: brings("result_summary"),
        };
        transition.check(brings, &mut issues);
    }
    let session_id = params.optional("session_id").and_then(|value| value.name(SESSION_ID_MAX, &mut issues));
    let message = params.optional("message").and_then(|value| Draft::read(value, &mut issues));
    let artifacts = artifacts(&params, &mut issues);
    let result_summary = params.optional("result_summary").and_then(|value| value.string(&mut issues));
    let expected_generation = expected_generation(&params, &mut issues);
    let metadata = Metadata::read(&params, &mut issues);
    let (task_id, transition) = issues.take(task_id.zip(transition))?;
    let step = Step {
        session_id: session_id.map(std::borrow::Cow::into_owned),
        // What its author said beside a message goes with it, as in message/send.
        message: message.map(|message| Draft { payload: metadata.rest.clone(), ..message }),
        artifacts,
        result_summary: result_summary.map(std::borrow::Cow::into_owned),
        expected_generation,
        metadata,
        ..Step::new(thread_id(&task_id)?, transition)
    };
    result(&TransitionBody::from(&relay.transition(caller, step).await?))
}

/// Whether `key` is a list of nothing, which is as good as no list.
fn is_empty(params: &Object<'_>, key: &str) -> bool {
    let list = params.optional(key).and_then(|value| value.array(usize::MAX, &mut Issues::default()));
    list.is_some_and(|list| list.is_empty())
}
