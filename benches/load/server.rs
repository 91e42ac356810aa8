//! A server process of ours: the relay or the ceiling. It lives exactly as long as its [`Server`].

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Result;
use crate::ceiling;
use crate::http::{Connection, Request};

/// How long a server may take to say where it listens, and to be ready.
const START_MAX: Duration = Duration::from_secs(60);

/// A running child process. Dropping it kills the process, also when the benchmark fails or is interrupted.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) pid: u32,
    started: Instant,
}

impl Server {
    /// Starts the relay on this data file.
    pub(crate) async fn relay(program: &Path, data: &Path, grouping: bool) -> Result<Server> {
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--rate-limit", "0", "--log-level", "warn"])
            .arg("--data")
            .arg(data);
        if !grouping {
            command.args(["--group-commit", "off"]);
        }
        Server::start(command).await
    }

    /// Starts this program again, as the ceiling.
    pub(crate) async fn ceiling() -> Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ceiling::ARGUMENT);
        Server::start(command).await
    }

    /// Runs the command and waits for the line with the address; what it logs afterwards is passed on.
    async fn start(mut command: Command) -> Result<Server> {
        const MARK: &str = "listening on http://";
        /// What the relay says to the person who starts it.
        const GREETINGS: [&str; 2] = ["data file: ", "next: "];

        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command.as_std().get_program().display()))?;
        let pid = child.id().ok_or("the server has ended at once")?;
        let stderr = child.stderr.take().ok_or("the server has no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = timeout(START_MAX, async {
            let mut said = String::new();
            while let Some(line) = lines.next_line().await? {
                if let Some((_, address)) = line.split_once(MARK) {
                    let address = address.split_whitespace().next().unwrap_or_default();
                    return Ok(address.trim_end_matches('/').parse()?);
                }
                said = said + "\n" + &line;
            }
            Result::<SocketAddr>::Err(format!("the server has ended before it listened:{said}").into())
        })
        .await
        .map_err(|_| "the server did not say in time where it listens")??;
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if !GREETINGS.iter().any(|greeting| line.starts_with(greeting)) {
                    eprintln!("[{pid}] {line}");
                }
            }
        });
        Ok(Server { child, address, pid, started })
    }

    /// Waits for `GET /readyz` to answer 200; the result counts from before the process was started.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        let request = Request::get(self.address, "/readyz", None);
        let mut connection = Connection::open(self.address).await?;
        loop {
            if connection.call(&request).await?.status == 200 {
                return Ok(self.started.elapsed());
            }
            if self.started.elapsed() > START_MAX {
                return Err("the relay did not become ready in time".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Ends the process and waits until it is gone. Its data file is a copy that nobody needs any more, so it need not
    /// be asked politely.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}
