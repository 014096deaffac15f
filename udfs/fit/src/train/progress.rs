//! What a fit tells while it goes on, and what it keeps of that.

use serde::{Deserialize, Serialize};

/// Receives a report of every step.
pub trait Progress {
    /// A step is done. A fit that goes on tells of the evaluations before it first.
    fn report(&mut self, report: &Report);
}

impl<F: FnMut(&Report)> Progress for F {
    fn report(&mut self, report: &Report) {
        self(report);
    }
}

/// What a step did, or the look at the dev pairs before the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The step, from 1; 0 before the first.
    pub step: u32,
    /// Most steps there will be.
    pub steps: u32,
    /// Loss of its pairs, before it changed the weights: per token in natural logarithms, or a mean over pairs. None of step 0.
    pub loss: Option<f64>,
    /// Loss of the dev pairs, likewise, if they were evaluated after this step.
    pub dev_loss: Option<f64>,
    /// The part of the dev pairs that was answered right, if that is the judge and they were evaluated.
    pub exact_match: Option<f64>,
    /// Whether these weights are the best so far.
    pub best: bool,
    /// Length of the gradient, before it was shortened.
    pub gradient: f64,
    pub learning_rate: f64,
    /// Tokens read and written a second since the fit began or went on, without padding.
    pub tokens_per_second: f64,
}

impl Report {
    /// Before the first step of so many.
    pub(crate) fn before(steps: u32) -> Self {
        Self {
            step: 0,
            steps,
            loss: None,
            dev_loss: None,
            exact_match: None,
            best: false,
            gradient: 0.0,
            learning_rate: 0.0,
            tokens_per_second: 0.0,
        }
    }
}

/// What an evaluation found, with the loss of its step; the 64 bits of each number, as decimals may not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Look {
    step: u32,
    loss_bits: Option<u64>,
    dev_loss_bits: Option<u64>,
    exact_match_bits: Option<u64>,
    best: bool,
    gradient_bits: u64,
    learning_rate_bits: u64,
}

impl Look {
    pub fn of(report: &Report) -> Self {
        Self {
            step: report.step,
            loss_bits: report.loss.map(f64::to_bits),
            dev_loss_bits: report.dev_loss.map(f64::to_bits),
            exact_match_bits: report.exact_match.map(f64::to_bits),
            best: report.best,
            gradient_bits: report.gradient.to_bits(),
            learning_rate_bits: report.learning_rate.to_bits(),
        }
    }

    /// What was reported then; nothing is known of the speed.
    pub fn report(&self, steps: u32) -> Report {
        Report {
            step: self.step,
            steps,
            loss: self.loss_bits.map(f64::from_bits),
            dev_loss: self.dev_loss_bits.map(f64::from_bits),
            exact_match: self.exact_match_bits.map(f64::from_bits),
            best: self.best,
            gradient: f64::from_bits(self.gradient_bits),
            learning_rate: f64::from_bits(self.learning_rate_bits),
            tokens_per_second: 0.0,
        }
    }
}
