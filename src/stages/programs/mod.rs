//! Programs of users: what the kinds `command` and `python` share.
//!
//! Reading order: `program` (what is run, checked before), `code` (the files that decide what it writes),
//! `process` (a running one, and its end), `feed` and `output` (tables in and out), `plan` (all of it, once).

mod arrow_stream;
pub mod code;
mod failure;
mod feed;
mod memory;
mod output;
pub mod plan;
mod process;
pub mod program;
