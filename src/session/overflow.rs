//! Which row a number comes from that has no place in its type. Arithmetic sees its two sides alone, and reading whole rows for
//! an error that hardly ever comes would cost every query; so the query runs once more, with its rows, after it has failed.

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{collect, execute_stream};
use futures::TryStreamExt;
use proofmill_udfs::exact::Overflow;

use crate::session::rules::ToldRows;

/// All rows of a plan.
///
/// # Errors
///
/// Whatever keeps it from being run; for a number that has no place, with its row.
pub async fn collected(plan: &LogicalPlan, state: &SessionState) -> Result<Vec<RecordBatch>> {
    let rows = async {
        let operators = state.create_physical_plan(plan).await?;
        collect(operators, state.task_ctx()).await
    };
    match rows.await {
        Err(error) => Err(with_row(plan, error, state).await),
        rows => rows,
    }
}

/// Why a plan failed in `state`, with the row if it is for a number that has no place. The plan must not ask a model: what
/// was not answered would be asked again.
pub async fn with_row(
    plan: &LogicalPlan,
    error: DataFusionError,
    state: &SessionState,
) -> DataFusionError {
    if !Overflow::is_in(&error) {
        return error;
    }
    let mut state = state.clone();
    state.config_mut().options_mut().extensions.insert(ToldRows { are_told: true });
    match drained(plan, &state).await {
        Err(found) if Overflow::is_in(&found) => found,
        _ => error,
    }
}

async fn drained(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    let operators = state.create_physical_plan(plan).await?;
    let rows = execute_stream(operators, state.task_ctx())?;
    rows.try_for_each(async |_| Ok(())).await
}
