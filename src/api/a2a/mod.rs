//! A2A v1.0: the translation that its three bindings share.

pub(super) mod courier;
pub(super) mod guard;
mod delivery;
mod update;
