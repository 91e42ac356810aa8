//! A2A: one scenario, every door.

mod sending;
