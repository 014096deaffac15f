//! What one run may spend on a model, and what tokens cost. Sums are of whole numbers: nothing is rounded.

use std::fmt;

use crate::error::Exhausted;
use crate::usage::Usage;

/// The most that may be spent; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// HTTP requests, repeated attempts included.
    pub requests: Option<u64>,
    pub prompt_tokens: Option<u64>,
    pub completion_tokens: Option<u64>,
    /// Needs prices.
    pub money: Option<Money>,
}

/// What tokens cost, in millionths of the currency for a million tokens; which currency is the user's
/// business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prices {
    pub prompt: u64,
    /// Prompt tokens that the endpoint had in its cache.
    pub cached: u64,
    pub completion: u64,
}

/// An amount in the currency of the prices: so many of 10^-12 of its unit, which is what a token costs at
/// a price of a millionth for a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u128);

/// [`Money`] of one unit of the currency.
const UNIT: u128 = 1_000_000_000_000;

impl Money {
    /// So many millionths of the currency's unit.
    pub fn millionths(count: u64) -> Self {
        Self(u128::from(count) * (UNIT / 1_000_000))
    }
}

/// All its decimals: `0.0123`, `12`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / UNIT, self.0 % UNIT);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:012}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

impl Prices {
    /// What `usage` costs.
    pub fn cost(&self, usage: &Usage) -> Money {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let parts = [
            (usage.prompt_tokens - cached, self.prompt),
            (cached, self.cached),
            (usage.output_tokens, self.completion),
        ];
        let cost = |(tokens, price): (u64, u64)| u128::from(tokens) * u128::from(price);
        Money(parts.into_iter().map(cost).sum())
    }
}

impl Budget {
    /// Whether one more request may be sent after `usage`.
    pub fn check(&self, usage: &Usage, prices: Option<&Prices>) -> Result<(), Exhausted> {
        let Self { requests, prompt_tokens, completion_tokens, money } = *self;
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
            let cost = prices.map(|prices| prices.cost(usage));
            Err(Exhausted::UsedUp { limit, most, spent: usage.in_words(cost) })
        };
        for (limit, most, spent) in counts {
            if let Some(most) = most.filter(|most| spent >= *most) {
                return used_up(limit, most.to_string());
            }
        }
        match (money, prices) {
            (Some(most), Some(prices)) if prices.cost(usage) >= most => {
                used_up("money", most.to_string())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { prompt: 150_000, cached: 75_000, completion: 600_000 };

    fn usage(prompt_tokens: u64, cached_tokens: u64, output_tokens: u64) -> Usage {
        Usage { prompt_tokens, cached_tokens, output_tokens, ..Usage::default() }
    }

    #[test]
    fn sums_of_money_are_exact() {
        // 0.15, 0.075 and 0.60 for a million: 900 and 100 and 7 tokens.
        let cost = PRICES.cost(&usage(1000, 100, 7));
        assert_eq!(cost.to_string(), "0.0001467");
        assert_eq!(PRICES.cost(&usage(3_000_000, 0, 0)).to_string(), "0.45");
        assert_eq!(PRICES.cost(&usage(20_000_000, 20_000_000, 0)).to_string(), "1.5");
        assert_eq!(Money::millionths(2_000_000).to_string(), "2");
        assert_eq!(Money(1).to_string(), "0.000000000001");
        // Three times a third of a cent is a cent, whatever floats make of it.
        let thirds = Prices { prompt: 3_333_333_333, cached: 0, completion: 0 };
        assert_eq!(thirds.cost(&usage(3, 0, 0)).to_string(), "0.009999999999");
    }

    #[test]
    fn a_budget_is_used_up_when_as_much_is_spent() {
        let budget = Budget { money: Some(Money::millionths(450)), ..Budget::default() };
        assert_eq!(budget.check(&usage(2999, 0, 0), Some(&PRICES)), Ok(()));
        let error = budget.check(&usage(3000, 0, 0), Some(&PRICES)).unwrap_err();
        let Exhausted::UsedUp { limit: "money", most, spent } = &error else { panic!("{error:?}") };
        assert_eq!(most, "0.00045");
        assert!(spent.contains("3000 prompt tokens") && spent.ends_with("cost 0.00045"), "{spent}");
        let budget = Budget { completion_tokens: Some(5), ..Budget::default() };
        assert_eq!(budget.check(&usage(9, 0, 4), None), Ok(()));
        assert!(budget.check(&usage(9, 0, 6), None).is_err());
    }

    #[test]
    fn tokens_that_nobody_counts_are_not_taken_for_none() {
        let uncounted = Usage { uncounted: 1, ..Usage::default() };
        let budget = Budget { prompt_tokens: Some(1000), ..Budget::default() };
        assert_eq!(budget.check(&uncounted, None), Err(Exhausted::Uncounted));
        let budget = Budget { requests: Some(1000), ..Budget::default() };
        assert_eq!(budget.check(&uncounted, None), Ok(()));
    }
}
