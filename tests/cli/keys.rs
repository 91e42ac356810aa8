//! `agentrelay key`

use insta::assert_snapshot;
use serde_json::Value;

use super::{Desk, is_key, masks};
use crate::support::RelayProcess;

#[test]
fn a_minted_key_stands_alone_on_standard_output() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    for command in [&["key", "mint", "--as", "bob@acme"][..], &["key", "rotate", "--as", "bob@acme"], &["key", "mint"]]
    {
        let ran = desk.run(command).ends(0);
        assert!(is_key(ran.stdout.strip_suffix('\n').expect("one line")), "{ran:?}");
        assert!(!ran.stderr.contains(ran.stdout.trim_end()), "{ran:?}");
    }
    let minted = desk.json(&["key", "mint", "--as", "bob@acme", "--label", "ci"]);
    assert_eq!(minted["handle"], "bob@acme");
    assert!(is_key(minted["api_key"].as_str().expect("a key")));
    let keys = desk.json(&["key", "list", "--as", "bob@acme"]);
    let last = keys["keys"].as_array().and_then(|keys| keys.last()).expect("a key");
    assert_eq!((&last["id"], &last["label"]), (&minted["key_id"], &"ci".into()));
}

#[test]
fn keys_are_listed_oldest_first_with_their_status() {
    let _masks = masks();
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    desk.run(&["key", "mint", "--as", "bob@acme", "--label", "laptop", "--expires", "30d"]).ends(0);
    desk.run(&["key", "mint", "--as", "bob@acme", "--expires", "1ms"]).ends(0);
    let first = desk.json(&["key", "list"])["keys"][0]["id"].as_str().expect("an id").to_owned();
    desk.run(&["key", "revoke", &first]).ends(0);
    assert_snapshot!(desk.run(&["key", "list"]).ends(0).stdout, @r"
    ID                          AGENT       PREFIX        LABEL   STATUS   CREATED                   EXPIRES                   LAST USED
    01JAAAAAAAAAAAAAAAAAAAAAAA  frank@acme  ah_live_abcd  -       revoked  2026-01-01T00:00:00.000Z  -                         -
    01JAAAAAAAAAAAAAAAAAAAAAAA  bob@acme    ah_live_abcd  -       active   2026-01-01T00:00:00.000Z  -                         -
    01JAAAAAAAAAAAAAAAAAAAAAAA  bob@acme    ah_live_abcd  laptop  active   2026-01-01T00:00:00.000Z  2026-01-01T00:00:00.000Z  -
    01JAAAAAAAAAAAAAAAAAAAAAAA  bob@acme    ah_live_abcd  -       expired  2026-01-01T00:00:00.000Z  2026-01-01T00:00:00.000Z  -
    ");
    assert_snapshot!(desk.run(&["key", "list", "--as", "frank@acme", "--output", "json"]).ends(0).stdout, @r#"
    {
      "keys": [
        {
          "id": "01JAAAAAAAAAAAAAAAAAAAAAAA",
          "agent": "frank@acme",
          "prefix": "ah_live_abcd",
          "label": null,
          "status": "revoked",
          "created_at": "2026-01-01T00:00:00.000Z",
          "expires_at": null,
          "revoked_at": "2026-01-01T00:00:00.000Z",
          "last_used_at": null
        }
      ]
    }
    "#);
}

#[test]
fn a_key_lives_as_long_as_it_is_told() {
    let desk = Desk::with(&["frank@acme"]);
    desk.run(&["key", "mint", "--expires", "2099-01-01T01:00:00+01:00"]).ends(0);
    desk.run(&["key", "mint", "--expires", "30d"]).ends(0);
    let keys = desk.json(&["key", "list"]);
    assert_eq!(keys["keys"][1]["expires_at"], "2099-01-01T00:00:00.000Z");
    let moment = |name: &str| {
        let text = keys["keys"][2][name].as_str().expect("a time");
        agentrelay::domain::time::Timestamp::parse(text).expect("a time").ms()
    };
    // The command takes its time before it runs the operation, a moment later.
    let life = moment("expires_at") - moment("created_at");
    let days = 30 * 86_400_000;
    assert!((days - 60_000..=days).contains(&life), "{life}");
}

#[test]
fn a_key_is_revoked_by_its_id() {
    let desk = Desk::with(&["frank@acme"]);
    let keys = desk.json(&["key", "list"]);
    let [id, prefix] = ["id", "prefix"].map(|name| keys["keys"][0][name].as_str().expect(name));
    for _ in 0..2 {
        let ran = desk.run(&["key", "revoke", id]).ends(0);
        assert_eq!((ran.stdout, ran.stderr), (String::new(), format!("The key {prefix}… of frank@acme is revoked.\n")));
    }
    assert_eq!(desk.json(&["key", "revoke", &id.to_lowercase()])["status"], "revoked");
    desk.run(&["key", "revoke", "01HXYZ4K2VNJQP7R8MWDB3CSTF"]).refused(3, "No key has the id");
}

#[test]
fn a_key_in_the_place_of_its_id_is_refused_without_being_shown() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    for output in ["table", "json"] {
        let ran = desk.run(&["key", "revoke", &key, "--output", output]).ends(2);
        assert!(ran.stderr.contains("not the key itself"), "{ran:?}");
        assert!(!format!("{ran:?}").contains(&key), "{ran:?}");
    }
}

#[test]
fn rotating_leaves_one_key() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    desk.run(&["key", "mint"]).ends(0);
    let rotated = desk.json(&["key", "rotate", "--label", "new"]);
    let keys = desk.json(&["key", "list"]);
    let active: Vec<&Value> =
        keys["keys"].as_array().expect("keys").iter().filter(|key| key["status"] == "active").collect();
    let [bobs, franks] = active[..] else { panic!("{active:?}") };
    assert_eq!((&bobs["agent"], &franks["id"]), (&"bob@acme".into(), &rotated["key_id"]));
    assert_eq!(franks["label"], "new");
}

