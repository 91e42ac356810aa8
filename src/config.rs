//! Settings: a flag, else its `AGENTRELAY_…` variable, else the default. Read once, here; the layers below get plain
//! values.
//!
//! The doc comments are the help. `agentrelay config` lists the settings as they take effect.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::{self, AdminToken};

/// The variable that holds the admin token. It has no flag: other processes can read a command line.
const ADMIN_TOKEN: &str = "AGENTRELAY_ADMIN_TOKEN";
/// Shortest admin token that is taken. Whoever guesses it can mint keys.
const ADMIN_TOKEN_MIN: usize = 16;

/// What every command takes, before or after its own words.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Common {
    /// The data file [default: agentrelay.db in the platform's data directory]
    #[arg(long, global = true, env = "AGENTRELAY_DATA", hide_env_values = true, value_name = "FILE")]
    pub data: Option<PathBuf>,

    /// How to print data: as a table for people, or as one JSON document for programs
    #[arg(
        long,
        global = true,
        env = "AGENTRELAY_OUTPUT",
        hide_env_values = true,
        value_enum,
        default_value = "table",
        value_name = "FORMAT"
    )]
    pub output: Output,
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Aligned columns
    Table,
    /// One JSON document
    Json,
}

/// Where the relay listens.
#[derive(Clone, Debug, Args)]
pub struct Listen {
    /// The address that the relay listens at; port 0 takes any free one
    ///
    /// Only this machine reaches a loopback address such as 127.0.0.1. To serve a team, listen at 0.0.0.0 and give
    /// --public-url.
    #[arg(
        long,
        env = "AGENTRELAY_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:7420",
        value_name = "ADDR:PORT"
    )]
    #[arg(value_parser = listen_address)]
    pub listen: SocketAddr,
}

/// What `serve` takes.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the help of the whole command")]
    pub listen: Listen,

    /// Where clients reach the relay, when that is not the address it listens at
    ///
    /// Such as `https://relay.example`, with a reverse proxy in front. Requests that name its host are accepted.
    #[arg(long, env = "AGENTRELAY_PUBLIC_URL", hide_env_values = true, value_name = "URL", value_parser = public_url)]
    pub public_url: Option<String>,

    /// Accept requests that name this host; may be given several times
    ///
    /// Addresses, localhost and the host of --public-url are always accepted. Any other name is refused, so that no
    /// web page can reach the relay through a browser. The variable takes a list with commas.
    #[arg(long, env = "AGENTRELAY_ALLOWED_HOST", hide_env_values = true, value_name = "HOST")]
    #[arg(value_delimiter = ',', value_parser = host_name)]
    pub allowed_host: Vec<String>,

    /// How many calls each agent may make in any 60 seconds; 0 for no limit
    #[arg(long, env = "AGENTRELAY_RATE_LIMIT", hide_env_values = true, value_name = "N", default_value_t = 60)]
    pub rate_limit: u32,

    /// How many seconds a blocking `SendMessage` of an A2A client waits for the agent; then it gets the task as it is
    #[arg(
        long,
        env = "AGENTRELAY_BLOCKING_TIMEOUT",
        hide_env_values = true,
        value_name = "SECONDS",
        default_value_t = 30
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    pub blocking_timeout: u64,

    /// Whether anybody may read the agents' A2A cards; off shows them only to agents of this relay
    #[arg(
        long,
        env = "AGENTRELAY_PUBLIC_CARDS",
        hide_env_values = true,
        value_enum,
        default_value = "on",
        value_name = "SWITCH"
    )]
    pub public_cards: Switch,

    /// A file with the admin token, which opens the routes under /admin
    ///
    /// `AGENTRELAY_ADMIN_TOKEN` may hold the token itself instead. Without either the routes are closed.
    #[arg(long, value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,

    /// Let webhooks lead to loopback and private addresses, for tests and labs
    ///
    /// Agents choose where their webhooks lead. Without this the relay connects to public addresses only, so that no
    /// agent reaches through it what stands beside it.
    #[arg(long, env = "AGENTRELAY_ALLOW_PRIVATE_WEBHOOKS", hide_env_values = true)]
    pub allow_private_webhooks: bool,

    /// The least important events to log
    #[arg(
        long,
        env = "AGENTRELAY_LOG_LEVEL",
        hide_env_values = true,
        value_enum,
        default_value = "info",
        value_name = "LEVEL"
    )]
    pub log_level: LogLevel,

    /// How to log: auto is text on a terminal and JSON elsewhere
    #[arg(
        long,
        env = "AGENTRELAY_LOG_FORMAT",
        hide_env_values = true,
        value_enum,
        default_value = "auto",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,

    /// Whether writes that wait share a commit; off only to measure what that gains
    #[arg(long, hide = true, value_enum, default_value = "on", value_name = "SWITCH")]
    pub group_commit: Switch,
}

