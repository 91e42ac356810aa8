//! The command line: one file per command. Each has an `Args` struct, whose doc comments are the help, and a `run`.
//!
//! Operator commands open the data file themselves, whether or not a relay serves it. Data goes to standard output,
//! everything else to standard error.

mod serve;
mod agent;
mod key;
mod block;
mod audit;
mod deadletters;
mod backup;
mod config;
mod health;
mod completions;
mod operator;
mod values;
mod console;
mod visible;
mod failure;
mod exit;
mod logs;
mod shutdown;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::console::Console;
pub use self::exit::Exit;
pub use self::failure::Failure;
use crate::config::{Common, Output};

/// The mailbox between developers' coding agents
///
/// One agent hands work to another; the handoff waits in one data file until the other accepts it, talks about it and
/// completes it. Start a relay with `agentrelay serve`, then create agents with `agentrelay agent create`.
///
/// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 conflict, 75 try again later.
#[derive(Debug, Parser)]
#[command(name = "agentrelay", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Agent(agent::Args),
    Key(key::Args),
    Block(block::BlockArgs),
    Unblock(block::UnblockArgs),
    Blocks(block::BlocksArgs),
    Audit(audit::Args),
    Deadletters(deadletters::Args),
    Backup(backup::Args),
    Config(config::Args),
    Health(health::Args),
    Completions(completions::Args),
}

/// A command line that was understood.
#[derive(Debug)]
pub struct Invocation {
    cli: Cli,
    matches: ArgMatches,
}

/// A command line that is not run: it was wrong, or asked for help or the version only.
#[derive(Debug)]
pub struct Refusal {
    error: clap::Error,
    args: Vec<OsString>,
}

impl Invocation {
    /// Reads the command line, the program's name first.
    ///
    /// # Errors
    /// Also for `--help` and `--version`, which are answered by [`Refusal::report`].
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, Refusal> {
        let args: Vec<OsString> = args.collect();
        let parsed = Cli::command().try_get_matches_from(&args).and_then(|matches| {
            let cli = Cli::from_arg_matches(&matches)?;
            Ok(Invocation { cli, matches })
        });
        parsed.map_err(|error| Refusal { error, args })
    }

    /// How it wants data printed.
    pub fn output(&self) -> Output {
        self.cli.common.output
    }

    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        let Invocation { cli: Cli { common, command }, matches } = self;
        let console = Console::new(common.output);
        match command {
            Command::Serve(args) => args.run(&common),
            Command::Agent(args) => args.run(&common, console),
            Command::Key(args) => args.run(&common, console),
            Command::Block(args) => args.run(&common, console),
            Command::Unblock(args) => args.run(&common, console),
            Command::Blocks(args) => args.run(&common, console),
            Command::Audit(args) => args.run(&common, console),
            Command::Deadletters(args) => args.run(&common, console),
            Command::Backup(args) => args.run(&common, console),
            Command::Config(args) => args.run(&common, &matches, console),
            Command::Health(args) => args.run(console),
            Command::Completions(args) => args.run(),
        }
    }
}

impl Refusal {
    /// Prints the help to standard output, or what was wrong to standard error. Returns how the program ends.
    pub fn report(&self) -> ExitCode {
        let asked = !self.error.use_stderr();
        if !asked && console::asked_for(&self.args) == Output::Json {
            let text = self.error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Failure::usage(first.trim_start_matches("error: ").to_owned()).print_document();
        }
        // Whoever closed the other end has read enough.
        let _ = self.error.print();
        if let Some(variable) = self.variable() {
            console::note(&format!("The value comes from the environment: {variable}"));
        }
        if asked { ExitCode::SUCCESS } else { Exit::Usage.into() }
    }

    /// The variable that holds the wrong value. The parser names only the flag, which nobody typed.
    fn variable(&self) -> Option<String> {
        let Some(ContextValue::String(arg)) = self.error.get(ContextKind::InvalidArg) else {
            return None;
        };
        let flag = arg.split(' ').next().filter(|flag| flag.starts_with("--"))?;
        let typed = |text: &str| text.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        if self.args.iter().any(|arg| typed(&arg.to_string_lossy())) {
            return None;
        }
        let variable = format!("AGENTRELAY_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
        std::env::var_os(&variable).map(|_| variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_begins_with_a_short_imperative_line_without_a_full_stop() {
        fn check(command: &clap::Command) {
            for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
                let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
                let sound = !about.is_empty() && !about.ends_with('.') && about.len() < 90;
                assert!(sound, "{}: {about}", subcommand.get_name());
                check(subcommand);
            }
            for arg in command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "{} {}: {help}", command.get_name(), arg.get_id());
            }
        }
        check(&Cli::command());
    }
}
