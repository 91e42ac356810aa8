//! `agentrelay completions`: so that a shell knows the commands.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::console::print_raw;
use crate::cli::{Cli, Failure};

/// Print the completions for a shell
///
/// For bash, add this line to `~/.bashrc`: `source <(agentrelay completions bash)`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub(super) fn run(self) -> Result<(), Failure> {
        // Into memory first: the generator panics when it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "agentrelay", &mut script);
        print_raw(&script)
    }
}
