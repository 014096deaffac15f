//! BM25 over tantivy, and inner products of vectors: text or vectors in, ordinals and scores out.
//! Knows no pipeline, no store, no plan.
//!
//! Reading order: `analyzer` (text → terms), `variant` (terms → scores), `build` (texts → a
//! folder), `query` (a folder and queries → hits), `growing` (the same, in memory), `entries` (how a
//! memory becomes texts); for vectors, `vectors`.
//! What lies in the folder: `docs/specs/index.md`.

mod analyzer;
mod batch;
mod build;
mod dense;
mod entries;
mod error;
mod growing;
mod layout;
mod maxscore;
mod meta;
mod query;
mod scoring;
mod terms;
mod topk;
mod variant;
pub mod vectors;
mod word;

#[cfg(test)]
mod tests;

pub use build::{IndexBuilder, IndexStats, MEMORY_BYTES_MIN};
pub use entries::{FirstRow, FirstRows, MemoryEntry, MemoryRow, memory_entries, row_entries};
pub use error::{ENTRIES_MAX, ENTRY_BYTES_MAX, SearchError};
pub use growing::GrowingIndex;
pub use layout::META_FILE;
pub use meta::{FORMAT, IndexMeta, IndexSpec};
pub use query::Bm25Index;
pub use topk::Hit;
