//! The rows of a stored table, in their order.

use arrow::array::RecordBatch;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use crate::session::{Content, StageTable};
use crate::stages::error::StageError;
use proofmill_store::{Part, Store, stream_part};

/// The rows of a filled table; none before it is filled.
pub fn of_table(
    table: &StageTable,
    store: &Store,
) -> BoxStream<'static, Result<RecordBatch, StageError>> {
    match table.stored().map(|stored| &stored.content) {
        Some(Content::Memory(batches)) => stream::iter(batches.clone()).map(Ok).boxed(),
        Some(Content::Parts(parts)) => of_parts(parts.clone(), store.clone()),
        None => stream::empty().boxed(),
    }
}

/// The rows of parts, one part after the other, each verified before it is decoded.
pub fn of_parts(
    parts: Vec<Part>,
    store: Store,
) -> BoxStream<'static, Result<RecordBatch, StageError>> {
    stream::iter(parts)
        .then(move |part| {
            let store = store.clone();
            async move {
                let (_, rows) = stream_part(&store, &part).await?;
                Ok::<_, StageError>(rows.map_err(StageError::from))
            }
        })
        .try_flatten()
        .boxed()
}
