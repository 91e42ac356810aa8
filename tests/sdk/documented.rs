//! The programs of docs/a2a.md, run as they stand there, against an agent at work.

use std::process::{Command, Stdio};

use super::{Program, install};
use crate::docs::page::Page;
use crate::support::TestRelay;
use crate::worker::Worker;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_program_prints_what_the_page_says() {
    runs_as_documented("python", install::python()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_program_prints_what_the_page_says() {
    runs_as_documented("javascript", install::javascript()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_for_curl_prints_what_the_page_says() {
    runs_as_documented("sh", &Program { interpreter: "sh".into(), script: std::env::temp_dir().join("documented.sh") })
        .await;
}

async fn runs_as_documented(language: &str, program: &Program) {
    let relay = TestRelay::start().await;
    let (bob, frank) = relay.bob_and_frank().await;
    let worker = Worker::start(&relay, &frank);
    worker.says("waits").await;

    let blocks = Page::read("docs/a2a.md").blocks();
    let at = blocks.iter().position(|block| block.label == format!("run: {language}")).expect("a program on the page");
    assert_eq!(blocks[at + 1].label, "prints");
    let address = relay.url.strip_prefix("http://").expect("an address");
    let text = blocks[at].text.replace("127.0.0.1:7420", address);
    // Beside the program that is installed there, so that it finds the same modules.
    let name = format!("documented-{}", program.script.file_name().expect("a name").to_string_lossy());
    let script = program.script.with_file_name(format!("{}-{name}", std::process::id()));
    std::fs::write(&script, text).expect("a script");
    let (interpreter, key, run) = (program.interpreter.clone(), bob.key.clone(), script.clone());
    let running = tokio::task::spawn_blocking(move || {
        Command::new(interpreter)
            .arg(run)
            .env("AGENTRELAY_KEY", key)
            .envs([("NO_PROXY", "127.0.0.1"), ("no_proxy", "127.0.0.1")])
            .stdin(Stdio::null())
            .output()
    });
    let output = running.await.expect("no panic").expect("a program");
    std::fs::remove_file(&script).expect("removed");
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{complaint}\nthe worker: {}", worker.log());
    assert_eq!(printed.trim(), blocks[at + 1].text.trim(), "{complaint}");
}
