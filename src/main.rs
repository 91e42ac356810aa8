//! The `agentrelay` program: read the command line, run the command, say what went wrong.

use std::process::ExitCode;

use agentrelay::cli::Invocation;

fn main() -> ExitCode {
    let invocation = match Invocation::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(refusal) => return refusal.report(),
    };
    let output = invocation.output();
    match invocation.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(output),
    }
}
