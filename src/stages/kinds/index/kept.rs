//! What entries keep of the rows behind them: the id that identifies a row, and the columns that neighbours
//! give back. With either, each row is an entry of its own.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};

use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind;
use proofmill_base::digest::Digest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::index::Index;
use proofmill_settings::search::IndexBy;

/// Columns that indexes and rankings have of their own.
const TAKEN: [&str; 12] = [
    "entry", "fact_id", "fact", "text", "sources", "vector", "query_id", "rank", "score", "index",
    "snapshot", "evidence",
];

/// What is kept, checked against the columns of the memory.
#[derive(Clone, Debug, Default)]
pub struct KeptColumns {
    /// The column that identifies a row; `None` where rows with the same text share an entry.
    pub id: Option<String>,
    /// The columns, as the memory has them.
    pub columns: Vec<FieldRef>,
}

impl KeptColumns {
    /// Checks the settings; `None` after a diagnostic.
    pub fn of(
        settings: &Index,
        input: &SchemaRef,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Self> {
        let Some(id) = settings.row_column() else { return Some(Self::default()) };
        if settings.id.is_none() && input.index_of(id).is_err() {
            let message = format!("`keep` needs `id`: the memory has no column `{id}`");
            let help = "name the column that identifies a row of the memory in `id`".to_owned();
            diagnostics.error(&["index", "keep"], Code::MissingKey, message, Some(help));
            return None;
        }
        if settings.by == IndexBy::RelevantQuestions {
            let message = "`by: relevant_questions` makes one entry of several rows, but `id` and `keep` \
                           need one entry per row";
            let help = "write `fact`, `question` or `question_fact`".to_owned();
            diagnostics.error(&["index", "by"], Code::WrongValue, message.to_owned(), Some(help));
            return None;
        }
        let fits: fn(&DataType) -> bool = |kind| kind.is_string() || kind.is_integer();
        let expected = ("a string or a whole number", fits, None);
        let found = diagnostics.typed_column(&["index", "id"], id, input, expected);
        let keep = sql_kind::keep("index", &settings.keep, &TAKEN, input, diagnostics);
        let ((), _) = (keep?, found?);
        let field = |column: &String| input.fields().find(column).map(|(_, it)| Arc::clone(it));
        let columns = settings.keep.iter().filter_map(field).collect();
        Some(Self { id: Some(id.to_owned()), columns })
    }

    /// The columns of an index with those that are kept behind them.
    pub fn behind(&self, schema: &Schema) -> SchemaRef {
        let fields = schema.fields().iter().chain(&self.columns).cloned();
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// What a label says of it.
    pub fn label(settings: &Index) -> &'static str {
        if settings.row_column().is_some() { "/rows" } else { "" }
    }
}

/// The ids of the rows so far, so that none stands for two.
#[derive(Debug, Default)]
pub struct Ids(HashSet<Digest>);

impl Ids {
    /// `id`, the value of `column` in the row with this number, from 0.
    ///
    /// # Errors
    ///
    /// If it is NULL, or another row has it.
    pub fn checked<'a>(
        &mut self,
        column: &str,
        id: Option<&'a str>,
        row: u64,
    ) -> Result<&'a str, StageError> {
        let wrong = |message| StageError::Data {
            message,
            help: "name a column in `id` that identifies a row of the memory, or make one"
                .to_owned(),
        };
        let id = id.ok_or_else(|| wrong(format!("`{column}` of row {} is NULL", row + 1)))?;
        if !self.0.insert(Digest::of(id.as_bytes())) {
            return Err(wrong(format!("two rows of the memory have the `{column}` `{id}`")));
        }
        Ok(id)
    }
}
