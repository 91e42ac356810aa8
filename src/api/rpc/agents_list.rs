//! `agents/list`: who is there.

use crate::api::App;
use crate::api::rpc::wire::page;
use crate::api::rpc::{Text, result};
use crate::api::teammates::TeammatesBody;
use crate::domain::agent::AgentFilter;
use crate::domain::json::{Issues, Object, Path};
use crate::error::Result;

pub(super) async fn serve(app: &App, params: Object<'_>) -> Result<Text> {
    let mut issues = Issues::default();
    let filter = params.optional("filter").and_then(|value| value.object(&mut issues));
    // The three may also stand beside `page`.
    let filter = filter.unwrap_or_else(|| params.clone());
    let mut word = |key: &str| Some(filter.optional(key)?.string(&mut issues)?.into_owned());
    let filter = AgentFilter { role: word("role"), skill: word("skill"), repo: word("repo") };
    let (limit, cursor) = page(&params, &mut issues);
    issues.finish()?;
    let at = Path::root().key("page").key("cursor");
    let page = app.relay.agents(filter, false, limit, cursor.as_deref(), at).await?;
    result(&TeammatesBody::new(&page, &app.public_url))
}
