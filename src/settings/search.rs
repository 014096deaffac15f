//! How texts are searched for: formulas of BM25, how texts become terms, what makes an entry of a memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an entry's text is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IndexBy {
    /// One entry per distinct fact; its own words.
    #[default]
    Fact,
    /// One entry per question and fact; the question's words.
    Question,
    /// One entry per question and fact; the words of both.
    QuestionFact,
    /// One entry per distinct fact; its words and those of all its questions.
    RelevantQuestions,
}

impl IndexBy {
    /// All ways, in the order of the paper (TeachMe, appendix A).
    pub const ALL: [Self; 4] =
        [Self::Fact, Self::Question, Self::QuestionFact, Self::RelevantQuestions];

    /// The name in the pipeline file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Question => "question",
            Self::QuestionFact => "question_fact",
            Self::RelevantQuestions => "relevant_questions",
        }
    }
}

/// Formula of the score. All drop entries that match no term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Lucene's: idf ln(1 + (N-n+.5)/(n+.5)), no factor k1+1, repeated query terms counted.
    #[default]
    Lucene,
    /// Lucene's before 8: the factor k1+1 as well. The same rankings with other scores.
    Lucene7,
    /// tantivy's: as Lucene's with the factor k1+1, repeated query terms counted once.
    Tantivy,
    /// `rank_bm25`'s BM25Okapi with its floor for negative idf.
    Okapi,
    /// Robertson and Spärck Jones's idf, floored at zero.
    Robertson,
    /// ATIRE's.
    Atire,
    /// BM25L.
    Bm25l,
    /// BM25+.
    #[serde(rename = "bm25+")]
    Bm25Plus,
    /// `rank_bm25`'s BM25L, which multiplies by the term's frequency once more.
    #[serde(rename = "rank_bm25l")]
    RankBm25l,
}

impl Variant {
    /// All variants, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Lucene,
        Self::Lucene7,
        Self::Tantivy,
        Self::Okapi,
        Self::Robertson,
        Self::Atire,
        Self::Bm25l,
        Self::Bm25Plus,
        Self::RankBm25l,
    ];

    /// The name in tables and in the files of an index, which is older than that of pipeline files.
    pub const fn stored_name(self) -> &'static str {
        match self {
            Self::Lucene => "lucene",
            Self::Lucene7 => "lucene7",
            Self::Tantivy => "tantivy",
            Self::Okapi => "okapi",
            Self::Robertson => "robertson",
            Self::Atire => "atire",
            Self::Bm25l => "bm25l",
            Self::Bm25Plus => "bm25plus",
            Self::RankBm25l => "rank_bm25l",
        }
    }
}

/// How texts become terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Analyzer {
    /// Lower-cased runs of letters, digits and `_`; no stop words.
    #[default]
    Word,
    /// The same, reduced by the English Snowball stemmer.
    WordStemEn,
    /// As `word`, without Lucene's 33 English stop words.
    WordStopEn,
    /// Split at single spaces, case kept.
    Whitespace,
}

impl Analyzer {
    /// All analyzers, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Word, Self::WordStemEn, Self::WordStopEn, Self::Whitespace];

    /// The name in the pipeline file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::WordStemEn => "word_stem_en",
            Self::WordStopEn => "word_stop_en",
            Self::Whitespace => "whitespace",
        }
    }

    /// True for what an analyzer is unless settings say otherwise: fingerprints of what was made
    /// before there was a choice stay.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
