//! A plan that is a query: each of its partitions becomes a part.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::session::overflow;
use crate::stages::error::StageError;
use crate::stages::plan::{Execution, StagePlan, spawn};
use crate::stages::queries::kept_order::{KeptOrder, OrderWatch};
use crate::stages::sink::{Computed, Sink, Written};

/// A query over the tables of other stages.
#[derive(Debug)]
pub struct QueryPlan(pub LogicalPlan);

#[async_trait]
impl StagePlan for QueryPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let session = execution.session();
        match compute(&self.0, &session, execution.sink).await {
            Err(StageError::Query(error)) => {
                Err(overflow::with_row(&self.0, error, &session).await.into())
            }
            other => other,
        }
    }
}

/// Runs a plan; each of its partitions becomes a part. Rows have to come in the order that it ends in.
pub async fn compute(
    plan: &LogicalPlan,
    state: &SessionState,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let order = KeptOrder::of(plan)?;
    let plan = state.create_physical_plan(&order.plan).await?;
    let partitions = plan.output_partitioning().partition_count();
    let context = state.task_ctx();
    let pieces = (0..partitions).map(|i| {
        let (plan, context, sink) = (Arc::clone(&plan), Arc::clone(&context), sink.clone());
        let watch = order.watch();
        async move {
            if partitions == 1 {
                piece(plan, context, &sink, watch, (i, partitions)).await
            } else {
                // Partitions compute on several cores only as tasks of their own.
                spawn(async move { piece(plan, context, &sink, watch, (i, partitions)).await })
                    .await
            }
        }
    });
    let pieces: Vec<_> = stream::iter(pieces).buffered(partitions.max(1)).try_collect().await?;
    let (pieces, watches): (Vec<Written>, Vec<OrderWatch>) = pieces.into_iter().unzip();
    let mut watches = watches.iter().filter(|watch| watch.rows() > 0);
    if let Some(mut before) = watches.next() {
        for watch in watches {
            before.ends_before(watch)?;
            before = watch;
        }
    }
    Ok(Computed::of(pieces))
}

async fn piece(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    sink: &Sink,
    mut watch: OrderWatch,
    (number, pieces): (usize, usize),
) -> Result<(Written, OrderWatch), StageError> {
    let mut rows = plan.execute(number, context)?;
    let mut part = sink.part(number, pieces);
    while let Some(batch) = rows.next().await {
        part.write(watch.look(batch?)?).await?;
    }
    Ok((part.finish().await?, watch))
}
