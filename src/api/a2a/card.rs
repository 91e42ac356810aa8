//! Agent cards (A2A v1.0.1, sections 4.4 and 8): who an agent is and where it is reached. The public one has what
//! strangers may know; whoever has a key may ask for more.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, http};
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::api::a2a::{Result, extension, http_json, no_agent};
use crate::api::request::RequestId;
use crate::api::url_text::UrlText;
use crate::api::{App, BODY_MAX, caller};
use crate::domain::agent::{Agent, Handle};
use crate::domain::artifact::ARTIFACTS_MAX;
use crate::domain::json::DEPTH_MAX;
use crate::domain::part::PARTS_MAX;
use crate::error::Error;
use crate::relay::agents::AgentName;

/// How long a client may use a card without asking again, in seconds.
const MAX_AGE_S: u32 = 60;
/// The version of A2A that all interfaces speak.
const PROTOCOL_VERSION: &str = "1.0";

/// `AgentCard` (4.4.1).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCard {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) supported_interfaces: Vec<AgentInterface>,
    pub(super) version: &'static str,
    pub(super) capabilities: AgentCapabilities,
    pub(super) security_schemes: SecuritySchemes,
    pub(super) security_requirements: [SecurityRequirement; 1],
    pub(super) default_input_modes: [&'static str; 3],
    pub(super) default_output_modes: [&'static str; 3],
    pub(super) skills: Vec<AgentSkill>,
}

/// `AgentInterface` (4.4.6).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentInterface {
    pub(super) url: String,
    pub(super) protocol_binding: &'static str,
    pub(super) tenant: String,
    pub(super) protocol_version: &'static str,
}

/// `AgentCapabilities` (4.4.3).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    pub(super) streaming: bool,
    pub(super) push_notifications: bool,
    pub(super) extensions: [AgentExtension; 1],
    pub(super) extended_agent_card: bool,
}

/// `AgentExtension` (4.4.4).
#[derive(Clone, Debug, Serialize)]
pub(super) struct AgentExtension {
    pub(super) uri: &'static str,
    pub(super) description: &'static str,
    pub(super) required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<ExtendedParams>,
}

/// What only those with a key are told of an agent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExtendedParams {
    pub(super) handle: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    pub(super) repos_owned: Vec<String>,
    pub(super) limits: Limits,
}

/// The limits of a call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) body_bytes: usize,
    pub(super) parts: usize,
    pub(super) artifacts: usize,
    pub(super) depth: usize,
    /// 0: no limit.
    pub(super) calls_per_minute: usize,
    pub(super) blocking_timeout_s: u64,
}

/// The security schemes by name (4.5).
#[derive(Clone, Debug, Serialize)]
pub(super) struct SecuritySchemes {
    pub(super) bearer: SecurityScheme,
}

/// `SecurityScheme` (4.5.1).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecurityScheme {
    pub(super) http_auth_security_scheme: HttpAuthSecurityScheme,
}

/// `HTTPAuthSecurityScheme` (4.5.3).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HttpAuthSecurityScheme {
    pub(super) description: &'static str,
    pub(super) scheme: &'static str,
    pub(super) bearer_format: &'static str,
}

/// `SecurityRequirement`: the scheme's scopes, of which there are none.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SecurityRequirement {
    pub(super) schemes: RequiredSchemes,
}

/// The required schemes by name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RequiredSchemes {
    pub(super) bearer: Scopes,
}

/// `StringList`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scopes {
    pub(super) list: [&'static str; 0],
}

/// `AgentSkill` (4.4.5).
#[derive(Clone, Debug, Serialize)]
pub(super) struct AgentSkill {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
}

impl AgentCard {
    /// What everybody may know.
    pub(super) fn public(app: &App, agent: &Agent) -> AgentCard {
        let tenant = agent.handle.to_string();
        let interface = |url: String, protocol_binding| AgentInterface {
            url,
            protocol_binding,
            tenant: tenant.clone(),
            protocol_version: PROTOCOL_VERSION,
        };
        let base = app.public_url.at(&format!("/a2a/{tenant}"));
        let modes = ["text/plain", "application/json", "*/*"];
        AgentCard {
            name: agent.name.clone(),
            description: agent.description.clone().unwrap_or_else(|| {
                format!(
                    "The coding agent of {}. A task waits in its mailbox until it is there to take it on.",
                    agent.handle
                )
            }),
            supported_interfaces: vec![
                interface(base.clone(), "JSONRPC"),
                interface(base, "HTTP+JSON"),
                interface(app.public_url.grpc().to_owned(), "GRPC"),
            ],
            version: env!("CARGO_PKG_VERSION"),
            capabilities: AgentCapabilities {
                streaming: true,
                push_notifications: true,
                extensions: [AgentExtension {
                    uri: extension::URI,
                    description: "A handoff's intent in a message's metadata, and its facts in a task's",
                    required: false,
                    params: None,
                }],
                extended_agent_card: true,
            },
            security_schemes: SecuritySchemes {
                bearer: SecurityScheme {
                    http_auth_security_scheme: HttpAuthSecurityScheme {
                        description: "The key of an agent of this relay; its operator mints one",
                        scheme: "Bearer",
                        bearer_format: "ah_live_…",
                    },
                },
            },
            security_requirements: [SecurityRequirement { schemes: RequiredSchemes { bearer: Scopes { list: [] } } }],
            default_input_modes: modes,
            default_output_modes: modes,
            skills: skills(agent),
        }
    }

