//! What a model was used for: counts, how many of them are incomplete, and what tokens cost. Sums are of whole
//! numbers: nothing is rounded.

use std::fmt::{self, Write};
use std::ops::Add;

use proofmill_settings::endpoint::{Amount, Prices};

/// What was requested of a model so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// HTTP requests begun, repeated attempts included.
    pub requests: u64,
    /// Those of them that repeated one that failed.
    pub retries: u64,
    /// Responses that were an answer.
    pub answers: u64,
    /// Answers without token counts: the sums below lack them.
    pub uncounted: u64,
    /// Tokens of prompts, as the endpoint counts.
    pub prompt_tokens: u64,
    /// Those of them that the endpoint had in its cache.
    pub cached_tokens: u64,
    /// Tokens of answers, as the endpoint counts.
    pub output_tokens: u64,
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            retries: self.retries + other.retries,
            answers: self.answers + other.answers,
            uncounted: self.uncounted + other.uncounted,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            cached_tokens: self.cached_tokens + other.cached_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
        }
    }
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

/// An amount in the currency of the prices: so many of 10^-12 of its unit, which is what a token costs at
/// a price of a millionth for a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub u128);

/// [`Money`] of one unit of the currency.
const UNIT: u128 = 1_000_000_000_000;

impl Money {
    /// An amount that people wrote.
    pub fn of(amount: Amount) -> Self {
        Self(u128::from(amount.millionths()) * (UNIT / 1_000_000))
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

/// What `usage` costs at prices in the currency for a million tokens; which currency is the user's business.
pub fn cost(prices: &Prices, usage: &Usage) -> Money {
    let cached = usage.cached_tokens.min(usage.prompt_tokens);
    let parts = [
        (usage.prompt_tokens - cached, prices.prompt),
        (cached, prices.cached.unwrap_or(prices.prompt)),
        (usage.output_tokens, prices.completion),
    ];
    let cost = |(tokens, price): (u64, Amount)| u128::from(tokens) * u128::from(price.millionths());
    Money(parts.into_iter().map(cost).sum())
}

#[cfg(test)]
mod tests {
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
    fn sums_of_money_are_exact() {
        // 0.15, 0.075 and 0.60 for a million: 900 and 100 and 7 tokens.
        assert_eq!(cost(&PRICES, &usage(1000, 100, 7)).to_string(), "0.0001467");
        assert_eq!(cost(&PRICES, &usage(3_000_000, 0, 0)).to_string(), "0.45");
        assert_eq!(cost(&PRICES, &usage(20_000_000, 20_000_000, 0)).to_string(), "1.5");
        assert_eq!(Money::of(Amount::of_millionths(2_000_000)).to_string(), "2");
        assert_eq!(Money(1).to_string(), "0.000000000001");
        // Three times a third of a cent is a cent, whatever floats make of it.
        let thirds = Prices { prompt: Amount::of_millionths(3_333_333_333), ..PRICES };
        assert_eq!(cost(&thirds, &usage(3, 0, 0)).to_string(), "0.009999999999");
    }
}
