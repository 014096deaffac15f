//! The memory while it grows: different facts in the order in which they were learnt, and the index
//! that recalls them.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::stages::error::StageError;
pub use proofmill_base::sentence::fact_id;
use proofmill_retrieval::{GrowingIndex, IndexSpec};
use proofmill_settings::search::{Analyzer, Variant};

/// Different facts; case and white space make no difference.
pub struct Memory {
    facts: Vec<(String, String)>,
    known: HashSet<String>,
    index: GrowingIndex,
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

/// Columns of all facts, which premises must not contradict.
pub fn facts_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("fact", DataType::Utf8, false)]))
}

impl Memory {
    /// A memory without facts, which are found with the defaults of `index: bm25` but for the
    /// analyzer.
    pub fn new(analyzer: Analyzer) -> Result<Self, StageError> {
        let spec = IndexSpec { variant: Variant::Lucene, k1: None, b: None, delta: None, analyzer };
        let index = GrowingIndex::new(spec)?;
        Ok(Self { facts: Vec::new(), known: HashSet::new(), index })
    }

    /// Adds a fact unless it is known, or nothing.
    pub fn learn(&mut self, fact: &str) -> Result<(), StageError> {
        let id = fact_id(fact);
        if !fact.trim().is_empty() && self.known.insert(id.clone()) {
            self.index.add(fact)?;
            self.facts.push((id, fact.to_owned()));
        }
        Ok(())
    }

    /// How many facts it holds.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// All facts, in the order in which they were learnt.
    pub fn table(&self) -> Result<RecordBatch, StageError> {
        let facts: StringArray = self.facts.iter().map(|(_, fact)| Some(fact)).collect();
        Ok(RecordBatch::try_new(facts_schema(), vec![Arc::new(facts)])?)
    }

    /// The best `most` facts for each question `(id, text)`.
    pub fn recall(
        &self,
        questions: &[(&str, &str)],
        most: usize,
    ) -> Result<RecordBatch, StageError> {
        let mut rows = Rows::default();
        let texts: Vec<&str> = questions.iter().map(|(_, text)| *text).collect();
        let found = self.index.search(&texts, most);
        for ((question, _), hits) in questions.iter().zip(found) {
            for (rank, hit) in (1..).zip(hits) {
                let (id, fact) = &self.facts[hit.ordinal as usize];
                rows.query_id.push((*question).to_owned());
                rows.rank.push(rank);
                rows.score.push(hit.score);
                rows.fact_id.push(id.clone());
                rows.fact.push(fact.clone());
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
}

#[derive(Default)]
struct Rows {
    query_id: Vec<String>,
    rank: Vec<i64>,
    score: Vec<f64>,
    fact_id: Vec<String>,
    fact: Vec<String>,
}