    /// What those who have a key may know.
    pub(super) fn extended(app: &App, agent: &Agent) -> AgentCard {
        let mut card = AgentCard::public(app, agent);
        card.capabilities.extensions[0].params = Some(ExtendedParams {
            handle: agent.handle.to_string(),
            email: agent.email.clone(),
            role: agent.role.clone(),
            repos_owned: agent.repos_owned.clone(),
            limits: Limits {
                body_bytes: BODY_MAX,
                parts: PARTS_MAX,
                artifacts: ARTIFACTS_MAX,
                depth: DEPTH_MAX,
                calls_per_minute: app.rate_limit.calls_max(),
                blocking_timeout_s: app.blocking_timeout.as_secs(),
            },
        });
        card
    }
}

/// What it says it can, the repositories that it looks after, and what every agent here does: a card has one skill at
/// least.
fn skills(agent: &Agent) -> Vec<AgentSkill> {
    let mut skills = vec![AgentSkill {
        id: "handoff".to_owned(),
        name: "Handoff".to_owned(),
        description: "Takes over a task, asks back where something is missing, and reports what came of it".to_owned(),
        tags: vec!["handoff".to_owned()],
    }];
    skills.extend(agent.skills.iter().map(|skill| AgentSkill {
        id: format!("skill:{skill}"),
        name: skill.clone(),
        description: format!("{} knows about {skill}", agent.name),
        tags: vec![skill.clone()],
    }));
    skills.extend(agent.repos_owned.iter().map(|repo| AgentSkill {
        id: format!("repo:{repo}"),
        name: repo.clone(),
        description: format!("{} looks after the repository {repo}", agent.name),
        tags: vec!["repository".to_owned(), repo.clone()],
    }));
    skills
}

/// `GET /a2a/{handle}/.well-known/agent-card.json`.
pub(in crate::api) async fn of_agent(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    UrlText(handle): UrlText,
    headers: HeaderMap,
) -> Response {
    let handle = handle.unwrap_or_default();
    let found = async {
        check_reader(&app, &headers, &request_id)?;
        let parsed = Handle::parse(&handle).map_err(|_| no_agent(&handle))?;
        let agent = app.relay.agent(AgentName::Handle(parsed)).await?;
        if agent.disabled_at.is_some() {
            return Err(no_agent(&handle).into());
        }
        Ok(agent)
    };
    respond(&app, &headers, found.await, &request_id)
}

/// `GET /.well-known/agent-card.json`: the default agent's.
pub(in crate::api) async fn of_default(
    State(app): State<App>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    headers: HeaderMap,
) -> Response {
    let found = async {
        check_reader(&app, &headers, &request_id)?;
        let default = app.relay.default_agent().await?.filter(|agent| agent.disabled_at.is_none());
        Ok(default.ok_or_else(|| no_agent(&"(the default one)"))?)
    };
    respond(&app, &headers, found.await, &request_id)
}

/// Where cards are not public, a key is needed.
fn check_reader(app: &App, headers: &HeaderMap, request_id: &str) -> std::result::Result<(), Error> {
    if app.public_cards { Ok(()) } else { caller::authenticate(&app.relay, headers, request_id).map(drop) }
}

fn respond(app: &App, headers: &HeaderMap, found: Result<Agent>, request_id: &str) -> Response {
    let written = found.and_then(|agent| {
        let body = serde_json::to_vec(&AgentCard::public(app, &agent)).map_err(Error::internal)?;
        Ok((agent, body))
    });
    let (agent, body) = match written {
        Ok(written) => written,
        Err(failure) => return http_json::refusal(&failure, http_json::Media::Json, request_id),
    };
    let tag = format!("\"{}\"", HEXLOWER.encode(&Sha256::digest(&body)[..16]));
    let changed_s = u64::try_from(agent.changed_at.ms() / 1000).unwrap_or(0);
    let changed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(changed_s);
    let audience = if app.public_cards { "public" } else { "private" };
    let text = |value: String| HeaderValue::from_str(&value).ok();
    let headers_of_card = [
        (CACHE_CONTROL, text(format!("{audience}, max-age={MAX_AGE_S}"))),
        (ETAG, text(tag.clone())),
        (LAST_MODIFIED, text(httpdate::fmt_http_date(changed))),
    ];
    let mut response = if is_known(headers, &tag, changed) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
    };
    for (name, value) in headers_of_card {
        value.map(|value| response.headers_mut().insert(name, value));
    }
    response
}

/// Whether the client has this card already (RFC 9110, section 13.2.2: the tag counts where there is one).
fn is_known(headers: &HeaderMap, tag: &str, changed: std::time::SystemTime) -> bool {
    let text = |name: http::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(tags) = text(IF_NONE_MATCH) {
        let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        return tags.trim() == "*" || tags.split(',').any(|known| weak(known) == tag);
    }
    let since = text(IF_MODIFIED_SINCE).and_then(|since| httpdate::parse_http_date(since).ok());
    since.is_some_and(|since| since >= changed)
}
