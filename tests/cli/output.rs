//! What is printed, and to where

use std::process::Stdio;

use super::{Desk, Ran, agentrelay};

#[test]
fn a_failure_is_a_sentence_for_people_and_a_document_for_programs() {
    let desk = Desk::with(&["frank@acme"]);
    let people = desk.run(&["agent", "show", "eve@acme"]).ends(3);
    assert_eq!((&*people.stdout, &*people.stderr), ("", "error: No agent has the handle 'eve@acme'\n"));
    let programs = desk.run(&["agent", "show", "eve@acme", "--output", "json"]).ends(3);
    assert_eq!(programs.stderr, people.stderr);
    insta::assert_snapshot!(programs.stdout, @r#"
    {
      "error": {
        "code": "recipient_not_found",
        "message": "No agent has the handle 'eve@acme'",
        "details": {}
      }
    }
    "#);
    let taken = desk.run(&["agent", "create", "frank@acme", "--output", "json"]).ends(2).json();
    assert_eq!(taken["error"]["code"], "invalid_params");
    assert_eq!(taken["error"]["details"]["issues"][0]["path"], serde_json::json!(["handle"]));
}

#[test]
fn a_command_line_that_cannot_be_read_is_also_a_document_for_programs() {
    for arguments in
        [&["agent", "shwo", "--output", "json"][..], &["--output=json", "key"], &["blocks", "x", "--output", "json"]]
    {
        let ran = Ran::of(agentrelay().args(arguments)).ends(2);
        let document = ran.json();
        assert_eq!(document["error"]["code"], "usage", "{ran:?}");
        assert!(ran.stderr.contains("Usage: "), "{ran:?}");
    }
    let ran = Ran::of(agentrelay().arg("--frobnicate").env("AGENTRELAY_OUTPUT", "json")).ends(2);
    assert_eq!(ran.json()["error"]["message"], "unexpected argument '--frobnicate' found");
    let ran = Ran::of(agentrelay().arg("--frobnicate")).ends(2);
    assert_eq!(ran.stdout, "");
}

#[test]
fn nothing_but_the_data_goes_to_standard_output_when_something_is_done() {
    let desk = Desk::with(&["frank@acme", "bob@acme"]);
    for command in [
        &["agent", "rename", "bob@acme", "bob@globex"][..],
        &["agent", "disable", "frank@acme"],
        &["agent", "enable", "frank@acme"],
        &["agent", "default", "frank@acme"],
        &["block", "bob@acme"],
        &["unblock", "bob@acme"],
        &["backup", "copy.db"],
    ] {
        let ran = desk.run(command).ends(0);
        assert_eq!(ran.stdout, "", "{command:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn what_a_terminal_would_obey_or_hide_is_shown_and_json_says_the_same() {
    const HOSTILE: &str =
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}nimda\u{2066}\u{200b}\u{feff}\u{7f}\r\n\u{e0041}";
    let desk = Desk::empty();
    desk.run(&["agent", "create", "mallory@acme", "--name", HOSTILE, "--role", HOSTILE, "--label", HOSTILE]).ends(0);
    desk.create("frank@acme");
    desk.run(&["block", "mallory@acme", "--as", "frank@acme", "--reason", HOSTILE]).ends(0);
    for command in
        [&["agent", "list"][..], &["agent", "show"], &["key", "list"], &["blocks", "--as", "frank@acme"], &["audit"]]
    {
        for output in ["table", "json"] {
            let ran = desk.run(&[command, &["--output", output]].concat()).ends(0);
            let hostile = |character: char| character != '\n' && (character.is_control() || !character.is_ascii());
            assert!(!ran.stdout.contains(hostile), "{ran:?}");
        }
    }
    assert_eq!(desk.json(&["agent", "show"])["name"], HOSTILE);
    assert_eq!(desk.json(&["blocks", "--as", "frank@acme"])["blocked"][0]["reason"], HOSTILE);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let desk = Desk::with(&["frank@acme"]);
    for command in [
        &["audit"][..],
        &["agent", "list", "--output", "json"],
        &["completions", "bash"],
        &["--help"],
        &["config"],
        &["agent", "rename", "frank@acme", "frank@globex", "--output", "json"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ended = desk.command(command).stdout(writer).stderr(Stdio::piped()).output().expect("a command");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{command:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let desk = Desk::with(&["frank@acme"]);
    let full = std::fs::File::create("/dev/full").expect("a full disk");
    let ended = desk.command(&["audit"]).stdout(full).stderr(Stdio::piped()).output().expect("a command");
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("cannot write to standard output"));
}

#[test]
fn a_closed_standard_error_stops_no_command() {
    let desk = Desk::empty();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = desk.command(&["agent", "create", "frank@acme"]).stderr(writer).output().expect("a command");
    assert_eq!(ended.status.code(), Some(0));
    assert!(super::is_key(String::from_utf8_lossy(&ended.stdout).trim_end()));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = Ran::of(agentrelay().args(["completions", shell])).ends(0);
        assert!(ran.stdout.contains("agentrelay") && ran.stdout.contains("unblock"), "{shell}");
        assert_eq!(ran.stderr, "");
    }
    Ran::of(agentrelay().args(["completions", "cmd"]))
        .refused(2, "possible values: bash, elvish, fish, powershell, zsh");
}

#[cfg(unix)]
#[test]
fn bash_takes_its_completions() {
    let script = Ran::of(agentrelay().args(["completions", "bash"])).ends(0).stdout;
    let Ok(mut bash) = std::process::Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn() else {
        return; // There is no bash here.
    };
    std::io::Write::write_all(&mut bash.stdin.take().expect("stdin"), script.as_bytes()).expect("written");
    assert!(bash.wait().expect("an end").success());
}

#[test]
fn help_and_version_go_to_standard_output() {
    let version = Ran::of(agentrelay().arg("--version")).ends(0);
    assert_eq!(version.stdout, format!("agentrelay {}\n", env!("CARGO_PKG_VERSION")));
    let help = Ran::of(agentrelay().args(["serve", "--help"])).ends(0);
    for setting in ["--listen", "AGENTRELAY_LISTEN", "127.0.0.1:7420", "AGENTRELAY_ADMIN_TOKEN", "--data"] {
        assert!(help.stdout.contains(setting), "{setting}");
    }
    assert!(!help.stdout.contains("group-commit"));
    assert_eq!(help.stderr, "");
    let nothing = Ran::of(&mut agentrelay()).ends(2);
    assert!(nothing.stderr.contains("Commands:"), "{nothing:?}");
}
