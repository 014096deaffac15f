//! How much a worker may hold.

use super::blocks::blocks_for;
use super::group;
use super::job::{GenerateWork, ScoreWork, VectorWork};
use super::score;
use crate::backend::BLOCK_SLOTS;
use crate::request::RequestError;

/// Limits of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of one pass. It bounds the activations.
    pub step_tokens: usize,
    /// Answers under way at a time.
    pub sequences: usize,
    /// Blocks of the cache of keys and values.
    pub blocks: usize,
    /// Most tokens of a text; None where the model sets no bound.
    pub positions: Option<usize>,
}

/// What a worker is left with, whatever room its device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Tokens of one pass; at least 1.
    pub step_tokens: usize,
    /// Blocks of the cache; at least 1.
    pub blocks: usize,
}

/// What a device has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    Passes,
    /// Keys and values, beside the activations.
    Cache,
}

impl Limits {
    /// Tokens that the cache holds.
    pub fn tokens(&self) -> usize {
        self.blocks * BLOCK_SLOTS
    }

    /// What two workers can do alike.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self {
            step_tokens: self.step_tokens.min(other.step_tokens),
            sequences: self.sequences.min(other.sequences),
            blocks: self.blocks.min(other.blocks),
            positions: self.positions,
        }
    }

    /// Half of what is `short`, down to the least; half the tokens of a pass where the cache is at its
    /// least. `None` if all is.
    pub fn smaller(self, least: Least, short: Short) -> Option<Self> {
        if short == Short::Cache && self.blocks > least.blocks {
            Some(Self { blocks: (self.blocks / 2).max(least.blocks), ..self })
        } else if self.step_tokens > least.step_tokens {
            Some(Self { step_tokens: (self.step_tokens / 2).max(least.step_tokens), ..self })
        } else {
            None
        }
    }

    /// Whether a worker can ever do `work`.
    pub fn admit_generate(&self, work: &GenerateWork) -> Result<(), RequestError> {
        for passage in &work.passages {
            self.whole_text(passage.len())?;
        }
        self.positions(work.opening.len() + work.max_tokens as usize)?;
        if group::sequences(work.strategy) > self.sequences.min(self.step_tokens) {
            return Err(RequestError::Invalid(format!(
                "{} answers at a time, and {} is the most",
                group::sequences(work.strategy),
                self.sequences.min(self.step_tokens)
            )));
        }
        self.cache(group::blocks_needed(work))
    }

    /// Whether a worker can ever do `work`.
    pub fn admit_score(&self, work: &ScoreWork) -> Result<(), RequestError> {
        self.whole_text(work.passage.len())?;
        let longest = work.continuations.iter().map(|(all, _)| all.len()).max().unwrap_or(0);
        self.positions(longest)?;
        if work.continuations.len() > self.step_tokens {
            return Err(RequestError::Invalid(format!(
                "{} continuations of one prompt, and {} is the most",
                work.continuations.len(),
                self.step_tokens
            )));
        }
        self.cache(score::blocks_needed(work))
    }

    /// Whether a worker can ever do `work`. A decoder keeps what it reads in its cache.
    pub fn admit_vector(&self, work: &VectorWork, decoder: bool) -> Result<(), RequestError> {
        self.whole_text(work.tokens.len())?;
        if decoder { self.cache(blocks_for(work.tokens.len())) } else { Ok(()) }
    }

    /// Whether a text can be read in one pass.
    fn whole_text(&self, tokens: usize) -> Result<(), RequestError> {
        self.positions(tokens)?;
        at_most(tokens, self.step_tokens)
    }

    fn positions(&self, tokens: usize) -> Result<(), RequestError> {
        self.positions.map_or(Ok(()), |limit| at_most(tokens, limit))
    }

    fn cache(&self, blocks: usize) -> Result<(), RequestError> {
        at_most(blocks * BLOCK_SLOTS, self.blocks * BLOCK_SLOTS)
    }
}

fn at_most(tokens: usize, limit: usize) -> Result<(), RequestError> {
    if tokens <= limit {
        Ok(())
    } else {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Err(RequestError::TooLong { tokens: number(tokens), limit: number(limit) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(step_tokens: usize, blocks: usize) -> Limits {
        Limits { step_tokens, sequences: 9, blocks, positions: None }
    }

    #[test]
    fn what_is_short_shrinks_to_the_least() {
        let least = Least { step_tokens: 64, blocks: 4 };
        let sizes = |mut limits: Limits, short| {
            let mut seen = Vec::new();
            while let Some(next) = limits.smaller(least, short) {
                limits = next;
                seen.push((limits.step_tokens, limits.blocks));
            }
            seen
        };
        let cache = sizes(limits(200, 30), Short::Cache);
        assert_eq!(cache, [(200, 15), (200, 7), (200, 4), (100, 4), (64, 4)]);
        assert_eq!(sizes(limits(200, 30), Short::Passes), [(100, 30), (64, 30)]);
    }
}
