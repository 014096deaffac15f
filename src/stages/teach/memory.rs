//! The memory while it grows: different facts in the order in which they were learnt, and the index
//! that recalls them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tempfile::TempDir;

use crate::search::{
    Analyzer, Bm25Index, IndexBuilder, IndexSpec, MEMORY_BYTES_MIN, SearchError, Variant,
};
use crate::stages::error::StageError;
pub use crate::stages::index::fact_id;

/// Different facts; case and white space make no difference.
#[derive(Default)]
pub struct Memory {
    facts: Vec<String>,
    known: HashSet<String>,
    /// Over the first so many facts.
    index: Option<(usize, TempDir, Bm25Index)>,
}

/// Columns of what is recalled, those of a `retrieve` stage that proofs need.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("query_id", DataType::Utf8, false),
        Field::new("rank", DataType::Int64, false),
        Field::new("score", DataType::Float64, false),
        Field::new("fact_id", DataType::Utf8, false),
        Field::new("fact", DataType::Utf8, false),
    ]))
}

impl Memory {
    /// Adds a fact unless it is known.
    pub fn learn(&mut self, fact: &str) {
        if !fact.trim().is_empty() && self.known.insert(fact_id(fact)) {
            self.facts.push(fact.to_owned());
        }
    }

    /// How many facts it holds.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// The best `most` facts for each question `(id, text)`, with the defaults of `index: bm25`.
    pub fn recall(
        &mut self,
        questions: &[(&str, &str)],
        most: usize,
    ) -> Result<RecordBatch, StageError> {
        let mut rows = Rows::default();
        if let Some(index) = self.index()? {
            let texts: Vec<&str> = questions.iter().map(|(_, text)| *text).collect();
            let found = index.search_batch(&texts, most, 1)?;
            for ((id, _), hits) in questions.iter().zip(found) {
                for (rank, hit) in (1..).zip(hits) {
                    let fact = &self.facts[hit.ordinal as usize];
                    rows.query_id.push((*id).to_owned());
                    rows.rank.push(rank);
                    rows.score.push(hit.score);
                    rows.fact_id.push(fact_id(fact));
                    rows.fact.push(fact.clone());
                }
            }
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(rows.query_id)),
            Arc::new(Int64Array::from(rows.rank)),
            Arc::new(Float64Array::from(rows.score)),
            Arc::new(StringArray::from(rows.fact_id)),
            Arc::new(StringArray::from(rows.fact)),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }

    /// The index over all facts; `None` if there are none.
    fn index(&mut self) -> Result<Option<&Bm25Index>, StageError> {
        let current = self.index.as_ref().is_some_and(|(facts, ..)| *facts == self.facts.len());
        if !current {
            self.index = None;
            if !self.facts.is_empty() {
                let (folder, index) = self.build()?;
                self.index = Some((self.facts.len(), folder, index));
            }
        }
        Ok(self.index.as_ref().map(|(_, _, index)| index))
    }

    fn build(&self) -> Result<(TempDir, Bm25Index), StageError> {
        let failed = |source| StageError::Write { path: "a temporary folder".to_owned(), source };
        let folder = tempfile::tempdir().map_err(failed)?;
        let path = folder.path().join("index");
        let spec = IndexSpec {
            variant: Variant::Lucene,
            k1: None,
            b: None,
            delta: None,
            analyzer: Analyzer::Word,
        };
        let build = || -> Result<Bm25Index, SearchError> {
            let mut builder = IndexBuilder::create(&path, spec, MEMORY_BYTES_MIN)?;
            for fact in &self.facts {
                builder.add(fact)?;
            }
            builder.finish()?;
            Bm25Index::open(&path)
        };
        let index = build()?;
        Ok((folder, index))
    }
}

#[derive(Default)]
struct Rows {
    query_id: Vec<String>,
    rank: Vec<i64>,
    score: Vec<f64>,
    fact_id: Vec<String>,
    fact: Vec<String>,
}
