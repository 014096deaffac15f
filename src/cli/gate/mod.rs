//! `proofmill gate` and `proofmill channel`: whether a run may take the place of another, and names that move from run to run.

pub mod args;
mod channel;
mod check;
mod judge;

pub use channel::channel;
pub use judge::{baseline_run, gate};
