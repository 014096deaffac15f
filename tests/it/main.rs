//! The one integration test binary: the program as its users meet it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test waits for real processes and fails where it cannot go on"
)]

mod caching;
mod commands;
mod evidence;
mod gating;
mod inference;
mod oracle;
mod papers;
mod proving;
mod running;
mod scheduling;
mod server;
mod support;
mod tables;
mod tree;
