//! What goes over the wire and what is made of it, against a scripted server; and, where one is
//! named, against a real one.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test waits for real processes and fails where it cannot go on"
)]

mod answers;
mod fake_clock;
mod fake_server;
mod limits;
mod live;
mod refusals;
mod requests;
mod retries;
mod support;
