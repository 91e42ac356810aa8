//! The documents, held to what the relay does: every example runs, every table is the code's, every link leads somewhere.

mod likeness;
pub mod page;
mod story;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentrelay::domain::event::EventKind;
use agentrelay::domain::transition::{Carries, Side, State, Transition};
use agentrelay::domain::{agent, artifact, json, metadata, page as pages, part, thread, webhook};
use agentrelay::error::Symbol;
use agentrelay::{api, store};
use serde_json::Value;

use self::likeness::Likeness;
use self::page::{Block, Page, in_project};
use self::story::Story;
use crate::support::{RelayProcess, example};

const PROTOCOL: &str = "docs/protocol.md";
const README: &str = "README.md";
const A2A: &str = "docs/a2a.md";
const DOCUMENTS: [&str; 5] = [README, PROTOCOL, A2A, "src/ARCHITECTURE.md", "CHANGELOG.md"];

mod protocol {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_example_is_answered_as_shown_and_no_route_method_or_transition_is_without_one() {
        let story = Story::of(&Page::read(PROTOCOL)).await;
        assert!(story.differences.is_empty(), "\n{}", story.differences);

        for route in routes_of(PROTOCOL) {
            let shown = |(method, path): &(String, String)| route_matches(&route, method, path);
            assert!(story.calls.iter().any(shown), "{route} has no example");
        }
        let methods = ["message/send", "tasks/get", "tasks/list", "tasks/cancel", "agents/list"].map(ToOwned::to_owned);
        // `cancel` has a method of its own.
        let transitions = Transition::ALL.into_iter().filter(|transition| *transition != Transition::Cancel);
        let transitions = transitions.map(|transition| format!("tasks/update {}", transition.name()));
        for method in methods.into_iter().chain(transitions) {
            assert!(story.methods.contains(&method), "{method} has no example");
        }
    }

    #[test]
    fn its_error_table_is_the_codes() {
        let rows = Page::read(PROTOCOL).table("errors");
        assert!(rows.iter().all(|row| row.len() == 5 && row.iter().all(|cell| !cell.is_empty())), "{rows:?}");
        let shown: Vec<_> = rows.iter().map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect();
        let table = Symbol::ALL.map(|symbol| {
            let row = symbol.row();
            [row.rpc_code.to_string(), row.http_status.to_string(), row.name.to_owned()]
        });
        assert_eq!(shown, table);
    }

    #[test]
    fn its_transition_table_is_the_state_machine() {
        let carries = |carries| match carries {
            Carries::Required => "required",
            Carries::Optional => "may",
            Carries::Nothing => "no",
        };
        let mut table: Vec<_> = Transition::ALL
            .into_iter()
            .map(|transition| {
                let rule = transition.rule();
                let from: Vec<_> = rule.from.iter().map(|state| state.name()).collect();
                let given = [rule.message, rule.artifacts, rule.result_summary].map(carries);
                [&[transition.name(), &from.join(", "), rule.to.name(), rule.by.name()][..], &given]
                    .concat()
                    .join(" | ")
            })
            .collect();
        let from: Vec<_> = State::ALL.into_iter().filter(|state| moves_by_message(*state)).map(State::name).collect();
        table.push(format!("a message by the sender | {} | accepted | sender | required | may | no", from.join(", ")));
        let shown: Vec<_> = Page::read(PROTOCOL).table("transitions").iter().map(|row| row.join(" | ")).collect();
        assert_eq!(shown, table);
    }

    fn moves_by_message(state: State) -> bool {
        assert!(state.after_message(Side::Recipient).is_none_or(|after| after == state));
        state.after_message(Side::Sender).is_some_and(|after| after != state)
    }

    #[test]
    fn its_state_table_is_what_clients_see() {
        let shown: Vec<_> = Page::read(PROTOCOL).table("states").iter().map(|row| row[..4].join(" | ")).collect();
        let table = State::ALL.map(|state| {
            let (status, detail) = state.status();
            let end = if state.is_terminal() { "yes" } else { "no" };
            format!("{} | {status} | {} | {end}", state.name(), detail.unwrap_or("–"))
        });
        assert_eq!(shown, table);
    }

