//! Which row a number comes from that has no place in its type. Arithmetic sees its two sides alone, and reading whole rows for
//! an error that hardly ever comes would cost every query; so the query runs once more, with its rows, after it has failed.

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use futures::TryStreamExt;
use proofmill_udfs::exact::Overflow;

/// Why a plan failed, with the row if it is for a number that has no place; `state` is of the
/// [locating](crate::session::Engine::locating) kind.
pub async fn with_row(
    plan: &LogicalPlan,
    error: DataFusionError,
    state: impl FnOnce() -> SessionState,
) -> DataFusionError {
    if !Overflow::is_in(&error) {
        return error;
    }
    match drained(plan, &state()).await {
        Err(found) if Overflow::is_in(&found) => found,
        _ => error,
    }
}

async fn drained(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    let plan = state.create_physical_plan(plan).await?;
    let rows = execute_stream(plan, state.task_ctx())?;
    rows.try_for_each(async |_| Ok(())).await
}
