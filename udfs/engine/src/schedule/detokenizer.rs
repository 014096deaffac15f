//! From tokens to the text of an answer, and the stop texts in it.

use super::job::GenerateWork;
use crate::checkpoint::{Codec, Special};
use crate::decode::stop::StopMatcher;
use crate::request::RequestError;

/// So many tokens before an answer decide how its first ones are spelled (a space, half a
/// character).
const CONTEXT_TOKENS: usize = 8;

/// The tokenizer of a model and its special tokens.
#[derive(Debug)]
pub struct Detokenizer {
    pub codec: Codec,
    pub special: Special,
}

impl Detokenizer {
    /// The text that `new` tokens add to the decoder prompt of `work`.
    pub fn added(&self, work: &GenerateWork, new: &[u32]) -> Result<String, RequestError> {
        let context =
            &work.decoder_prompt[work.decoder_prompt.len().saturating_sub(CONTEXT_TOKENS)..];
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

/// Looks for stop texts in the new text of a sequence.
#[derive(Clone)]
pub struct StopChecker {
    matcher: StopMatcher,
    /// Bytes of new text that were looked at.
    bytes: usize,
}

impl StopChecker {
    /// Nothing was looked at yet.
    pub fn new(matcher: StopMatcher) -> Self {
        Self { matcher, bytes: 0 }
    }

    /// Looks at the text that the last of `new` adds. If a stop text came, where the answer ends.
    pub fn check(
        &mut self,
        work: &GenerateWork,
        new: &[u32],
        detokenizer: &Detokenizer,
    ) -> Option<usize> {
        // A text that cannot be decoded yet has no stop text yet either.
        let text = detokenizer.added(work, new).ok()?;
        // Half a character may still become another one.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let added = whole.get(self.bytes..)?;
        self.bytes += added.len();
        Some(self.matcher.push(added)?.text_end)
    }
}
