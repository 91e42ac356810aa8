//! `agentrelay config`: flag over variable over default

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;

use super::{Desk, Ran, agentrelay};

const SECRET: &str = "correct-horse-battery-staple";

fn config(arguments: &[&str]) -> Command {
    let mut command = agentrelay();
    command.arg("config").args(arguments);
    command
}

#[test]
fn each_setting_is_shown_with_its_value_and_where_that_came_from() {
    let mut command = config(&["--data", "/srv/relay.db", "--rate-limit", "600", "--allowed-host", "Relay.LAN"]);
    command.env("AGENTRELAY_LISTEN", "0.0.0.0:7420").env("AGENTRELAY_PUBLIC_URL", "https://relay.example/");
    assert_snapshot!(Ran::of(&mut command).ends(0).stdout, @r"
    SETTING                 VALUE                  SOURCE
    data                    /srv/relay.db          flag --data
    output                  table                  default
    listen                  0.0.0.0:7420           environment AGENTRELAY_LISTEN
    public-url              https://relay.example  environment AGENTRELAY_PUBLIC_URL
    allowed-host            relay.lan              flag --allowed-host
    rate-limit              600                    flag --rate-limit
    blocking-timeout        30                     default
    public-cards            on                     default
    admin-token             -                      default
    allow-private-webhooks  false                  default
    log-level               info                   default
    log-format              auto                   default
    ");
}

#[test]
fn as_json_each_setting_names_its_flag_and_its_variable() {
    let ran = Ran::of(&mut config(&["--data", "/srv/relay.db", "--output", "json"])).ends(0);
    assert_snapshot!(ran.stdout.lines().take(9).collect::<Vec<_>>().join("\n"), @r#"
    {
      "settings": [
        {
          "name": "data",
          "value": "/srv/relay.db",
          "source": "flag",
          "flag": "--data",
          "variable": "AGENTRELAY_DATA"
        },
    "#);
}

#[test]
fn every_variable_is_read_and_every_flag_is_stronger() {
    for (flag, variable, in_variable, in_flag) in [
        ("--data", "AGENTRELAY_DATA", "/srv/a.db", "/srv/b.db"),
        ("--listen", "AGENTRELAY_LISTEN", "127.0.0.1:1", "127.0.0.1:2"),
        ("--public-url", "AGENTRELAY_PUBLIC_URL", "http://a.example", "http://b.example"),
        ("--allowed-host", "AGENTRELAY_ALLOWED_HOST", "a.example", "b.example"),
        ("--rate-limit", "AGENTRELAY_RATE_LIMIT", "1", "2"),
        ("--log-level", "AGENTRELAY_LOG_LEVEL", "warn", "debug"),
        ("--log-format", "AGENTRELAY_LOG_FORMAT", "text", "json"),
    ] {
        let read = |command: &mut Command| -> (String, String) {
            let settings = Ran::of(command.args(["--output", "json"])).ends(0).json()["settings"].clone();
            let named = |setting: &&Value| setting["name"] == flag.trim_start_matches("--");
            let setting = settings.as_array().expect("settings").iter().find(named).expect(flag).clone();
            assert_eq!((&setting["flag"], &setting["variable"]), (&flag.into(), &variable.into()));
            let value = &setting["value"];
            let value = value.as_array().map_or(value, |values| &values[0]);
            let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            (text, setting["source"].as_str().expect("a source").to_owned())
        };
        let mut command = config(&[]);
        assert_eq!(read(command.env(variable, in_variable)), (in_variable.to_owned(), "environment".to_owned()));
        let mut command = config(&[flag, in_flag]);
        assert_eq!(read(command.env(variable, in_variable)), (in_flag.to_owned(), "flag".to_owned()));
    }
    let allowed = |command: &mut Command| {
        let settings = Ran::of(command.args(["--output", "json"])).ends(0).json()["settings"].clone();
        let settings = settings.as_array().expect("settings").iter();
        let named = |setting: &&Value| setting["name"] == "allow-private-webhooks";
        settings.clone().find(named).expect("the setting")["value"].as_bool()
    };
    assert_eq!(allowed(&mut config(&["--allow-private-webhooks"])), Some(true));
    assert_eq!(allowed(config(&[]).env("AGENTRELAY_ALLOW_PRIVATE_WEBHOOKS", "true")), Some(true));
    assert_eq!(allowed(config(&[]).env("AGENTRELAY_ALLOW_PRIVATE_WEBHOOKS", "false")), Some(false));
    let mut command = config(&["--output", "table"]);
    let shown = Ran::of(command.env("AGENTRELAY_OUTPUT", "json")).ends(0).stdout;
    assert!(shown.starts_with("SETTING"), "{shown}");
    let shown = Ran::of(config(&[]).env("AGENTRELAY_OUTPUT", "json")).ends(0).json();
    assert_eq!(shown["settings"][1]["source"], "environment");
}

#[test]
fn hosts_come_as_several_flags_or_as_a_list_with_commas() {
    let hosts = |command: &mut Command| {
        Ran::of(command.args(["--output", "json"])).ends(0).json()["settings"][4]["value"].clone()
    };
    let expected = serde_json::json!(["a.example", "b.example"]);
    assert_eq!(hosts(config(&["--allowed-host", "a.example", "--allowed-host", "b.example"]).env("X", "")), expected);
    assert_eq!(hosts(config(&[]).env("AGENTRELAY_ALLOWED_HOST", "a.example,b.example")), expected);
}

#[test]
fn the_admin_token_is_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{SECRET}\n")).expect("a file");
    let file = file.to_str().expect("a path");
    for (mut command, source) in [
        (config(&["--admin-token-file", file]), "flag --admin-token-file"),
        (config(&[]), "environment AGENTRELAY_ADMIN_TOKEN"),
    ] {
        if !source.contains("flag") {
            command.env("AGENTRELAY_ADMIN_TOKEN", SECRET);
        }
        let shown = Ran::of(&mut command).ends(0).stdout;
        let line = shown.lines().find(|line| line.starts_with("admin-token")).expect("the token's line");
        assert!(line.contains("(not shown)") && line.ends_with(source), "{line}");
        let json = Ran::of(command.args(["--output", "json"])).ends(0).stdout;
        assert!(!format!("{shown}{json}").contains(SECRET));
    }
    let unset = Ran::of(&mut config(&[])).ends(0).stdout;
    assert!(unset.lines().any(|line| line.split_whitespace().eq(["admin-token", "-", "default"])), "{unset}");
}

#[test]
fn an_admin_token_that_protects_nothing_is_refused_by_serve_and_config_without_being_shown() {
    let desk = Desk::empty();
    let file = desk.path("token");
    let path = file.to_str().expect("a path");
    for (token, reason) in [
        ("", "is empty"),
        ("fifteen-letters", "is shorter than 16 characters"),
        ("with a space in between", "has spaces or characters outside ASCII"),
        ("mit-Umlaut-ä-und-ö-und-ü", "has spaces or characters outside ASCII"),
    ] {
        std::fs::write(&file, format!("{token}\n")).expect("a file");
        for command in ["serve", "config"] {
            let in_file = desk.run(&[command, "--admin-token-file", path]).refused(2, reason);
            let in_variable = Ran::of(desk.command(&[command]).env("AGENTRELAY_ADMIN_TOKEN", token)).refused(2, reason);
            let said = format!("{in_file:?} {in_variable:?}");
            assert!(token.is_empty() || !said.contains(token), "{said}");
        }
    }
    desk.run(&["config", "--admin-token-file", "nowhere"])
        .refused(2, "cannot read the admin token from the file nowhere");
    assert!(!desk.data_file().exists(), "a refused setting creates no file");
}

#[test]
fn a_value_that_cannot_be_read_is_wrong_usage_wherever_it_comes_from() {
    for (flag, value, reason) in [
        ("--listen", "relay.lan:7420", "write an address and a port"),
        ("--listen", "7420", "write an address and a port"),
        ("--public-url", "relay.example", "https://relay.example"),
        ("--public-url", "https://u:p@relay.example", "leave the user name and password out"),
        ("--allowed-host", "https://relay.lan", "write a host name alone"),
        ("--rate-limit", "-1", ""),
        ("--rate-limit", "many", "invalid digit"),
        ("--log-level", "loud", "possible values: error, warn, info, debug, trace"),
        ("--log-format", "xml", "possible values: auto, text, json"),
        ("--output", "yaml", "possible values: table, json"),
        ("--data", "", "a value is required"),
    ] {
        Ran::of(&mut config(&[&format!("{flag}={value}")])).refused(2, reason);
        let variable = format!("AGENTRELAY_{}", flag.trim_start_matches("--").replace('-', "_").to_uppercase());
        let ran = Ran::of(config(&[]).env(&variable, value)).refused(2, reason);
        assert!(ran.stderr.contains(&variable), "{ran:?}");
    }
}

#[test]
fn localhost_is_an_address_to_listen_at() {
    let shown = Ran::of(&mut config(&["--listen", "localhost:7420", "--output", "json"])).ends(0).json();
    assert_eq!(shown["settings"][2]["value"], "127.0.0.1:7420");
}

#[test]
fn the_data_file_is_in_the_users_data_directory_unless_it_is_named() {
    let home = tempfile::tempdir().expect("a home");
    let mut command = config(&["--output", "json"]);
    command.env("HOME", home.path()).env_remove("XDG_DATA_HOME");
    let data = Ran::of(&mut command).ends(0).json()["settings"][0].clone();
    let path = Path::new(data["value"].as_str().expect("a path"));
    assert!(path.starts_with(home.path()) && path.ends_with("agentrelay.db"), "{data}");
    assert_eq!(data["source"], "default");
    assert!(!path.exists(), "config creates nothing");
}
