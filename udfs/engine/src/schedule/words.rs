//! From tokens to the text of an answer.

use super::job::GenerateWork;
use crate::checkpoint::{Codec, Special};
use crate::request::RequestError;

/// So many tokens before an answer decide how its first ones are spelled (a space, half a
/// character).
const CONTEXT_TOKENS: usize = 8;

/// What a model's texts are made of.
#[derive(Debug)]
pub struct Words {
    /// Tokens and texts.
    pub codec: Codec,
    /// Tokens with a meaning of their own.
    pub special: Special,
}

impl Words {
    /// The text that `new` tokens add to what `work` opened with.
    pub fn added(&self, work: &GenerateWork, new: &[u32]) -> Result<String, RequestError> {
        let context = &work.opening[work.opening.len().saturating_sub(CONTEXT_TOKENS)..];
        let plain = new.iter().copied().filter(|token| !self.special.ends.contains(token));
        let all: Vec<u32> = context.iter().copied().chain(plain).collect();
        let decode = |ids: &[u32]| {
            self.codec.decode(ids, false).map_err(|error| RequestError::Failed(error.to_string()))
        };
        let before = decode(context)?;
        let whole = decode(&all)?;
        match whole.strip_prefix(&before) {
            Some(added) => Ok(added.to_owned()),
            // What was half a character before is a whole one now.
            None => decode(&all[context.len()..]),
        }
    }
}
