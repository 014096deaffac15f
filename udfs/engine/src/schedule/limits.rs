//! Limits of a worker, and whether a request can ever fit them.

use super::block_pool::blocks_for;
use super::job::{GenerateWork, ScoreWork, VectorOutput, VectorWork};
use super::score;
use super::sequence_group;
use crate::backend::BLOCK_SLOTS;
use crate::request::RequestError;

/// Limits of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of one pass; bounds the memory for activations.
    pub max_batch_tokens: usize,
    /// Sequences under way at a time.
    pub max_num_seqs: usize,
    /// Blocks of the KV cache.
    pub blocks: usize,
    /// Most tokens of a text; None where the model sets no bound.
    pub positions: Option<usize>,
}

/// The smallest limits that a worker is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinLimits {
    /// Tokens of one pass; at least 1.
    pub max_batch_tokens: usize,
    /// Blocks of the cache; at least 1.
    pub blocks: usize,
}

/// What a device has no memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Activations of a pass.
    Activations,
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
            max_batch_tokens: self.max_batch_tokens.min(other.max_batch_tokens),
            max_num_seqs: self.max_num_seqs.min(other.max_num_seqs),
            blocks: self.blocks.min(other.blocks),
            positions: self.positions,
        }
    }

    /// Half of what is `short`, down to the least; half the tokens of a pass where the cache is at its
    /// least. `None` if all is.
    pub fn smaller(self, least: MinLimits, short: Shortage) -> Option<Self> {
        if short == Shortage::Cache && self.blocks > least.blocks {
            Some(Self { blocks: (self.blocks / 2).max(least.blocks), ..self })
        } else if self.max_batch_tokens > least.max_batch_tokens {
            Some(Self {
                max_batch_tokens: (self.max_batch_tokens / 2).max(least.max_batch_tokens),
                ..self
            })
        } else {
            None
        }
    }

    /// Refuses `work` that no batch can hold.
    pub fn admit_generate(&self, work: &GenerateWork) -> Result<(), RequestError> {
        for passage in &work.passages {
            self.whole_text(passage.len())?;
        }
        self.positions(work.decoder_prompt.len() + work.max_tokens as usize)?;
        if sequence_group::sequences(work.strategy) > self.max_num_seqs.min(self.max_batch_tokens) {
            return Err(RequestError::Invalid(format!(
                "{} answers at a time, and {} is the most",
                sequence_group::sequences(work.strategy),
                self.max_num_seqs.min(self.max_batch_tokens)
            )));
        }
        self.cache(sequence_group::blocks_needed(work))
    }

    /// Refuses `work` that no batch can hold.
    pub fn admit_score(&self, work: &ScoreWork) -> Result<(), RequestError> {
        self.whole_text(work.passage.len())?;
        let longest = work.continuations.iter().map(|(all, _)| all.len()).max().unwrap_or(0);
        self.positions(longest)?;
        if work.continuations.len() > self.max_batch_tokens {
            return Err(RequestError::Invalid(format!(
                "{} continuations of one prompt, and {} is the most",
                work.continuations.len(),
                self.max_batch_tokens
            )));
        }
        self.cache(score::blocks_needed(work))
    }

    /// Refuses `work` that no batch can hold. A decoder keeps what it reads in its cache.
    pub fn admit_vector(&self, work: &VectorWork, decoder: bool) -> Result<(), RequestError> {
        if decoder && work.output == VectorOutput::LastState {
            // The state of the last token needs no pass over all tokens.
            self.positions(work.tokens.len())?;
        } else {
            self.whole_text(work.tokens.len())?;
        }
        if decoder { self.cache(blocks_for(work.tokens.len())) } else { Ok(()) }
    }

    /// Whether a text can be read in one pass.
    fn whole_text(&self, tokens: usize) -> Result<(), RequestError> {
        self.positions(tokens)?;
        at_most(tokens, self.max_batch_tokens)
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

    fn limits(max_batch_tokens: usize, blocks: usize) -> Limits {
        Limits { max_batch_tokens, max_num_seqs: 9, blocks, positions: None }
    }

    #[test]
    fn what_is_short_shrinks_to_the_least() {
        let least = MinLimits { max_batch_tokens: 64, blocks: 4 };
        let sizes = |mut limits: Limits, short| {
            let mut seen = Vec::new();
            while let Some(next) = limits.smaller(least, short) {
                limits = next;
                seen.push((limits.max_batch_tokens, limits.blocks));
            }
            seen
        };
        let cache = sizes(limits(200, 30), Shortage::Cache);
        assert_eq!(cache, [(200, 15), (200, 7), (200, 4), (100, 4), (64, 4)]);
        assert_eq!(sizes(limits(200, 30), Shortage::Activations), [(100, 30), (64, 30)]);
    }
}
