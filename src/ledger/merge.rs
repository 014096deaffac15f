//! Several segments into one: rows in order of their keys, of equal keys the one in the earliest segment.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::error::ArrowError;

use crate::LedgerError;
use crate::error::Result;
use crate::record::{Forgotten, Segment};
use crate::rows::schema;
use crate::segment_reader::Columns;
use crate::segment_writer::{BlockLimits, SegmentWriter, Written};
use crate::walk::{Place, Walk};
use proofmill_store::Store;

/// Writes the rows of `inputs`, earliest first, as one segment, but those that one of `forgotten`, which
/// are all of the log, concerns. No record names it yet.
pub(crate) async fn merge(
    store: &Store,
    inputs: &[Arc<Segment>],
    forgotten: &Arc<Vec<Forgotten>>,
    limits: BlockLimits,
) -> Result<Written> {
    let mut writer = SegmentWriter::create(store)?;
    match copy(store, inputs, forgotten, limits, &mut writer).await {
        Ok(()) => writer.finish().await,
        Err(error) => {
            writer.abort().await;
            Err(error)
        }
    }
}

async fn copy(
    store: &Store,
    inputs: &[Arc<Segment>],
    forgotten: &Arc<Vec<Forgotten>>,
    limits: BlockLimits,
    writer: &mut SegmentWriter,
) -> Result<()> {
    let mut walk = Walk::open(store, inputs, forgotten, Columns::All).await?;
    let mut out = Draft::default();
    while let Some((number, place)) = walk.next(store).await? {
        out.push(number, &place);
        if out.is_full(limits) {
            write(writer, &inputs[number], &mut out).await?;
        }
    }
    if let Some(last) = inputs.last().filter(|_| !out.rows.is_empty()) {
        write(writer, last, &mut out).await?;
    }
    Ok(())
}

async fn write(writer: &mut SegmentWriter, at: &Segment, out: &mut Draft) -> Result<()> {
    let batch = out.take().map_err(|error| malformed(at, &error.to_string()))?;
    writer.block(&batch).await
}

fn malformed(segment: &Segment, reason: &str) -> LedgerError {
    LedgerError::Segment { key: segment.key.to_string(), reason: reason.to_owned() }
}

/// The rows of the next block, as places in batches of the inputs.
#[derive(Default)]
struct Draft {
    batches: Vec<RecordBatch>,
    /// For each input, which of its batches was used last and where it is in `batches`.
    last_batch: Vec<Option<(usize, usize)>>,
    rows: Vec<(usize, usize)>,
    bytes: usize,
}

impl Draft {
    /// Takes the row at a place in input `number`.
    fn push(&mut self, number: usize, place: &Place<'_>) {
        if self.last_batch.len() <= number {
            self.last_batch.resize(number + 1, None);
        }
        let at = match self.last_batch[number] {
            Some((batch, at)) if batch == place.batches => at,
            _ => {
                self.batches.push(place.batch.clone());
                self.batches.len() - 1
            }
        };
        self.last_batch[number] = Some((place.batches, at));
        self.rows.push((at, place.row));
        self.bytes += place.row_bytes;
    }

    fn is_full(&self, limits: BlockLimits) -> bool {
        self.rows.len() >= limits.rows || self.bytes >= limits.bytes
    }

    /// The rows as one batch; empties the draft.
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let draft = std::mem::take(self);
        let column = |at: usize| -> Result<ArrayRef, ArrowError> {
            let columns: Vec<&dyn Array> =
                draft.batches.iter().map(|batch| batch.column(at).as_ref()).collect();
            interleave(&columns, &draft.rows)
        };
        let columns: Result<Vec<ArrayRef>, ArrowError> =
            (0..schema().fields().len()).map(column).collect();
        RecordBatch::try_new(schema(), columns?)
    }
}
