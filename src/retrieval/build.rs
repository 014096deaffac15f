//! Texts → a folder: one tantivy segment whose document ids are the insertion ordinals.

use std::fs;
use std::path::{Path, PathBuf};

use tantivy::index::{Index, IndexSettings, SegmentId, SegmentReader};
use tantivy::indexer::{IndexWriter, IndexWriterOptions, NoMergePolicy};
use tantivy::store::Compressor;
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{TantivyDocument, TantivyError};

use crate::analyzer::JoinedTerms;
use crate::analyzer::Terms;
use crate::error::{ENTRIES_MAX, ENTRY_BYTES_MAX, SearchError};
use crate::layout::{self, Fields, ORDINAL, TOKENIZER};
use crate::meta::{IndexMeta, IndexSpec};

/// Smallest memory budget: tantivy's own lower limit for a writer.
pub const MEMORY_BYTES_MIN: usize = 15_000_000;

/// Largest memory budget: tantivy addresses its buffers with 32 bits.
const MEMORY_BYTES_MAX: usize = u32::MAX as usize - 1_000_001;

/// Size of the blocks of tantivy's document store, which stays empty here. So large that a merge
/// never copies whole blocks: the bytes then do not depend on where the budget ran out.
const STORE_BLOCK_BYTES: usize = 16 << 20;

/// Takes entries one by one and leaves a finished index in a folder.
pub struct IndexBuilder {
    dir: PathBuf,
    spec: IndexSpec,
    fields: Fields,
    index: Index,
    writer: IndexWriter,
    joined: String,
    documents: u32,
    tokens: u64,
}

/// Size of a finished index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStats {
    /// Number of entries.
    pub documents: u32,
    /// Number of terms in all entries, with repetitions.
    pub tokens: u64,
    /// Number of different terms.
    pub terms: u64,
    /// Size of all files.
    pub bytes: u64,
}

impl IndexBuilder {
    /// Starts an index in `dir`, which must be empty or not there yet. About
    /// `memory_budget_bytes` are held before terms are spilled to the folder.
    pub fn create(
        dir: impl Into<PathBuf>,
        spec: IndexSpec,
        memory_budget_bytes: usize,
    ) -> Result<Self, SearchError> {
        let dir = dir.into();
        spec.check()?;
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory_budget_bytes) {
            return Err(SearchError::Parameter {
                name: "memory budget",
                value: memory_budget_bytes.to_string(),
                expected: "between 15,000,000 bytes and 4 GiB",
            });
        }
        fs::create_dir_all(&dir).map_err(SearchError::io("create", &dir))?;
        if fs::read_dir(&dir).map_err(SearchError::io("list", &dir))?.next().is_some() {
            return Err(SearchError::FolderNotEmpty(dir));
        }
        let fields = Fields::new();
        let settings = IndexSettings {
            docstore_compression: Compressor::None,
            docstore_compress_dedicated_thread: false,
            docstore_blocksize: STORE_BLOCK_BYTES,
            ..IndexSettings::default()
        };
        let tokenizers = TokenizerManager::default();
        tokenizers.register(TOKENIZER, TextAnalyzer::from(JoinedTerms));
        let index = Index::builder()
            .tokenizers(tokenizers)
            .schema(fields.schema.clone())
            .settings(settings)
            .create_in_dir(&dir)
            .map_err(SearchError::tantivy("create an index", &dir))?;
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(memory_budget_bytes)
            .build();
        let writer: IndexWriter = index
            .writer_with_options(options)
            .map_err(SearchError::tantivy("open a writer", &dir))?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        Ok(Self {
            dir,
            spec,
            fields,
            index,
            writer,
            joined: String::new(),
            documents: 0,
            tokens: 0,
        })
    }

    /// Adds the next entry and returns its ordinal: 0, 1, 2, …
    pub fn add(&mut self, text: &str) -> Result<u32, SearchError> {
        let ordinal = self.documents;
        if ordinal == ENTRIES_MAX {
            return Err(SearchError::TooManyEntries);
        }
        if text.len() > ENTRY_BYTES_MAX {
            return Err(SearchError::EntryTooLong { ordinal, bytes: text.len() });
        }
        let length = self.spec.analyzer.join_terms(text, &mut self.joined) as u64;
        let mut document = TantivyDocument::default();
        if length > 0 {
            document.add_text(self.fields.text, &self.joined);
        }
        document.add_u64(self.fields.length, length);
        document.add_u64(self.fields.ordinal, u64::from(ordinal));
        self.writer
            .add_document(document)
            .map_err(SearchError::tantivy("add an entry", &self.dir))?;
        self.documents += 1;
        self.tokens += length;
        Ok(ordinal)
    }

    /// Merges everything into one segment in insertion order, verifies it and names the index.
    pub fn finish(mut self) -> Result<IndexStats, SearchError> {
        self.writer.commit().map_err(SearchError::tantivy("commit", &self.dir))?;
        let segments = in_insertion_order(&self.index)
            .map_err(SearchError::tantivy("read back", &self.dir))?;
        if !segments.is_empty() {
            self.writer
                .merge(&segments)
                .wait()
                .map_err(SearchError::tantivy("merge", &self.dir))?;
        }
        let Self { dir, spec, fields, index, writer, documents, tokens, .. } = self;
        writer.wait_merging_threads().map_err(SearchError::tantivy("finish a merge", &dir))?;

        let segment = only_segment(&index, &dir)?;
        let terms = match &segment {
            None => 0,
            Some(segment) => {
                verify_order(segment, documents, &dir)?;
                segment
                    .inverted_index(fields.text)
                    .map_err(SearchError::tantivy("read back terms", &dir))?
                    .terms()
                    .num_terms() as u64
            }
        };
        let name = segment.map(|segment| segment.segment_id().uuid_string());
        drop(index);
        layout::settle(&dir, name.as_deref())?;
        IndexMeta::new(&spec, documents, tokens, terms).write(&dir)?;
        Ok(IndexStats { documents, tokens, terms, bytes: layout::bytes(&dir)? })
    }
}

