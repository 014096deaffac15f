//! Text → terms: a closed set of analyzers, the same for entries and for queries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tantivy::tokenizer::{Language, Stemmer, Token, TokenFilter, TokenStream, Tokenizer};

use proofmill_base::digest::Digest;
use crate::error::SearchError;
use crate::word::is_word;

/// Longest term that is stored as it is; a longer one is replaced by its digest, so that it still
/// matches exactly itself.
const TERM_BYTES_MAX: usize = 1024;

/// Lucene's English stop words (`EnglishAnalyzer`).
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// How a text becomes terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Analyzer {
    /// Lower-case, then Python's `re.findall(r"\w+", text)`. No stop words. The project's default.
    #[default]
    Word,
    /// [`Analyzer::Word`], then the Snowball stemmer for English ("Porter2").
    WordStemEn,
    /// [`Analyzer::Word`] without Lucene's 33 English stop words: entries that share only such words
    /// with a query do not answer it.
    WordStopEn,
    /// Python's `text.split(" ")`: case and punctuation kept, and two spaces in a row give an
    /// empty term. What PGRA's released code feeds to rank_bm25.
    Whitespace,
}

impl Analyzer {
    /// All analyzers, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Word, Self::WordStemEn, Self::WordStopEn, Self::Whitespace];

    /// The name in pipeline files and in `bm25.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::WordStemEn => "word_stem_en",
            Self::WordStopEn => "word_stop_en",
            Self::Whitespace => "whitespace",
        }
    }

    /// The terms of `text`, in order, with repetitions.
    pub fn terms(self, text: &str) -> Vec<String> {
        let mut joined = String::new();
        match self.join_terms(text, &mut joined) {
            0 => Vec::new(),
            _ => joined.split(' ').map(str::to_owned).collect(),
        }
    }

    /// Writes the terms of `text` to `joined`, one space between two, and returns their number. No
    /// term holds a space.
    pub(super) fn join_terms(self, text: &str, joined: &mut String) -> usize {
        joined.clear();
        match self {
            Self::Word => join(words(&text.to_lowercase()), joined),
            Self::WordStemEn => {
                let mut tokenizer = Stemmer::new(Language::English).transform(Words);
                let lower_case = text.to_lowercase();
                let mut stream = tokenizer.token_stream(&lower_case);
                let mut count = 0;
                while stream.advance() {
                    push(&stream.token().text, count, joined);
                    count += 1;
                }
                count
            }
            Self::WordStopEn => {
                let lower_case = text.to_lowercase();
                join(words(&lower_case).filter(|word| !STOP_WORDS.contains(word)), joined)
            }
            Self::Whitespace => join(text.split(' '), joined),
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn join<'a>(terms: impl Iterator<Item = &'a str>, joined: &mut String) -> usize {
    let mut count = 0;
    for term in terms {
        push(term, count, joined);
        count += 1;
    }
    count
}

fn push(term: &str, before: usize, joined: &mut String) {
    if before > 0 {
        joined.push(' ');
    }
    if term.len() <= TERM_BYTES_MAX {
        joined.push_str(term);
    } else {
        joined.push_str("sha256:");
        joined.push_str(&Digest::of(term.as_bytes()).to_string());
    }
}

/// The words of a lower-case text, in the shape that tantivy's filters take.
#[derive(Clone)]
struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = Pieces<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Pieces<'a> {
        Pieces::new(Box::new(words(text)))
    }
}

/// Takes what [`Analyzer::join_terms`] wrote apart again, for tantivy's writer.
#[derive(Clone)]
pub(super) struct JoinedTerms;

impl Tokenizer for JoinedTerms {
    type TokenStream<'a> = Pieces<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Pieces<'a> {
        Pieces::new(Box::new(text.split(' ')))
    }
}

/// Parts of a text as a stream of tokens.
pub(super) struct Pieces<'a> {
    pieces: Box<dyn Iterator<Item = &'a str> + 'a>,
    token: Token,
}

