//! What a store says of itself, as tables of SQL: `system.runs` and the like, which `proofmill sql` reads.
//!
//! Reading order: `catalog` (the closed list of tables, and their rows), `rows` (cells to Arrow).
//! Specification: `docs/specs/system.md`.

pub mod catalog;
mod rows;
