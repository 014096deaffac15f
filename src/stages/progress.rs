//! How far a stage is: counters that it raises and others read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one stage.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    rows_total: AtomicU64,
}

impl Progress {
    /// Counts rows that were computed.
    pub fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Says how many rows are expected.
    pub fn expect_rows(&self, rows: u64) {
        self.rows_total.store(rows, Ordering::Relaxed);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows expected; `None` if nobody can tell.
    pub fn rows_total(&self) -> Option<u64> {
        Some(self.rows_total.load(Ordering::Relaxed)).filter(|rows| *rows > 0)
    }
}
