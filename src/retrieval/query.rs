//! A folder and queries → hits: exact BM25, best first, ties by insertion order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::index::{Index, InvertedIndexReader, SegmentReader};
use tantivy::schema::IndexRecordOption;

use crate::batch;
use crate::build::only_segment;
use crate::error::SearchError;
use crate::layout::{Fields, LENGTH};
use crate::maxscore::{self, List};
use crate::meta::IndexMeta;
use crate::scoring::Scoring;
use crate::terms::{KnownTerm, KnownTerms, by_weight, counts};
use crate::topk::Hit;
use crate::variant::raw_okapi_idf;
use proofmill_settings::search::Variant;

/// An index that is ready to be searched, from any number of threads.
pub struct Bm25Index {
    meta: IndexMeta,
    dir: PathBuf,
    /// `None` if there are no entries.
    postings: Option<Arc<InvertedIndexReader>>,
    scoring: Scoring,
    known: KnownTerms,
}

impl Bm25Index {
    /// Opens a finished index. Its folder is only read, and must stay while the index is in use.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, SearchError> {
        let dir = dir.as_ref();
        let meta = IndexMeta::read(dir)?;
        let index = Index::open_in_dir(dir).map_err(SearchError::tantivy("open", dir))?;
        let fields = Fields::new();
        if index.schema() != fields.schema {
            let what = "the schema is not that of a BM25 index".to_owned();
            return Err(SearchError::Damaged { dir: dir.to_owned(), what });
        }
        let segment = only_segment(&index, dir)?;
        let lengths = match &segment {
            None => Vec::new(),
            Some(segment) => {
                read_lengths(segment).map_err(SearchError::tantivy("read lengths", dir))?
            }
        };
        let tokens: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        if lengths.len() != meta.documents as usize || tokens != meta.tokens {
            let what = format!(
                "{} entries with {tokens} terms; its meta file says {} with {}",
                lengths.len(),
                meta.documents,
                meta.tokens
            );
            return Err(SearchError::Damaged { dir: dir.to_owned(), what });
        }
        let postings = segment
            .map(|segment| segment.inverted_index(fields.text))
            .transpose()
            .map_err(SearchError::tantivy("open the terms", dir))?;
        let mean_idf = match (&postings, meta.variant) {
            (Some(postings), Variant::Okapi) => mean_okapi_idf(postings, meta.documents)
                .map_err(SearchError::tantivy("read the terms", dir))?,
            _ => 0.0,
        };
        let scoring = Scoring::new(&meta, &lengths, mean_idf);
        Ok(Self { meta, dir: dir.to_owned(), postings, scoring, known: KnownTerms::default() })
    }

    pub fn meta(&self) -> &IndexMeta {
        &self.meta
    }

    /// The at most `k` best entries for `query` with a score above 0: higher score first, then
    /// lower ordinal, also where the k-th place is cut.
    pub fn search(&self, query: &str, k: usize) -> Result<Vec<Hit>, SearchError> {
        self.search_excluding(query, k, &[])
    }

    /// [`Bm25Index::search`] as if the `excluded` entries did not answer. They still count in
    /// document frequencies and in the average length.
    pub fn search_excluding(
        &self,
        query: &str,
        k: usize,
        excluded: &[u32],
    ) -> Result<Vec<Hit>, SearchError> {
        let k = k.min(self.meta.documents as usize);
        let Some(postings) = self.postings.as_ref().filter(|_| k > 0) else {
            return Ok(Vec::new());
        };
        let mut lists = self
            .lists(query, postings)
            .map_err(SearchError::tantivy("read postings", &self.dir))?;
        let mut excluded = excluded.to_vec();
        excluded.sort_unstable();
        Ok(maxscore::best(&mut lists, &self.scoring, k, &excluded))
    }

    /// [`Bm25Index::search`] for each query, on `threads` threads; the number of threads changes
    /// neither order nor bits of the result.
    pub fn search_batch(
        &self,
        queries: &[&str],
        k: usize,
        threads: usize,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        batch::in_order(queries.len(), threads, |i| self.search(queries[i], k))
    }

    /// The postings of the query's terms, by falling weight and then by term: the order in which
    /// scores are added up.
    fn lists(&self, query: &str, postings: &InvertedIndexReader) -> std::io::Result<Vec<List>> {
        let counts = counts(self.meta.analyzer, query);
        let mut terms = Vec::with_capacity(counts.len());
        for (term, count) in counts {
            if let Some(known) = self.known.get(&term, postings, &self.scoring)? {
                let weight = self.scoring.weight(count, known.info.doc_freq);
                if weight != 0.0 {
                    terms.push((weight, term, known));
                }
            }
        }
        terms.sort_by(by_weight);
        let open = |(weight, _, known): (f64, String, KnownTerm)| {
            let list = postings
                .read_block_postings_from_terminfo(&known.info, IndexRecordOption::WithFreqs)?;
            Ok(List::new(list, known, weight, &self.scoring))
        };
        terms.into_iter().map(open).collect()
    }
}

fn read_lengths(segment: &SegmentReader) -> Result<Vec<u32>, tantivy::TantivyError> {
    let column = segment.fast_fields().u64(LENGTH)?;
    let length = |doc| column.first(doc).and_then(|length| u32::try_from(length).ok());
    Ok((0..segment.max_doc()).filter_map(length).collect())
}

/// Mean over all terms of the raw idf: rank_bm25's `average_idf`.
fn mean_okapi_idf(
    postings: &InvertedIndexReader,
    documents: u32,
) -> Result<f64, tantivy::TantivyError> {
    let mut stream = postings.terms().stream()?;
    let (mut sum, mut terms) = (0.0, 0u64);
    while stream.advance() {
        let doc_freq = f64::from(stream.value().doc_freq);
        sum += raw_okapi_idf(f64::from(documents), doc_freq);
        terms += 1;
    }
    Ok(if terms == 0 { 0.0 } else { sum / terms as f64 })
}
