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
    requests: Arc<Counters>,
    steps: AtomicU64,
    steps_total: AtomicU64,
    loss: AtomicU64,
    entries: AtomicU64,
    entries_total: AtomicU64,
}

/// How far a training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Training {
    pub step: u64,
    /// Steps at most.
    pub steps: u64,
    /// The loss of the last steps.
    pub loss: f64,
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

    /// Says how many steps a training has at most; from here on they are counted, not rows.
    pub fn expect_steps(&self, steps: u64) {
        self.steps_total.store(steps, Ordering::Relaxed);
    }

    /// Says which step of a training was the last, and its loss.
    pub fn set_step(&self, step: u64, loss: f64) {
        self.loss.store(loss.to_bits(), Ordering::Relaxed);
        self.steps.store(step, Ordering::Relaxed);
    }

    /// How far the training is; `None` if there is none.
    pub fn training(&self) -> Option<Training> {
        let steps = self.steps_total.load(Ordering::Relaxed);
        (steps > 0).then(|| Training {
            step: self.steps.load(Ordering::Relaxed),
            steps,
            loss: f64::from_bits(self.loss.load(Ordering::Relaxed)),
        })
    }

    /// Says how many entries a search looks at; from here on they are counted, not the rows that come at its end.
    pub fn expect_entries(&self, entries: u64) {
        self.entries_total.store(entries, Ordering::Relaxed);
    }

    /// Counts entries that were looked at.
    pub fn add_entries(&self, entries: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    /// Entries that were looked at, of how many; `None` if there is no such search.
    pub fn entries(&self) -> Option<(u64, u64)> {
        let total = self.entries_total.load(Ordering::Relaxed);
        (total > 0).then(|| (self.entries.load(Ordering::Relaxed), total))
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        match self.by_answers.load(Ordering::Relaxed) {
            true => {
                // Answers wait some seconds until they are recorded together.
                let Counts { settled, replayed, answered, .. } = self.requests.now();
                settled.max(replayed + answered)
            }
            false => self.rows.load(Ordering::Relaxed),
        }
    }

    /// The counters that the stage's functions raise.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.requests
    }

    /// Counts of the requests to models so far; `None` before the first.
    pub fn requests(&self) -> Option<Counts> {
        Some(self.requests.now()).filter(|counts| *counts != Counts::default())
    }

    /// Rows expected; `None` if unknown.
    pub fn rows_total(&self) -> Option<u64> {
        Some(self.rows_total.load(Ordering::Relaxed)).filter(|rows| *rows > 0)
    }
}
