//! `agentrelay audit`

use insta::assert_snapshot;
use serde_json::Value;

use super::{Desk, masks};

#[test]
fn the_log_is_shown_newest_first() {
    let _masks = masks();
    let desk = Desk::with(&["frank@acme"]);
    desk.run(&["agent", "disable", "frank@acme"]).ends(0);
    assert_snapshot!(desk.run(&["audit"]).ends(0).stdout, @r#"
    TIME                      ACTOR     ACTION          RESOURCE                    REQUEST                         DETAILS
    2026-01-01T00:00:00.000Z  operator  agent.disabled  01JAAAAAAAAAAAAAAAAAAAAAAA  req_01JAAAAAAAAAAAAAAAAAAAAAAA  -
    2026-01-01T00:00:00.000Z  operator  key.minted      01JAAAAAAAAAAAAAAAAAAAAAAA  req_01JAAAAAAAAAAAAAAAAAAAAAAA  {"label":null}
    2026-01-01T00:00:00.000Z  operator  agent.created   01JAAAAAAAAAAAAAAAAAAAAAAA  req_01JAAAAAAAAAAAAAAAAAAAAAAA  {"handle":"frank@acme"}
    "#);
    assert_snapshot!(desk.run(&["audit", "--limit", "1", "--output", "json"]).ends(0).stdout, @r#"
    {
      "events": [
        {
          "seq": 3,
          "timestamp": "2026-01-01T00:00:00.000Z",
          "actor_handle": "operator",
          "action": "agent.disabled",
          "resource_type": "agent",
          "resource_id": "01JAAAAAAAAAAAAAAAAAAAAAAA",
          "request_id": "req_01JAAAAAAAAAAAAAAAAAAAAAAA",
          "metadata": {}
        }
      ]
    }
    "#);
}

#[test]
fn filters_leave_what_matches() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    desk.run(&["block", "bob@acme"]).ends(0);
    let actions = |filter: &[&str]| -> Vec<String> {
        let events = desk.json(&[&["audit"], filter].concat())["events"].clone();
        let name = |event: &Value| event["action"].as_str().expect("an action").to_owned();
        events.as_array().expect("events").iter().map(name).collect()
    };
    assert_eq!(actions(&[]), ["block.added", "key.minted", "agent.created", "key.minted", "agent.created"]);
    assert_eq!(actions(&["--agent", "bob@acme"]), ["key.minted", "agent.created"]);
    assert_eq!(actions(&["--action", "agent.created"]), ["agent.created", "agent.created"]);
    assert_eq!(actions(&["--limit", "2"]), ["block.added", "key.minted"]);
    assert_eq!(actions(&["--since", "1h"]).len(), 5);
    assert_eq!(actions(&["--since", "2020-01-01T00:00:00Z", "--agent", "bob@acme", "--action", "key.minted"]).len(), 1);
    assert_eq!(actions(&["--since", "2999-01-01T00:00:00Z"]), [""; 0]);
    let nothing = desk.run(&["audit", "--since", "2999-01-01T00:00:00Z"]).ends(0);
    assert_eq!((&*nothing.stdout, &*nothing.stderr), ("", "Nothing happened.\n"));
}

#[test]
fn a_filter_that_cannot_be_is_wrong_usage() {
    let desk = Desk::with(&["frank@acme"]);
    desk.run(&["audit", "--action", "agent.eaten"]).refused(2, "agent.created");
    desk.run(&["audit", "--since", "yesterday"]).refused(2, "write a time such as");
    desk.run(&["audit", "--since", "99999y"]).refused(2, "");
    desk.run(&["audit", "--limit", "0"]).refused(2, "0 is not in 1..");
    desk.run(&["audit", "--limit", "many"]).refused(2, "invalid digit");
}

#[test]
fn each_command_is_one_request_by_the_operator_and_no_key_is_in_the_log() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    let ran = desk.run(&["audit", "--output", "json"]).ends(0);
    assert!(!ran.stdout.contains(&key));
    let events = ran.json()["events"].as_array().expect("events").clone();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["request_id"], events[1]["request_id"]);
    assert!(events[0]["request_id"].as_str().is_some_and(|id| id.starts_with("req_") && id.len() == 30));
    assert!(events.iter().all(|event| event["actor_handle"] == "operator"));
}
