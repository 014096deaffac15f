//! What a store says of itself, as tables of SQL: `system.runs` and the like, which `proofmill sql` reads.
//!
//! Reading order: `metrics` (the metrics of a run), `catalog` (the closed list of tables, and their rows), `rows` (cells to Arrow).
//! Specification: `docs/specs/system.md`.

pub mod catalog;
pub mod metrics;
mod rows;
