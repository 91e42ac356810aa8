//! `agentrelay agent`

use agentrelay::domain::agent::{Handle, NewAgent};
use agentrelay::domain::key::KeyOptions;
use agentrelay::relay::{Actor, Relay};
use agentrelay::store::{Store, StoreOptions};
use insta::assert_snapshot;
use serde_json::Value;

use super::{Desk, is_key, masks};

#[test]
fn the_key_of_a_new_agent_stands_alone_on_standard_output() {
    let _masks = masks();
    let desk = Desk::empty();
    let ran = desk.run(&["agent", "create", "Frank@ACME"]).ends(0);
    assert!(is_key(ran.stdout.strip_suffix('\n').expect("one line")), "{ran:?}");
    assert!(!ran.stderr.contains(ran.stdout.trim_end()), "{ran:?}");
    assert_snapshot!(ran.stderr, @r"
    Created frank@acme with the id 01JAAAAAAAAAAAAAAAAAAAAAAA.
    It is the default agent: commands without --as mean it.
    The key ah_live_abcd… has the id 01JAAAAAAAAAAAAAAAAAAAAAAA and is shown this once. Give it to the agent of frank@acme, which calls the relay with the header 'Authorization: Bearer KEY'.
    ");
    let second = desk.run(&["agent", "create", "bob@acme"]).ends(0);
    assert!(!second.stderr.contains("default"), "{second:?}");
}

#[test]
fn as_json_the_key_comes_in_a_document() {
    let desk = Desk::empty();
    let created = desk.run(&["agent", "create", "frank@acme", "--output", "json"]).ends(0);
    let document = created.json();
    assert_eq!(document.as_object().expect("an object").len(), 4);
    assert_eq!(document["handle"], "frank@acme");
    assert!(is_key(document["api_key"].as_str().expect("a key")));
    let [shown, keys] = [desk.json(&["agent", "show"]), desk.json(&["key", "list"])];
    assert_eq!(shown["id"], document["agent_id"]);
    assert_eq!(keys["keys"][0]["id"], document["key_id"]);
    assert!(!created.stderr.contains(document["api_key"].as_str().expect("a key")));
}

#[test]
fn a_record_shows_all_that_is_known() {
    let _masks = masks();
    let desk = Desk::empty();
    let card = ["--name", "Frank Zappa", "--email", "frank@acme.example", "--role", "backend", "--label", "laptop"];
    desk.run(&[&["agent", "create", "frank@acme"][..], &card].concat()).ends(0);
    desk.create("bob@acme");
    assert_snapshot!(desk.run(&["agent", "show", "frank@acme"]).ends(0).stdout, @r"
    handle       frank@acme
    id           01JAAAAAAAAAAAAAAAAAAAAAAA
    name         Frank Zappa
    email        frank@acme.example
    role         backend
    description  -
    skills       -
    repos owned  -
    status       active
    default      yes
    created      2026-01-01T00:00:00.000Z
    disabled     -
    ");
    assert_snapshot!(desk.run(&["agent", "show", "bob@acme", "--output", "json"]).ends(0).stdout, @r#"
    {
      "id": "01JAAAAAAAAAAAAAAAAAAAAAAA",
      "handle": "bob@acme",
      "name": "bob",
      "email": null,
      "role": null,
      "description": null,
      "skills": [],
      "repos_owned": [],
      "status": "active",
      "default": false,
      "created_at": "2026-01-01T00:00:00.000Z",
      "disabled_at": null
    }
    "#);
}

#[test]
fn an_agent_is_found_by_its_id_too() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    let id = desk.json(&["agent", "show", "bob@acme"])["id"].as_str().expect("an id").to_owned();
    assert_eq!(desk.json(&["agent", "show", &id])["handle"], "bob@acme");
    assert_eq!(desk.json(&["agent", "show", &id.to_lowercase()])["handle"], "bob@acme");
}

#[test]
fn agents_are_listed_by_handle() {
    let _masks = masks();
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    desk.run(&["agent", "create", "eve@acme", "--role", "backend"]).ends(0);
    desk.run(&["agent", "disable", "bob@acme"]).ends(0);
    assert_snapshot!(desk.run(&["agent", "list"]).ends(0).stdout, @r"
    HANDLE      NAME   ROLE     STATUS    CREATED                   DEFAULT
    bob@acme    bob    -        disabled  2026-01-01T00:00:00.000Z  -
    eve@acme    eve    backend  active    2026-01-01T00:00:00.000Z  -
    frank@acme  frank  -        active    2026-01-01T00:00:00.000Z  yes
    ");
    let backend = desk.json(&["agent", "list", "--role", "backend"]);
    assert_eq!(backend["agents"].as_array().map(Vec::len), Some(1));
    assert_eq!(backend["agents"][0]["handle"], "eve@acme");
    let nobody = desk.run(&["agent", "list", "--skill", "rust"]).ends(0);
    assert_eq!((&*nobody.stdout, &*nobody.stderr), ("", "No agents.\n"));
    assert_eq!(desk.json(&["agent", "list", "--repo", "acme/api"])["agents"].as_array().map(Vec::len), Some(0));
}

#[tokio::test]
async fn a_list_longer_than_a_page_is_whole() {
    let desk = Desk::empty();
    let relay = Relay::new(Store::open(&desk.data_file(), StoreOptions::default()).expect("a data file"));
    for number in 0..201 {
        let handle = Handle::parse(&format!("agent{number:03}@acme")).expect("a handle");
        let created = relay.create_agent(Actor::operator("t"), NewAgent::with_handle(handle), KeyOptions::default());
        created.await.expect("an agent");
    }
    let agents = desk.json(&["agent", "list"])["agents"].clone();
    let handles: Vec<_> = agents.as_array().expect("a list").iter().map(|agent| agent["handle"].to_string()).collect();
    assert_eq!(handles.len(), 201);
    assert!(handles.is_sorted());
}

#[test]
fn a_renamed_agent_is_reached_by_both_handles() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    let ran = desk.run(&["agent", "rename", "frank@acme", "frank@globex"]).ends(0);
    assert_eq!(ran.stderr, "frank@acme is frank@globex now. The former handle keeps reaching it.\n");
    assert_eq!(ran.stdout, "");
    let [former, present] = ["frank@acme", "frank@globex"].map(|handle| desk.json(&["agent", "show", handle]));
    assert_eq!(former, present);
    assert_eq!(present["handle"], "frank@globex");
    let again = desk.run(&["agent", "rename", "frank@globex", "frank@globex"]).ends(0);
    assert_eq!(again.stderr, "frank@globex has that handle already.\n");
    desk.run(&["agent", "rename", "bob@acme", "frank@acme"]).refused(2, "is or was another agent's handle");
    desk.run(&["agent", "create", "frank@acme"]).refused(2, "is or was another agent's handle");
    assert_eq!(desk.json(&["agent", "rename", "frank@globex", "frank@acme"])["handle"], "frank@acme");
}

#[test]
fn an_agent_is_disabled_and_enabled_as_often_as_one_likes() {
    let desk = Desk::with(&["frank@acme"]);
    for _ in 0..2 {
        let ran = desk.run(&["agent", "disable", "frank@acme"]).ends(0);
        assert_eq!(ran.stderr, "frank@acme is disabled: its keys open nothing and nobody can send to it.\n");
        assert_eq!(ran.stdout, "");
    }
    assert_eq!(desk.json(&["agent", "show"])["status"], "disabled");
    for _ in 0..2 {
        let enabled = desk.json(&["agent", "enable", "frank@acme"]);
        assert_eq!((&enabled["status"], &enabled["disabled_at"]), (&"active".into(), &Value::Null));
    }
    assert_eq!(desk.run(&["agent", "enable", "frank@acme"]).ends(0).stderr, "frank@acme is enabled.\n");
}

#[test]
fn the_first_agent_is_the_default_until_another_is_made_it() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    assert_eq!(desk.run(&["agent", "default"]).ends(0).stdout, "frank@acme\n");
    let ran = desk.run(&["agent", "default", "bob@acme"]).ends(0);
    assert_eq!(ran.stderr, "bob@acme is the default agent: commands without --as mean it.\n");
    assert_eq!(ran.stdout, "");
    assert_eq!(desk.run(&["agent", "default"]).ends(0).stdout, "bob@acme\n");
    assert_eq!(desk.json(&["agent", "default", "frank@acme"])["default"], true);
    desk.run(&["block", "bob@acme"]).ends(0);
    assert_eq!(desk.json(&["blocks", "--as", "frank@acme"])["blocked"][0]["handle"], "bob@acme");
}

#[test]
fn without_an_agent_the_next_command_is_named() {
    let desk = Desk::with(&[]);
    desk.serve(&[]).kill();
    for command in [&["agent", "show"][..], &["agent", "default"], &["key", "mint"], &["blocks"], &["block", "x@y"]] {
        desk.run(command).refused(3, "create one with 'agentrelay agent create YOU@TEAM'");
    }
}

#[test]
fn an_agent_that_is_not_there_is_not_found() {
    let desk = Desk::with(&["frank@acme"]);
    let nobody = "nobody@acme";
    for command in [
        &["agent", "show", nobody][..],
        &["agent", "rename", nobody, "new@acme"],
        &["agent", "disable", nobody],
        &["agent", "enable", nobody],
        &["agent", "default", nobody],
        &["key", "list", "--as", nobody],
        &["key", "mint", "--as", nobody],
        &["key", "rotate", "--as", nobody],
        &["block", nobody],
        &["block", "frank@acme", "--as", nobody],
        &["unblock", nobody],
        &["blocks", "--as", nobody],
        &["audit", "--agent", nobody],
    ] {
        desk.run(command).refused(3, "No agent has the handle 'nobody@acme'");
    }
    desk.run(&["agent", "show", "01HXYZ4K2VNJQP7R8MWDB3CSTF"]).refused(3, "No agent has the id");
}

#[test]
fn what_no_agent_can_have_is_wrong_usage() {
    let desk = Desk::empty();
    let long = "x".repeat(121);
    for (arguments, reason) in [
        (&["frank"][..], "a handle is name@team: there is no @"),
        (&["a b@acme"], "a handle is name@team"),
        (&["frank@acme", "--name", ""], "leave the option out, or say something"),
        (&["frank@acme", "--name", &long], "at most 120 characters"),
        (&["frank@acme", "--role", &long], "at most 120 characters"),
        (&["frank@acme", "--label", &long], "at most 120 characters"),
        (&["frank@acme", "--email", &"x".repeat(255)], "at most 254 characters"),
        (&["frank@acme", "--expires", "soon"], "write a time such as 12h, 30d or 1y"),
        (&["frank@acme", "--expires", "2020-01-01T00:00:00Z"], "--expires: 2020-01-01T00:00:00.000Z is in the past"),
        (&[], "required"),
    ] {
        desk.run(&[&["agent", "create"], arguments].concat()).refused(2, reason);
    }
    desk.run(&["agent", "show", "frank"]).refused(2, "a handle is name@team");
}
