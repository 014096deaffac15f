//! The budget of a model over all workers: each segment has a share of what is left.

use std::collections::HashMap;

use proofmill_base::digest::Digest;
use proofmill_engine::request::{Answer, Body};
use proofmill_pipeline::models::Model;
use proofmill_remote::budget::within;
use proofmill_remote::usage::{Money, cost};
use proofmill_remote::{Exhausted, Usage};
use proofmill_settings::endpoint::{Amount, Budget, Prices};

/// A share is at most this part of what is left: several workers can have one.
const PARTS: u64 = 8;
/// Money of one [`Amount`].
const MILLIONTH: u128 = 1_000_000;

/// What is left of the budget of a model.
#[derive(Debug)]
pub struct Purse {
    budget: Budget,
    prices: Option<Prices>,
    /// What answers have used.
    spent: Usage,
    /// What segments that are not answered may use.
    shares: HashMap<Digest, Budget>,
}

/// What the next segment may use.
#[derive(Debug)]
pub enum Grant {
    /// The model has no budget.
    Free,
    Share(Budget),
    /// All that is left is in the shares of segments: some of it may come back.
    Later,
    /// The budget is used up.
    Never(Exhausted),
}

impl Purse {
    pub fn new(settings: &Model) -> Self {
        let (spent, shares) = Default::default();
        Self { budget: settings.budget.unwrap_or_default(), prices: settings.prices, spent, shares }
    }

    /// What a segment of at most so many requests may use.
    pub fn grant(&self, requests: u64) -> Grant {
        if self.budget == Budget::default() {
            return Grant::Free;
        }
        if let Err(exhausted) = within(&self.budget, &self.spent, self.prices.as_ref()) {
            return Grant::Never(exhausted);
        }
        let held = |of: fn(&Budget) -> Option<u64>| -> u64 {
            self.shares.values().map(|share| of(share).unwrap_or_default()).sum()
        };
        let left = |most: Option<u64>, spent: u64, held: u64| {
            most.map(|most| most.saturating_sub(spent).saturating_sub(held))
        };
        let (budget, spent) = (&self.budget, &self.spent);
        let money = |budget: &Budget| budget.money.map(Amount::millionths);
        // What costs a part of a millionth is counted as a whole one.
        let paid = self.prices.map_or(Money(0), |prices| cost(&prices, spent)).0;
        let paid = u64::try_from(paid.div_ceil(MILLIONTH)).unwrap_or(u64::MAX);
        let of = [
            left(budget.requests, spent.requests, held(|it| it.requests)),
            left(budget.prompt_tokens, spent.prompt_tokens, held(|it| it.prompt_tokens)),
            left(budget.completion_tokens, spent.output_tokens, held(|it| it.completion_tokens)),
            left(money(budget), paid, held(money)),
        ];
        if of.contains(&Some(0)) && !self.shares.is_empty() {
            return Grant::Later;
        }
        let part = |left: Option<u64>| left.map(|left| left.div_ceil(PARTS).max(1));
        let [of_requests, prompt_tokens, completion_tokens, money] = of;
        Grant::Share(Budget {
            requests: of_requests.map(|left| left.min(requests).max(1)),
            prompt_tokens: part(prompt_tokens),
            completion_tokens: part(completion_tokens),
            money: part(money).map(Amount::of_millionths),
        })
    }

    /// Takes note of a segment that has a share.
    pub fn hand(&mut self, segment: Digest, share: Option<Budget>) {
        self.shares.extend(share.map(|share| (segment, share)));
    }

    /// Takes a share back, of which so much was used.
    pub fn settle(&mut self, segment: Digest, used: Usage) {
        self.shares.remove(&segment);
        self.spent = self.spent + used;
    }
}

/// What an answer has used, as far as it says so. It says nothing of attempts before it, and nothing of caches.
pub fn used(answer: &Answer) -> Usage {
    let output_tokens = match &answer.body {
        Body::Generations(all) => all.iter().map(|one| u64::from(one.output_tokens)).sum(),
        Body::Scores(_) | Body::Vector(_) | Body::Vectors(_) | Body::Classes(_) => 0,
    };
    Usage {
        answers: 1,
        // No prompt has no tokens.
        uncounted: u64::from(answer.prompt_tokens == 0),
        prompt_tokens: u64::from(answer.prompt_tokens),
        output_tokens,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purse(budget: &str) -> Purse {
        let prices = r#", "prices": { "prompt": 1, "completion": 2 }"#;
        let model =
            format!(r#"{{"url": "http://h/v1", "model": "m", "budget": {budget}{prices}}}"#);
        Purse::new(&serde_json::from_str(&model).unwrap())
    }

    fn share(purse: &Purse, requests: u64) -> Budget {
        match purse.grant(requests) {
            Grant::Share(share) => share,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_handed_out_once() {
        let mut purse = purse(r#"{"requests": 300}"#);
        let ids = [1_u8, 2].map(|byte| Digest::of(&[byte]));
        assert_eq!(share(&purse, 256).requests, Some(256));
        purse.hand(ids[0], Some(share(&purse, 256)));
        assert_eq!(share(&purse, 256).requests, Some(44));
        purse.hand(ids[1], Some(share(&purse, 256)));
        assert!(matches!(purse.grant(256), Grant::Later));
        // What was not used can be used by another.
        purse.settle(ids[1], Usage { requests: 40, ..Usage::default() });
        assert_eq!(share(&purse, 256).requests, Some(4));
        purse.settle(ids[0], Usage { requests: 260, ..Usage::default() });
        assert!(matches!(purse.grant(256), Grant::Never(Exhausted::UsedUp { .. })));
    }

    #[test]
    fn of_tokens_and_money_a_segment_gets_a_part() {
        let mut purse = purse(r#"{"completion_tokens": 800, "money": 0.0016}"#);
        let first = share(&purse, 256);
        assert_eq!(
            (first.completion_tokens, first.money),
            (Some(100), Some(Amount::of_millionths(200)))
        );
        purse.hand(Digest::of(b"a"), Some(first));
        assert_eq!(share(&purse, 256).completion_tokens, Some(88));
        // 1,600 prompt tokens cost all of the money.
        purse.settle(
            Digest::of(b"a"),
            Usage { answers: 1, prompt_tokens: 1600, ..Usage::default() },
        );
        assert!(matches!(purse.grant(256), Grant::Never(_)));
    }

    #[test]
    fn answers_that_do_not_count_end_a_budget_of_tokens() {
        let mut purse = purse(r#"{"prompt_tokens": 1000}"#);
        let answer =
            Answer { prompt_tokens: 0, prompt_truncated: false, body: Body::Vector(vec![]) };
        purse.settle(Digest::of(b"a"), used(&answer));
        assert!(matches!(purse.grant(256), Grant::Never(Exhausted::Uncounted)));
        assert!(matches!(
            Purse::new(&serde_json::from_str(r#"{"path": "m"}"#).unwrap()).grant(1),
            Grant::Free
        ));
    }
}
