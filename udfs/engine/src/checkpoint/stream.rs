//! The text of tokens that come one by one. Each token is decoded in a small window with those before it, which
//! say how it is spelled (a space before it, the rest of a character), however long the text is.
//!
//! `DecodeStream` of tokenizers holds back all of a token that ends in half a character: a stop text in it would be
//! seen a token too late.

use super::TextError;

/// Tokens in a row that may be parts of one character. Bytes make no character of more.
const PARTS_MAX: usize = 4;

/// What tokens say, as they come.
#[derive(Clone, Debug)]
pub struct TextStream {
    /// Tokens whose text is known, then those that are not whole yet.
    window: Vec<u32>,
    /// How many of the window are known.
    known: usize,
    /// The text of the known ones.
    before: String,
    /// Bytes of the text behind it that were given out already.
    given: usize,
}

impl TextStream {
    /// A text that begins behind `context`, which has no special tokens. `decode` gives the text of tokens.
    pub fn new(
        context: &[u32],
        decode: impl FnOnce(&[u32]) -> Result<String, TextError>,
    ) -> Result<Self, TextError> {
        let before = decode(context)?;
        Ok(Self { window: context.to_vec(), known: context.len(), before, given: 0 })
    }

    /// The text that `token`, which is not special, adds: empty as long as a character lacks bytes. `None` if the
    /// window does not tell, as with bytes that make no character: only the text as a whole does then.
    pub fn push(
        &mut self,
        token: u32,
        mut decode: impl FnMut(&[u32]) -> Result<String, TextError>,
    ) -> Result<Option<String>, TextError> {
        self.window.push(token);
        let text = decode(&self.window)?;
        let Some(behind) = text.strip_prefix(&self.before) else { return Ok(None) };
        // Half a character may still become another one.
        let whole = behind.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let Some(added) = whole.get(self.given..) else { return Ok(None) };
        let added = added.to_owned();
        self.given = whole.len();
        if whole.len() == behind.len() && !behind.is_empty() {
            // What was known before spells nothing any more.
            self.window.drain(..self.known);
            self.known = self.window.len();
            self.before = decode(&self.window)?;
            self.given = 0;
        } else if self.window.len() - self.known > PARTS_MAX {
            return Ok(None);
        }
        Ok(Some(added))
    }
}
