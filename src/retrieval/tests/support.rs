//! Small indexes for tests.

use tempfile::TempDir;

use crate::{Bm25Index, IndexBuilder, IndexSpec, IndexStats, MEMORY_BYTES_MIN};

/// The documents of the golden cases (TeachMe's penny).
pub const PENNY: [&str; 6] = [
    "A penny is made of copper.",
    "A magnet cannot attract copper.",
    "Metals conduct electricity.",
    "Animals can use magnetic patterns to navigate.",
    "A magnet can attract iron.",
    "Iron is a metal.",
];

/// Builds an index in `dir`.
pub fn build<T: AsRef<str>>(dir: &TempDir, spec: IndexSpec, texts: &[T]) -> IndexStats {
    let mut builder = IndexBuilder::create(dir.path(), spec, MEMORY_BYTES_MIN).unwrap();
    for (ordinal, text) in (0..).zip(texts) {
        assert_eq!(builder.add(text.as_ref()).unwrap(), ordinal);
    }
    builder.finish().unwrap()
}

/// An open index over `texts`; the folder lives as long as the first part.
pub fn index<T: AsRef<str>>(spec: IndexSpec, texts: &[T]) -> (TempDir, Bm25Index) {
    let dir = tempfile::tempdir().unwrap();
    build(&dir, spec, texts);
    let index = Bm25Index::open(dir.path()).unwrap();
    (dir, index)
}
