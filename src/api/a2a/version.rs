//! A2A's service parameters (A2A v1.0.1, sections 3.2.6 and 3.6): the version that a client speaks and the extensions that it
//! wants, in headers, gRPC's metadata or the query alike.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::api::a2a::error::{Failure, Kind};
use crate::api::a2a::extension;

const VERSION: &str = "a2a-version";
/// Names the extensions of a request, and of its answer those that were taken up.
pub(super) const EXTENSIONS: HeaderName = HeaderName::from_static("a2a-extensions");

/// Refuses every version but 1.0, whatever its patch. No version means 0.3.
pub(super) fn check(headers: &HeaderMap, query: Option<&str>) -> Result<(), Failure> {
    let version = parameter(headers, query, VERSION);
    let version = version.as_deref().map(str::trim).filter(|version| !version.is_empty()).unwrap_or("0.3");
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = match version.strip_prefix("1.0") {
        Some("") => true,
        Some(patch) => patch.strip_prefix('.').is_some_and(is_number),
        None => false,
    };
    if is_ours {
        return Ok(());
    }
    let version: String = version.chars().take(20).collect();
    let message = format!("This agent speaks A2A 1.0, not {version}; send the header A2A-Version: 1.0");
    Err(Failure::A2a(Kind::VersionNotSupported, message))
}

/// Whether the client activates the relay's extension. All others are ignored (section 4.6.3).
pub(super) fn extension_active(headers: &HeaderMap, query: Option<&str>) -> bool {
    let named = |list: &str| list.split(',').any(|uri| uri.trim() == extension::URI);
    let mut sent = headers.get_all(EXTENSIONS).iter().filter_map(|value| value.to_str().ok()).peekable();
    if sent.peek().is_some() {
        return sent.any(named);
    }
    parameter(headers, query, EXTENSIONS.as_str()).is_some_and(|list| named(&list))
}

/// What the answer to such a client says in its header of the same name.
pub(super) fn active_extension() -> HeaderValue {
    HeaderValue::from_static(extension::URI)
}

/// A parameter from its header, else from the query, where its name's case does not matter either.
fn parameter(headers: &HeaderMap, query: Option<&str>, name: &str) -> Option<String> {
    if let Some(value) = headers.get(name) {
        return Some(value.to_str().unwrap_or("?").to_owned());
    }
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(header: Option<&'static str>, query: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(VERSION, HeaderValue::from_static(header));
        }
        check(&headers, query).is_ok()
    }

    #[test]
    fn every_patch_of_1_0_is_spoken_and_no_version_means_0_3() {
        for version in ["1.0", "1.0.0", "1.0.17", " 1.0 "] {
            assert!(checked(Some(version), None), "{version}");
        }
        for version in ["", "0.3", "1", "1.", "1.0.", "1.0.x", "1.00", "1.1", "2.0", "1.0-rc", "v1.0"] {
            assert!(!checked(Some(version), None), "{version}");
        }
        assert!(!checked(None, None));
        assert!(checked(None, Some("x=1&A2A-Version=1.0")));
        assert!(checked(None, Some("a2a-version=1.0.2")));
        assert!(!checked(Some("0.3"), Some("A2A-Version=1.0")), "the header counts");
    }
}
