//! What each kind of stage does: resolved settings and schemas in, a plan or a computation out.
//!
//! Adding a kind: its settings in `spec/kinds`, its behaviour in one file here, one arm in each
//! match of `prepare.rs` and `compute.rs`, a case in `tests/cases`.

pub mod answers;
pub mod asked;
pub mod blend;
pub mod check_plan;
pub mod columns;
pub mod compare;
pub mod components;
pub mod compute;
pub mod decide;
pub mod dense;
pub mod error;
mod expected;
pub mod fit;
mod folders;
pub mod gather;
pub mod hypothesize;
pub mod index;
pub mod load;
pub mod lowered;
pub mod measure;
pub mod memory;
pub mod nearest;
pub mod opened;
pub mod outside;
pub mod place;
pub mod prepare;
pub mod prepared;
pub mod progress;
pub mod prove;
pub mod query;
pub mod read;
pub mod repeated;
pub mod report;
pub mod retrieve;
pub mod rows;
pub mod scan;
pub mod search;
pub mod sink;
pub mod task;
pub mod teach;
pub mod tests_check;
pub mod values;
pub mod vectors;
pub mod verify;
pub mod write;
