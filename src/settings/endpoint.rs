//! How requests are sent to a model behind an endpoint, what it can do, what it costs, and what may
//! be spent on it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// API of an endpoint for text requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// The prompt is continued.
    #[default]
    Completions,
    /// Messages, or the prompt as a user's.
    Chat,
}

/// Capabilities of an endpoint beyond the minimum of the protocol; requests that need others are rejected before
/// they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// Log-probabilities of generated tokens.
    #[serde(default)]
    pub logprobs: bool,
    /// Log-probabilities of the prompt (`echo`), which scores need.
    #[serde(default)]
    pub scores: bool,
    /// The parameter `top_k`.
    #[serde(default)]
    pub top_k: bool,
    /// Several answers to one request.
    #[serde(default = "yes")]
    pub samples: bool,
}

fn yes() -> bool {
    true
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { logprobs: false, scores: false, top_k: false, samples: true }
    }
}

/// The most that one command may spend on a model: no request is sent once one of these is reached. Requests in
/// flight are still answered and count too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// HTTP requests, retries included.
    #[schemars(range(min = 1))]
    pub requests: Option<u64>,
    /// Tokens of prompts, as the endpoint counts them.
    #[schemars(range(min = 1))]
    pub prompt_tokens: Option<u64>,
    /// Tokens of answers, as the endpoint counts them.
    #[schemars(range(min = 1))]
    pub completion_tokens: Option<u64>,
    /// The cost by `prices`.
    pub money: Option<Amount>,
}

/// Price per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Tokens of prompts.
    pub prompt: Amount,
    /// Tokens of answers.
    pub completion: Amount,
    /// Prompt tokens that the endpoint had in its cache; the price of prompts when absent.
    pub cached: Option<Amount>,
}

/// An amount of money with up to six decimals, kept as a whole number of millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Amount(u64);

/// A number that is no [`Amount`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("expected an amount from 0 to 1000000000 with at most six decimals, found {0}")]
pub struct NotAnAmount(f64);

impl Amount {
    /// So many millionths of the currency's unit.
    pub const fn of_millionths(count: u64) -> Self {
        Self(count)
    }

    /// How many millionths of the currency's unit it is.
    pub fn millionths(self) -> u64 {
        self.0
    }
}

impl TryFrom<f64> for Amount {
    type Error = NotAnAmount;

    fn try_from(amount: f64) -> Result<Self, NotAnAmount> {
        let millionths = (amount * 1e6).round();
        // Of at most 10^15 millionths, a double holds each; the amount that was written is the nearest
        // double of just one of them.
        if !(0.0..=1e15).contains(&millionths) || millionths / 1e6 != amount {
            return Err(NotAnAmount(amount));
        }
        Ok(Self(millionths as u64))
    }
}

impl From<Amount> for f64 {
    fn from(amount: Amount) -> Self {
        amount.0 as Self / 1e6
    }
}

/// In a file it is a number.
impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1_000_000_000, "x-amount": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_what_is_written() {
        for (amount, millionths) in [
            (0.0, 0),
            (0.15, 150_000),
            (0.1 + 0.2, 0),
            (0.000_001, 1),
            (1e9, 1_000_000_000_000_000),
            (999_999_999.999_999, 999_999_999_999_999),
            (12.345_678, 12_345_678),
        ] {
            let read = Amount::try_from(amount).map(Amount::millionths);
            match millionths {
                0 if amount > 0.0 => assert!(read.is_err(), "{amount} is not 0.3"),
                _ => assert_eq!(read, Ok(millionths), "{amount}"),
            }
        }
        for amount in [-0.01, 0.000_000_1, 1e10, f64::NAN, f64::INFINITY] {
            assert!(Amount::try_from(amount).is_err(), "{amount}");
        }
    }
}
