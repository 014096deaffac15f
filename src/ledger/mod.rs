//! Stored answers of models, keyed by the digest of the request: the first answer wins, ever after.
//!
//! Reading order: `entry` (what is kept), `record` and `state` (what the log says), `log` (how several
//! processes append to it), `handle` (the [`Ledger`]). A segment is written by `segment_writer` (with
//! `rows` and `index`) and read by `segment_reader` and `look_up`. `tiers`, `merge` and `compact` keep
//! the number of segments small. `walk` goes through all answers that count, for `merge` and for `census`,
//! which counts and forgets. Format: `docs/specs/ledger.md`.

mod answer_cache;
mod buffer;
mod census;
mod compact;
mod entry;
mod error;
mod handle;
mod index;
mod index_cache;
mod log;
mod look_up;
mod merge;
mod record;
mod rows;
mod segment_reader;
mod segment_writer;
mod state;
#[cfg(test)]
mod tests;
mod tiers;
mod walk;

pub use census::ModelAnswers;
pub use compact::Compaction;
pub use entry::{Answer, NewEntry, Origin};
pub use error::LedgerError;
pub use handle::{Ledger, Limits};
pub use record::{Forget, Forgotten, LEDGER_VERSION, Scope};
pub use segment_writer::BlockLimits;
pub use tiers::Tiers;
