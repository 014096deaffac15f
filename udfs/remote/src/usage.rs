//! What a model was used for: counts, and how many of them are incomplete.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::WireUsage;

/// What was asked of a model so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// HTTP requests begun, repeated attempts included.
    pub requests: u64,
    /// Those of them that repeated one that failed.
    pub retries: u64,
    /// Responses that were an answer.
    pub answers: u64,
    /// Answers that told no token counts: the sums below lack them.
    pub uncounted: u64,
    /// Tokens of prompts, as the endpoint counts.
    pub prompt_tokens: u64,
    /// Tokens of answers, as the endpoint counts.
    pub output_tokens: u64,
}

/// The counters behind [`Usage`].
#[derive(Debug, Default)]
pub struct Meter {
    requests: AtomicU64,
    retries: AtomicU64,
    answers: AtomicU64,
    uncounted: AtomicU64,
    prompt_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

impl Meter {
    /// Counts an attempt; the first one has number 1.
    pub fn attempt(&self, number: u32) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.retries.fetch_add(u64::from(number > 1), Ordering::Relaxed);
    }

    /// Counts an answer and its tokens.
    pub fn answer(&self, usage: Option<WireUsage>) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.uncounted.fetch_add(u64::from(usage.is_none()), Ordering::Relaxed);
        let usage = usage.unwrap_or_default();
        self.prompt_tokens.fetch_add(u64::from(usage.prompt_tokens), Ordering::Relaxed);
        self.output_tokens.fetch_add(u64::from(usage.completion_tokens), Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn read(&self) -> Usage {
        Usage {
            requests: self.requests.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            answers: self.answers.load(Ordering::Relaxed),
            uncounted: self.uncounted.load(Ordering::Relaxed),
            prompt_tokens: self.prompt_tokens.load(Ordering::Relaxed),
            output_tokens: self.output_tokens.load(Ordering::Relaxed),
        }
    }
}
