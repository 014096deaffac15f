//! What a model has done so far.

use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sums over all workers.
#[derive(Debug, Default)]
pub struct Counters {
    requested_tokens: AtomicU64,
    encoder_rows: AtomicU64,
    decoder_rows: AtomicU64,
    steps: AtomicU64,
    answers: AtomicU64,
}

/// The sums at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tokens of all prompts, texts and answers, each counted for itself. What is not in the rows below was
    /// shared with other requests.
    pub requested_tokens: u64,
    /// Tokens that encoders computed.
    pub encoder_rows: u64,
    /// Tokens that decoders computed. Those that several texts share count once. So does a token behind the end of an
    /// answer, which a step that was launched before the end was known has computed for nothing.
    pub decoder_rows: u64,
    pub steps: u64,
    /// Requests that workers answered, failed ones too. A request is counted before its reply is called.
    pub answers: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requested_tokens: self.requested_tokens + other.requested_tokens,
            encoder_rows: self.encoder_rows + other.encoder_rows,
            decoder_rows: self.decoder_rows + other.decoder_rows,
            steps: self.steps + other.steps,
            answers: self.answers + other.answers,
        }
    }
}

impl Counters {
    /// Tokens that a request needs, whichever request computes them.
    pub fn requested(&self, tokens: usize) {
        self.requested_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    /// Tokens an encoder computed.
    pub fn encoded(&self, rows: usize) {
        self.encoder_rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Tokens a decoder computed in one step.
    pub fn decoded(&self, rows: usize) {
        self.decoder_rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests answered.
    pub fn answered(&self, count: usize) {
        self.answers.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The sums now.
    pub fn counts(&self) -> Counts {
        Counts {
            requested_tokens: self.requested_tokens.load(Ordering::Relaxed),
            encoder_rows: self.encoder_rows.load(Ordering::Relaxed),
            decoder_rows: self.decoder_rows.load(Ordering::Relaxed),
            steps: self.steps.load(Ordering::Relaxed),
            answers: self.answers.load(Ordering::Relaxed),
        }
    }
}
