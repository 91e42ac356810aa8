//! The command line, run as its users run it: the real program on a real file.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::RelayProcess;

mod agents;
mod audit;
mod backup;
mod blocks;
mod config;
mod files;
mod health;
mod keys;
mod output;
mod serve;

/// The program in an environment without settings.
fn agentrelay() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentrelay"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AGENTRELAY_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Somebody at a terminal with a data file, which does not exist until a command creates it.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn empty() -> Desk {
        Desk { folder: tempfile::tempdir().expect("a folder") }
    }

    /// A data file with these agents; the first one is the default.
    fn with(handles: &[&str]) -> Desk {
        let desk = Desk::empty();
        for handle in handles {
            desk.create(handle);
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data_file(&self) -> PathBuf {
        self.path("data/relay.db")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = agentrelay();
        command.args(arguments).arg("--data").arg(self.data_file()).current_dir(self.folder.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(arguments))
    }

    /// Runs a command and reads the document that it prints.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--output", "json"]].concat()).ends(0).json()
    }

    /// Creates an agent; gives its key.
    #[track_caller]
    fn create(&self, handle: &str) -> String {
        self.run(&["agent", "create", handle]).ends(0).stdout.trim_end().to_owned()
    }

    fn serve(&self, arguments: &[&str]) -> RelayProcess {
        RelayProcess::start(&self.data_file(), arguments)
    }
}

/// A command that ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(command: &mut Command) -> Ran {
        let Output { status, stdout, stderr } = command.output().expect("a command");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let ran = Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) };
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        ran
    }

    /// Checks the exit code.
    #[track_caller]
    fn ends(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that it failed with this exit code, and that nothing but the sentence was printed.
    #[track_caller]
    fn refused(self, code: i32, sentence: &str) -> Ran {
        let ran = self.ends(code);
        assert!(ran.stderr.contains(sentence), "{ran:#?}");
        assert!(ran.stderr.starts_with("error: "), "{ran:#?}");
        assert_eq!(ran.stdout, "");
        ran
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Ids, times, secrets and folders look the same in every run, as long as this lives.
fn masks() -> impl Drop {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("ah_live_[a-z2-7]{32}", "ah_live_SECRET");
    settings.add_filter("ah_live_[a-z2-7]{4}", "ah_live_abcd");
    settings.add_filter("[0-9A-HJKMNP-TV-Z]{26}", "01JAAAAAAAAAAAAAAAAAAAAAAA");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "2026-01-01T00:00:00.000Z");
    settings.add_filter(r"/\S*/\.tmp\w{6}", "/tmp");
    settings.bind_to_scope()
}

/// Whether this is a key and nothing else.
fn is_key(text: &str) -> bool {
    agentrelay::domain::key::Key::parse(text).is_some()
}
