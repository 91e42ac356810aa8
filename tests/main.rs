//! The protocol documents, executed. One binary; its modules in reading order.

mod support;

// What a handoff goes through, over HTTP; and an agent that is a program of its own.
mod handoff;
mod worker;

// The AgentRelay protocol: each method, what they share, and every way to fail.
mod message_send;
mod tasks_get;
mod tasks_list;
mod tasks_update;
mod idempotency;
mod envelope;
mod batch;
mod errors;

// A2A: each scenario told once, through every door.
mod a2a;
mod a2a_gates;

// REST, the event stream, and what holds for every route.
mod wire;
mod rest_agents;
mod rest_blocks;
mod rest_audit;
mod rest_admin;
mod rest_health;
mod events;
mod routes;
mod hosts;
mod process;
mod faults;

// Pushing what happens to whoever wants to be told.
mod webhooks;

// What holds for any sequence of calls, on any disk, after any crash.
mod operations;
mod boxes;
mod consistency;
mod laws;
mod storage;
mod crash;
mod two_processes;
mod architecture;

// A2A clients as people have them.
mod sdk;

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
