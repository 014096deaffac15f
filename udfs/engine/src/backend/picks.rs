//! What is asked about the next token of each row, and what comes back.

use crate::noise::Noise;

/// What is asked of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    pub how: How,
    /// First of the tokens that may not be chosen, in [`Picks::tokens`].
    pub first_banned: u32,
    /// How many there are. Banned tokens keep their probability mass.
    pub banned: u32,
}

/// Ways to choose. Ties always go to the smaller token id. Where logits are not finite, or nothing is
/// left to choose, the one result is a token 0 with the log-probability NaN, whatever was asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// The likeliest token: one result.
    Greedy,
    /// An exact sample of the cut and tempered distribution: one result, with the log-probability
    /// that the model itself gives it.
    Sample {
        temperature: f32,
        /// Only the likeliest so many; 0 is all.
        top_k: u32,
        /// Then only the likeliest whose probabilities (after temperature and `top_k`) reach this
        /// sum, at least one; 1 is all.
        top_p: f32,
        /// Gumbel noise of this row, sample and step.
        noise: Noise,
    },
    /// The likeliest `count`, best first: that many results.
    Top {
        /// At least 1.
        count: u32,
    },
    /// How likely a token is: one result, the log-probability of `token` beside the id of the token
    /// that is likeliest (and not banned).
    Given { token: u32 },
    /// The likeliest `count` of some tokens, best first: that many results, or all if they are
    /// fewer.
    Among {
        /// First of the tokens in [`Picks::tokens`].
        first: u32,
        /// How many there are; at least 1.
        tokens: u32,
        /// How many are wanted; at least 1.
        count: u32,
    },
}

/// What is asked of all rows of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picks {
    /// One per row.
    pub picks: Vec<Pick>,
    /// Lists of tokens that picks point to.
    pub tokens: Vec<u32>,
}

/// A token and its natural log-probability under the model's own distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    pub id: u32,
    /// Natural logarithm.
    pub logprob: f32,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked {
    /// The results of all picks, in their order.
    pub tokens: Vec<Token>,
    /// Where the results of each pick end.
    pub ends: Vec<usize>,
}

impl Picks {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.picks.clear();
        self.tokens.clear();
    }
}

impl Picked {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.ends.clear();
    }

    /// Ends the results of the present pick.
    pub fn end(&mut self) {
        self.ends.push(self.tokens.len());
    }

    /// The results of pick `index`.
    pub fn of(&self, index: usize) -> &[Token] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tokens[start..self.ends[index]]
    }
}
