//! An index in memory that grows entry by entry, for memories that are searched between two
//! entries.
//!
//! It gives what [`Bm25Index`](crate::Bm25Index) gives over the same entries, bit for bit:
//! the same terms and parts, added up in the same order. It looks at every posting of the query's
//! terms, which is right for thousands of entries and not for millions.

use std::collections::BTreeMap;

use crate::analyzer::Terms;
use crate::error::{ENTRIES_MAX, ENTRY_BYTES_MAX, SearchError};
use crate::meta::{IndexMeta, IndexSpec};
use crate::scoring::Scoring;
use crate::terms::{by_weight, counts};
use crate::topk::{Hit, TopK};
use crate::variant::raw_okapi_idf;
use proofmill_settings::search::Variant;

/// An entry that has a term, and how often.
type Posting = (u32, u32);

/// Entries in the order in which they were added, and where their terms are.
#[derive(Debug)]
pub struct GrowingIndex {
    spec: IndexSpec,
    lengths: Vec<u32>,
    tokens: u64,
    /// By ordinal within each term.
    postings: BTreeMap<String, Vec<Posting>>,
}

impl GrowingIndex {
    /// An index without entries.
    ///
    /// # Errors
    ///
    /// If a parameter of `spec` is outside its range.
    pub fn new(spec: IndexSpec) -> Result<Self, SearchError> {
        spec.check()?;
        Ok(Self { spec, lengths: Vec::new(), tokens: 0, postings: BTreeMap::new() })
    }

    /// Adds the next entry and returns its ordinal: 0, 1, 2, …
    ///
    /// # Errors
    ///
    /// If the entry, or the number of entries, is larger than an index in a folder takes.
    pub fn add(&mut self, text: &str) -> Result<u32, SearchError> {
        let ordinal = self.lengths.len() as u32;
        if ordinal == ENTRIES_MAX {
            return Err(SearchError::TooManyEntries);
        }
        if text.len() > ENTRY_BYTES_MAX {
            return Err(SearchError::EntryTooLong { ordinal, bytes: text.len() });
        }
        let terms = self.spec.analyzer.terms(text);
        self.lengths.push(terms.len() as u32);
        self.tokens += terms.len() as u64;
        for term in terms {
            let list = self.postings.entry(term).or_default();
            match list.last_mut() {
                Some((last, f)) if *last == ordinal => *f += 1,
                _ => list.push((ordinal, 1)),
            }
        }
        Ok(ordinal)
    }

    /// The at most `k` best entries for each query, as
    /// [`Bm25Index::search`](crate::Bm25Index::search) orders them.
    pub fn search(&self, queries: &[&str], k: usize) -> Vec<Vec<Hit>> {
        let k = k.min(self.lengths.len());
        if k == 0 {
            return vec![Vec::new(); queries.len()];
        }
        let documents = self.lengths.len() as u32;
        let meta = IndexMeta::new(&self.spec, documents, self.tokens, self.postings.len() as u64);
        let scoring = Scoring::new(&meta, &self.lengths, self.mean_idf());
        queries.iter().map(|query| self.best(query, k, &scoring)).collect()
    }

    fn best(&self, query: &str, k: usize, scoring: &Scoring) -> Vec<Hit> {
        let mut lists = Vec::new();
        for (term, count) in counts(self.spec.analyzer, query) {
            if let Some(postings) = self.postings.get(&term) {
                let weight = scoring.weight(count, postings.len() as u32);
                if weight != 0.0 {
                    lists.push((weight, term, postings));
                }
            }
        }
        lists.sort_by(by_weight);
        let absent: f64 = lists.iter().map(|(weight, ..)| weight * scoring.absent_part()).sum();
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (weight, _, postings) in lists {
            for &(ordinal, f) in postings {
                let gain = weight * scoring.part(ordinal, f) - weight * scoring.absent_part();
                *sums.entry(ordinal).or_insert(absent) += gain;
            }
        }
        let mut top = TopK::new(k, 0.0);
        sums.into_iter().for_each(|(ordinal, score)| top.offer(Hit { ordinal, score }));
        top.into_hits()
    }

    /// As an index in a folder computes it: state in the order of the terms.
    fn mean_idf(&self) -> f64 {
        if self.spec.variant != Variant::Okapi || self.postings.is_empty() {
            return 0.0;
        }
        let documents = self.lengths.len() as f64;
        let idfs = self.postings.values().map(|list| raw_okapi_idf(documents, list.len() as f64));
        idfs.fold(0.0, |sum, idf| sum + idf) / self.postings.len() as f64
    }
}
