//! `agentrelay health`: whether a relay is ready, for containers and scripts.

use std::time::Duration;

use reqwest::redirect::Policy;
use serde_json::json;

use crate::cli::console::{Console, Table};
use crate::cli::{Exit, Failure, operator};
use crate::config::Listen;

/// How long a relay may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Check that a running relay is ready
///
/// Asks it over HTTP; it is ready when it can read and write its data file. The exit code is 0 when it is and 1 when
/// it is not or does not answer within 2 seconds.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    listen: Listen,

    /// Where to ask, instead of the address that it listens at: http://HOST:PORT
    #[arg(long, value_name = "URL")]
    url: Option<reqwest::Url>,
}

impl Args {
    pub(super) fn run(self, console: Console) -> Result<(), Failure> {
        let base = match self.url {
            Some(url) => url.to_string(),
            None => format!("http://{}", self.listen.callable()),
        };
        let url = format!("{}/readyz", base.trim_end_matches('/'));
        operator::block_on(async {
            let failed = |error: reqwest::Error| {
                Failure::new(Exit::Failure, format!("no relay answers at {url}")).because(&error.without_url())
            };
            // A proxy would answer for a relay that is gone, and a redirect would lead to another server.
            let client = reqwest::Client::builder().timeout(ANSWER_MAX).no_proxy().redirect(Policy::none()).build();
            let status = client.map_err(failed)?.get(&url).send().await.map_err(failed)?.status();
            if !status.is_success() {
                return Err(Failure::new(Exit::Failure, format!("{url} answers {status}: the relay is not ready")));
            }
            console.show(&json!({ "status": "ready", "url": url }), || {
                let mut table = Table::without_headings();
                table.add(["ready"]);
                table
            })
        })
    }
}
