//! The BM25 formulas, as a closed set: how rare a term is and how much one posting is worth.
//!
//! Every variant is a sum over query terms of `idf(t) * part(f, p)`, where `f` is the frequency of
//! the term in the document and `p = 1 - b + b * len / average len`. Sources: the released code of
//! bm25s 0.3, rank_bm25 0.2.2 and tantivy 0.27, and Kamphuis et al., "Which BM25 Do You Mean?"
//! (ECIR 2020). Check values: the `bm25.*` cases of the golden file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::SearchError;

/// Share of the mean idf that replaces a negative one (rank_bm25's `epsilon`).
pub const OKAPI_EPSILON: f64 = 0.25;

/// Which BM25.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Variant {
    /// Lucene 8 and later; the project's default: `ln(1 + (N-n+.5)/(n+.5)) * f / (f + k1 p)`.
    #[default]
    Lucene,
    /// Lucene before 8: [`Variant::Lucene`] times `k1 + 1`. Same ranking, other numbers.
    Lucene7,
    /// tantivy: as [`Variant::Lucene7`], but a repeated query term counts once. Lengths are exact
    /// here; tantivy itself rounds those above 40 tokens to one byte.
    Tantivy,
    /// rank_bm25's `BM25Okapi`: `ln((N-n+.5)/(n+.5)) * f (k1+1) / (f + k1 p)`, where a negative
    /// idf becomes a quarter of the mean idf over all terms.
    Okapi,
    /// bm25s `robertson`: `max(0, ln((N-n+.5)/(n+.5))) * f / (f + k1 p)`.
    Robertson,
    /// bm25s `atire`: `ln(N/n) * f (k1+1) / (f + k1 p)`.
    Atire,
    /// bm25s `bm25l`: `ln((N+1)/(n+.5)) * (k1+1)(c+d) / (k1+c+d)` with `c = f/p`; also for `f = 0`.
    Bm25l,
    /// bm25s `bm25+`: `ln((N+1)/n) * (d + f (k1+1) / (f + k1 p))`; also for `f = 0`. With delta 1
    /// these are the numbers of rank_bm25's `BM25Plus`.
    Bm25Plus,
    /// rank_bm25's `BM25L`, which multiplies by `f` once more:
    /// `ln((N+1)/(n+.5)) * f (k1+1)(c+d) / (k1+c+d)`.
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

    /// The name in pipeline files and in `bm25.json`.
    pub const fn name(self) -> &'static str {
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

    /// Saturation `k1` where none is given: what the named implementation has.
    pub const fn default_k1(self) -> f64 {
        match self {
            Self::Lucene | Self::Lucene7 | Self::Tantivy => 1.2,
            Self::Okapi
            | Self::Robertson
            | Self::Atire
            | Self::Bm25l
            | Self::Bm25Plus
            | Self::RankBm25l => 1.5,
        }
    }

    /// Length normalisation `b` where none is given.
    pub const fn default_b(self) -> f64 {
        0.75
    }

    /// Lower-bounding `delta` where none is given; `None` if the formula has none.
    pub const fn default_delta(self) -> Option<f64> {
        match self {
            Self::Bm25l | Self::Bm25Plus | Self::RankBm25l => Some(0.5),
            Self::Lucene
            | Self::Lucene7
            | Self::Tantivy
            | Self::Okapi
            | Self::Robertson
            | Self::Atire => None,
        }
    }

    /// How often a term counts that stands `count` times in the query.
    pub(super) fn query_count(self, count: u32) -> f64 {
        match self {
            Self::Tantivy => 1.0,
            _ => f64::from(count),
        }
    }

    /// Inverse document frequency of a term in `n` of `total` documents; `mean` is the mean of
    /// [`Variant::raw_okapi_idf`] over all terms and matters to [`Variant::Okapi`] only.
    pub(super) fn idf(self, total: f64, n: f64, mean: f64) -> f64 {
        match self {
            Self::Lucene | Self::Lucene7 | Self::Tantivy => {
                (1.0 + (total - n + 0.5) / (n + 0.5)).ln()
            }
            Self::Okapi => match Self::raw_okapi_idf(total, n) {
                idf if idf < 0.0 => OKAPI_EPSILON * mean,
                idf => idf,
            },
            Self::Robertson => ((total - n + 0.5) / (n + 0.5)).ln().max(0.0),
            Self::Atire => (total / n).ln(),
            Self::Bm25l | Self::RankBm25l => ((total + 1.0) / (n + 0.5)).ln(),
            Self::Bm25Plus => ((total + 1.0) / n).ln(),
        }
    }

    /// The idf of Robertson and Spärck Jones, which is negative for terms in most documents.
    pub(super) fn raw_okapi_idf(total: f64, n: f64) -> f64 {
        (total - n + 0.5).ln() - (n + 0.5).ln()
    }

    /// What a document with frequency `f` and length pivot `p` gets, before the idf.
    pub(super) fn part(self, k1: f64, delta: f64, f: f64, p: f64) -> f64 {
        match self {
            Self::Lucene | Self::Robertson => f / (f + k1 * p),
            Self::Lucene7 | Self::Tantivy | Self::Okapi | Self::Atire => {
                f * (k1 + 1.0) / (f + k1 * p)
            }
            Self::Bm25l => {
                let c = f / p;
                (k1 + 1.0) * (c + delta) / (k1 + c + delta)
            }
            Self::Bm25Plus => delta + f * (k1 + 1.0) / (f + k1 * p),
            Self::RankBm25l => {
                let c = f / p;
                f * (k1 + 1.0) * (c + delta) / (k1 + c + delta)
            }
        }
    }

    /// What a document without the term gets, before the idf.
    pub(super) fn absent_part(self, k1: f64, delta: f64) -> f64 {
        match self {
            Self::Bm25l if k1 + delta > 0.0 => (k1 + 1.0) * delta / (k1 + delta),
            Self::Bm25Plus => delta,
            _ => 0.0,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Variant {
    type Err = SearchError;

    fn from_str(name: &str) -> Result<Self, SearchError> {
        Self::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            SearchError::UnknownName {
                what: "BM25 variant",
                name: name.to_owned(),
                expected: Self::ALL.map(|variant| format!("`{variant}`")).join(", "),
            }
        })
    }
}

impl TryFrom<String> for Variant {
    type Error = SearchError;

    fn try_from(name: String) -> Result<Self, SearchError> {
        name.parse()
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_variants_correspond() {
        for variant in Variant::ALL {
            assert_eq!(variant.name().parse::<Variant>().unwrap(), variant);
        }
        let error = "bm25".parse::<Variant>().unwrap_err().to_string();
        assert!(error.starts_with("unknown BM25 variant `bm25`; expected `lucene`, "), "{error}");
    }

    #[test]
    fn okapi_replaces_negative_idf_by_a_quarter_of_the_mean() {
        assert_eq!(Variant::Okapi.idf(6.0, 4.0, 1.0061378620159167), 0.2515344655039792);
        assert_eq!(Variant::Okapi.idf(6.0, 3.0, 1.0), 0.0);
    }

    #[test]
    fn more_occurrences_never_score_less() {
        for variant in Variant::ALL {
            let delta = variant.default_delta().unwrap_or(0.0);
            let mut last = variant.absent_part(1.2, delta);
            for f in 1..50 {
                let part = variant.part(1.2, delta, f64::from(f), 0.8);
                assert!(part >= last, "{variant} at {f}");
                last = part;
            }
        }
    }
}
