//! `proofmill teach`: what users say about facts, reasoning and answers, into a memory of the store.

pub mod args;
mod commands;
mod proof;
mod queries;

pub use commands::teach;
