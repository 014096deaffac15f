//! What a model was used for: counts, how many of them are incomplete, and whether more may be spent.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::{Budget, Money, Prices};
use crate::error::Exhausted;
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
    /// Those of them that the endpoint had in its cache.
    pub cached_tokens: u64,
    /// Tokens of answers, as the endpoint counts.
    pub output_tokens: u64,
}

impl Usage {
    /// What was spent, in one line.
    pub fn in_words(&self, cost: Option<Money>) -> String {
        let Self { requests, retries, prompt_tokens, cached_tokens, output_tokens, .. } = self;
        let mut text = format!("{requests} requests");
        let aside = |text: &mut String, count: u64, what: &str| {
            if count > 0 {
                // Writing to a String cannot fail.
                let _ = write!(text, " ({count} {what})");
            }
        };
        aside(&mut text, *retries, "repeated");
        let _ = write!(text, ", {prompt_tokens} prompt tokens");
        aside(&mut text, *cached_tokens, "cached");
        let _ = write!(text, ", {output_tokens} completion tokens");
        aside(&mut text, self.uncounted, "answers without a count");
        if let Some(cost) = cost {
            let _ = write!(text, ", cost {cost}");
        }
        text
    }
}

/// The counters behind [`Usage`], and what bounds them.
#[derive(Debug, Default)]
pub struct Meter {
    budget: Budget,
    prices: Option<Prices>,
    usage: Mutex<Usage>,
}

impl Meter {
    /// Nothing is spent yet.
    pub fn new(budget: Budget, prices: Option<Prices>) -> Self {
        Self { budget, prices, usage: Mutex::default() }
    }

    /// Counts an attempt, unless the budget is used up; the first one has number 1.
    pub fn attempt(&self, number: u32) -> Result<(), Exhausted> {
        let mut usage = self.lock();
        self.budget.check(&usage, self.prices.as_ref())?;
        usage.requests += 1;
        usage.retries += u64::from(number > 1);
        Ok(())
    }

    /// Counts an answer and its tokens.
    pub fn answer(&self, told: Option<WireUsage>) {
        let mut usage = self.lock();
        usage.answers += 1;
        usage.uncounted += u64::from(told.is_none());
        let told = told.unwrap_or_default();
        usage.prompt_tokens += u64::from(told.prompt_tokens);
        usage.cached_tokens += u64::from(told.cached_tokens);
        usage.output_tokens += u64::from(told.completion_tokens);
    }

    /// The counts so far.
    pub fn read(&self) -> Usage {
        *self.lock()
    }

    /// What they cost; `None` without prices.
    pub fn cost(&self) -> Option<Money> {
        Some(self.prices?.cost(&self.read()))
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
