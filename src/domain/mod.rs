//! What a relay is: agents and their keys, threads and what may happen to them. No SQL, no HTTP, no clock.

pub mod agent;
pub mod key;
pub mod thread;
pub mod transition;
pub mod message;
pub mod part;
pub mod artifact;
pub mod intent;
pub mod metadata;
pub mod webhook;
pub mod change;
pub mod event;
pub mod page;
pub mod id;
pub mod time;
pub mod json;
