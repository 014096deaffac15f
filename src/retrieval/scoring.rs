//! A variant bound to one index: exact lengths, idf of its terms, and parts looked up in a table.

use std::collections::HashMap;

use crate::meta::IndexMeta;
use crate::variant::Formula;
use proofmill_settings::search::Variant;

/// Frequencies up to this one are looked up.
const TABLE_FREQUENCY_MAX: u32 = 4;
/// Lengths below this one are looked up, and kept in one byte: a million entries then fit a
/// processor's cache.
const TABLE_LENGTHS: u32 = 255;

/// The formula of one index.
pub(super) struct Scoring {
    variant: Variant,
    k1: f64,
    b: f64,
    delta: f64,
    documents: f64,
    average_length: f64,
    mean_idf: f64,
    /// By ordinal; [`TABLE_LENGTHS`] stands for a length in `long`.
    lengths: Vec<u8>,
    /// The other lengths, by ordinal.
    long: HashMap<u32, u32>,
    /// Parts by length and frequency.
    table: Vec<f64>,
}

impl Scoring {
    /// `lengths` by ordinal; `mean_idf` as in [`Formula::idf`].
    pub fn new(meta: &IndexMeta, lengths: &[u32], mean_idf: f64) -> Self {
        let long = (0..).zip(lengths).filter(|&(_, &length)| length >= TABLE_LENGTHS);
        let mut scoring = Self {
            variant: meta.variant,
            k1: meta.k1,
            b: meta.b,
            delta: meta.delta.unwrap_or(0.0),
            documents: f64::from(meta.documents),
            average_length: meta.tokens as f64 / f64::from(meta.documents),
            mean_idf,
            lengths: lengths.iter().map(|&length| length.min(TABLE_LENGTHS) as u8).collect(),
            long: long.map(|(ordinal, &length)| (ordinal, length)).collect(),
            table: Vec::new(),
        };
        scoring.table = (0..TABLE_LENGTHS)
            .flat_map(|length| (1..=TABLE_FREQUENCY_MAX).map(move |f| (length, f)))
            .map(|(length, f)| scoring.compute(f, length))
            .collect();
        scoring
    }

    /// Number of entries.
    pub fn documents(&self) -> u32 {
        self.documents as u32
    }

    /// What a query term is worth that stands `count` times in the query and in `doc_freq` entries.
    pub fn weight(&self, count: u32, doc_freq: u32) -> f64 {
        let idf = self.variant.idf(self.documents, f64::from(doc_freq), self.mean_idf);
        self.variant.query_count(count) * idf
    }

    /// What entry `ordinal` gets for `f` occurrences, before the weight.
    #[inline]
    pub fn part(&self, ordinal: u32, f: u32) -> f64 {
        let length = u32::from(self.lengths[ordinal as usize]);
        if length < TABLE_LENGTHS && f <= TABLE_FREQUENCY_MAX {
            self.table[(length * TABLE_FREQUENCY_MAX + f - 1) as usize]
        } else {
            self.compute(f, self.long.get(&ordinal).copied().unwrap_or(length))
        }
    }

    /// What an entry without the term gets, before the weight.
    pub fn absent_part(&self) -> f64 {
        self.variant.absent_part(self.k1, self.delta)
    }

    fn compute(&self, f: u32, length: u32) -> f64 {
        let pivot = 1.0 - self.b + self.b * f64::from(length) / self.average_length;
        self.variant.part(self.k1, self.delta, f64::from(f), pivot)
    }
}
