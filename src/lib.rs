#![doc = include_str!("ARCHITECTURE.md")]

pub mod api;
pub mod cli;
pub mod config;
pub mod domain;
pub mod error;
pub mod relay;
pub mod store;
