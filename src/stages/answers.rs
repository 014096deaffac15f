//! Runs a plan whose rows a model answers: answers to the table, failures to the error rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{cast, filter_record_batch, is_not_null, not};
use arrow::datatypes::DataType;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use proofmill_udfs::model::Class;

use proofmill_pipeline::stage::OnError;
use crate::stages::error::StageError;
use crate::stages::sink::{Computed, Sink, Written};
use crate::stages::task::task;

/// Failures that a message shows.
const FAILURES_SHOWN: usize = 3;
/// Failures that are kept of one piece.
const FAILURES_MAX: usize = 100_000;
/// Characters of a prompt that an error row keeps.
const RAW_CHARS_MAX: usize = 1000;

/// How many rows may fail.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// What becomes of a row that fails.
    pub on_error: OnError,
    /// The share of rows that may.
    pub max_error_rate: f64,
}

/// A row that has no answer.
struct Failed {
    row_id: String,
    row: u64,
    setting: String,
    class: String,
    message: String,
    raw: String,
}

/// Runs a plan whose last column says why a row failed; each of its partitions becomes a part.
pub async fn compute(
    plan: &LogicalPlan,
    state: &SessionState,
    gate: Gate,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let plan = state.create_physical_plan(plan).await?;
    let partitions = plan.output_partitioning().partition_count();
    let context = state.task_ctx();
    let pieces = (0..partitions).map(|i| {
        let (plan, context, sink) = (Arc::clone(&plan), Arc::clone(&context), sink.clone());
        task(async move { piece(plan, context, gate.on_error, &sink, (i, partitions)).await })
    });
    let pieces: Vec<(Written, Vec<Failed>)> =
        stream::iter(pieces).buffered(partitions.max(1)).try_collect().await?;
    let (written, failed): (Vec<Written>, Vec<Vec<Failed>>) = pieces.into_iter().unzip();
    let failed: Vec<Failed> = failed.into_iter().flatten().collect();
    let mut computed = Computed::of(written);
    if !failed.is_empty() {
        let rows: u64 = computed.parts.iter().map(|part| part.rows).sum();
        check(&failed, rows, gate)?;
        let may_pass = |it: &&Failed| Class::named(&it.class).is_some_and(Class::may_pass);
        computed.transient_errors = failed.iter().filter(may_pass).count() as u64;
        computed.errors.push(sink.errors(0, &batch(&failed)?).await?);
    }
    Ok(computed)
}

async fn piece(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    on_error: OnError,
    sink: &Sink,
    (number, pieces): (usize, usize),
) -> Result<(Written, Vec<Failed>), StageError> {
    let mut rows = plan.execute(number, context)?;
    let mut part = sink.part(number, pieces);
    let mut failed = Vec::new();
    let mut row = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let error = Arc::clone(batch.column(batch.num_columns() - 1));
        let is_failed = is_not_null(&error)?;
        note(&batch, &error, &is_failed, row, &mut failed);
        row += batch.num_rows() as u64;
        let table: Vec<usize> = (0..batch.num_columns() - 1).collect();
        part.write(filter_record_batch(&batch.project(&table)?, &not(&is_failed)?)?).await?;
        if on_error == OnError::Fail && !failed.is_empty() || failed.len() > FAILURES_MAX {
            break;
        }
    }
    Ok((part.finish().await?, failed))
}

/// Adds the rows of `batch` that failed; its first row is row `first` of the piece.
fn note(
    batch: &RecordBatch,
    error: &ArrayRef,
    is_failed: &BooleanArray,
    first: u64,
    failed: &mut Vec<Failed>,
) {
    let Some(error) = error.as_struct_opt() else { return };
    let text = |column: &ArrayRef, row: usize| {
        // Aggregates give texts of other widths.
        let cell = cast(&column.slice(row, 1), &DataType::Utf8).ok();
        let cell = cell.as_ref().and_then(|cell| cell.as_string_opt::<i32>());
        cell.filter(|cell| cell.is_valid(0))
            .map(|cell| cell.value(0).to_owned())
            .unwrap_or_default()
    };
    let named = |name: &str, row| error.column_by_name(name).map(|column| text(column, row));
    for row in (0..batch.num_rows()).filter(|&row| is_failed.value(row)) {
        failed.push(Failed {
            row_id: text(batch.column(0), row),
            row: first + row as u64,
            setting: batch.schema().field(1).name().clone(),
            class: named("class", row).unwrap_or_default(),
            message: named("message", row).unwrap_or_default(),
            raw: text(batch.column(1), row).chars().take(RAW_CHARS_MAX).collect(),
        });
    }
}

/// Failures under the columns that all error rows have; `source` is the row's id.
fn batch(failed: &[Failed]) -> Result<RecordBatch, StageError> {
    let text = |of: fn(&Failed) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(failed.iter().map(of)))
    };
    let columns: Vec<ArrayRef> = vec![
        text(|it| &it.row_id),
        Arc::new(UInt64Array::from_iter_values(failed.iter().map(|it| it.row))),
        Arc::new(UInt64Array::new_null(failed.len())),
        text(|it| &it.setting),
        text(|it| &it.class),
        text(|it| &it.message),
        text(|it| &it.raw),
    ];
    Ok(RecordBatch::try_new(proofmill_files::error_schema(), columns)?)
}

/// Fails if more rows failed than the settings accept.
fn check(failed: &[Failed], rows: u64, gate: Gate) -> Result<(), StageError> {
    let count = failed.len() as u64;
    let rate = count as f64 / (count + rows) as f64;
    if gate.on_error == OnError::Capture && rate <= gate.max_error_rate {
        return Ok(());
    }
    let shown = failed.iter().take(FAILURES_SHOWN);
    let shown: String =
        shown.map(|it| format!("\n  {} ({}): {}", it.row_id, it.class, it.message)).collect();
    let more = failed.len().saturating_sub(FAILURES_SHOWN);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    Err(StageError::Data {
        message: format!("{count} of {} rows have no answer:{shown}{more}", count + rows),
        help: "mend the prompts or the model, or accept a share with `max_error_rate`".to_owned(),
    })
}
