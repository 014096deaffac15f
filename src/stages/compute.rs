//! One attempt at a stage: its body, run into the store.

use std::path::Path;

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use proofmill_base::ids::StageName;
use crate::session::Engine;
use crate::stages::answers::{self, Gate};
use crate::stages::error::StageError;
use crate::stages::prepared::{Body, Prepared, PreparedStage};
use crate::stages::search::SearchTables;
use crate::stages::sink::{Computed, Sink};
use crate::stages::{
    compare, dense, fit, index, measure, memory, nearest, query, read, report, retrieve, rows,
    search, teach, write,
};
use proofmill_store::Store;

/// Batches between a table and the thread that exports it.
const BATCHES_QUEUED_MAX: usize = 4;

/// Computes the table of `stage`, whose inputs are filled.
pub async fn compute(
    stage: &PreparedStage,
    prepared: &Prepared,
    engine: &Engine,
    sink: &Sink,
    cache: &Path,
) -> Result<Computed, StageError> {
    let common = &stage.stage.spec.common;
    let tables = || stage.stage.inputs.iter().filter_map(|input| prepared.stages.get(&input.stage));
    let input_rows: u64 = tables().map(|input| input.table.rows()).sum();
    let state = || engine.watched(input_rows, common.partitions, sink.progress.counters());
    let rows_of =
        async |name: Option<&StageName>| match name.and_then(|name| prepared.stages.get(name)) {
            Some(stage) => rows::of_table(&stage.table, &sink.store).try_collect().await,
            None => Ok::<Vec<RecordBatch>, StageError>(Vec::new()),
        };
    match &stage.body {
        Body::Read(source) => {
            let pieces = common.partitions.map_or(engine.limits().cores, |n| n as usize);
            read::compute(source, common.on_error, common.max_error_rate, pieces, sink).await
        }
        Body::Memory(plan) => memory::compute(plan, sink).await,
        Body::Query(plan) => query::compute(plan, &state(), sink).await,
        Body::Asked(plan) => {
            sink.progress.expect_answers(input_rows);
            let gate = Gate { on_error: common.on_error, max_error_rate: common.max_error_rate };
            answers::compute(plan, &state(), gate, sink).await
        }
        Body::Retrieve(plan, slot) => {
            if let Some(memory) = slot.stage().and_then(|name| prepared.stages.get(name)) {
                let entries = rows::of_table(&memory.table, &sink.store).try_collect().await?;
                if let Some(stored) = memory.table.stored() {
                    let snapshot = stored.snapshot.clone();
                    let files = &stored.files;
                    slot.fill(retrieve::open(&sink.store, cache, files, entries, snapshot).await?);
                }
            }
            query::compute(plan, &engine.running(0, common.partitions), sink).await
        }
        Body::Nearest(plan) => {
            let table = |name| prepared.stages.get(name).map(|stage| &stage.table);
            match (table(&plan.queries), table(&plan.memory)) {
                (Some(queries), Some(memory)) => {
                    nearest::compute(plan, queries, memory, engine, sink).await
                }
                _ => Ok(Computed::default()),
            }
        }
        Body::Dense(plan) => match prepared.stages.get(&plan.memory) {
            Some(memory) => dense::compute(plan, &memory.table, engine, sink).await,
            None => Ok(Computed::default()),
        },
        Body::Index(plan) => {
            let memory = prepared.stages.get(&plan.memory);
            let memory = match memory {
                Some(memory) => rows::of_table(&memory.table, &sink.store).try_collect().await?,
                None => Vec::new(),
            };
            index::compute(plan, memory, sink).await
        }
        Body::Search(plan) => {
            let tables = SearchTables {
                hypotheses: rows_of(Some(&plan.from)).await?,
                context: rows_of(plan.context.as_ref().map(|(name, _)| name)).await?,
                blocked: rows_of(plan.blocked.as_ref().map(|(name, _)| name)).await?,
            };
            search::compute(plan, tables, engine, sink).await
        }
        Body::Teach(plan) => {
            let hypotheses = rows_of(Some(&plan.from)).await?;
            let memory = rows_of(plan.memory.as_ref()).await?;
            teach::compute(plan, hypotheses, memory, engine, sink).await
        }
        Body::Fit(plan) => fit::compute(plan, engine, cache, sink).await,
        Body::Measure(plan) => {
            let (numbers, note) = measure::compute(plan, &state()).await?;
            let mut computed = sink.table(numbers).await?;
            computed.notes.extend(note);
            Ok(computed)
        }
        Body::Compare(plan) => sink.table(compare::compute(plan, &state()).await?).await,
        Body::Write(plan) => export(plan, prepared, &sink.store, sink).await,
        Body::Report(plan) => report::compute(plan, prepared, sink).await,
    }
}

async fn export(
    plan: &write::WritePlan,
    prepared: &Prepared,
    store: &Store,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let Some(from) = prepared.stages.get(&plan.from) else { return Ok(Computed::default()) };
    let mut rows = rows::of_table(&from.table, store);
    let (sender, mut batches) = mpsc::channel(BATCHES_QUEUED_MAX);
    let (plan, schema) =
        (plan.clone(), datafusion::catalog::TableProvider::schema(from.table.as_ref()));
    let writer = tokio::task::spawn_blocking(move || {
        write::compute(&plan, &schema, std::iter::from_fn(|| batches.blocking_recv()))
    });
    while let Some(batch) = rows.next().await {
        if sender.send(batch).await.is_err() {
            break;
        }
    }
    drop(sender);
    let written = writer.await.map_err(|error| StageError::Task(error.to_string()))??;
    sink.table(written).await
}
