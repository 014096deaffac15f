//! What each kind of stage does: settings and columns in, a plan out; and how plans are run.
//!
//! Reading order: `kind` (what a kind is), `kinds` (all of them), `plan` (what can run), `prepare` (a
//! graph to stages that can run). `queries` has what kinds that are queries share, `tables` what is done
//! with stored rows,
//! `programs` the programs of users. `docs/ARCHITECTURE.md` says how to add a kind.

pub mod checks;
pub mod diagnostics;
pub mod error;
mod expected;
pub mod fingerprint;
mod folders;
pub mod gate;
pub mod kind;
pub mod kinds;
pub mod load;
mod pinned;
pub mod plan;
pub mod prepare;
pub mod programs;
pub mod progress;
pub mod queries;
pub mod settings_file;
pub mod sink;
pub mod stored_tables;
pub mod tables;
pub mod tests_check;
