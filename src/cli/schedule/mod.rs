//! `proofmill schedule`: when runs are due, and the process that starts them.

mod alerts;
pub mod args;
mod commands;
mod daemon;
mod edit;
pub mod look;
mod read;
mod tick;

pub use commands::schedule;