    #[test]
    fn its_list_of_routes_is_complete() {
        let shown: BTreeSet<_> = Page::read(PROTOCOL).table("routes").into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(shown, routes_of(PROTOCOL));
    }

    #[test]
    fn its_list_of_events_is_the_logs() {
        let shown: Vec<_> = Page::read(PROTOCOL).table("events").into_iter().map(|row| row[0].clone()).collect();
        let log: Vec<_> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(shown, log);
    }

    #[test]
    fn its_limits_are_the_codes() {
        let limits = [
            ("body", api::BODY_MAX),
            ("depth", json::DEPTH_MAX),
            ("parts", part::PARTS_MAX),
            ("artifacts", artifact::ARTIFACTS_MAX),
            ("idempotency key", metadata::IDEMPOTENCY_KEY_MAX),
            ("idempotency memory", usize::try_from(store::idempotency::DAYS_KEPT).expect("days")),
            ("page", usize::from(pages::Limit::MAX)),
            ("summary_preview", thread::PREVIEW_MAX),
            ("handle", agent::HANDLE_MAX),
            ("name, role", agent::NAME_MAX),
            ("description, block reason", agent::DESCRIPTION_MAX),
            ("email", agent::EMAIL_MAX),
            ("skills", agent::SKILLS_MAX.0),
            ("repos_owned", agent::REPOS_MAX.0),
            ("webhooks", webhook::WEBHOOKS_MAX),
            ("webhook name", webhook::NAME_MAX),
            ("webhook url", webhook::URL_MAX),
            ("webhook token, credentials", webhook::SECRET_MAX),
            ("rate", usize::try_from(api::Settings::default().rate_limit).expect("a limit")),
        ];
        let rows = Page::read(PROTOCOL).table("limits");
        for (name, limit) in limits {
            let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("no limit '{name}'"));
            let shown: String = row[1].chars().skip_while(|digit| !digit.is_ascii_digit()).collect();
            let shown: String = shown.chars().take_while(|digit| digit.is_ascii_digit() || *digit == ',').collect();
            assert_eq!(shown.replace(',', ""), limit.to_string(), "{name}");
        }
    }
}

mod a2a {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_example_is_answered_as_shown() {
        let story = Story::of(&Page::read(A2A)).await;
        assert!(story.differences.is_empty(), "\n{}", story.differences);
        for route in routes_of(A2A) {
            let shown = |(method, path): &(String, String)| route_matches(&route, method, path);
            assert!(story.calls.iter().any(shown), "{route} has no example");
        }
    }
}

mod readme {
    use super::*;

    const TRY_IT: &str = "Try it";
    /// Printed between the blocks of the script, so that each block's output can be told from the next one's.
    const BETWEEN: &str = "---- next block ----";

    #[test]
    fn its_try_it_does_and_prints_what_it_shows() {
        if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no curl on this machine");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let relay = RelayProcess::start(&folder.path().join("relay.db"), &[]);
        let blocks: Vec<Block> = Page::read(README).blocks().into_iter().filter(|it| it.heading == TRY_IT).collect();
        let scripts: Vec<&str> =
            blocks.iter().filter(|block| block.language == "sh").map(|block| &*block.text).collect();
        assert!(scripts.len() > 3, "the README has no script to try");

        let printed = run(&relay, folder.path(), &scripts.join(&format!("echo\necho '{BETWEEN}'\n")));
        let mut printed = printed.split(BETWEEN);
        let mut likeness = Likeness::default();
        let mut found = "";
        for block in &blocks {
            let expected = match &*block.language {
                "sh" => {
                    assert!(found.trim().is_empty(), "{README}:{} prints what is not shown: {found}", block.line);
                    found = printed.next().unwrap_or_else(|| panic!("{README}:{} did not run", block.line));
                    continue;
                }
                // What `serve` says stands before the first script.
                _ if found.is_empty() => {
                    assert_greeting(&block.text, &relay.log());
                    continue;
                }
                _ => &block.text,
            };
            let differences = match &*block.language {
                "json" => {
                    let expected: Value = serde_json::from_str(expected).expect("JSON in the README");
                    let found = serde_json::from_str(found).unwrap_or_else(|error| panic!("{error}: {found}"));
                    likeness.compare(&expected, &found)
                }
                _ => compare_text(&mut likeness, expected, found.trim()),
            };
            assert!(differences.is_empty(), "{README}:{}: {differences:?}\n{found}", block.line);
            found = "";
        }
        assert!(found.trim().is_empty(), "the last block prints what is not shown: {found}");
    }

