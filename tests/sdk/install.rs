//! Installs what the programs need, once for each change of what they ask for.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Program;

/// Longest that a step of an installation may take.
const PATIENCE: Duration = Duration::from_secs(300);

type Installed = Result<Program, String>;

/// The Python program, in a virtual environment with the official SDK.
pub fn python() -> &'static Program {
    static PYTHON: OnceLock<Installed> = OnceLock::new();
    ready(PYTHON.get_or_init(|| {
        let source = source("python");
        let folder = Folder::open("python");
        let interpreter = folder.path.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let requirements = source.join("requirements.txt");
        folder.once(&[&requirements], || {
            let hint =
                "it takes Python 3.10 or later with its venv module (Debian: python3, python3-venv) and, once, PyPI";
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder.path), hint)?;
            let mut pip = Command::new(&interpreter);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
            pip.args(["--only-binary", ":all:", "--requirement"]).arg(&requirements);
            run(&mut pip, hint)
        })?;
        Ok(Program { interpreter, script: source.join("client.py") })
    }))
}

/// The JavaScript program, beside the modules of the official SDK.
pub fn javascript() -> &'static Program {
    static JAVASCRIPT: OnceLock<Installed> = OnceLock::new();
    ready(JAVASCRIPT.get_or_init(|| {
        let source = source("javascript");
        let folder = Folder::open("javascript");
        let [package, lock, settings] = ["package.json", "package-lock.json", ".npmrc"].map(|name| source.join(name));
        folder.once(&[&package, &lock, &settings], || {
            for file in [&package, &lock, &settings] {
                copy(file, &folder.path);
            }
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
                .current_dir(&folder.path);
            run(&mut npm, "it takes Node.js 18 or later with npm (Debian: nodejs, npm) and, once, the npm registry")
        })?;
        // A program finds its modules beside itself.
        let script = copy(&source.join("client.mjs"), &folder.path);
        Ok(Program { interpreter: "node".into(), script })
    }))
}

#[track_caller]
fn ready(installed: &'static Installed) -> &'static Program {
    match installed {
        Ok(program) => program,
        Err(reason) => panic!("{reason}\nto leave these tests out: cargo test -- --skip sdk::"),
    }
}

fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk").join(language)
}

fn copy(file: &Path, folder: &Path) -> PathBuf {
    let copied = folder.join(file.file_name().expect("a name"));
    fs::copy(file, &copied).expect("a copy");
    copied
}

/// A folder that something is installed in, while nobody else uses it to install.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn open(name: &str) -> Folder {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
        let path = target.join("sdk").join(name);
        fs::create_dir_all(&path).expect("a folder");
        let lock = File::create(path.with_extension("lock")).expect("a lock");
        lock.lock().expect("the lock");
        Folder { path, _lock: lock }
    }

    /// Installs unless that was done before, for the same `files`.
    fn once(&self, files: &[&Path], install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let stamp = self.path.join("installed");
        let wanted: String = files.iter().map(|file| fs::read_to_string(file).expect("a file")).collect();
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        install()?;
        fs::write(&stamp, wanted).expect("a stamp");
        Ok(())
    }
}

/// Runs a step to its end, or ends it when it takes too long. `hint` says what to do when it fails.
fn run(command: &mut Command, hint: &str) -> Result<(), String> {
    let name = format!("{} {:?}", command.get_program().display(), command.get_args().next().unwrap_or_default());
    let failed = |reason: String| Err(format!("{name}: {reason}; {hint}"));
    let log = tempfile::NamedTempFile::new().expect("a log");
    let stderr = log.reopen().expect("the log");
    let stdout = stderr.try_clone().expect("the log");
    let mut child = match command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn() {
        Ok(child) => child,
        Err(error) => return failed(error.to_string()),
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None if start.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return failed(format!("not done after {PATIENCE:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let said = fs::read_to_string(log.path()).unwrap_or_default();
    failed(format!("{status}: {}", said.trim()))
}
