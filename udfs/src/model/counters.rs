//! What the functions have done so far, for progress displays and run records.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all queries of a process share. They only grow.
#[derive(Debug, Default)]
pub struct Counters {
    rows: AtomicU64,
    replayed: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    prompt_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows with a request; NULL rows are none.
    pub rows: u64,
    /// Rows whose answer the ledger had.
    pub replayed: u64,
    /// Requests that a model answered. Rows with equal requests share one.
    pub answered: u64,
    /// Requests that have no answer, and rows that are no request.
    pub failed: u64,
    /// Prompt tokens of the requests that a model answered.
    pub prompt_tokens: u64,
    /// New tokens of the requests that a model answered.
    pub output_tokens: u64,
}

impl Counters {
    /// The counters now.
    pub fn now(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            rows: read(&self.rows),
            replayed: read(&self.replayed),
            answered: read(&self.answered),
            failed: read(&self.failed),
            prompt_tokens: read(&self.prompt_tokens),
            output_tokens: read(&self.output_tokens),
        }
    }

    pub(super) fn rows(&self, count: usize) {
        self.rows.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn replayed(&self, count: usize) {
        self.replayed.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, count: usize) {
        self.failed.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, prompt_tokens: u64, output_tokens: u64) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
        self.output_tokens.fetch_add(output_tokens, Ordering::Relaxed);
    }
}