    /// Runs a script of the README against this relay; what it printed.
    fn run(relay: &RelayProcess, folder: &Path, script: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_agentrelay"));
        let on_the_path = program.parent().expect("a folder").to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(on_the_path).chain(std::env::split_paths(&path)));
        let address = relay.url.strip_prefix("http://").expect("an address");
        let output = Command::new("sh")
            .args(["-eu", "-c", &script.replace("127.0.0.1:7420", address)])
            .current_dir(folder)
            .env("PATH", path.expect("a path"))
            .env("AGENTRELAY_DATA", &relay.data_file)
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The lines that `serve` greets with, up to where it listens and where its file is.
    fn assert_greeting(shown: &str, log: &str) {
        assert!(log.lines().count() >= shown.lines().count(), "{log}");
        for (shown, said) in shown.lines().zip(log.lines()) {
            let beginning = shown.split("http://").next().and_then(|line| line.split("/home").next());
            assert!(beginning.is_some_and(|beginning| said.starts_with(beginning)), "{shown}\n{said}");
        }
    }

    fn compare_text(likeness: &mut Likeness, expected: &str, found: &str) -> Vec<String> {
        let mut same_line = |expected: &str, found: &str| {
            let (expected, found): (Vec<_>, Vec<_>) =
                (expected.split_whitespace().collect(), found.split_whitespace().collect());
            expected.len() == found.len()
                && expected.iter().zip(&found).all(|(expected, found)| likeness.same_text("", expected, found))
        };
        let lines = expected.lines().count().max(found.lines().count());
        let pairs = expected.lines().chain(std::iter::repeat("")).zip(found.lines().chain(std::iter::repeat("")));
        let differences = pairs.take(lines).filter(|(expected, found)| !same_line(expected, found));
        differences.map(|(expected, found)| format!("'{expected}' is shown, '{found}' printed")).collect()
    }

    #[test]
    fn its_client_is_part_of_the_program_that_runs() {
        let program = Page::read(A2A).text;
        let blocks = Page::read(README).blocks();
        let excerpt = blocks.iter().find(|block| block.language == "python").expect("a client").text.replace("...", "");
        for line in excerpt.lines().map(str::trim) {
            assert!(program.contains(line), "{A2A} does not have the README's line: {line}");
        }
    }

    #[test]
    fn its_list_of_commands_is_what_the_program_says() {
        let mut commands = Vec::new();
        collect_commands(&[], &mut commands);
        let shown: Vec<_> = Page::read(README).table("commands").iter().map(|row| row.join(" | ")).collect();
        assert_eq!(shown, commands);
    }

    /// The commands below `words` that do something, with the first line of their help.
    fn collect_commands(words: &[String], commands: &mut Vec<String>) {
        let output = Command::new(env!("CARGO_BIN_EXE_agentrelay")).args(words).arg("-h").output().expect("the help");
        let help = String::from_utf8(output.stdout).expect("text");
        let Some((_, list)) = help.split_once("\nCommands:\n") else {
            let about = help.lines().next().unwrap_or_default();
            commands.push(format!("agentrelay {} | {about}", words.join(" ")));
            return;
        };
        let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
        for name in names.filter_map(|line| line.split(' ').next()).filter(|name| !matches!(*name, "" | "help")) {
            collect_commands(&[words, &[name.to_owned()]].concat(), commands);
        }
    }

    #[test]
    fn its_two_commands_are_what_the_checks_run() {
        let checks = Page::read(".ci/run").text.replace(" --locked", "");
        let page = Page::read(README).text;
        for command in ["cargo run --release -- serve", "cargo test"] {
            assert!(page.contains(&format!("```sh\n{command}\n```")), "{README} does not say '{command}'");
            assert!(checks.lines().any(|line| line.starts_with(command)), ".ci/run does not run '{command}'");
        }
    }
}

