//! The BM25 formulas, as a closed set: how rare a term is and how much one posting is worth.
//!
//! Every variant is a sum over query terms of `idf(t) * part(f, p)`, where `f` is the frequency of
//! the term in the document and `p = 1 - b + b * len / average len`. Sources: the released code of
//! bm25s 0.3, rank_bm25 0.2.2 and tantivy 0.27, and Kamphuis et al., "Which BM25 Do You Mean?"
//! (ECIR 2020). Check values: the `bm25.*` cases of the golden file.

use proofmill_settings::search::Variant;

/// Share of the mean idf that replaces a negative one (rank_bm25's `epsilon`).
pub const OKAPI_EPSILON: f64 = 0.25;

/// What a variant computes. With `N` documents, `n` of which have the term, `c = f/p` and a lower bound `d`, the sum is of
///
/// - `lucene`: `ln(1 + (N-n+.5)/(n+.5)) * f / (f + k1 p)`; `lucene7` times `k1 + 1`; `tantivy` likewise, and a repeated query
///   term counts once. Lengths are exact; tantivy itself rounds those above 40 tokens to one byte.
/// - `okapi`: `ln((N-n+.5)/(n+.5)) * f (k1+1) / (f + k1 p)`, where a negative idf becomes a quarter of the mean idf over all
///   terms; `robertson` (bm25s): `max(0, ln((N-n+.5)/(n+.5))) * f / (f + k1 p)`.
/// - `atire` (bm25s): `ln(N/n) * f (k1+1) / (f + k1 p)`.
/// - `bm25l` (bm25s): `ln((N+1)/(n+.5)) * (k1+1)(c+d) / (k1+c+d)`, also for `f = 0`; `rank_bm25l` times `f`.
/// - `bm25+` (bm25s): `ln((N+1)/n) * (d + f (k1+1) / (f + k1 p))`, also for `f = 0`. With delta 1 these are the numbers of
///   rank_bm25's `BM25Plus`.
pub(crate) trait Formula {
    /// Saturation `k1` where none is given: what the named implementation has.
    fn default_k1(self) -> f64;
    /// Length normalisation `b` where none is given.
    fn default_b(self) -> f64;
    /// Lower-bounding `delta` where none is given; `None` if the formula has none.
    fn default_delta(self) -> Option<f64>;
    /// How often a term counts that stands `count` times in the query.
    fn query_count(self, count: u32) -> f64;
    /// Inverse document frequency of a term in `n` of `total` documents; `mean` is the mean of
    /// [`raw_okapi_idf`] over all terms and matters to `okapi` only.
    fn idf(self, total: f64, n: f64, mean: f64) -> f64;
    /// What a document with frequency `f` and length pivot `p` gets, before the idf.
    fn part(self, k1: f64, delta: f64, f: f64, p: f64) -> f64;
    /// What a document without the term gets, before the idf.
    fn absent_part(self, k1: f64, delta: f64) -> f64;
}

/// The idf of Robertson and Spärck Jones, which is negative for terms in most documents.
pub(crate) fn raw_okapi_idf(total: f64, n: f64) -> f64 {
    (total - n + 0.5).ln() - (n + 0.5).ln()
}

impl Formula for Variant {
    fn default_k1(self) -> f64 {
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

    fn default_b(self) -> f64 {
        0.75
    }

    fn default_delta(self) -> Option<f64> {
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

    fn query_count(self, count: u32) -> f64 {
        match self {
            Self::Tantivy => 1.0,
            _ => f64::from(count),
        }
    }

    fn idf(self, total: f64, n: f64, mean: f64) -> f64 {
        match self {
            Self::Lucene | Self::Lucene7 | Self::Tantivy => {
                (1.0 + (total - n + 0.5) / (n + 0.5)).ln()
            }
            Self::Okapi => match raw_okapi_idf(total, n) {
                idf if idf < 0.0 => OKAPI_EPSILON * mean,
                idf => idf,
            },
            Self::Robertson => ((total - n + 0.5) / (n + 0.5)).ln().max(0.0),
            Self::Atire => (total / n).ln(),
            Self::Bm25l | Self::RankBm25l => ((total + 1.0) / (n + 0.5)).ln(),
            Self::Bm25Plus => ((total + 1.0) / n).ln(),
        }
    }

    fn part(self, k1: f64, delta: f64, f: f64, p: f64) -> f64 {
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

    fn absent_part(self, k1: f64, delta: f64) -> f64 {
        match self {
            Self::Bm25l if k1 + delta > 0.0 => (k1 + 1.0) * delta / (k1 + delta),
            Self::Bm25Plus => delta,
            _ => 0.0,
        }
    }
}

/// Variants by their names in `bm25.json`.
pub(crate) mod stored {
    use proofmill_settings::search::Variant;
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(variant: &Variant, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(variant.stored_name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Variant, D::Error> {
        let name = String::deserialize(deserializer)?;
        let named = |variant: &Variant| variant.stored_name() == name;
        Variant::ALL.into_iter().find(named).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Str(&name), &"the name of a BM25 variant")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                assert!(part >= last, "{variant:?} at {f}");
                last = part;
            }
        }
    }
}
