//! The audit log: which runs of a store began and how they ended, and what else changed what it says.
//!
//! Reading order: `entry` (what is recorded), `records` (how a run ended, from its own records), `earlier` (where entries about a
//! pipeline are), `log` (reading and appending), `trail` (the entries about a pipeline), `completion` (what a run appends), `channels` (names that move from run to run), `history` (the runs of a pipeline). Format: `docs/specs/audit-log.md`.

pub mod channels;
pub mod completion;
pub mod earlier;
pub mod entry;
pub mod history;
pub mod log;
pub mod records;
pub mod trail;
