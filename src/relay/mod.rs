//! Requests that other processes answer: published as segments in the store, claimed by workers, answered once.
//!
//! Reading order: `records` (what is written), `board` (where, and how it is read), `purse` (what may be spent), `worker`
//! (who answers), `coordinator` (who asks), `workforce` (who answers, listed).
//! Format and guarantees: `docs/specs/workers.md`.

pub mod board;
pub mod coordinator;
pub mod purse;
pub mod records;
#[cfg(test)]
mod tests;
pub mod worker;
pub mod workforce;
