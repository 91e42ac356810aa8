//! `agentrelay block`, `unblock` and `blocks`

use insta::assert_snapshot;

use super::{Desk, masks};

#[test]
fn a_block_is_added_listed_and_lifted() {
    let _masks = masks();
    let desk = Desk::with(&["frank@acme", "mallory@acme", "eve@acme"]);
    let ran = desk.run(&["block", "mallory@acme", "--reason", "sends too much"]).ends(0);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr, "mallory@acme is blocked: nothing more from it reaches frank@acme.\n");
    desk.run(&["block", "eve@acme"]).ends(0);
    assert_snapshot!(desk.run(&["blocks"]).ends(0).stdout, @r"
    HANDLE        NAME     ROLE  SINCE                     REASON
    eve@acme      eve      -     2026-01-01T00:00:00.000Z  -
    mallory@acme  mallory  -     2026-01-01T00:00:00.000Z  sends too much
    ");
    let ran = desk.run(&["unblock", "eve@acme"]).ends(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", "eve@acme is no longer blocked by frank@acme.\n"));
    assert_snapshot!(desk.run(&["blocks", "--output", "json"]).ends(0).stdout, @r#"
    {
      "blocker": "frank@acme",
      "blocked": [
        {
          "handle": "mallory@acme",
          "name": "mallory",
          "role": null,
          "reason": "sends too much",
          "blocked_at": "2026-01-01T00:00:00.000Z"
        }
      ]
    }
    "#);
}

#[test]
fn a_block_belongs_to_the_agent_that_is_named() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    assert_snapshot!(desk.run(&["block", "frank@acme", "--as", "bob@acme", "--output", "json"]).ends(0).stdout, @r#"
    {
      "blocker": "bob@acme",
      "handle": "frank@acme",
      "blocked": true
    }
    "#);
    let nobody = desk.run(&["blocks"]).ends(0);
    assert_eq!((&*nobody.stdout, &*nobody.stderr), ("", "frank@acme has blocked nobody.\n"));
    assert_eq!(desk.json(&["blocks", "--as", "bob@acme"])["blocked"][0]["handle"], "frank@acme");
    assert_eq!(desk.json(&["unblock", "frank@acme", "--as", "bob@acme"])["blocked"], false);
    assert_eq!(desk.json(&["blocks", "--as", "bob@acme"])["blocked"].as_array().map(Vec::len), Some(0));
}

#[test]
fn blocking_and_unblocking_again_change_nothing() {
    let desk = Desk::with(&["frank@acme", "mallory@acme"]);
    for command in ["block", "block", "unblock", "unblock"] {
        desk.run(&[command, "mallory@acme"]).ends(0);
    }
    for action in ["block.added", "block.removed"] {
        assert_eq!(desk.json(&["audit", "--action", action])["events"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn nobody_blocks_itself() {
    let desk = Desk::with(&["frank@acme"]);
    desk.run(&["block", "frank@acme"]).refused(2, "this is you");
}
