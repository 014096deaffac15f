//! The text of an answer while its tokens come.
//!
//! A token may hold a part of a character, and the text of a token may depend on the one before it.
//! So each step decodes the last few tokens together, and text that ends in half a character waits.

use super::{Codec, TextError};

/// What a decoder shows for half a character.
const HALF: char = '\u{fffd}';

/// An answer under way.
#[derive(Debug)]
pub struct Stream<'a> {
    codec: &'a Codec,
    /// Whether the text of some tokens stays as it is when more tokens come.
    stable: bool,
    ids: Vec<u32>,
    text: String,
    /// Tokens before this one need not be decoded any more.
    first: usize,
    /// The text of the tokens before this one is in `text`.
    done: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(codec: &'a Codec, stable: bool) -> Self {
        Self { codec, stable, ids: Vec::new(), text: String::new(), first: 0, done: 0 }
    }

    /// Adds a token; gives the whole text so far, which ends with a whole character. It begins with
    /// the text of the step before, but where decoding takes out spaces before punctuation.
    pub fn push(&mut self, id: u32) -> Result<&str, TextError> {
        self.ids.push(id);
        if !self.stable {
            let text = self.codec.decode(&self.ids, false)?;
            self.text = text.trim_end_matches(HALF).to_owned();
            return Ok(&self.text);
        }
        let old = self.codec.decode(&self.ids[self.first..self.done], false)?;
        let new = self.codec.decode(&self.ids[self.first..], false)?;
        if new.len() <= old.len() || new.ends_with(HALF) {
            return Ok(&self.text);
        }
        match new.strip_prefix(&old) {
            Some(more) => {
                self.text.push_str(more);
                self.first = self.done;
            }
            // A decoder that looks back further than one step: only the whole is right.
            None => self.text = self.codec.decode(&self.ids, false)?,
        }
        self.done = self.ids.len();
        Ok(&self.text)
    }

    /// The text so far, as [`Stream::push`] gave it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tokens so far.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The text of all tokens, half a character at the end included.
    pub fn finish(self) -> Result<String, TextError> {
        self.codec.decode(&self.ids, false)
    }
}
