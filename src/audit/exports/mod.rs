//! A run in the formats of other tools: what was tested and what came out (in-toto), how results were made (SLSA), and what
//! flowed where (OpenLineage).
//!
//! Reading order: `exported_run` (what all of them say), `statement` (in-toto statements and their signatures), a
//! file for each format, and `formats`, the list of them.

pub mod exported_run;
pub mod formats;
mod lineage;
mod provenance;
mod statement;
mod test_result;
