#![doc = include_str!("ARCHITECTURE.md")]

pub mod api;
pub mod domain;
pub mod error;
pub mod relay;
pub mod store;
