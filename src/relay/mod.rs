//! Requests that other processes answer: published as segments in the store, claimed by workers, answered once.
//!
//! Reading order: `records` (what is written), `board` (where, and how it is read), `worker` (who answers), `coordinator`
//! (who asks). Format and guarantees: `docs/specs/workers.md`.

pub mod board;
pub mod coordinator;
pub mod records;
pub mod worker;
