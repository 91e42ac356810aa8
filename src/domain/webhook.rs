//! Webhooks: where a sender wants to be told what happens to a thread, and how stubbornly it is.

use std::fmt;
use std::time::Duration;

use url::Url;

use crate::domain::agent::Handle;
use crate::domain::id::{DeadLetterId, ThreadId};
use crate::domain::json::{Issues, Path};
use crate::domain::time::Timestamp;

/// Most webhooks of one thread.
pub const WEBHOOKS_MAX: usize = 20;
/// Longest name of a webhook, in characters.
pub const NAME_MAX: usize = 255;
/// Longest URL, in bytes.
pub const URL_MAX: usize = 2048;
/// Longest scheme, token and credentials, in bytes: they travel in headers.
pub const SECRET_MAX: usize = 4096;
/// How often an update is tried. The waits in between, each from [`retry_delay`], add up to a day and a quarter of an
/// hour: 1 s, 2 s, 4 s and so on up to 4,096 s, then eleven times 2 h.
pub const TRIES_MAX: i64 = 25;
/// The longest wait between two tries, before its jitter.
const RETRY_DELAY_MAX_MS: u64 = 2 * 60 * 60 * 1000;

/// A webhook that a sender asks for.
#[derive(Clone, Debug)]
pub struct NewWebhook {
    /// Its name among the thread's webhooks; one is made up when absent. The same name again replaces the old one.
    pub name: Option<String>,
    /// What it is.
    pub target: Target,
}

/// A webhook of a thread, as its sender sees it again.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Its name among the thread's webhooks.
    pub name: String,
    /// What it is, without token and credentials: nobody reads these again.
    pub target: Target,
}

/// Where a webhook leads, and what is sent along to prove who calls.
#[derive(Clone)]
pub struct Target {
    /// An `http` or `https` URL.
    pub url: String,
    /// Sent along as it is, so that the receiver knows what it belongs to.
    pub token: Option<Secret>,
    /// How the relay authenticates itself there.
    pub authentication: Option<Authentication>,
}

/// What goes into the `Authorization` header (RFC 9110, section 11.4).
#[derive(Clone, Debug)]
pub struct Authentication {
    /// Such as `Bearer` or `Basic`.
    pub scheme: String,
    /// What follows the scheme.
    pub credentials: Option<Secret>,
}

/// An update that was given up on, as the operator sees it.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its id.
    pub id: DeadLetterId,
    /// Whose webhook it was for.
    pub sender: Handle,
    /// The thread that it tells of.
    pub thread: ThreadId,
    /// The version of the thread that it tells of.
    pub generation: i64,
    /// The webhook's name among the thread's.
    pub webhook: String,
    /// Where that leads, without what may be secret.
    pub url: String,
    /// How often it was tried.
    pub tries: i64,
    /// Why the last try failed.
    pub error: String,
    /// When it was given up on.
    pub died_at: Timestamp,
    /// Whether it is about to be tried once more.
    pub retrying: bool,
}

/// What somebody entrusted to the relay: it is sent where it belongs and shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// This text as a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one place that it is sent to.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A URL's query may be a secret too.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &shown_url(&self.url))
            .field("token", &self.token)
            .field("authentication", &self.authentication)
            .finish()
    }
}

impl NewWebhook {
    /// Looks whether the relay can keep and use it. `path` is where it stands in the request.
    pub fn check(&self, path: &Path, issues: &mut Issues) {
        if let Some(name) = &self.name {
            check_length(name, name.chars().count(), NAME_MAX, path.key("name"), issues);
        }
        let target = &self.target;
        check_url(&target.url, path.key("url"), issues);
        if let Some(token) = &target.token {
            check_secret(token, path.key("token"), issues);
        }
        if let Some(Authentication { scheme, credentials }) = &target.authentication {
            let path = path.key("authentication");
            check_scheme(scheme, path.key("scheme"), issues);
            if let Some(credentials) = credentials {
                check_secret(credentials, path.key("credentials"), issues);
            }
        }
    }
}

fn check_url(text: &str, path: Path, issues: &mut Issues) {
    if !check_length(text, text.len(), URL_MAX, path.clone(), issues) {
        return;
    }
    // The parser would drop them silently.
    let blank = text.chars().any(|character| character.is_whitespace() || character.is_control());
    let url = match Url::parse(text) {
        Ok(url) if !blank && matches!(url.scheme(), "http" | "https") && url.host().is_some() => url,
        _ => return issues.add(path, "invalid_value", "write an http or https URL, such as https://you.example/told"),
    };
    if !url.username().is_empty() || url.password().is_some() {
        issues.add(path, "invalid_value", "leave the user name and password out; authentication takes them");
    } else if url.fragment().is_some() {
        issues.add(path, "invalid_value", "leave out what follows '#'; it is never sent");
    }
}

/// RFC 9110, section 5.6.2.
fn check_scheme(text: &str, path: Path, issues: &mut Issues) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if check_length(text, text.len(), SECRET_MAX, path.clone(), issues) && !text.bytes().all(plain) {
        issues.add(path, "invalid_value", "write a name such as Bearer or Basic");
    }
}

