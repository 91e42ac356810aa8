//! `agentrelay deadletters`: what webhooks could not be told.

use clap::Subcommand;
use serde::Serialize;

use crate::cli::Failure;
use crate::cli::console::{Console, Table, note};
use crate::cli::operator::{self, Operator};
use crate::cli::values;
use crate::config::Common;
use crate::domain::agent::Handle;
use crate::domain::id::{DeadLetterId, ThreadId};
use crate::domain::time::Timestamp;
use crate::domain::webhook::DeadLetter;
use crate::relay::dead_letters::Letters;

/// See what webhooks could not be told, and have it tried once more or drop it
///
/// An update that a webhook does not take is tried 25 times over a day. Then it becomes a dead letter, and the webhook
/// goes on with the next update.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(ListArgs),
    Retry(RetryArgs),
    Drop(DropArgs),
}

/// List updates that were given up on, newest first
///
/// A URL is shown without what follows '?', which may be a secret.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// How many to show at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Have updates tried once more by the relay that serves the file
///
/// One that arrives is gone from the list. One that fails again stays there and says why. The webhook may have been
/// told newer updates meanwhile: the order of one that is tried once more is lost.
#[derive(Debug, clap::Args)]
struct RetryArgs {
    #[command(flatten)]
    which: Which,
}

/// Drop updates: they will never be told
#[derive(Debug, clap::Args)]
struct DropArgs {
    #[command(flatten)]
    which: Which,
}

/// Which ones.
#[derive(Debug, clap::Args)]
struct Which {
    /// Their ids, as in `agentrelay deadletters list`
    #[arg(value_name = "ID", value_parser = values::dead_letter_id, required_unless_present = "all")]
    ids: Vec<DeadLetterId>,

    /// All of them
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

impl Args {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        match self.command {
            Command::List(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Retry(args) => operator::run(common, async |operator| args.run(operator, console).await),
            Command::Drop(args) => operator::run(common, async |operator| args.run(operator, console).await),
        }
    }
}

impl ListArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let letters = operator.relay.dead_letters(usize::try_from(self.limit).unwrap_or(usize::MAX)).await?;
        if letters.is_empty() {
            note("No dead letters.");
        }
        let list = List { dead_letters: letters.iter().map(Document::of).collect() };
        console.show(&list, || {
            let headings =
                ["ID", "SENDER", "THREAD", "GENERATION", "WEBHOOK", "URL", "TRIES", "DIED", "STATUS", "ERROR"];
            let mut table = Table::with_headings(headings);
            for letter in &list.dead_letters {
                table.add([
                    &letter.id.to_string(),
                    letter.sender.as_str(),
                    &letter.thread_id.to_string(),
                    &letter.generation.to_string(),
                    letter.webhook,
                    letter.url,
                    &letter.tries.to_string(),
                    &letter.died_at.to_string(),
                    letter.status,
                    letter.error,
                ]);
            }
            table
        })
    }
}

impl RetryArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let count = operator.relay.retry_dead_letters(self.which.letters()).await?;
        console.done(&Done { retried: Some(count), dropped: None }, &format!("To be tried once more: {count}."))
    }
}

impl DropArgs {
    async fn run(self, operator: &Operator, console: Console) -> Result<(), Failure> {
        let count = operator.relay.drop_dead_letters(self.which.letters()).await?;
        console.done(&Done { retried: None, dropped: Some(count) }, &format!("Dropped: {count}."))
    }
}

impl Which {
    fn letters(self) -> Letters {
        if self.all { Letters::All } else { Letters::Ids(self.ids) }
    }
}

/// How many it was done to.
#[derive(Serialize)]
struct Done {
    #[serde(skip_serializing_if = "Option::is_none")]
    retried: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<usize>,
}

#[derive(Serialize)]
struct List<'a> {
    dead_letters: Vec<Document<'a>>,
}

/// A dead letter as the operator sees it.
#[derive(Serialize)]
struct Document<'a> {
    id: DeadLetterId,
    sender: &'a Handle,
    thread_id: ThreadId,
    generation: i64,
    webhook: &'a str,
    url: &'a str,
    tries: i64,
    error: &'a str,
    died_at: Timestamp,
    status: &'static str,
}

impl Document<'_> {
    fn of(letter: &DeadLetter) -> Document<'_> {
        Document {
            id: letter.id,
            sender: &letter.sender,
            thread_id: letter.thread,
            generation: letter.generation,
            webhook: &letter.webhook,
            url: &letter.url,
            tries: letter.tries,
            error: &letter.error,
            died_at: letter.died_at,
            status: if letter.retrying { "retrying" } else { "dead" },
        }
    }
}
