//! How far a stage is: counters that it raises and others read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proofmill_udfs::model::{Counters, Counts};

/// Counters of one stage.
#[derive(Debug, Default)]
pub struct Progress {
    rows: AtomicU64,
    rows_total: AtomicU64,
    /// Whether a row counts as soon as it has its answer. Rows of a table come by the thousand, which
    /// can take a model hours.
    by_answers: AtomicBool,
    asked: Arc<Counters>,
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

    /// Says how many rows wait for an answer; from here on they are counted.
    pub fn expect_answers(&self, rows: u64) {
        self.expect_rows(rows);
        self.by_answers.store(true, Ordering::Relaxed);
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        match self.by_answers.load(Ordering::Relaxed) {
            true => self.asked.now().settled,
            false => self.rows.load(Ordering::Relaxed),
        }
    }

    /// The counters that the stage's functions raise.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.asked
    }

    /// What models were asked so far; `None` if nothing.
    pub fn asked(&self) -> Option<Counts> {
        Some(self.asked.now()).filter(|counts| counts.settled > 0 || counts.rows > 0)
    }

    /// Rows expected; `None` if nobody can tell.
    pub fn rows_total(&self) -> Option<u64> {
        Some(self.rows_total.load(Ordering::Relaxed)).filter(|rows| *rows > 0)
    }
}
