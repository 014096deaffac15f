//! What one run may spend on a model, and what it has spent.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::Exhausted;
use crate::usage::{Money, Usage, cost};
use crate::wire::{Reported, WireUsage};
use proofmill_settings::endpoint::{Budget, Prices};

/// What all models of a run may send together.
pub trait Allowance: Debug + Send + Sync {
    /// Takes one attempt at a request; false once nothing more may be sent. The request then waits until its run is stopped.
    fn take(&self) -> bool;
}

/// The place of an allowance, which a run fills before it sends anything.
pub type AllowanceSlot = Arc<OnceLock<Arc<dyn Allowance>>>;

/// Whether one more request may be sent after `usage`. A limit of money needs prices.
///
/// # Errors
///
/// The limit that is reached; answers that are not counted where tokens are limited.
pub fn within(budget: &Budget, usage: &Usage, prices: Option<&Prices>) -> Result<(), Exhausted> {
    let Budget { requests, prompt_tokens, completion_tokens, money } = *budget;
    let by_tokens = [prompt_tokens, completion_tokens].iter().any(Option::is_some);
    if (by_tokens || money.is_some()) && usage.uncounted > 0 {
        return Err(Exhausted::Uncounted);
    }
    let counts = [
        ("requests", requests, usage.requests),
        ("prompt_tokens", prompt_tokens, usage.prompt_tokens),
        ("completion_tokens", completion_tokens, usage.output_tokens),
    ];
    let used_up = |limit: &'static str, most: String| {
        let spent = usage.in_words(prices.map(|prices| cost(prices, usage)));
        Err(Exhausted::UsedUp { limit, most, spent })
    };
    for (limit, most, spent) in counts {
        if let Some(most) = most.filter(|most| spent >= *most) {
            return used_up(limit, most.to_string());
        }
    }
    match (money.map(Money::of), prices) {
        (Some(most), Some(prices)) if cost(prices, usage) >= most => {
            used_up("money", most.to_string())
        }
        _ => Ok(()),
    }
}

/// The counters behind [`Usage`], and what bounds them.
#[derive(Debug, Default)]
pub struct Meter {
    budget: Budget,
    prices: Option<Prices>,
    usage: Mutex<Usage>,
    /// Answers by who gave them.
    reported: Mutex<BTreeMap<Reported, u64>>,
}

/// Names that are kept apart: an endpoint that reports another with each answer fills no memory.
const REPORTED_MAX: usize = 64;

impl Meter {
    /// Nothing is spent yet.
    pub fn new(budget: Budget, prices: Option<Prices>) -> Self {
        Self { budget, prices, usage: Mutex::default(), reported: Mutex::default() }
    }

    /// Counts an attempt, unless the budget is used up; the first one has number 1.
    pub fn attempt(&self, number: u32) -> Result<(), Exhausted> {
        let mut usage = self.lock();
        within(&self.budget, &usage, self.prices.as_ref())?;
        usage.requests += 1;
        usage.retries += u64::from(number > 1);
        Ok(())
    }

    /// Counts an answer by who gave it; one that does not say is not counted.
    pub fn answered_by(&self, reported: &Reported) {
        let mut known = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != Reported::default()
            && (known.len() < REPORTED_MAX || known.contains_key(reported))
        {
            *known.entry(reported.clone()).or_default() += 1;
        }
    }

    /// Who answered so far, with how many answers.
    pub fn reported(&self) -> Vec<(Reported, u64)> {
        let known = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(reported, answers)| (reported.clone(), *answers)).collect()
    }

    /// Counts an answer and its tokens.
    pub fn answer(&self, reported: Option<WireUsage>) {
        let mut usage = self.lock();
        usage.answers += 1;
        usage.uncounted += u64::from(reported.is_none());
        let reported = reported.unwrap_or_default();
        usage.prompt_tokens += u64::from(reported.prompt_tokens);
        usage.cached_tokens += u64::from(reported.cached_tokens);
        usage.output_tokens += u64::from(reported.completion_tokens);
    }

    /// The counts so far.
    pub fn read(&self) -> Usage {
        *self.lock()
    }

    /// What they cost; `None` without prices.
    pub fn cost(&self) -> Option<Money> {
        Some(cost(&self.prices?, &self.read()))
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proofmill_settings::endpoint::Amount;

    use super::*;

    const PRICES: Prices = Prices {
        prompt: Amount::of_millionths(150_000),
        cached: Some(Amount::of_millionths(75_000)),
        completion: Amount::of_millionths(600_000),
    };

    fn usage(prompt_tokens: u64, cached_tokens: u64, output_tokens: u64) -> Usage {
        Usage { prompt_tokens, cached_tokens, output_tokens, ..Usage::default() }
    }

    #[test]
    fn a_budget_is_used_up_when_as_much_is_spent() {
        let budget = Budget { money: Some(Amount::of_millionths(450)), ..Budget::default() };
        assert_eq!(within(&budget, &usage(2999, 0, 0), Some(&PRICES)), Ok(()));
        let error = within(&budget, &usage(3000, 0, 0), Some(&PRICES)).unwrap_err();
        let Exhausted::UsedUp { limit: "money", most, spent } = &error else { panic!("{error:?}") };
        assert_eq!(most, "0.00045");
        assert!(spent.contains("3000 prompt tokens") && spent.ends_with("cost 0.00045"), "{spent}");
        let budget = Budget { completion_tokens: Some(5), ..Budget::default() };
        assert_eq!(within(&budget, &usage(9, 0, 4), None), Ok(()));
        assert!(within(&budget, &usage(9, 0, 6), None).is_err());
    }

    #[test]
    fn uncounted_tokens_are_not_taken_for_none() {
        let uncounted = Usage { uncounted: 1, ..Usage::default() };
        let budget = Budget { prompt_tokens: Some(1000), ..Budget::default() };
        assert_eq!(within(&budget, &uncounted, None), Err(Exhausted::Uncounted));
        let budget = Budget { requests: Some(1000), ..Budget::default() };
        assert_eq!(within(&budget, &uncounted, None), Ok(()));
    }
}
