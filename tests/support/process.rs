//! A relay in a process of its own, as its users run it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A running `agentrelay serve`. Ended when dropped.
pub struct RelayProcess {
    pub url: String,
    pub data_file: PathBuf,
    pub child: Child,
    log: Arc<Mutex<String>>,
}

impl RelayProcess {
    /// Starts a relay on this file, on a port of its own, without a rate limit.
    pub fn start(data_file: &Path, arguments: &[&str]) -> RelayProcess {
        RelayProcess::start_by(command(data_file), data_file, arguments)
    }

    /// The same by a command of this file, which may have an environment of its own.
    pub fn start_by(mut command: Command, data_file: &Path, arguments: &[&str]) -> RelayProcess {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--rate-limit", "0"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a relay");
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let mut url = None;
        for line in lines.by_ref().map_while(Result::ok) {
            log.lock().expect("the log").push_str(&(line.clone() + "\n"));
            if let Some((_, address)) = line.split_once("listening on ") {
                url = Some(address.trim().to_owned());
                break;
            }
        }
        let Some(url) = url else {
            panic!("the relay did not start: {}", log.lock().expect("the log"));
        };
        let collected = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                collected.lock().expect("the log").push_str(&(line + "\n"));
            }
        });
        RelayProcess { url, data_file: data_file.to_owned(), child, log }
    }

    /// Runs an operator's command on the relay's file; gives what it printed to stdout.
    pub fn operate(&self, arguments: &[&str]) -> String {
        operate(&self.data_file, arguments)
    }

    /// What it has written to stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    /// Ends the process as a power cut would end it.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test with this data file, in an environment without settings.
pub fn command(data_file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentrelay"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AGENTRELAY_")) {
        command.env_remove(name);
    }
    command.arg("--data").arg(data_file);
    command
}

/// Runs an operator's command that succeeds; gives what it printed to stdout.
#[track_caller]
pub fn operate(data_file: &Path, arguments: &[&str]) -> String {
    let output = command(data_file).args(arguments).output().expect("a command");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

/// An example's program. `cargo test` builds it beside this one; `cargo test --test main` does not.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("this program");
    let profile = this.ancestors().nth(2).expect("the profile's folder");
    let program = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        let release: &[&str] = if profile.ends_with("release") { &["--release"] } else { &[] };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--example", name])
            .args(release)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_DIR", profile.parent().expect("the target folder"))
            .status();
        assert!(built.expect("cargo").success());
    }
    program
}
