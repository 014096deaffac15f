//! Runs a plan whose rows a model answers: answers to the table, failures to the error rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow::compute::{cast, filter_record_batch, is_not_null, not};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use async_trait::async_trait;
use datafusion::common::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::{StreamExt, TryStreamExt, stream};
use proofmill_udfs::model::{Class, ModelError, Stopped};

use crate::session::execute::Operators;
use crate::stages::error::StageError;
use crate::stages::gate::Gate;
use crate::stages::plan::{Execution, StagePlan, spawn};
use crate::stages::sink::{Computed, Sink, Written};
use proofmill_pipeline::kinds::OnError;

/// The column with the digest of the request that a row asks.
pub const REQUEST_DIGEST: &str = "request_digest";
/// Failures that a message shows.
const FAILURES_SHOWN: usize = 3;
/// Failures that are kept of one piece.
const FAILURES_MAX: usize = 100_000;
/// Characters of a prompt that an error row keeps.
const RAW_CHARS_MAX: usize = 1000;

/// A query that asks a model; its last column says why a row failed.
#[derive(Debug)]
pub struct InferencePlan {
    pub plan: LogicalPlan,
    pub requests: Requests,
}

/// What requests are to the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// One for each row of the input; it becomes so many rows at most, where that is known, and one if it
    /// fails.
    OneEach(Option<u64>),
    /// The query decides. A request that fails need not be a row that does.
    Any,
}

#[async_trait]
impl StagePlan for InferencePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (sink, common) = (execution.sink, execution.common());
        let rows = execution.input_rows();
        sink.progress.expect_answers(rows);
        let rows_max = match self.requests {
            Requests::OneEach(each) => each.map(|each| rows.saturating_mul(each)),
            Requests::Any => None,
        };
        let gate = Gate::of(common);
        if let (Requests::OneEach(_), Some(most)) = (self.requests, gate.failures_max(rows_max)) {
            sink.progress.counters().stop_beyond(most);
        }
        let computed = compute(&self.plan, &execution.session(), (gate, rows_max), sink).await;
        computed.map_err(|error| spent(error, sink, rows))
    }
}

/// A row that has no answer.
struct Failed {
    row_id: String,
    row: u64,
    setting: String,
    class: String,
    message: String,
    raw: String,
    /// Digest of its request, where the table has it.
    request: Option<String>,
}

/// Runs a plan whose last column says why a row failed; each of its partitions becomes a part.
async fn compute(
    plan: &LogicalPlan,
    state: &SessionState,
    (gate, rows_max): (Gate, Option<u64>),
    sink: &Sink,
) -> Result<Computed, StageError> {
    let operators = Operators::of(plan, state).await?;
    let partitions = operators.partitions();
    let pieces = (0..partitions).map(|i| {
        let (operators, sink) = (operators.clone(), sink.clone());
        spawn(async move { piece(&operators, gate.on_error, &sink, (i, partitions)).await })
    });
    let pieces: Vec<(Written, Vec<Failed>)> =
        stream::iter(pieces).buffered(partitions).try_collect().await?;
    let (written, failed): (Vec<Written>, Vec<Vec<Failed>>) = pieces.into_iter().unzip();
    let failed: Vec<Failed> = failed.into_iter().flatten().collect();
    let mut computed = Computed::of(written);
    if let Some(stopped) = sink.progress.counters().stopped() {
        return Err(ended_early(&stopped, &failed, (gate, rows_max)));
    }
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
    operators: &Operators,
    on_error: OnError,
    sink: &Sink,
    (number, pieces): (usize, usize),
) -> Result<(Written, Vec<Failed>), StageError> {
    let mut rows = operators.partition(number)?;
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
        let is_over = on_error == OnError::Fail && !failed.is_empty();
        if is_over || sink.progress.counters().stopped().is_some() || failed.len() > FAILURES_MAX {
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
        let Some(cell) = cell.as_ref().and_then(|cell| cell.as_string_opt::<i32>()) else {
            // Messages are no text.
            return array_value_to_string(column, row).unwrap_or_default();
        };
        if cell.is_valid(0) { cell.value(0).to_owned() } else { String::new() }
    };
    let named = |name: &str, row| error.column_by_name(name).map(|column| text(column, row));
    let digests = batch.column_by_name(REQUEST_DIGEST);
    for row in (0..batch.num_rows()).filter(|&row| is_failed.value(row)) {
        let class = named("class", row).unwrap_or_default();
        if Class::named(&class) == Some(Class::Unasked) {
            continue;
        }
        failed.push(Failed {
            row_id: text(batch.column(0), row),
            row: first + row as u64,
            setting: batch.schema().field(1).name().clone(),
            class,
            message: named("message", row).unwrap_or_default(),
            raw: text(batch.column(1), row).chars().take(RAW_CHARS_MAX).collect(),
            request: digests.filter(|it| it.is_valid(row)).map(|it| text(it, row)),
        });
    }
}

