//! The clock: every line calls as fast as it is answered, until the time is over.

use std::io;
use std::time::{Duration, Instant};

use crate::http::Request;
use crate::script::Script;
use crate::statistics::Latencies;
use crate::{grpc, http};

/// One connection and what it has to say.
pub(crate) struct Line {
    pub(crate) connection: Connection,
    pub(crate) script: Script,
}

/// By which protocol a line calls.
pub(crate) enum Connection {
    Http(http::Connection),
    Grpc(Box<grpc::Connection>),
}

/// What a drive has seen.
#[derive(Debug, Default)]
pub(crate) struct Drive {
    pub(crate) latencies: Latencies,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) elapsed: Duration,
}

/// Lets all lines call for this long, or until their scripts end. Gives the lines back for the next drive; a line
/// whose connection broke is gone.
pub(crate) async fn drive(lines: Vec<Line>, time: Duration) -> (Vec<Line>, Drive) {
    let start = Instant::now();
    let tasks: Vec<_> = lines.into_iter().map(|line| tokio::spawn(talk(line, start + time))).collect();
    let mut lines = Vec::with_capacity(tasks.len());
    let mut total = Drive::default();
    for task in tasks {
        // A task fails only by a panic, which has already been printed.
        let Ok((line, drive)) = task.await else {
            total.errors += 1;
            continue;
        };
        lines.extend(line);
        total.latencies.append(drive.latencies);
        total.errors += drive.errors;
        total.first_error = total.first_error.or(drive.first_error);
    }
    total.elapsed = start.elapsed();
    (lines, total)
}

async fn talk(mut line: Line, end: Instant) -> (Option<Line>, Drive) {
    let mut drive = Drive::default();
    let mut before = Instant::now();
    while before < end {
        let Some(request) = line.script.next() else {
            break;
        };
        match line.connection.call(request).await {
            Ok(Ok(())) => {}
            Ok(Err(refusal)) => drive.fail(|| refusal),
            Err(error) => {
                drive.fail(|| error.to_string());
                return (None, drive);
            }
        }
        let after = Instant::now();
        drive.latencies.push(after - before);
        before = after;
    }
    (Some(line), drive)
}

impl Connection {
    /// Calls, and tells how the call was refused if it was.
    async fn call(&mut self, request: &Request) -> io::Result<Result<(), String>> {
        match self {
            Connection::Http(connection) => {
                let reply = connection.call(request).await?;
                Ok(if reply.is_success() { Ok(()) } else { Err(reply.to_string()) })
            }
            Connection::Grpc(connection) => connection.call(request).await,
        }
    }
}

impl Drive {
    fn fail(&mut self, describe: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(describe);
    }
}
