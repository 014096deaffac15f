//! `proofmill audit`: what a run did, and whether a store is what was written.

mod anchor;
pub mod args;
mod commands;
mod export;
mod key;
mod log;
mod prove;
mod replay;
mod root;
mod trace;
mod verify;

pub use commands::audit;