/// Failures under the columns that all error rows have, and the digests of their requests; `source` is the row's id.
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
        Arc::new(StringArray::from_iter(failed.iter().map(|it| it.request.as_deref()))),
    ];
    let digests = Arc::new(Field::new(REQUEST_DIGEST, DataType::Utf8, true));
    let fields: Vec<_> =
        proofmill_files::error_schema().fields().iter().cloned().chain([digests]).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Fails if more rows failed than the settings accept.
fn check(failed: &[Failed], rows: u64, gate: Gate) -> Result<(), StageError> {
    let count = failed.len() as u64;
    if gate.passes(count, rows) {
        return Ok(());
    }
    Err(StageError::Data {
        message: format!("{count} of {} rows have no answer:{}", count + rows, first(failed)),
        help: FIX.to_owned(),
    })
}

const FIX: &str = "fix the prompts or the model, or accept a share with `max_error_rate`";

/// The first failures, a line each.
fn first(failed: &[Failed]) -> String {
    let shown = failed.iter().take(FAILURES_SHOWN);
    let shown: String =
        shown.map(|it| format!("\n  {} ({}): {}", it.row_id, it.class, it.message)).collect();
    let more = failed.len().saturating_sub(FAILURES_SHOWN);
    if more > 0 { format!("{shown}\n  and {more} more") } else { shown }
}

/// The error of a stage that stopped sending requests before all rows had one: it could no longer
/// pass.
fn ended_early(
    stopped: &Stopped,
    failed: &[Failed],
    (gate, rows_max): (Gate, Option<u64>),
) -> StageError {
    let (count, first) = (failed.len(), first(failed));
    let all = rows_max.map(|rows| format!(" of {rows}")).unwrap_or_default();
    let rows = format!("{count}{all} rows have no answer");
    let (message, help) = match (stopped, gate.failures_max(rows_max)) {
        (Stopped::Interrupted, _) => return StageError::Stopped,
        (Stopped::FailedRows, Some(most)) => {
            (format!("{rows}, and at most {most} may fail; no further rows were tried:{first}"), FIX.to_owned())
        }
        (Stopped::FailedRows, None) => (format!("{rows}:{first}"), FIX.to_owned()),
        (Stopped::Unanswered { requests, reason }, _) => (
            format!(
                "{requests} requests in a row had no answer after all retries, the last one as {reason}; \
                 {rows}; no further rows were tried:{first}"
            ),
            "check the endpoint, then run again: recorded answers are replayed; with `max_error_rate: 1` \
             all rows are tried, regardless of failures"
                .to_owned(),
        ),
    };
    StageError::Data { message, help }
}

/// What to do about an error, if it is that a budget is used up.
fn spent(error: StageError, sink: &Sink, rows: u64) -> StageError {
    let StageError::Query(query) = &error else { return error };
    let DataFusionError::External(cause) = query.find_root() else { return error };
    let Some(ModelError::Spent { model, cause, .. }) = cause.downcast_ref::<ModelError>() else {
        return error;
    };
    let missing = rows.saturating_sub(sink.progress.counters().now().settled);
    StageError::Data {
        message: format!("model `{model}`: {cause}; {missing} of {rows} rows have no answer"),
        help: "run again to spend up to as much once more, or raise `budget` first: recorded answers are \
               replayed and cost nothing"
            .to_owned(),
    }
}
