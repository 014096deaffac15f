//! The one place where plans become operators and operators run; another machine, or another engine, would stand behind it.
//!
//! A number that has no place in its type is reported with its row. Arithmetic sees its two sides
//! alone, and reading whole rows for an error that hardly ever comes would cost every query; so the
//! query runs once more, with its rows, after it has failed: [`with_row`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, collect, displayable, execute_stream,
};
use futures::TryStreamExt;
use proofmill_udfs::exact::Overflow;

use crate::session::rules::RowsInErrors;

/// A plan as operators that can run.
#[derive(Clone, Debug)]
pub struct Operators {
    root: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

impl Operators {
    /// Of a plan, with the rules, functions and limits of `state`.
    ///
    /// # Errors
    ///
    /// If the plan has no operators.
    pub async fn of(plan: &LogicalPlan, state: &SessionState) -> Result<Self> {
        Ok(Self { root: state.create_physical_plan(plan).await?, context: state.task_ctx() })
    }

    /// Their columns.
    pub fn schema(&self) -> SchemaRef {
        self.root.schema()
    }

    /// How many partitions they compute, at least one.
    pub fn partitions(&self) -> usize {
        self.root.output_partitioning().partition_count().max(1)
    }

    /// The rows of one partition.
    ///
    /// # Errors
    ///
    /// If the operators cannot start.
    pub fn partition(&self, number: usize) -> Result<SendableRecordBatchStream> {
        self.root.execute(number, Arc::clone(&self.context))
    }

    /// The rows of all partitions.
    ///
    /// # Errors
    ///
    /// If the operators cannot start.
    pub fn stream(&self) -> Result<SendableRecordBatchStream> {
        execute_stream(Arc::clone(&self.root), Arc::clone(&self.context))
    }

    /// All rows.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being computed.
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        collect(Arc::clone(&self.root), Arc::clone(&self.context)).await
    }

    /// The same operators, of which none has run.
    ///
    /// # Errors
    ///
    /// If one cannot be made again.
    pub fn reset(&self) -> Result<Self> {
        let root = reset_plan_states(Arc::clone(&self.root))?;
        Ok(Self { root, context: Arc::clone(&self.context) })
    }

    /// One operator a line, indented below what reads it.
    pub fn text(&self) -> String {
        displayable(self.root.as_ref()).indent(false).to_string()
    }
}

/// All rows of a plan.
///
/// # Errors
///
/// Whatever keeps it from being run; for a number that has no place, with its row.
pub async fn collected(plan: &LogicalPlan, state: &SessionState) -> Result<Vec<RecordBatch>> {
    match async { Operators::of(plan, state).await?.collect().await }.await {
        Err(error) => Err(with_row(plan, error, state).await),
        rows => rows,
    }
}

/// Why a plan failed in `state`, with the row if it is for a number that has no place. The plan must not ask a model: what
/// was not answered would be requested again.
pub async fn with_row(
    plan: &LogicalPlan,
    error: DataFusionError,
    state: &SessionState,
) -> DataFusionError {
    if !Overflow::is_in(&error) {
        return error;
    }
    let mut state = state.clone();
    state.config_mut().options_mut().extensions.insert(RowsInErrors { are_shown: true });
    match drained(plan, &state).await {
        Err(found) if Overflow::is_in(&found) => found,
        _ => error,
    }
}

/// Runs a plan for what happens on the way.
///
/// # Errors
///
/// The first that it meets.
pub async fn drained(plan: &LogicalPlan, state: &SessionState) -> Result<()> {
    let rows = Operators::of(plan, state).await?.stream()?;
    rows.try_for_each(async |_| Ok(())).await
}
