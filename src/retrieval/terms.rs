//! What is known of a term: where its postings lie, the best part that any of them gets, and, if
//! it is frequent, which entries have it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;

use crate::analyzer::Terms;
use crate::dense::Dense;
use crate::scoring::Scoring;
use proofmill_settings::search::Analyzer;

/// Terms remembered at once. Beyond it everything is forgotten, which costs time and nothing else.
const TERMS_CACHED_MAX: usize = 1 << 17;

/// Memory for [`Dense`] terms. Beyond it, terms do with their postings.
const DENSE_BYTES_MAX: usize = 64 << 20;

/// A term in at least one of so many entries is kept as [`Dense`].
const DENSE_SHARE: u32 = 128;

/// The different terms of a query, each with how often it stands there.
pub(super) fn counts(analyzer: Analyzer, query: &str) -> HashMap<String, u32> {
    let mut counts = HashMap::new();
    for term in analyzer.terms(query) {
        *counts.entry(term).or_default() += 1;
    }
    counts
}

/// The order in which scores are added up: by falling weight, then by term.
pub(super) fn by_weight<T>(a: &(f64, String, T), b: &(f64, String, T)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1))
}

/// A term of the index.
#[derive(Clone)]
pub(super) struct KnownTerm {
    /// Where the postings lie, and how many.
    pub info: TermInfo,
    /// Exact maximum of [`Scoring::part`] over the postings.
    pub best_part: f64,
    /// The entries that have a frequent term.
    pub dense: Option<Arc<Dense>>,
}

/// Terms that queries have used. What is known of one takes a scan of its postings, so it is
/// done once; no result depends on what is cached.
#[derive(Default)]
pub(super) struct KnownTerms {
    cache: RwLock<Cache>,
}

#[derive(Default)]
struct Cache {
    by_text: HashMap<String, KnownTerm>,
    dense_bytes: usize,
}

impl KnownTerms {
    /// Looks `term` up; `None` if no entry has it.
    pub fn get(
        &self,
        term: &str,
        postings: &InvertedIndexReader,
        scoring: &Scoring,
    ) -> io::Result<Option<KnownTerm>> {
        let cached = {
            let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
            cache.by_text.get(term).cloned()
        };
        if cached.is_some() {
            return Ok(cached);
        }
        let Some(info) = postings.terms().get(term)? else {
            return Ok(None);
        };
        let mut known = scan(info, postings, scoring)?;
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if cache.by_text.len() >= TERMS_CACHED_MAX {
            *cache = Cache::default();
        }
        if known.dense.is_some() {
            let bytes = Dense::bytes(scoring.documents());
            if cache.dense_bytes + bytes > DENSE_BYTES_MAX {
                known.dense = None;
            } else if !cache.by_text.contains_key(term) {
                cache.dense_bytes += bytes;
            }
        }
        cache.by_text.insert(term.to_owned(), known.clone());
        Ok(Some(known))
    }
}

fn scan(
    info: TermInfo,
    postings: &InvertedIndexReader,
    scoring: &Scoring,
) -> io::Result<KnownTerm> {
    let documents = scoring.documents();
    let frequent = info.doc_freq >= documents.div_ceil(DENSE_SHARE);
    let mut dense = frequent.then(|| Dense::new(documents));
    let mut best_part = f64::NEG_INFINITY;
    let mut list =
        postings.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
    while !list.docs().is_empty() {
        for (&doc, &f) in list.docs().iter().zip(list.freqs()) {
            best_part = best_part.max(scoring.part(doc, f));
            if let Some(dense) = &mut dense {
                dense.set(doc, f);
            }
        }
        list.advance();
    }
    Ok(KnownTerm { info, best_part, dense: dense.map(Arc::new) })
}