/// The least important events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What failed
    Error,
    /// And what may fail soon
    Warn,
    /// And each request
    Info,
    /// And how it was answered
    Debug,
    /// And everything else
    Trace,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere
    Auto,
    /// Text
    Text,
    /// One JSON object a line
    Json,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// A setting that cannot be used, as a sentence for the one who made it.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable(pub String);

impl Common {
    /// Where the data file is or will be, from the root.
    ///
    /// # Errors
    /// When none was named and the platform has no data directory for this user.
    pub fn data_file(&self) -> Result<PathBuf, Unusable> {
        let path = match &self.data {
            Some(path) => path.clone(),
            None => default_data_file().ok_or_else(|| {
                Unusable("this user has no data directory (is HOME set?); name the data file with --data FILE".into())
            })?,
        };
        std::path::absolute(&path).map_err(|error| Unusable(format!("cannot use {}: {error}", path.display())))
    }

    /// Whether the data file is where it is when nobody says otherwise.
    pub fn is_default_data_file(&self, path: &Path) -> bool {
        default_data_file().is_some_and(|default| default == path)
    }
}

fn default_data_file() -> Option<PathBuf> {
    let folders = directories::ProjectDirs::from("", "", "agentrelay")?;
    Some(folders.data_dir().join("agentrelay.db"))
}

impl Listen {
    /// The address to call a relay that listens here: "any address" is none to call.
    pub fn callable(&self) -> SocketAddr {
        api::callable(self.listen)
    }
}

impl Settings {
    /// What the wires need to know of them.
    pub fn api(&self) -> Result<api::Settings, Unusable> {
        Ok(api::Settings {
            rate_limit: self.rate_limit,
            public_url: self.public_url.clone(),
            allowed_hosts: self.allowed_host.clone(),
            admin_token: self.admin_token()?.map(|(token, _)| token),
            blocking_timeout: Duration::from_secs(self.blocking_timeout),
            public_cards: self.public_cards == Switch::On,
            allow_private_webhooks: self.allow_private_webhooks,
        })
    }

    fn admin_token(&self) -> Result<Option<(AdminToken, Source)>, Unusable> {
        if let Some(path) = &self.admin_token_file {
            let place = format!("the file {}", path.display());
            let text = std::fs::read_to_string(path)
                .map_err(|error| Unusable(format!("cannot read the admin token from {place}: {error}")))?;
            return Ok(Some((read_admin_token(text.trim_end(), &place)?, Source::Flag)));
        }
        match std::env::var_os(ADMIN_TOKEN) {
            Some(text) => Ok(Some((read_admin_token(&text.to_string_lossy(), ADMIN_TOKEN)?, Source::Environment))),
            None => Ok(None),
        }
    }
}

/// Reads an admin token from `place`. What is wrong with one is said without showing it.
fn read_admin_token(text: &str, place: &str) -> Result<AdminToken, Unusable> {
    let refused = |reason: &str| Err(Unusable(format!("the admin token in {place} {reason}")));
    if text.is_empty() {
        return refused(
            "is empty: put a long random text there, or leave the setting out to keep the admin routes closed",
        );
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("has spaces or characters outside ASCII, which no Authorization header carries");
    }
    if text.len() < ADMIN_TOKEN_MIN {
        return refused(&format!("is shorter than {ADMIN_TOKEN_MIN} characters: choose one that nobody can guess"));
    }
    Ok(AdminToken::new(text))
}

/// Where a setting's value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A flag of the command line.
    Flag,
    /// A variable of the environment.
    Environment,
    /// Nobody said otherwise.
    Default,
}

impl Source {
    /// The name in lists.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Flag => "flag",
            Source::Environment => "environment",
            Source::Default => "default",
        }
    }

    fn of(matches: &ArgMatches, id: &str) -> Source {
        match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Environment,
            _ => Source::Default,
        }
    }
}

/// A setting as it takes effect.
#[derive(Debug, Serialize)]
pub struct Effective {
    /// Its name: the flag without dashes.
    pub name: String,
    /// Its value; a secret is not shown.
    pub value: Value,
    /// Where that came from.
    pub source: Source,
    /// The flag that changes it.
    pub flag: String,
    /// The variable that changes it.
    pub variable: Option<String>,
}

