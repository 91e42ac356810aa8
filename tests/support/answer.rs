//! An answer of the relay: status, headers, and body.

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub async fn of(response: reqwest::Response) -> Answer {
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.expect("a body"),
        }
    }

    /// A header's text; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a visible value"))
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The result of a JSON-RPC call that succeeded.
    #[track_caller]
    pub fn result(&self) -> Value {
        let body = self.json();
        assert_eq!(self.status, 200, "{}", self.text);
        assert!(body.get("error").is_none(), "{}", self.text);
        body["result"].clone()
    }

    /// The symbol of a refusal, in either envelope; empty for a success.
    #[track_caller]
    pub fn symbol(&self) -> String {
        if self.text.is_empty() {
            return String::new();
        }
        let body = self.json();
        let symbol = body["error"]["data"]["code"].as_str().or_else(|| body["code"].as_str());
        symbol.unwrap_or_default().to_owned()
    }

    /// The error of a refusal in one shape for both envelopes: `{code, message, request_id, details}`.
    #[track_caller]
    pub fn error(&self) -> Value {
        let body = self.json();
        match body.get("error") {
            Some(error) => json!({
                "code": error["data"]["code"],
                "message": error["message"],
                "request_id": error["data"]["request_id"],
                "details": error["data"]["details"],
            }),
            None => body,
        }
    }

    /// The paths in `details.issues`, dots between keys.
    #[track_caller]
    pub fn issue_paths(&self) -> Vec<String> {
        let error = self.error();
        let issues =
            error["details"]["issues"].as_array().unwrap_or_else(|| panic!("no issues: {}", self.text)).clone();
        let segment = |segment: &Value| segment.as_str().map_or_else(|| segment.to_string(), ToOwned::to_owned);
        let path = |issue: &Value| issue["path"].as_array().expect("a path").iter().map(segment).collect::<Vec<_>>();
        issues.iter().map(|issue| path(issue).join(".")).collect()
    }

    /// Refused with this symbol, in the right envelope and with the table's status.
    #[track_caller]
    pub fn refused(self, symbol: &str) -> Answer {
        assert_eq!(self.symbol(), symbol, "{} {}", self.status, self.text);
        let table =
            agentrelay::error::Symbol::ALL.into_iter().find(|row| row.name() == symbol).expect("a symbol").row();
        if !matches!(self.status, 405 | 413 | 503) {
            assert_eq!(self.status, table.http_status, "{}", self.text);
        }
        if let Some(error) = self.json().get("error") {
            assert_eq!(error["code"], table.rpc_code, "{}", self.text);
        }
        let error = self.error();
        assert_eq!(error["request_id"].as_str(), Some(self.header("x-request-id")), "{}", self.text);
        assert!(error["details"].is_object(), "{}", self.text);
        assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{}", self.text);
        self
    }
}