mod every_document {
    use super::*;

    #[test]
    fn has_no_link_that_leads_nowhere() {
        for name in DOCUMENTS {
            let page = Page::read(name);
            let missing: Vec<PathBuf> = page.relative_links().into_iter().filter(|path| !path.exists()).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
            assert!(page.broken_anchors().is_empty(), "{name}: {:?}", page.broken_anchors());
        }
        // Links from one into another.
        for (from, link, to) in [(README, PROTOCOL, PROTOCOL), (README, A2A, A2A), (A2A, "protocol.md", PROTOCOL)] {
            let target = Page::read(to);
            for anchor in Page::read(from).anchors_in(link) {
                assert!(target.has_anchor(&anchor), "{from}: {to}#{anchor}");
            }
        }
    }

    #[test]
    fn is_short_enough_for_a_line_of_code_and_ends_with_one() {
        for name in DOCUMENTS {
            let page = Page::read(name);
            assert!(page.text.ends_with('\n') && !page.text.ends_with("\n\n"), "{name}");
            let trailing = page.text.lines().zip(1..).find(|(line, _)| line.ends_with(' '));
            assert_eq!(trailing, None, "{name}");
        }
    }
}

mod architecture {
    use super::*;

    #[test]
    fn the_code_map_names_every_module_of_the_layers() {
        let map = Page::read("src/ARCHITECTURE.md").text;
        for layer in ["domain", "store", "relay", "api"] {
            for entry in std::fs::read_dir(in_project("src").join(layer)).expect("a layer").flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let named = if entry.path().is_dir() { format!("`{name}/`") } else { format!("`{name}`") };
                assert!(name == "mod.rs" || map.contains(&named), "src/ARCHITECTURE.md does not name {layer}/{name}");
            }
        }
    }
}

mod example {
    use super::*;

    #[test]
    fn the_handoff_example_tells_its_story() {
        let folder = tempfile::tempdir().expect("a folder");
        let relay = RelayProcess::start(&folder.path().join("relay.db"), &[]);
        let output = Command::new(example("handoff"))
            .env("RELAY_URL", &relay.url)
            .env("BOB_KEY", relay.operate(&["agent", "create", "bob@acme"]))
            .env("FRANK_KEY", relay.operate(&["agent", "create", "frank@acme"]))
            .output()
            .expect("the example");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout), @"
        bob@acme hands something to frank@acme
        sent: pending
        in Frank's inbox: GET /orders answers in pages now. Please move the web client over.
        accepted: accepted
        asked: accepted (input_required)
        answered: accepted
        completed: completed
          1 bob@acme: GET /orders answers in pages now. Please move the web client over.
          2 frank@acme: How many rows has a page?
          3 bob@acme: Fifty.
          result: The web client reads pages; all tests pass.
        ");
    }
}

/// The routes that a document is about: A2A's have a page of their own.
fn routes_of(document: &str) -> BTreeSet<String> {
    let is_a2a = |route: &String| route.contains("/a2a/") || route.contains("/.well-known/");
    let routes = routes().into_iter().filter(|route| is_a2a(route) == (document == A2A));
    // With a slash at the end or without.
    routes.map(|route| route.trim_end_matches('/').to_owned()).collect()
}

/// The routes of the server, as `METHOD /path`.
fn routes() -> BTreeSet<String> {
    let source = Page::read("src/api/mod.rs").text;
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
    let routes = lines.flat_map(|line| {
        let (path, handlers) = line.split_once('"').expect("a path");
        let methods = ["get", "post", "put", "delete"].into_iter();
        let methods = methods.filter(move |method| handlers.contains(&format!("{method}(")));
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    routes.collect()
}

fn route_matches(route: &str, method: &str, path: &str) -> bool {
    let (wanted, pattern) = route.split_once(' ').expect("a route");
    let same = |(pattern, segment): (&str, &str)| pattern == segment || pattern.starts_with('{');
    wanted == method
        && pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(same)
}
