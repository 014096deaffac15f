//! Some columns of a stored table, in the order of its rows, without holding a whole part.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result as QueryResult, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::physical_plan::execute_stream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use crate::session::{Engine, StageTable};
use crate::stages::error::StageError;

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
    let plan = state.create_physical_plan(&plan()?).await?;
    Ok(execute_stream(plan, state.task_ctx())?.map_err(StageError::from).boxed())
}
