//! The protocol documents, executed. One binary; its modules in reading order.

mod support;

// What a handoff goes through, over HTTP.
mod handoff;

// The AgentRelay protocol: each method, what they share, and every way to fail.
mod batch;
mod envelope;
mod errors;
mod idempotency;
mod message_send;
mod tasks_get;
mod tasks_list;
mod tasks_update;

// The command line.
mod cli;

// The documents: every command and example on them.
mod docs;

#[test]
fn no_test_file_was_forgotten() {
    let listed = include_str!("main.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for entry in std::fs::read_dir(folder).expect("the tests").flatten() {
        let name = entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned();
        assert!(name == "main" || listed.contains(&format!("\nmod {name};")), "tests/{name} is not in main.rs");
    }
}
