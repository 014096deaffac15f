//! Gives the table of a stored stage its rows: verified, and in memory if they are few.

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt, stream};

use proofmill_base::ids::StageName;
use crate::run::context::Context;
use crate::session::{Content, StageTable, Stored};
use crate::stages::error::StageError;
use proofmill_store::{Artifact, Store, read_part, verify_part};

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
