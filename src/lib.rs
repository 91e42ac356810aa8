#![doc = include_str!("ARCHITECTURE.md")]

pub mod error;
pub mod domain;
pub mod store;
pub mod relay;
pub mod api;
pub mod cli;
pub mod config;
