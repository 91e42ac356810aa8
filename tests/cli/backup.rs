//! `agentrelay backup`

use insta::assert_snapshot;

use super::{Desk, Ran, agentrelay, masks};

#[test]
fn a_backup_is_a_whole_data_file() {
    let desk = Desk::with(&["frank@acme"]);
    let ran = desk.run(&["backup", "copy.db"]).ends(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("Copied "), "{ran:?}");
    assert!(ran.stderr.ends_with(" bytes. The copy was opened and is sound.\n"), "{ran:?}");
    let shown = Ran::of(agentrelay().args(["agent", "default", "--data"]).arg(desk.path("copy.db"))).ends(0);
    assert_eq!(shown.stdout, "frank@acme\n");
    let conn = rusqlite::Connection::open(desk.path("copy.db")).expect("a copy");
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(verdict, "ok");
}

#[test]
fn as_json_it_says_what_was_copied() {
    let _masks = masks();
    let desk = Desk::with(&["frank@acme"]);
    let document = desk.json(&["backup", "copy.db"]);
    let bytes = std::fs::metadata(desk.path("copy.db")).expect("a copy").len();
    assert_eq!(document["bytes"], bytes);
    assert_eq!(document["pages"], bytes / 4096);
    assert_eq!(document["verified"], true);
    let paths = format!("{} {}", document["from"], document["file"]);
    assert_snapshot!(paths, @r#""/tmp/data/relay.db" "/tmp/copy.db""#);
}

#[test]
fn nothing_is_overwritten() {
    let desk = Desk::with(&["frank@acme"]);
    std::fs::write(desk.path("copy.db"), "precious").expect("a file");
    desk.run(&["backup", "copy.db"]).refused(5, "exists and was left as it is");
    assert_eq!(std::fs::read(desk.path("copy.db")).expect("the file"), b"precious");
    desk.run(&["backup", "data/relay.db"]).refused(5, "exists and was left as it is");
    desk.run(&["backup", "."]).refused(5, "exists and was left as it is");
    assert_eq!(desk.run(&["agent", "default"]).ends(0).stdout, "frank@acme\n");
}

#[test]
fn a_backup_into_a_folder_that_is_not_there_names_the_folder() {
    let desk = Desk::with(&["frank@acme"]);
    desk.run(&["backup", "nowhere/copy.db"]).refused(3, "there is no folder");
    assert!(!desk.path("nowhere").exists());
}

#[test]
fn a_relay_that_serves_the_file_goes_on_meanwhile() {
    let desk = Desk::with(&["frank@acme"]);
    let relay = desk.serve(&[]);
    desk.create("bob@acme");
    desk.run(&["backup", "copy.db"]).ends(0);
    let agents = Ran::of(agentrelay().args(["agent", "list", "--data"]).arg(desk.path("copy.db"))).ends(0);
    assert!(agents.stdout.contains("bob@acme"), "{agents:?}");
    Ran::of(agentrelay().args(["health", "--url", &relay.url])).ends(0);
}

#[test]
fn nothing_but_the_copy_is_left_in_its_folder() {
    let desk = Desk::with(&["frank@acme"]);
    std::fs::create_dir(desk.path("copies")).expect("a folder");
    desk.run(&["backup", "copies/copy.db"]).ends(0);
    let names: Vec<_> = std::fs::read_dir(desk.path("copies")).expect("the folder").flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
