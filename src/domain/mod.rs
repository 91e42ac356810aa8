//! What a relay is: agents and their keys, threads and what may happen to them. No SQL, no HTTP, no clock.

pub mod agent;
pub mod artifact;
pub mod event;
pub mod id;
pub mod intent;
pub mod json;
pub mod key;
pub mod message;
pub mod metadata;
pub mod page;
pub mod part;
pub mod thread;
pub mod time;
pub mod transition;