#[cfg(target_os = "linux")]
#[test]
fn a_key_that_could_not_be_handed_over_is_a_failure_that_says_how_to_go_on() {
    let desk = Desk::with(&["frank@acme"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = std::fs::File::create("/dev/full").expect("a full disk");
    for lost in [std::process::Stdio::from(writer), full.into()] {
        let ended = desk.command(&["key", "mint"]).stdout(lost).stderr(std::process::Stdio::piped()).output();
        let ended = ended.expect("a command");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        let (_, id) = said.split_once("agentrelay key revoke ").expect("what to do");
        desk.run(&["key", "revoke", &id[..26]]).ends(0);
        assert!(said.contains("agentrelay key mint --as frank@acme"), "{said}");
    }
}

#[tokio::test]
async fn a_running_relay_sees_every_change_with_its_next_request() {
    let desk = Desk::empty();
    let first = desk.create("frank@acme");
    let relay = desk.serve(&[]);
    assert_eq!(status(&relay, &first).await, 200);
    let second = desk.create("bob@acme");
    assert_eq!(status(&relay, &second).await, 200);
    let id = desk.json(&["key", "list"])["keys"][0]["id"].as_str().expect("an id").to_owned();
    desk.run(&["key", "revoke", &id]).ends(0);
    assert_eq!(status(&relay, &first).await, 401);
    let third = desk.run(&["key", "rotate", "--as", "bob@acme"]).ends(0).stdout;
    assert_eq!(status(&relay, &second).await, 401);
    assert_eq!(status(&relay, third.trim_end()).await, 200);
    desk.run(&["agent", "disable", "bob@acme"]).ends(0);
    assert_eq!(status(&relay, third.trim_end()).await, 403);
}

#[tokio::test]
async fn a_list_shows_when_a_key_was_last_used_once_the_relay_has_written_it_down() {
    let desk = Desk::empty();
    let key = desk.create("frank@acme");
    let mut relay = desk.serve(&[]);
    assert_eq!(status(&relay, &key).await, 200);
    relay.signal("TERM");
    assert!(relay.child.wait().expect("an end").success());
    let used = desk.json(&["key", "list"])["keys"][0]["last_used_at"].clone();
    assert!(used.is_string(), "{used}");
}

async fn status(relay: &RelayProcess, key: &str) -> u16 {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = http.get(format!("{}/agents/me", relay.url)).bearer_auth(key);
    request.send().await.expect("an answer").status().as_u16()
}
