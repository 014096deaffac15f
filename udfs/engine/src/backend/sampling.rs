//! How the next token of each row is sampled, and the result.

use crate::rng::CounterRng;

/// How one row is sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowSampling {
    pub method: SamplingMethod,
    /// First of the tokens that may not be chosen, in [`SamplingMetadata::tokens`].
    pub first_banned: u32,
    /// How many there are. Banned tokens keep their probability mass.
    pub banned: u32,
    /// First word of the mask of tokens that may be chosen, in [`SamplingMetadata::masks`].
    pub first_mask: u32,
    /// How many words the mask has; none if there is no mask. What it leaves out, and what is behind it, may not be
    /// chosen, and keeps its probability mass.
    pub mask_words: u32,
}

impl RowSampling {
    /// A row whose tokens may all be chosen.
    pub fn new(method: SamplingMethod) -> Self {
        Self { method, first_banned: 0, banned: 0, first_mask: 0, mask_words: 0 }
    }
}

/// Sampling methods. Ties always go to the smaller token id. Where logits are not finite, or nothing is
/// left to choose, the one result is a token 0 with the log-probability NaN, whatever the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SamplingMethod {
    /// The likeliest token: one result.
    Greedy,
    /// An exact sample after temperature, top-k and top-p: one result, with its log-probability under
    /// the model before any of them.
    Sample {
        temperature: f32,
        /// Only the likeliest so many; 0 is all.
        top_k: u32,
        /// Then only the likeliest whose probabilities (after temperature and `top_k`) reach this
        /// sum, at least one; 1 is all.
        top_p: f32,
        /// The random numbers of this row, sample and step.
        rng: CounterRng,
    },
    /// The likeliest `count`, best first: that many results.
    TopK {
        /// At least 1.
        count: u32,
    },
    /// The log-probability of a token: one result, the log-probability of `token` beside the id of the token
    /// that is likeliest (and not banned).
    Score { token: u32 },
    /// The likeliest `count` of some tokens, best first: that many results, or all if they are
    /// fewer.
    Choices {
        /// First of the tokens in [`SamplingMetadata::tokens`].
        first: u32,
        /// How many there are; at least 1.
        tokens: u32,
        /// How many are wanted; at least 1.
        count: u32,
    },
}

/// How all rows of a step are sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingMetadata {
    /// One per row.
    pub rows: Vec<RowSampling>,
    /// Lists of tokens that rows point to.
    pub tokens: Vec<u32>,
    /// Masks that rows point to: bit `id % 32` of word `id / 32` says whether a token may be chosen.
    pub masks: Vec<u32>,
}

/// A token and its natural log-probability under the model's own distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    pub id: u32,
    /// Natural logarithm.
    pub logprob: f32,
}

/// The sampled tokens of all rows of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplerOutput {
    /// The results of all rows, in their order.
    pub tokens: Vec<Token>,
    /// Where the results of each row end, in `tokens`.
    pub ends: Vec<usize>,
}

impl SamplingMetadata {
    /// Empties the lists, keeps their memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.tokens.clear();
        self.masks.clear();
    }

    /// The mask of a row, if it has one.
    pub fn mask(&self, row: &RowSampling) -> Option<&[u32]> {
        (row.mask_words > 0)
            .then(|| &self.masks[row.first_mask as usize..][..row.mask_words as usize])
    }
}

/// Whether a token may be chosen by `mask`.
pub fn is_allowed(mask: &[u32], token: u32) -> bool {
    mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}

impl SamplerOutput {
    /// Empties the lists, keeps their memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.ends.clear();
    }

    /// Ends the results of the present row.
    pub fn end(&mut self) {
        self.ends.push(self.tokens.len());
    }

    /// The results of row `index`.
    pub fn of(&self, index: usize) -> &[Token] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tokens[start..self.ends[index]]
    }
}
