//! Answer normalisation: what counts as the same answer.

use std::borrow::Cow;
use std::str::FromStr;

use super::words::{is_space, is_word, lower, split};

/// How a text is simplified before it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// SQuAD 1.1 evaluation script: lower case, delete ASCII punctuation, delete articles,
    /// collapse spaces. Also used by Fusion-in-Decoder and many others.
    Squad,
    /// ParlAI `core/metrics.py`: lower case, ASCII punctuation becomes a *space*, delete articles,
    /// collapse spaces.
    Parlai,
    /// Lower case, strip, collapse spaces.
    Plain,
}

impl Normalization {
    /// The names accepted by [`FromStr`], in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["squad", "parlai", "plain"];
}

/// A name that is no normalisation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("normalisation `{0}`; expected `squad`, `parlai` or `plain`")]
pub struct UnknownNormalization(pub String);

impl FromStr for Normalization {
    type Err = UnknownNormalization;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "squad" => Ok(Self::Squad),
            "parlai" => Ok(Self::Parlai),
            "plain" => Ok(Self::Plain),
            _ => Err(UnknownNormalization(name.to_owned())),
        }
    }
}

/// The normalised text, its words separated by single spaces.
pub fn normalize(text: &str, normalization: Normalization) -> String {
    let lowered = lower(text);
    let cleaned = match normalization {
        Normalization::Plain => lowered,
        Normalization::Squad => Cow::Owned(without_articles(&lowered, None)),
        Normalization::Parlai => Cow::Owned(without_articles(&lowered, Some(' '))),
    };
    let mut normalized = String::with_capacity(cleaned.len());
    for word in split(&cleaned) {
        if !normalized.is_empty() {
            normalized.push(' ');
        }
        normalized.push_str(word);
    }
    normalized
}

/// Replaces ASCII punctuation, then the words a, an, the: `re.sub(r'\b(a|an|the)\b', ' ', ...)`.
fn without_articles(text: &str, punctuation: Option<char>) -> String {
    let mut cleaned = String::with_capacity(text.len());
    // Where the word being read began in `cleaned`; punctuation that is deleted does not end it.
    let mut word_start = None;
    for c in text.chars() {
        let c = match (c.is_ascii_punctuation(), punctuation) {
            (false, _) => c,
            (true, Some(replacement)) => replacement,
            (true, None) => continue,
        };
        if is_word(c) {
            word_start.get_or_insert(cleaned.len());
        } else if let Some(start) = word_start.take() {
            drop_article(&mut cleaned, start);
        }
        cleaned.push(if is_space(c) { ' ' } else { c });
    }
    if let Some(start) = word_start {
        drop_article(&mut cleaned, start);
    }
    cleaned
}

/// Replaces the last word by a space if it is an article.
fn drop_article(cleaned: &mut String, start: usize) {
    if matches!(&cleaned[start..], "a" | "an" | "the") {
        cleaned.truncate(start);
        cleaned.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn punctuation_joins_in_squad_and_separates_in_parlai() {
        let both =
            |text| (normalize(text, Normalization::Squad), normalize(text, Normalization::Parlai));
        assert_eq!(both("the_end of-a-day"), ("theend ofaday".into(), "end of day".into()));
        assert_eq!(
            both("\u{201c}A\u{201d} b"),
            ("\u{201c} \u{201d} b".into(), "\u{201c} \u{201d} b".into())
        );
        assert_eq!(both("a\u{301}n an\u{2019}s"), both("\u{301}n \u{2019}s"));
    }

    #[test]
    fn plain_keeps_everything_but_case_and_spaces() {
        assert_eq!(normalize("  The\u{a0}\tEnd. ", Normalization::Plain), "the end.");
    }

    #[test]
    fn names_and_their_error() {
        for name in Normalization::NAMES {
            assert!(name.parse::<Normalization>().is_ok());
        }
        assert_eq!(
            "SQuAD".parse::<Normalization>().unwrap_err().to_string(),
            "normalisation `SQuAD`; expected `squad`, `parlai` or `plain`"
        );
    }

    proptest! {
        #[test]
        fn no_double_and_no_outer_spaces(text in "\\PC{0,30}") {
            for name in Normalization::NAMES {
                let normalized = normalize(&text, name.parse().unwrap());
                prop_assert!(!normalized.contains("  "));
                prop_assert_eq!(normalized.trim(), normalized.as_str());
            }
        }
    }
}
