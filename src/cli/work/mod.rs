//! `proofmill work` and `proofmill workers`: processes that answer the requests of runs elsewhere.

pub mod args;
mod commands;

pub use commands::{work, workers};
