//! A query of ours over filled tables, with all its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, Float64Array, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;

use crate::session::{self, Engine, StageTable, execute};
use crate::sqltext;
use crate::stages::error::StageError;
use crate::stages::tables::values::{Key, text_at};

/// All rows that `sql` gives over `tables`, by the names that it uses for them.
///
/// # Errors
///
/// When the query does not fit the tables, or cannot be run.
pub async fn rows_of(
    sql: &str,
    tables: &[(&str, &Arc<StageTable>)],
    engine: &Engine,
) -> Result<(SchemaRef, Vec<RecordBatch>), StageError> {
    let query = sqltext::parse(sql).map_err(|error| StageError::Task(error.message))?;
    let named: HashMap<String, Arc<dyn TableProvider>> = tables
        .iter()
        .map(|(name, table)| ((*name).to_owned(), Arc::clone(table) as Arc<dyn TableProvider>))
        .collect();
    let planned = session::query(engine.planning(), &query, named)
        .map_err(|error| StageError::Task(error.message))?;
    let rows = tables.iter().map(|(_, table)| table.rows()).sum();
    let state = engine.running(rows, None);
    Ok((planned.schema, execute::collected(&planned.plan, &state).await?))
}

/// The rows of a query as texts and numbers.
pub struct TextsAndNumbers {
    pub texts: Vec<StringArray>,
    values: Vec<Float64Array>,
    rows: usize,
}

impl TextsAndNumbers {
    /// The first `texts` columns of the query as texts, the rest as numbers.
    ///
    /// # Errors
    ///
    /// As [`rows_of`]; if a value is no such text or number.
    pub async fn of(
        sql: &str,
        name: &str,
        table: &Arc<StageTable>,
        texts: usize,
        engine: &Engine,
    ) -> Result<Self, StageError> {
        let (schema, batches) = rows_of(sql, &[(name, table)], engine).await?;
        let all = concat_batches(&schema, &batches).map_err(StageError::from)?;
        let column = |i: usize, kind| cast(all.column(i), &kind).map_err(StageError::from);
        let text = |i| Ok(column(i, DataType::Utf8)?.as_any().downcast_ref().cloned());
        let value = |i| Ok(column(i, DataType::Float64)?.as_any().downcast_ref().cloned());
        let texts_: Result<Option<_>, StageError> = (0..texts).map(text).collect();
        let values: Result<Option<_>, StageError> = (texts..all.num_columns()).map(value).collect();
        Ok(Self {
            texts: texts_?.unwrap_or_default(),
            values: values?.unwrap_or_default(),
            rows: all.num_rows(),
        })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Texts of a row.
    pub fn text(&self, row: usize, columns: std::ops::Range<usize>) -> Key {
        self.texts[columns].iter().map(|column| text_at(column, row)).collect()
    }

    /// A number of a row, counted from the first that is no text.
    pub fn value(&self, row: usize, column: usize) -> Option<f64> {
        let column = &self.values[column];
        column.is_valid(row).then(|| column.value(row))
    }
}
