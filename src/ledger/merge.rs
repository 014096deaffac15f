//! Several segments into one: rows in order of their keys, of equal keys the one in the earliest segment.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::error::ArrowError;
use bytes::Bytes;

use crate::digest::Digest;
use crate::ledger::LedgerError;
use crate::ledger::error::Result;
use crate::ledger::record::Segment;
use crate::ledger::rows::{keys_of, schema};
use crate::ledger::segment_reader::{Columns, OpenSegment};
use crate::ledger::segment_writer::{BlockLimits, SegmentWriter, Written};
use crate::store::Store;

/// Bytes of one read of an input, unless one block alone has more.
const READ_BYTES_MAX: u64 = 2 << 20;

/// Writes the rows of `inputs`, earliest first, as one segment. No record names it yet.
pub(crate) async fn merge(
    store: &Store,
    inputs: &[Arc<Segment>],
    limits: BlockLimits,
) -> Result<Written> {
    let mut writer = SegmentWriter::create(store)?;
    match copy(store, inputs, limits, &mut writer).await {
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
    limits: BlockLimits,
    writer: &mut SegmentWriter,
) -> Result<()> {
    let mut cursors = Vec::with_capacity(inputs.len());
    // The smallest key first; of equal keys, that of the earliest input.
    let mut heap = BinaryHeap::new();
    for (number, segment) in inputs.iter().enumerate() {
        let mut cursor = Cursor::open(store, segment).await?;
        heap.extend(cursor.key(store).await?.map(|key| Reverse((key, number))));
        cursors.push(cursor);
    }
    let mut out = Draft::default();
    let mut last = None;
    while let Some(Reverse((key, number))) = heap.pop() {
        let cursor = &mut cursors[number];
        if last != Some(key) {
            last = Some(key);
            out.push(number, cursor);
            if out.is_full(limits) {
                write(writer, &inputs[number], &mut out).await?;
            }
        }
        cursor.row += 1;
        let next = cursor.key(store).await?;
        if next.is_some_and(|next| next <= key) {
            return Err(malformed(&inputs[number], "its keys are not sorted"));
        }
        heap.extend(next.map(|key| Reverse((key, number))));
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

/// A place in an input.
struct Cursor {
    segment: OpenSegment,
    /// Number of the next block to decode.
    next_block: usize,
    /// Blocks that are read and not decoded.
    read: VecDeque<(usize, u64, Bytes)>,
    batch: RecordBatch,
    keys: Vec<Digest>,
    row: usize,
    /// Bytes of a row of the batch, on average.
    row_bytes: usize,
    /// Counts the batches, to tell them apart.
    batches: usize,
}

impl Cursor {
    async fn open(store: &Store, segment: &Arc<Segment>) -> Result<Self> {
        Ok(Self {
            segment: OpenSegment::open(store, segment.clone()).await?,
            next_block: 0,
            read: VecDeque::new(),
            batch: RecordBatch::new_empty(schema()),
            keys: Vec::new(),
            row: 0,
            row_bytes: 0,
            batches: 0,
        })
    }

    /// The key at this place; none at the end.
    async fn key(&mut self, store: &Store) -> Result<Option<Digest>> {
        while self.row >= self.keys.len() {
            if self.read.is_empty() && !self.read_blocks(store).await? {
                return Ok(None);
            }
            let Some((block, at, bytes)) = self.read.pop_front() else { return Ok(None) };
            let batch = self.segment.decode(block, Columns::All, None, (at, bytes))?;
            let Some(batch) = batch else { continue };
            let segment = &self.segment.segment;
            self.keys = keys_of(&batch).map_err(|reason| malformed(segment, &reason))?;
            let bytes = batch.columns().iter().map(|column| column.get_buffer_memory_size());
            self.row_bytes = bytes.sum::<usize>() / self.keys.len().max(1);
            self.batch = batch;
            self.row = 0;
            self.batches += 1;
        }
        Ok(self.keys.get(self.row).copied())
    }

    /// Reads the next blocks in one request; false when there are none.
    async fn read_blocks(&mut self, store: &Store) -> Result<bool> {
        let blocks = self.segment.index.blocks();
        let Some(first) = blocks.get(self.next_block) else { return Ok(false) };
        let start = first.at;
        let rest = &blocks[self.next_block..];
        let near = rest.iter().take_while(|block| block.whole().end - start <= READ_BYTES_MAX);
        let numbers = self.next_block..self.next_block + near.count().max(1);
        let end = blocks[numbers.end - 1].whole().end;
        let expected = self.segment.digests(Columns::All, numbers.clone());
        let bytes = self.segment.read(store, start..end, &expected).await?;
        self.read.extend(numbers.clone().map(|number| (number, start, bytes.clone())));
        self.next_block = numbers.end;
        Ok(true)
    }
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
    /// Takes the row at which `cursor` of input `number` stands.
    fn push(&mut self, number: usize, cursor: &Cursor) {
        if self.last_batch.len() <= number {
            self.last_batch.resize(number + 1, None);
        }
        let at = match self.last_batch[number] {
            Some((batch, at)) if batch == cursor.batches => at,
            _ => {
                self.batches.push(cursor.batch.clone());
                self.batches.len() - 1
            }
        };
        self.last_batch[number] = Some((cursor.batches, at));
        self.rows.push((at, cursor.row));
        self.bytes += cursor.row_bytes;
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
