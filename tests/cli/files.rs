//! The data file: where it is, whose it is, and when it is left alone

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use super::{Desk, Ran, agentrelay};

#[test]
fn only_serve_and_agent_create_create_a_data_file() {
    let desk = Desk::empty();
    for command in [
        &["agent", "list"][..],
        &["agent", "show"],
        &["agent", "rename", "a@b", "c@d"],
        &["agent", "disable", "a@b"],
        &["agent", "enable", "a@b"],
        &["agent", "default"],
        &["key", "list"],
        &["key", "mint"],
        &["key", "revoke", "01HXYZ4K2VNJQP7R8MWDB3CSTF"],
        &["key", "rotate"],
        &["block", "a@b"],
        &["unblock", "a@b"],
        &["blocks"],
        &["audit"],
        &["backup", "copy.db"],
    ] {
        let ran = desk.run(command).refused(3, "start one with 'agentrelay serve' or name another with --data FILE");
        assert!(ran.stderr.contains(&format!("no data file at {}", desk.data_file().display())), "{ran:?}");
        let ran = desk.run(&[command, &["--output", "json"]].concat()).ends(3);
        assert_eq!(ran.json()["error"]["code"], "not_found");
    }
    assert!(!desk.path("data").exists());
    assert!(!desk.path("copy.db").exists());
}

#[test]
fn a_relative_path_names_the_same_file_as_an_absolute_one() {
    let desk = Desk::empty();
    let run = |folder: &Path, data: &str, arguments: &[&str]| {
        Ran::of(agentrelay().current_dir(folder).args(arguments).args(["--data", data]))
    };
    fs::create_dir(desk.path("elsewhere")).expect("a folder");
    run(desk.folder.path(), "relay.db", &["agent", "create", "frank@acme"]).ends(0);
    assert_eq!(run(&desk.path("elsewhere"), "../relay.db", &["agent", "default"]).ends(0).stdout, "frank@acme\n");
    let absolute = desk.path("relay.db");
    let ran = run(&desk.path("elsewhere"), absolute.to_str().expect("a path"), &["agent", "default"]);
    assert_eq!(ran.ends(0).stdout, "frank@acme\n");
}

#[test]
fn the_data_file_is_named_before_or_after_a_command_or_by_a_variable() {
    let desk = Desk::with(&["frank@acme"]);
    let data = desk.data_file();
    let data = data.to_str().expect("a path");
    for arguments in [
        ["--data", data, "agent", "default"],
        ["agent", "--data", data, "default"],
        ["agent", "default", "--data", data],
    ] {
        assert_eq!(Ran::of(agentrelay().args(arguments)).ends(0).stdout, "frank@acme\n");
    }
    let mut command = agentrelay();
    command.env("AGENTRELAY_DATA", data);
    assert_eq!(Ran::of(command.args(["agent", "default"])).ends(0).stdout, "frank@acme\n");
    command.args(["--data", "/nowhere/relay.db"]);
    Ran::of(&mut command).refused(3, "no data file at /nowhere/relay.db");
}

#[cfg(unix)]
#[test]
fn files_are_their_owners_alone_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;

    let desk = Desk::empty();
    let open_handed = |arguments: &[&str]| {
        let command = desk.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(desk.folder.path()).stderr(Stdio::piped()).stdin(Stdio::null());
        shell
    };
    let mut relay = open_handed(&["serve", "--listen", "127.0.0.1:0"]).spawn().expect("a relay");
    // Once it says where it listens it has the file open, and so there are the file's log and the log's index.
    let mut said = BufReader::new(relay.stderr.take().expect("stderr"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains("listening on"), "{line}");
    let backup = open_handed(&["backup", "copy.db"]).output().expect("a command");
    let mode = |name: &str| fs::metadata(desk.path(name)).expect(name).permissions().mode() & 0o777;
    let folder = mode("data");
    let files = ["data/relay.db", "data/relay.db-wal", "data/relay.db-shm", "data/relay.db.lock", "copy.db"].map(mode);
    relay.kill().expect("killed");
    relay.wait().expect("gone");
    assert!(backup.status.success(), "{backup:?}");
    assert_eq!((folder, files), (0o700, [0o600; 5]));
}

#[test]
fn a_file_of_a_later_version_is_refused_and_unchanged() {
    let desk = Desk::with(&["frank@acme"]);
    let conn = Connection::open(desk.data_file()).expect("a data file");
    conn.pragma_update(None, "user_version", 99).expect("a later version");
    drop(conn);
    refused_and_unchanged(&desk, "was written by a later agentrelay");
}

#[test]
fn a_file_of_another_program_is_refused_and_unchanged() {
    for mark in ["PRAGMA user_version = 7", "PRAGMA application_id = 7", "PRAGMA encoding = 'UTF-8'"] {
        let desk = Desk::empty();
        fs::create_dir(desk.path("data")).expect("a folder");
        let conn = Connection::open(desk.data_file()).expect("a file");
        conn.execute_batch(&format!("{mark}; CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('kept')"))
            .expect("another program");
        drop(conn);
        refused_and_unchanged(&desk, "belongs to another program");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_unchanged() {
    for text in ["x", "not a database, but long enough to have a header if it were one. ".repeat(9).as_str()] {
        let desk = Desk::empty();
        fs::create_dir(desk.path("data")).expect("a folder");
        fs::write(desk.data_file(), text).expect("a file");
        refused_and_unchanged(&desk, "is no SQLite file");
    }
}

#[track_caller]
fn refused_and_unchanged(desk: &Desk, reason: &str) {
    let before = fs::read(desk.data_file()).expect("the file");
    // The one that would not end comes last.
    for command in
        [&["agent", "create", "a@b"][..], &["audit"], &["backup", "c"], &["serve", "--listen", "127.0.0.1:0"]]
    {
        desk.run(command).refused(2, reason);
        assert!(fs::read(desk.data_file()).expect("the file") == before, "{command:?} changed the file");
    }
    let names: Vec<_> = fs::read_dir(desk.path("data")).expect("the folder").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!desk.path("c").exists());
}

#[test]
fn a_place_that_cannot_hold_a_data_file_is_named() {
    let desk = Desk::empty();
    fs::write(desk.path("data"), "a file where the folder should be").expect("a file");
    desk.run(&["agent", "create", "a@b"]).refused(1, "Choose another place with --data FILE");
    let folder = desk.folder.path().to_str().expect("a path").to_owned();
    Ran::of(agentrelay().args(["agent", "create", "a@b", "--data", &folder])).refused(1, "Choose another place");
}
