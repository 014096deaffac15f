//! A query of ours over filled tables, with all its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;

use crate::session::{self, Engine, StageTable, execute};
use crate::sqltext;
use crate::stages::error::StageError;

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
