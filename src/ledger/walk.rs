//! All answers that count in several segments, in order of their keys, each key once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use bytes::Bytes;

use crate::LedgerError;
use crate::error::Result;
use crate::record::{Forgotten, Segment};
use crate::rows::{keys_of, model_column, schema};
use crate::segment_reader::{Columns, OpenSegment};
use proofmill_base::digest::Digest;
use proofmill_store::Store;

/// Bytes of one read of an input, unless one block alone has more.
const READ_BYTES_MAX: u64 = 2 << 20;

/// A way through several segments at once.
pub(crate) struct Walk {
    cursors: Vec<Cursor>,
    /// The smallest key first; of equal keys, that of the earliest input.
    heap: BinaryHeap<Reverse<(Digest, usize)>>,
    last: Option<Digest>,
    /// The input whose row was shown last, and is to be left.
    shown: Option<(Digest, usize)>,
}

/// A row of an input.
pub(crate) struct Place<'a> {
    pub batch: &'a RecordBatch,
    pub row: usize,
    /// Bytes of a row of the batch, on average.
    pub row_bytes: usize,
    /// Tells the batches of an input apart.
    pub batches: usize,
}

impl Walk {
    /// Begins before the first row of `inputs`, earliest first; `forgotten` are all of the log.
    pub async fn open(
        store: &Store,
        inputs: &[Arc<Segment>],
        forgotten: &Arc<Vec<Forgotten>>,
        columns: Columns,
    ) -> Result<Self> {
        let (mut cursors, mut heap) = (Vec::with_capacity(inputs.len()), BinaryHeap::new());
        for (number, segment) in inputs.iter().enumerate() {
            let mut cursor = Cursor::open(store, segment, forgotten, columns).await?;
            heap.extend(cursor.key(store).await?.map(|key| Reverse((key, number))));
            cursors.push(cursor);
        }
        Ok(Self { cursors, heap, last: None, shown: None })
    }

    /// The next row, with the number of its input; none at the end.
    pub async fn next(&mut self, store: &Store) -> Result<Option<(usize, Place<'_>)>> {
        loop {
            if let Some((key, number)) = self.shown.take() {
                let cursor = &mut self.cursors[number];
                cursor.row += 1;
                let next = cursor.key(store).await?;
                if next.is_some_and(|next| next <= key) {
                    return Err(malformed(&cursor.segment.segment, "its keys are not sorted"));
                }
                self.heap.extend(next.map(|key| Reverse((key, number))));
            }
            let Some(Reverse((key, number))) = self.heap.pop() else { return Ok(None) };
            self.shown = Some((key, number));
            if self.last != Some(key) {
                self.last = Some(key);
                let Cursor { batch, row, row_bytes, batches, .. } = &self.cursors[number];
                let (row, row_bytes, batches) = (*row, *row_bytes, *batches);
                return Ok(Some((number, Place { batch, row, row_bytes, batches })));
            }
        }
    }
}

fn malformed(segment: &Segment, reason: &str) -> LedgerError {
    LedgerError::Segment { key: segment.key.to_string(), reason: reason.to_owned() }
}

/// A place in an input.
struct Cursor {
    segment: OpenSegment,
    forgotten: Arc<Vec<Forgotten>>,
    columns: Columns,
    /// Number of the next block to decode.
    next_block: usize,
    /// Blocks that are read and not decoded.
    read: VecDeque<(usize, u64, Bytes)>,
    batch: RecordBatch,
    keys: Vec<Digest>,
    row: usize,
    row_bytes: usize,
    /// Counts the batches, to tell them apart.
    batches: usize,
}

impl Cursor {
    async fn open(
        store: &Store,
        segment: &Arc<Segment>,
        forgotten: &Arc<Vec<Forgotten>>,
        columns: Columns,
    ) -> Result<Self> {
        Ok(Self {
            segment: OpenSegment::open(store, segment.clone()).await?,
            forgotten: Arc::clone(forgotten),
            columns,
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
            let batch = self.segment.decode(block, self.columns, None, (at, bytes))?;
            let Some(batch) = batch else { continue };
            let segment = &self.segment.segment;
            let counting = |batch| counting(batch, self.concerning());
            let batch = counting(batch).map_err(|reason| malformed(segment, &reason))?;
            self.keys = keys_of(&batch).map_err(|reason| malformed(segment, &reason))?;
            let bytes = batch.columns().iter().map(|column| column.get_buffer_memory_size());
            self.row_bytes = bytes.sum::<usize>() / self.keys.len().max(1);
            self.batch = batch;
            self.row = 0;
            self.batches += 1;
        }
        Ok(self.keys.get(self.row).copied())
    }

    /// The forgettings that concern the rows.
    fn concerning(&self) -> &[Forgotten] {
        let past = usize::try_from(self.segment.segment.past).unwrap_or(usize::MAX);
        self.forgotten.get(past..).unwrap_or_default()
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
        let expected = self.segment.digests(self.columns, numbers.clone());
        let bytes = self.segment.read(store, start..end, &expected).await?;
        self.read.extend(numbers.clone().map(|number| (number, start, bytes.clone())));
        self.next_block = numbers.end;
        Ok(true)
    }
}

/// The rows of a batch that count, or why that cannot be determined.
fn counting(batch: RecordBatch, forgotten: &[Forgotten]) -> Result<RecordBatch, String> {
    if forgotten.is_empty() {
        return Ok(batch);
    }
    let models: &StringArray = model_column(&batch)?;
    let keys = keys_of(&batch)?;
    let counts = |(key, model): (&Digest, Option<&str>)| {
        !forgotten.iter().any(|it| it.forget.what.covers(key, model.unwrap_or_default()))
    };
    let counts: BooleanArray =
        keys.iter().zip(models.iter()).map(|row| Some(counts(row))).collect();
    filter_record_batch(&batch, &counts).map_err(|error| error.to_string())
}
