//! A plan that is a query: each of its partitions becomes a part.

use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::{StreamExt, TryStreamExt, stream};

use crate::session::execute::{Operators, with_row};
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
            Err(StageError::Query(error)) => Err(with_row(&self.0, error, &session).await.into()),
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
    let operators = Operators::of(&order.plan, state).await?;
    let partitions = operators.partitions();
    let pieces = (0..partitions).map(|i| {
        let (operators, sink, watch) = (operators.clone(), sink.clone(), order.watch());
        async move {
            if partitions == 1 {
                piece(&operators, &sink, watch, (i, partitions)).await
            } else {
                // Partitions compute on several cores only as tasks of their own.
                spawn(async move { piece(&operators, &sink, watch, (i, partitions)).await }).await
            }
        }
    });
    let pieces: Vec<_> = stream::iter(pieces).buffered(partitions).try_collect().await?;
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
    operators: &Operators,
    sink: &Sink,
    mut watch: OrderWatch,
    (number, pieces): (usize, usize),
) -> Result<(Written, OrderWatch), StageError> {
    let mut rows = operators.partition(number)?;
    let mut part = sink.part(number, pieces);
    while let Some(batch) = rows.next().await {
        part.write(watch.look(batch?)?).await?;
    }
    Ok((part.finish().await?, watch))
}
