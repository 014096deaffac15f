//! A sentence as users say it, and what it is compared by.

use std::fmt;
use std::str::FromStr;

use proofmill_base::sentence::without_stop;
use serde::{Deserialize, Serialize};

use crate::memory::error::{MemoryError, Result};

/// Longest sentence, in characters.
pub const SENTENCE_CHARS_MAX: usize = 4_000;
/// What separates the premises of a proof, which no premise can hold.
pub const MARK: &str = "[PREMISE]";

/// A text that is not empty, on one line, with single spaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sentence(String);

impl Sentence {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What sentences are compared by: case, white space and a full stop at the end make no difference.
    pub fn key(&self) -> String {
        without_stop(&self.0)
    }
}

impl FromStr for Sentence {
    type Err = MemoryError;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let sentence = words.join(" ");
        let refuse = |reason: String| Err(MemoryError::Sentence { reason });
        if sentence.trim_matches(['.', ' ']).is_empty() {
            return refuse("it is empty".to_owned());
        }
        if sentence.chars().count() > SENTENCE_CHARS_MAX {
            return refuse(format!("it is longer than {SENTENCE_CHARS_MAX} characters"));
        }
        if sentence.contains(MARK) {
            return refuse(format!("it contains `{MARK}`, the separator of premises"));
        }
        if sentence.chars().any(char::is_control) {
            return refuse("it contains control characters".to_owned());
        }
        Ok(Self(sentence))
    }
}

impl TryFrom<String> for Sentence {
    type Error = MemoryError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Sentence> for String {
    fn from(sentence: Sentence) -> Self {
        sentence.0
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The keys of sentences whose order does not count.
pub fn keys(sentences: &[Sentence]) -> Vec<String> {
    let mut keys: Vec<String> = sentences.iter().map(Sentence::key).collect();
    keys.sort_unstable();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clothes_of_a_sentence_do_not_count() {
        let plain: Sentence = "A penny is made of copper".parse().unwrap();
        for text in [
            "a PENNY  is made\tof copper.",
            " A penny is made of copper . ",
            "A penny is made of copper",
        ] {
            assert_eq!(text.parse::<Sentence>().unwrap().key(), plain.key(), "{text}");
        }
        assert_ne!("A penny is made of copper..".parse::<Sentence>().unwrap().key(), plain.key());
    }

    #[test]
    fn texts_that_break_proofs_are_refused() {
        for text in ["", " \n ", ".", " . ", "a [PREMISE] b", "a\u{0}b", &"a".repeat(4_001)] {
            assert!(text.parse::<Sentence>().is_err(), "{text:?}");
        }
    }
}
