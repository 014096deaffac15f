//! A segment opened for look-ups: its index and footer, and rows by block. Everything is compared with
//! its digest before it is decoded.

use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::{Buf as _, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::reader::{ChunkReader, Length};

use proofmill_base::digest::Digest;
use crate::LedgerError;
use crate::error::Result;
use crate::index::{Block, KeyIndex};
use crate::record::Segment;
use crate::rows::ANSWER_COLUMNS;
use proofmill_store::{Store, StoreError};

/// What every Parquet file ends with.
const PARQUET_END: &[u8; 4] = b"PAR1";

/// An opened segment. Holds no rows.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub segment: Arc<Segment>,
    pub index: KeyIndex,
    footer: ArrowReaderMetadata,
}

/// The columns that somebody wants of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Answers,
    All,
}

impl OpenSegment {
    /// Opens a segment: reads its index and footer.
    pub async fn open(store: &Store, segment: Arc<Segment>) -> Result<Self> {
        let range = segment.tail_at..segment.bytes;
        let expected = [(range.clone(), segment.tail_sha256)];
        let tail = read_verified(store, &segment, range, &expected).await?;
        Self::with_tail(segment, &tail)
    }

    /// Opens a segment whose verified bytes from `tail_at` on are `tail`.
    pub fn with_tail(segment: Arc<Segment>, tail: &Bytes) -> Result<Self> {
        let failed = |reason: &str| {
            let key = segment.key.to_string();
            LedgerError::Segment { key, reason: reason.to_owned() }
        };
        let end = tail.strip_suffix(PARQUET_END).ok_or_else(|| failed("it has no Parquet end"))?;
        let (rest, length) =
            end.split_last_chunk::<4>().ok_or_else(|| failed("its footer is cut off"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let split =
            rest.len().checked_sub(length).ok_or_else(|| failed("its footer is too long"))?;
        let (index, footer) = rest.split_at(split);
        let index = KeyIndex::decode(index).map_err(failed)?;
        let footer = guarded(&segment, || {
            let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(footer)?);
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            ArrowReaderMetadata::try_new(metadata, options)
        })?;
        let groups = footer.metadata().row_groups().iter().map(|group| group.num_rows());
        if !groups.eq(index.blocks().iter().map(|block| i64::from(block.rows))) {
            return Err(failed("its index and its footer count other rows"));
        }
        Ok(Self { segment, index, footer })
    }

    /// Bytes that this takes in memory, approximately.
    pub fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.footer.metadata().memory_size()
    }

    /// The digests of the bytes that hold `columns` of blocks, by their range in the object.
    pub fn digests(
        &self,
        columns: Columns,
        blocks: impl IntoIterator<Item = usize>,
    ) -> Vec<(Range<u64>, Digest)> {
        let of_block = |block: &Block| {
            let answers = (block.answers(), block.answer_sha256);
            let requests = (block.answers().end..block.whole().end, block.request_sha256);
            match columns {
                Columns::Answers => vec![answers],
                Columns::All => vec![answers, requests],
            }
        };
        let blocks = blocks.into_iter().filter_map(|number| self.index.blocks().get(number));
        blocks.flat_map(of_block).collect()
    }

    /// Reads one range of the object that holds what `expected` lists, and verifies that.
    pub async fn read(
        &self,
        store: &Store,
        range: Range<u64>,
        expected: &[(Range<u64>, Digest)],
    ) -> Result<Bytes> {
        read_verified(store, &self.segment, range, expected).await
    }

    /// Decodes rows of one block from verified bytes that begin at `at` in the object.
    pub fn decode(
        &self,
        block: usize,
        columns: Columns,
        rows: Option<RowSelection>,
        (at, bytes): (u64, Bytes),
    ) -> Result<Option<RecordBatch>> {
        let window = Window { at, bytes, object_bytes: self.segment.bytes };
        let all = match columns {
            Columns::Answers => ANSWER_COLUMNS,
            Columns::All => ANSWER_COLUMNS + 1,
        };
        let wanted = ProjectionMask::roots(self.footer.parquet_schema(), 0..all);
        let block_rows = self.index.blocks().get(block).map_or(0, |block| block.rows as usize);
        guarded(&self.segment, || {
            let footer = self.footer.clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(window, footer)
                .with_row_groups(vec![block])
                .with_projection(wanted)
                .with_batch_size(block_rows);
            let builder = match rows {
                Some(rows) => builder.with_row_selection(rows),
                None => builder,
            };
            builder.build()?.next().transpose().map_err(ParquetError::from)
        })
    }
}

/// Reads a range and compares parts of it with their digests. What arrives wrong is read once more: it
/// may have been changed on its way only.
async fn read_verified(
    store: &Store,
    segment: &Segment,
    range: Range<u64>,
    expected: &[(Range<u64>, Digest)],
) -> Result<Bytes> {
    match read_once(store, segment, range.clone(), expected).await {
        Err(LedgerError::Store(StoreError::Corrupt { .. })) => {
            read_once(store, segment, range, expected).await
        }
        read => read,
    }
}

async fn read_once(
    store: &Store,
    segment: &Segment,
    range: Range<u64>,
    expected: &[(Range<u64>, Digest)],
) -> Result<Bytes> {
    let bytes = store.get_range(&segment.key, range.clone()).await?;
    for (part, expected) in expected {
        let found = slice(&bytes, range.start, part.clone()).map_or_else(
            || Err(malformed(segment, "its index points outside of it")),
            |part| Ok(Digest::of(&part)),
        )?;
        if found != *expected {
            let (key, expected) = (segment.key.to_string(), *expected);
            return Err(StoreError::Corrupt { key, expected, found }.into());
        }
    }
    Ok(bytes)
}

fn malformed(segment: &Segment, reason: &str) -> LedgerError {
    LedgerError::Segment { key: segment.key.to_string(), reason: reason.to_owned() }
}

/// The part of `bytes`, which begin at `at` in an object, that the object has at `range`.
fn slice(bytes: &Bytes, at: u64, range: Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(at)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(at)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

/// A piece of an object that the decoder takes for the object.
struct Window {
    at: u64,
    bytes: Bytes,
    object_bytes: u64,
}

impl Window {
    fn piece(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        let outside =
            || ParquetError::External(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        slice(&self.bytes, self.at, range).ok_or_else(outside)
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.object_bytes
    }
}

impl ChunkReader for Window {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.piece(start..self.at + self.bytes.len() as u64)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.piece(start..start.saturating_add(length as u64))
    }
}

/// Runs the decoder, which may panic on bytes that it did not write.
fn guarded<T>(segment: &Segment, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(malformed(segment, &error.to_string())),
        Err(_) => Err(malformed(segment, "the decoder panicked")),
    }
}