/// tantivy lists segments by size; the ordinal of their first entries tells when they were written.
fn in_insertion_order(index: &Index) -> Result<Vec<SegmentId>, TantivyError> {
    let mut segments = Vec::new();
    for segment in index.searchable_segments()? {
        let first = SegmentReader::open(&segment)?.fast_fields().u64(ORDINAL)?.first(0);
        segments.push((first, segment.id()));
    }
    segments.sort_by_key(|(first, _)| *first);
    Ok(segments.into_iter().map(|(_, id)| id).collect())
}

/// The reader of the only segment; `None` for an index without entries.
pub(super) fn only_segment(
    index: &Index,
    dir: &Path,
) -> Result<Option<SegmentReader>, SearchError> {
    let mut segments =
        index.searchable_segments().map_err(SearchError::tantivy("list the segments", dir))?;
    if segments.len() > 1 {
        let what = format!("{} segments instead of one", segments.len());
        return Err(SearchError::Damaged { dir: dir.to_owned(), what });
    }
    let open = |segment| SegmentReader::open(&segment);
    segments.pop().map(open).transpose().map_err(SearchError::tantivy("open the segment", dir))
}

/// Refuses a segment whose document ids are not the insertion ordinals.
fn verify_order(segment: &SegmentReader, documents: u32, dir: &Path) -> Result<(), SearchError> {
    let ordinals = segment
        .fast_fields()
        .u64(ORDINAL)
        .map_err(SearchError::tantivy("read back ordinals", dir))?;
    let misplaced = (0..segment.max_doc()).find(|&doc| ordinals.first(doc) != Some(u64::from(doc)));
    let what = match misplaced {
        Some(doc) => format!("document {doc} holds entry {:?}", ordinals.first(doc)),
        None if segment.num_docs() != documents => {
            format!("{} documents for {documents} entries", segment.num_docs())
        }
        None => return Ok(()),
    };
    Err(SearchError::Damaged { dir: dir.to_owned(), what })
}