/// Every setting as it takes effect, in the order of the help.
///
/// `matches` is what the command line's parser found for the command that takes `settings`.
pub fn effective(common: &Common, settings: &Settings, matches: &ArgMatches) -> Result<Vec<Effective>, Unusable> {
    let admin_token = settings.admin_token()?.map(|(_, source)| source);
    let data = common.data_file()?;
    let value = |id: &str| match id {
        "data" => json!(data),
        "output" => json!(name_of(&common.output)),
        "listen" => json!(settings.listen.listen),
        "public_url" => json!(settings.public_url),
        "allowed_host" => json!(settings.allowed_host),
        "rate_limit" => json!(settings.rate_limit),
        "blocking_timeout" => json!(settings.blocking_timeout),
        "public_cards" => json!(name_of(&settings.public_cards)),
        "admin_token_file" => admin_token.map_or(Value::Null, |_| json!("(not shown)")),
        "allow_private_webhooks" => json!(settings.allow_private_webhooks),
        "log_level" => json!(name_of(&settings.log_level)),
        "log_format" => json!(name_of(&settings.log_format)),
        _ => Value::Null,
    };
    let command = Settings::augment_args(Common::augment_args(clap::Command::new("")));
    let rows = command.get_arguments().filter(|arg| !arg.is_hide_set()).map(|arg| {
        let id = arg.get_id().as_str();
        let flag = arg.get_long().unwrap_or_default();
        let mut row = Effective {
            name: flag.to_owned(),
            value: value(id),
            source: Source::of(matches, id),
            flag: format!("--{flag}"),
            variable: arg.get_env().map(|name| name.to_string_lossy().into_owned()),
        };
        if id == "admin_token_file" {
            "admin-token".clone_into(&mut row.name);
            row.variable = Some(ADMIN_TOKEN.to_owned());
            row.source = admin_token.unwrap_or(Source::Default);
        }
        row
    });
    Ok(rows.collect())
}

fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric
        .parse()
        .map_err(|_| "write an address and a port, such as 127.0.0.1:7420, 0.0.0.0:7420 or [::1]:7420".into())
}

/// A URL that paths can be appended to.
fn public_url(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; write it as https://relay.example"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("write it as https://relay.example".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("everybody sees it: leave the user name and password out".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("paths are appended to it: leave out what follows '?' or '#'".into());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn host_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text.is_empty() || !text.bytes().all(plain) {
        return Err("write a host name alone, without scheme, port and path, such as relay.lan".into());
    }
    Ok(text.to_ascii_lowercase())
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn a_listen_address_is_numeric_or_localhost() {
        assert_eq!(listen_address("localhost:7420"), Ok(SocketAddr::from(([127, 0, 0, 1], 7420))));
        assert_eq!(listen_address("[::1]:0"), Ok(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0))));
        for text in ["", "7420", ":7420", "127.0.0.1", "localhost", "localhost:", "relay.lan:7420", "127.0.0.1:70000"] {
            listen_address(text).expect_err(text);
        }
    }

    #[test]
    fn a_health_check_calls_the_loopback_address_of_a_relay_that_listens_everywhere() {
        let callable = |text: &str| Listen { listen: text.parse().expect(text) }.callable().to_string();
        assert_eq!(callable("0.0.0.0:7420"), "127.0.0.1:7420");
        assert_eq!(callable("[::]:7420"), "[::1]:7420");
        assert_eq!(callable("192.0.2.7:80"), "192.0.2.7:80");
    }

    #[test]
    fn a_public_url_is_one_that_paths_can_be_appended_to() {
        assert_eq!(public_url("https://Relay.example/").as_deref(), Ok("https://relay.example"));
        assert_eq!(public_url("http://relay.lan:7420/x/").as_deref(), Ok("http://relay.lan:7420/x"));
        for text in [
            "",
            "relay.example",
            "ftp://relay.example",
            "https://",
            "https://u:p@relay.example",
            "https://r.example?x",
            "https://r.example/#x",
        ] {
            public_url(text).expect_err(text);
        }
    }

    #[test]
    fn an_allowed_host_is_a_name_alone() {
        assert_eq!(host_name("Relay.LAN").as_deref(), Ok("relay.lan"));
        for text in ["", "https://relay.lan", "relay.lan:7420", "relay.lan/", "a b", "*"] {
            host_name(text).expect_err(text);
        }
    }

    #[test]
    fn an_admin_token_that_somebody_could_guess_is_refused_without_being_shown() {
        assert!(read_admin_token("0123456789abcdef", "here").is_ok());
        for text in ["", "0123456789abcde", "0123456789abcdef ", "0123456789abcdéf"] {
            let Unusable(reason) = read_admin_token(text, "here").expect_err(text);
            assert!(text.is_empty() || !reason.contains(text), "{reason}");
        }
    }

    #[test]
    fn no_setting_is_forgotten_in_the_list_and_none_has_its_value_there_by_accident() {
        let command = Settings::augment_args(Common::augment_args(clap::Command::new("")));
        let given = ["", "--data", "/x/y.db", "--public-url", "http://a", "--allowed-host", "b"];
        let matches = command.get_matches_from(given);
        let common = Common::from_arg_matches(&matches).expect("settings");
        let settings = Settings::from_arg_matches(&matches).expect("settings");
        let rows = effective(&common, &settings, &matches).expect("usable");
        let unset: Vec<_> = rows.iter().filter(|row| row.value.is_null()).map(|row| &*row.name).collect();
        assert_eq!(unset, ["admin-token"]);
    }
}
