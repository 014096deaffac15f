//! Text → terms: a closed set of analyzers, the same for entries and for queries.

use proofmill_settings::search::Analyzer;
use tantivy::tokenizer::{Language, Stemmer, Token, TokenFilter, TokenStream, Tokenizer};

use crate::word::is_word;
use proofmill_base::digest::Digest;

/// Longest term that is stored as it is; a longer one is replaced by its digest, so that it still
/// matches exactly itself.
const TERM_BYTES_MAX: usize = 1024;

/// Lucene's English stop words (`EnglishAnalyzer`).
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// What an analyzer does. `word` is Python's `re.findall(r"\w+", text)` of the lower-cased text, `word_stem_en` the Snowball stemmer
/// for English ("Porter2") behind it, `word_stop_en` the same without Lucene's stop words, and `whitespace` Python's
/// `text.split(" ")`: two spaces in a row give an empty term (what PGRA's released code feeds to rank_bm25).
pub(crate) trait Terms {
    /// The terms of `text`, in order, with repetitions.
    fn terms(self, text: &str) -> Vec<String>;
    /// Writes the terms of `text` to `joined`, one space between two, and returns their number. No
    /// term holds a space.
    fn join_terms(self, text: &str, joined: &mut String) -> usize;
}

impl Terms for Analyzer {
    fn terms(self, text: &str) -> Vec<String> {
        let mut joined = String::new();
        match self.join_terms(text, &mut joined) {
            0 => Vec::new(),
            _ => joined.split(' ').map(str::to_owned).collect(),
        }
    }

    fn join_terms(self, text: &str, joined: &mut String) -> usize {
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

/// Takes what [`Terms::join_terms`] wrote apart again, for tantivy's writer.
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

#[cfg(test)]
mod tests {
    use super::*;

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