impl<'a> Pieces<'a> {
    fn new(pieces: Box<dyn Iterator<Item = &'a str> + 'a>) -> Self {
        Self { pieces, token: Token::default() }
    }
}

impl TokenStream for Pieces<'_> {
    fn advance(&mut self) -> bool {
        let Some(piece) = self.pieces.next() else {
            return false;
        };
        self.token.text.clear();
        self.token.text.push_str(piece);
        // The default is `usize::MAX`, one before the first.
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Analyzer {
    type Err = SearchError;

    fn from_str(name: &str) -> Result<Self, SearchError> {
        Self::ALL.into_iter().find(|analyzer| analyzer.name() == name).ok_or_else(|| {
            SearchError::UnknownName {
                what: "analyzer",
                name: name.to_owned(),
                expected: Self::ALL.map(|analyzer| format!("`{analyzer}`")).join(", "),
            }
        })
    }
}

impl TryFrom<String> for Analyzer {
    type Error = SearchError;

    fn try_from(name: String) -> Result<Self, SearchError> {
        name.parse()
    }
}

impl From<Analyzer> for String {
    fn from(analyzer: Analyzer) -> Self {
        analyzer.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_analyzers_correspond() {
        for analyzer in Analyzer::ALL {
            assert_eq!(analyzer.name().parse::<Analyzer>().unwrap(), analyzer);
        }
        let error = "words".parse::<Analyzer>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown analyzer `words`; expected `word`, `word_stem_en`, `word_stop_en`, `whitespace`"
        );
    }

    /// Expected values: `re.findall(r"\w+", text.lower())` of CPython.
    #[test]
    fn word_splits_as_python_does() {
        let cases: [(&str, &[&str]); 11] = [
            ("Can a magnet attract a penny?", &["can", "a", "magnet", "attract", "a", "penny"]),
            (
                "don't under_score 3.14 U.S.A.",
                &["don", "t", "under_score", "3", "14", "u", "s", "a"],
            ),
            ("", &[]),
            (" \t\n-- ’“”", &[]),
            ("Straße ÄÖÜ ΟΔΟΣ", &["straße", "äöü", "οδος"]),
            ("İstanbul", &["i", "stanbul"]),
            ("cafe\u{301} café", &["cafe", "café"]),
            ("हिन्दी", &["ह", "न", "द"]),
            ("H₂O 5² ½ Ⅷ ⓐ", &["h₂o", "5²", "½", "ⅷ"]),
            ("中文 字", &["中文", "字"]),
            ("a\u{a0}b\u{2009}c\u{200d}d", &["a", "b", "c", "d"]),
        ];
        for (text, expected) in cases {
            assert_eq!(Analyzer::Word.terms(text), expected, "{text}");
        }
    }

    #[test]
    fn stemming_joins_word_forms() {
        assert_eq!(
            Analyzer::WordStemEn.terms("Magnets attracted the ponies generously."),
            ["magnet", "attract", "the", "poni", "generous"]
        );
        assert!(Analyzer::WordStemEn.terms("...").is_empty());
    }

    #[test]
    fn stop_words_are_no_terms() {
        assert_eq!(
            Analyzer::WordStopEn.terms("Which of these is true of THE nail, or of a knot?"),
            ["which", "true", "nail", "knot"]
        );
        assert!(Analyzer::WordStopEn.terms("It is not.").is_empty());
    }

    #[test]
    fn whitespace_is_pythons_split_on_one_space() {
        assert_eq!(
            Analyzer::Whitespace.terms("A  penny is\tCopper. "),
            ["A", "", "penny", "is\tCopper.", ""]
        );
        assert_eq!(Analyzer::Whitespace.terms(""), [""]);
    }

    #[test]
    fn overlong_terms_still_match_themselves_only() {
        let (a, b) = ("a".repeat(100_000), "a".repeat(100_001));
        let terms = Analyzer::Word.terms(&format!("{a} {b} {a}"));
        assert_eq!(terms[0].len(), 71);
        assert_eq!(terms[0], terms[2]);
        assert_ne!(terms[0], terms[1]);
    }
}
