//! `agentrelay backup`: a copy of the data file, made while a relay may be writing to it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::{Exit, Failure, operator};
use crate::config::Common;
use crate::store::backup;

/// Copy the data file while it is in use
///
/// The copy holds everything that was acknowledged before the command began. It is opened and checked before it gets
/// its name, and nothing is overwritten. To restore it, stop the relay and start it with --data FILE.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The copy, which must not exist yet
    file: PathBuf,
}

impl Args {
    pub(super) fn run(self, common: &Common, console: Console) -> Result<(), Failure> {
        operator::run(common, async |operator| {
            let to = std::path::absolute(&self.file)
                .map_err(|error| Failure::usage("cannot write the backup there").because(&error))?;
            if let Some(folder) = to.parent().filter(|folder| !folder.is_dir()) {
                return Err(Failure::not_found(format!("there is no folder {} for the backup", folder.display())));
            }
            let from = operator.relay.store().path();
            let copied = copy(from, &to)?;
            let bytes = std::fs::metadata(&to)
                .map_err(|error| Failure::new(Exit::Failure, "the backup cannot be read").because(&error))?
                .len();
            let document = Document { from, file: &to, pages: copied.total, bytes, verified: true };
            let sentence = format!(
                "Copied {} to {}: {} pages, {bytes} bytes. The copy was opened and is sound.",
                from.display(),
                to.display(),
                copied.total
            );
            console.done(&document, &sentence)
        })
    }
}

/// What was copied where. There is no document about a copy that was not verified.
#[derive(Serialize)]
struct Document<'a> {
    from: &'a Path,
    file: &'a Path,
    pages: u64,
    bytes: u64,
    verified: bool,
}

fn copy(from: &Path, to: &Path) -> Result<backup::Progress, Failure> {
    let bar = ProgressBar::with_draw_target(None, target());
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% of {len} pages, {eta} left") {
        bar.set_style(style);
    }
    let copied = backup::copy(from, to, |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    Ok(copied?)
}

/// The bar is for people: a script's log gets none.
fn target() -> ProgressDrawTarget {
    if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}
