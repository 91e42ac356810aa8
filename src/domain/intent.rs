//! What a sender wants of the recipient. The intent and its proposed action travel as one value, so that they cannot
//! disagree.

use crate::domain::json::{Document, Issues, Object};
use crate::error::{Error, Result, Symbol};

/// Why a handoff was sent.
#[derive(Clone, Debug)]
pub enum Intent {
    /// To tell something.
    Inform,
    /// To ask something.
    AskQuestion,
    /// To have something done: the proposed action, as it came.
    ProposeAction(Document),
}

impl Intent {
    /// The names on the wire and in the data file.
    pub const NAMES: [&'static str; 3] = ["inform", "ask_question", "propose_action"];

    /// The name.
    pub fn name(&self) -> &'static str {
        match self {
            Intent::Inform => "inform",
            Intent::AskQuestion => "ask_question",
            Intent::ProposeAction(_) => "propose_action",
        }
    }

    /// The proposed action, with an intent that has one.
    pub fn proposed_action(&self) -> Option<&Document> {
        match self {
            Intent::ProposeAction(action) => Some(action),
            Intent::Inform | Intent::AskQuestion => None,
        }
    }

    /// Intent and proposed action together, which is where they can disagree: `invalid_intent_payload`.
    pub fn new(name: &str, proposed_action: Option<Document>) -> Result<Intent> {
        match (name, proposed_action) {
            ("propose_action", Some(action)) => Ok(Intent::ProposeAction(action)),
            ("propose_action", None) => Err(Error::new(
                Symbol::InvalidIntentPayload,
                "The intent propose_action needs a proposed_action with description, target_files and rationale",
            )),
            (_, Some(_)) => Err(Error::new(
                Symbol::InvalidIntentPayload,
                format!("The intent {name} takes no proposed_action; leave it out or send the intent propose_action"),
            )),
            ("ask_question", None) => Ok(Intent::AskQuestion),
            (_, None) => Ok(Intent::Inform),
        }
    }

    /// Reads `intent` and `proposed_action`, each by itself; [`Intent::new`] says whether they go together.
    pub fn read(params: &Object<'_>, issues: &mut Issues) -> (&'static str, Option<Document>) {
        let mut name = Intent::NAMES[0];
        if let Some(given) = params.optional("intent").and_then(|value| value.string(issues)) {
            match Intent::NAMES.into_iter().find(|known| *known == given) {
                Some(known) => name = known,
                None => issues.add(
                    params.at("intent"),
                    "invalid_value",
                    format!("an intent is one of {}", Intent::NAMES.join(", ")),
                ),
            }
        }
        let action = params.optional("proposed_action").and_then(|value| {
            let document = value.document();
            let action = value.object(issues)?;
            for key in ["description", "rationale"] {
                action.required(key, issues).and_then(|value| value.string(issues));
            }
            let files = action.required("target_files", issues).and_then(|value| value.array(usize::MAX, issues));
            for file in files.unwrap_or_default() {
                file.string(issues);
            }
            action.check_string("suggested_diff", issues);
            Some(document)
        });
        (name, action)
    }
}
