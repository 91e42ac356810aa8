//! Agents: who sends and receives.

use std::fmt;

use crate::domain::id::{AgentId, Row};
use crate::domain::json::{Issues, Object};
use crate::domain::time::Timestamp;

/// Longest handle, in characters.
pub const HANDLE_MAX: usize = 120;
/// Longest display name, role and label, in characters.
pub const NAME_MAX: usize = 120;
/// Longest description, in characters.
pub const DESCRIPTION_MAX: usize = 2_000;
/// Longest email address, in characters (RFC 5321).
pub const EMAIL_MAX: usize = 254;
/// Most skills on a card, and the longest.
pub const SKILLS_MAX: (usize, usize) = (50, 60);
/// Most repositories on a card, and the longest.
pub const REPOS_MAX: (usize, usize) = (100, 200);

/// An agent's address, `name@team`: lower case, of `a-z 0-9 . _ -` on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(String);

impl Handle {
    /// Reads a handle, folding upper case.
    ///
    /// # Errors
    /// The reason, as a sentence.
    pub fn parse(text: &str) -> Result<Handle, String> {
        let refused = |reason: &str| Err(format!("a handle is name@team: {reason}"));
        let Some((name, team)) = text.split_once('@') else {
            return refused("there is no @");
        };
        if text.len() > HANDLE_MAX {
            return refused("at most 120 characters are taken");
        }
        for side in [name, team] {
            if side.is_empty() {
                return refused("neither side of the @ may be empty");
            }
            if !side.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
                return refused("only letters a to z, digits, '.', '_' and '-' are taken on both sides of one @");
            }
            if side.starts_with('.') || side.ends_with('.') || side.contains("..") {
                return refused("a dot stands between other characters, and alone");
            }
        }
        Ok(Handle(text.to_ascii_lowercase()))
    }

    /// A handle as the data file holds it.
    pub(crate) fn stored(text: String) -> Handle {
        Handle(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the `@`: an agent's name until it is given another.
    pub fn local_part(&self) -> &str {
        self.0.split('@').next().unwrap_or(&self.0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Handle {
    type Err = String;

    fn from_str(text: &str) -> Result<Handle, String> {
        Handle::parse(text)
    }
}

impl serde::Serialize for Handle {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// An identity that can send and receive.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its row in the data file.
    pub row: Row,
    /// Its id.
    pub id: AgentId,
    /// Its present handle. Earlier ones keep reaching it.
    pub handle: Handle,
    /// What people call it.
    pub name: String,
    /// Where its person is reached.
    pub email: Option<String>,
    /// What it does in its team, such as `backend`.
    pub role: Option<String>,
    /// What teammates should know before they hand it something.
    pub description: Option<String>,
    /// What it can do.
    pub skills: Vec<String>,
    /// Whose code it answers for.
    pub repos_owned: Vec<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Since when it can neither call nor be sent to.
    pub disabled_at: Option<Timestamp>,
    /// When its card last looked different.
    pub changed_at: Timestamp,
}

impl Agent {
    /// `active` or `disabled`.
    pub fn status(&self) -> &'static str {
        if self.disabled_at.is_some() { "disabled" } else { "active" }
    }
}

/// What an answer about a thread says of a participant.
#[derive(Clone, Debug)]
pub struct Participant {
    /// Its row in the data file.
    pub row: Row,
    /// Its id.
    pub id: AgentId,
    /// Its handle.
    pub handle: Handle,
    /// What people call it.
    pub name: String,
    /// What it does in its team.
    pub role: Option<String>,
}

/// A new agent, as its operator describes it.
#[derive(Clone, Debug)]
pub struct NewAgent {
    /// Its handle.
    pub handle: Handle,
    /// What people call it; the handle's local part when absent.
    pub name: Option<String>,
    /// Where its person is reached.
    pub email: Option<String>,
    /// What it does in its team.
    pub role: Option<String>,
}

impl NewAgent {
    /// An agent of which only the handle is known.
    pub fn with_handle(handle: Handle) -> NewAgent {
        NewAgent { handle, name: None, email: None, role: None }
    }
}

/// Changes to an agent's card. What is `None` stays as it is; an empty text takes the old one away.
#[derive(Clone, Debug, Default)]
pub struct CardChange {
    /// A new role.
    pub role: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// A new list of skills.
    pub skills: Option<Vec<String>>,
    /// A new list of repositories.
    pub repos_owned: Option<Vec<String>>,
}

impl CardChange {
    /// Reads a change from a document.
    pub fn read(document: &Object<'_>, issues: &mut Issues) -> CardChange {
        let mut text = |key: &str, length_max: usize| {
            let value = document.optional(key)?;
            let path = value.path.clone();
            let text = value.string(issues)?;
            if text.chars().count() > length_max {
                issues.add(path, "too_big", format!("at most {length_max} characters are taken"));
                return None;
            }
            Some(text.into_owned())
        };
        let (role, description) = (text("role", NAME_MAX), text("description", DESCRIPTION_MAX));
        let mut list = |key: &str, (count_max, length_max): (usize, usize)| {
            let elements = document.optional(key)?.array(count_max, issues)?;
            Some(
                elements
                    .into_iter()
                    .filter_map(|element| Some(element.name(length_max, issues)?.into_owned()))
                    .collect(),
            )
        };
        let (skills, repos_owned) = (list("skills", SKILLS_MAX), list("repos_owned", REPOS_MAX));
        CardChange { role, description, skills, repos_owned }
    }
}

/// Which agents a list shows: those that match everything given.
#[derive(Clone, Debug, Default)]
pub struct AgentFilter {
    /// Agents of this role.
    pub role: Option<String>,
    /// Agents with this skill.
    pub skill: Option<String>,
    /// Agents that own this repository.
    pub repo: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_case_is_folded() {
        assert_eq!(Handle::parse("Frank@ACME").map(|handle| handle.to_string()), Ok("frank@acme".to_owned()));
        assert!(Handle::parse("a.b_c-1@x.y").is_ok());
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        let long = format!("{}@acme", "a".repeat(HANDLE_MAX));
        for text in [
            "",
            "frank",
            "@acme",
            "frank@",
            "a@b@c",
            "frаnk@acme",
            "fr%2eank@acme",
            ".@acme",
            "..@acme",
            "frank.@acme",
            "frank@acme.",
            "a..b@acme",
            "fr ank@acme",
            "frank@acme\n",
            "frank/@acme",
            &long,
        ] {
            let reason = Handle::parse(text).expect_err(text);
            assert!(reason.starts_with("a handle is name@team: "), "{reason}");
        }
    }
}
