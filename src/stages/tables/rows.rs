//! The rows of a stored table, in their order: all columns, or some without holding a whole part.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result as QueryResult, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value as Json};

use crate::session::execute::Operators;
use crate::session::{Content, Engine, StageTable};
use crate::stages::error::StageError;
use proofmill_store::{Part, Store, stream_part};

/// The rows of a filled table; none before it is filled.
pub fn of_table(
    table: &StageTable,
    store: &Store,
) -> BoxStream<'static, Result<RecordBatch, StageError>> {
    match table.stored().map(|stored| &stored.content) {
        Some(Content::Memory(batches)) => stream::iter(batches.clone()).map(Ok).boxed(),
        Some(Content::Parts(parts)) => of_parts(parts.clone(), store.clone()),
        None => stream::empty().boxed(),
    }
}

/// The rows of parts, one part after the other, each verified before it is decoded.
pub fn of_parts(
    parts: Vec<Part>,
    store: Store,
) -> BoxStream<'static, Result<RecordBatch, StageError>> {
    stream::iter(parts)
        .then(move |part| {
            let store = store.clone();
            async move {
                let (_, rows) = stream_part(&store, &part).await?;
                Ok::<_, StageError>(rows.map_err(StageError::from))
            }
        })
        .try_flatten()
        .boxed()
}

/// `columns` of a filled table, one part after the other.
pub async fn columns(
    table: &Arc<StageTable>,
    columns: Vec<Expr>,
    engine: &Engine,
) -> Result<BoxStream<'static, Result<RecordBatch, StageError>>, StageError> {
    let source = provider_as_source(Arc::clone(table) as Arc<dyn TableProvider>);
    let plan = || -> QueryResult<_> {
        LogicalPlanBuilder::scan(TableReference::bare("scanned"), source, None)?
            .project(columns)?
            .build()
    };
    // One partition: the parts one after the other.
    let state = engine.running(0, Some(1));
    let rows = Operators::of(&plan()?, &state).await?.stream()?;
    Ok(rows.map_err(StageError::from).boxed())
}

/// The rows of a small table as JSON objects; nothing for what JSON cannot hold.
pub fn objects(batches: &[RecordBatch]) -> Vec<Map<String, Json>> {
    try_objects(batches).unwrap_or_default()
}

/// Rows as JSON objects.
///
/// # Errors
///
/// If there is a column that JSON cannot hold.
pub fn try_objects(batches: &[RecordBatch]) -> Result<Vec<Map<String, Json>>, ArrowError> {
    let mut writer = arrow::json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, arrow::json::writer::JsonArray>(Vec::new());
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    writer.write_batches(&batches)?;
    writer.finish()?;
    serde_json::from_slice(&writer.into_inner())
        .map_err(|error| ArrowError::JsonError(error.to_string()))
}