/// What is wrong with one is said without showing it.
fn check_secret(secret: &Secret, path: Path, issues: &mut Issues) {
    let text = secret.reveal();
    if !check_length(text, text.len(), SECRET_MAX, path.clone(), issues) {
        return;
    }
    // Some schemes have parameters, with spaces between them.
    let visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !visible || text.trim() != text {
        issues.add(path, "invalid_value", "it is sent in a header: only visible ASCII characters are taken");
    }
}

fn check_length(text: &str, length: usize, length_max: usize, path: Path, issues: &mut Issues) -> bool {
    if text.is_empty() {
        issues.add(path, "too_small", "must not be empty");
        return false;
    }
    if length > length_max {
        issues.add(path, "too_big", format!("at most {length_max} characters are taken"));
        return false;
    }
    true
}

/// Where a URL leads, without what may be secret: scheme, host, port and path.
pub fn shown_url(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            // Neither can fail for a URL with a host; one without has none of them.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.into()
        }
        Err(_) => "-".to_owned(),
    }
}

/// How long to wait after so many failed tries, each twice as long as before. `roll` is any number: it takes up to a fifth
/// off or puts it on, so that what failed together is not tried together.
pub fn retry_delay(tries: i64, roll: u8) -> Duration {
    let doublings = u32::try_from(tries.clamp(1, 32) - 1).unwrap_or_default();
    let delay_ms = (1000_u64 << doublings).min(RETRY_DELAY_MAX_MS);
    let fifth_ms = delay_ms / 5;
    Duration::from_millis(delay_ms - fifth_ms + 2 * fifth_ms * u64::from(roll) / u64::from(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str) -> NewWebhook {
        NewWebhook { name: None, target: Target { url: url.to_owned(), token: None, authentication: None } }
    }

    fn problems(webhook: &NewWebhook) -> Vec<String> {
        let mut issues = Issues::default();
        webhook.check(&Path::root(), &mut issues);
        let Err(error) = issues.finish() else {
            return Vec::new();
        };
        let issues = error.details()["issues"].as_array().expect("issues").clone();
        issues
            .iter()
            .map(|issue| {
                issue["path"]
                    .as_array()
                    .expect("a path")
                    .iter()
                    .fold(String::new(), |path, key| format!("{path}.{}", key.as_str().expect("a key")))
            })
            .collect()
    }

    #[test]
    fn a_url_is_http_with_a_host_and_without_secrets_of_its_own() {
        for url in ["http://a", "https://you.example:8443/told?key=1", "HTTP://[::1]:80/", "https://münchen.example/ü"]
        {
            assert_eq!(problems(&webhook(url)), [""; 0], "{url}");
        }
        for url in [
            "",
            "you.example/told",
            "ftp://you.example",
            "file:///etc/passwd",
            "http://",
            "https://bob@you.example",
            "https://bob:secret@you.example",
            "https://you.example/#here",
            "https://you.example/a b",
            "https://you.ex\nample/",
            &format!("https://you.example/{}", "a".repeat(URL_MAX)),
        ] {
            assert_eq!(problems(&webhook(url)), [".url"], "{url}");
        }
    }

    #[test]
    fn every_problem_is_named_and_no_secret_is_shown() {
        let authentication = Authentication { scheme: "Be arer".to_owned(), credentials: Some(Secret::new("ä")) };
        let target = Target {
            url: "nowhere".to_owned(),
            token: Some(Secret::new("line\nbreak")),
            authentication: Some(authentication),
        };
        let webhook = NewWebhook { name: Some("n".repeat(NAME_MAX + 1)), target };
        let paths = [".name", ".url", ".token", ".authentication.scheme", ".authentication.credentials"];
        assert_eq!(problems(&webhook), paths);
        let mut issues = Issues::default();
        webhook.check(&Path::root(), &mut issues);
        assert!(!format!("{issues:?}").contains("line"), "{issues:?}");
    }

    #[test]
    fn a_target_is_shown_without_query_token_and_credentials() {
        let mut webhook = webhook("https://you.example:8443/told?key=querysecret");
        webhook.target.token = Some(Secret::new("tokensecret"));
        let credentials = Some(Secret::new("credentialsecret"));
        webhook.target.authentication = Some(Authentication { scheme: "Bearer".to_owned(), credentials });
        let shown = format!("{webhook:?}");
        assert!(shown.contains("https://you.example:8443/told") && !shown.contains("secret"), "{shown}");
        assert_eq!(shown_url("https://u:p@a.example/x?y#z"), "https://a.example/x");
    }

    #[test]
    fn tries_are_spread_over_a_day() {
        let without_jitter = |tries: i64| (retry_delay(tries, 0) + retry_delay(tries, u8::MAX)) / 2;
        assert_eq!(without_jitter(1), Duration::from_secs(1));
        assert_eq!(without_jitter(13), Duration::from_secs(4096));
        assert_eq!(without_jitter(14), Duration::from_secs(7200));
        assert_eq!(without_jitter(i64::MAX), Duration::from_secs(7200));
        let all: Duration = (1..TRIES_MAX).map(without_jitter).sum();
        assert_eq!(all, Duration::from_secs(8191 + 11 * 7200));
        assert_eq!(retry_delay(1, 0), Duration::from_millis(800));
        assert_eq!(retry_delay(1, u8::MAX), Duration::from_millis(1200));
    }
}
