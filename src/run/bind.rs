//! Gives the tables of stored stages their rows: verified, and in memory if they are few.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::{StreamExt, TryStreamExt, stream};

use crate::run::context::Context;
use crate::session::{Content, StageTable, Stored};
use crate::stages::error::StageError;
use proofmill_base::error::Result;
use proofmill_base::ids::StageName;
use proofmill_catalog::summary::artifact;
use proofmill_store::{Artifact, StageOutcome, Store, read_part, stream_part, verify_part};

/// Parts that are hashed at the same time.
const VERIFIED_AT_ONCE_MAX: usize = 4;
/// Tables of up to this many stored bytes are read at once and kept.
const READ_AT_ONCE_BYTES_MAX: u64 = 1 << 20;

/// Binds the table of `name`, which is cached or has run, to its rows.
pub async fn bind(context: &Context, name: &StageName) -> Result<(), StageError> {
    let (Some(stage), Some(once)) = (context.prepared.stages.get(name), context.bound.get(name))
    else {
        return Ok(());
    };
    once.get_or_try_init(|| async {
        match context.plan.stages.get(name).and_then(|plan| plan.action.stored()) {
            Some(artifact) if stage.table.stored().is_none() => {
                fill(&stage.table, &artifact.record, None, &context.store).await
            }
            _ => Ok(()),
        }
    })
    .await?;
    Ok(())
}

/// Fills `table` with the rows of `artifact`; `kept` are the same rows, if they are at hand.
pub async fn fill(
    table: &StageTable,
    artifact: &Artifact,
    kept: Option<Vec<RecordBatch>>,
    store: &Store,
) -> Result<(), StageError> {
    let content = match kept {
        Some(batches) => Content::Memory(batches),
        None if artifact.parts.iter().map(|part| part.bytes).sum::<u64>()
            <= READ_AT_ONCE_BYTES_MAX =>
        {
            let mut batches = Vec::new();
            for part in &artifact.parts {
                batches.extend(read_part(store, part).await?);
            }
            Content::Memory(batches)
        }
        None => {
            let checks: Vec<_> =
                artifact.parts.iter().map(|part| verify_part(store, part)).collect();
            stream::iter(checks).buffer_unordered(VERIFIED_AT_ONCE_MAX).try_collect::<()>().await?;
            Content::Parts(artifact.parts.clone())
        }
    };
    table.fill(Stored {
        rows: artifact.rows,
        content,
        files: artifact.files.clone(),
        snapshot: artifact.fingerprint.0.short(),
        digest: artifact.digest(),
    });
    Ok(())
}

/// The tables of a stage of a past run: its rows, and its error rows as `<stage>__errors`.
pub async fn tables(
    store: &Store,
    stage: &StageOutcome,
) -> Result<Vec<(StageName, Arc<StageTable>)>> {
    match artifact(store, stage).await? {
        Some(found) => tables_of(store, &stage.stage, &found.record).await,
        None => Ok(Vec::new()),
    }
}

/// The columns of the error rows of a record: what kinds of stages say of them differs, and did in older stores.
pub async fn error_schema(store: &Store, found: &Artifact) -> Result<SchemaRef> {
    match found.errors.first() {
        Some(part) => Ok(stream_part(store, part).await?.0),
        None => Ok(proofmill_files::error_schema()),
    }
}

/// The tables that a record names, under the name of a stage.
pub async fn tables_of(
    store: &Store,
    stage: &StageName,
    found: &Artifact,
) -> Result<Vec<(StageName, Arc<StageTable>)>> {
    let Some(schema) = found.arrow_schema() else { return Ok(Vec::new()) };
    let table = Arc::new(StageTable::new(stage.as_str(), Arc::new(schema)));
    fill(&table, found, None, store).await?;
    let mut tables = vec![(stage.clone(), table)];
    if !found.errors.is_empty()
        && let Ok(name) = format!("{stage}__errors").parse::<StageName>()
    {
        let errors = Artifact {
            rows: found.errors.iter().map(|part| part.rows).sum(),
            parts: found.errors.clone(),
            errors: Vec::new(),
            files: Vec::new(),
            rows_root: None,
            ..found.clone()
        };
        let schema = error_schema(store, found).await?;
        let table = Arc::new(StageTable::new(name.as_str(), schema));
        fill(&table, &errors, None, store).await?;
        tables.push((name, table));
    }
    Ok(tables)
}
