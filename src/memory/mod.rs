//! Memories: what users teach, kept in the store beyond any run. A memory is a chain of entries, each
//! created once; what it holds is a pure fold over them.
//!
//! Reading order: `sentence`, `action` (what a user can do), `entry` (how it is recorded), `state` (what
//! it amounts to), `journal` (the chain in the store), then `conflict` and `import`.
//! Formats: `docs/specs/memory.md`.

mod action;
mod conflict;
mod entry;
mod error;
mod import;
mod journal;
mod recalled;
mod row;
mod sentence;
mod state;
#[cfg(test)]
mod tests;

pub use action::{Action, Lesson, Verb};
pub use conflict::{Clash, Conflict};
pub use entry::{ENTRY_VERSION, JournalEntry};
pub use error::MemoryError;
pub use import::read_lessons;
pub use journal::{Conflicts, Journal, Taught, catalog};
pub use recalled::{Memories, StoredMemory};
pub use row::{Row, RowKind, Source};
pub use sentence::Sentence;
pub use state::State;
