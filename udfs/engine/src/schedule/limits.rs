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

impl Limits {
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
