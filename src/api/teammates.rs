//! The list of teammates, the same in every dialect.

use serde::Serialize;

use crate::api::public_url::PublicUrl;
use crate::domain::agent::{Agent, Handle};
use crate::domain::page::Page;

#[derive(Serialize)]
pub(super) struct TeammatesBody<'a> {
    teammates: Vec<TeammateBody<'a>>,
    next_cursor: Option<&'a str>,
}

#[derive(Serialize)]
struct TeammateBody<'a> {
    handle: &'a Handle,
    name: &'a str,
    role: Option<&'a str>,
    description: Option<&'a str>,
    skills: &'a [String],
    repos_owned: &'a [String],
    /// Where A2A clients begin.
    card_url: String,
}

impl<'a> TeammatesBody<'a> {
    pub(super) fn new(page: &'a Page<Agent>, public_url: &PublicUrl) -> TeammatesBody<'a> {
        let teammates = page.items.iter().map(|agent| TeammateBody {
            handle: &agent.handle,
            name: &agent.name,
            role: agent.role.as_deref(),
            description: agent.description.as_deref(),
            skills: &agent.skills,
            repos_owned: &agent.repos_owned,
            card_url: public_url.card_of(&agent.handle),
        });
        TeammatesBody { teammates: teammates.collect(), next_cursor: page.next_cursor.as_deref() }
    }
}
