//! Sorted rows into a segment: blocks of rows, then the index, then the Parquet footer.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use proofmill_base::digest::Digest;
use crate::LedgerError;
use crate::entry::Row;
use crate::error::Result;
use crate::index::{Block, KeyIndex};
use crate::record::Segment;
use crate::rows::{ANSWER_COLUMNS, KEY_COLUMN, LONG_COLUMNS, keys_of, schema, to_batch};
use proofmill_store::{Attempt, Key, PartSink, PieceUpload, Store, StoreError, ledger_segment_key};

/// How large the blocks of a segment are: what a look-up of one key reads and decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Rows of a block.
    pub rows: usize,
    /// Bytes of the rows before encoding, unless its first row alone has more.
    pub bytes: usize,
}

impl Default for BlockLimits {
    fn default() -> Self {
        Self { rows: 1024, bytes: 1 << 20 }
    }
}

/// A segment that was just written, with what opening it would read.
pub(crate) struct Written {
    pub segment: Arc<Segment>,
    /// Its stored bytes from `tail_at` on.
    pub tail: Bytes,
}

/// Writes one segment. Nothing is visible before [`Self::finish`].
pub(crate) struct SegmentWriter {
    key: Key,
    encoder: ArrowWriter<BlockSink>,
    upload: PieceUpload,
    index: KeyIndex,
    rows: u64,
}

/// The encoded bytes: on their way into the store, and once more those since the last mark.
struct BlockSink {
    part: PartSink,
    recent: Vec<u8>,
    recent_at: u64,
}

impl Write for BlockSink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let taken = self.part.write(data)?;
        self.recent.extend_from_slice(&data[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlockSink {
    /// The bytes since the last mark and where they begin; marks.
    fn mark(&mut self) -> (u64, Vec<u8>) {
        let recent = std::mem::take(&mut self.recent);
        let at = self.recent_at;
        self.recent_at += recent.len() as u64;
        (at, recent)
    }
}

impl SegmentWriter {
    /// A writer of a new segment.
    pub fn create(store: &Store) -> Result<Self> {
        let key = ledger_segment_key(&Attempt::new(store.rng().as_ref()));
        let sink = BlockSink { part: PartSink::default(), recent: Vec::new(), recent_at: 0 };
        let options =
            ArrowWriterOptions::new().with_properties(properties()).with_skip_arrow_metadata(true);
        let encoder = ArrowWriter::try_new_with_options(sink, schema(), options);
        let encoder = encoder.map_err(|source| encode_error(&key, source))?;
        let upload = PieceUpload::new(store, &key);
        Ok(Self { key, encoder, upload, index: KeyIndex::default(), rows: 0 })
    }

    /// Takes the rows of the next block. All its keys are greater than those before it.
    pub async fn block(&mut self, batch: &RecordBatch) -> Result<()> {
        let block = self.encode(batch)?;
        let keys = keys_of(batch).map_err(|reason| self.unreadable(reason))?;
        self.index.push(block, keys.into_iter());
        self.rows += batch.num_rows() as u64;
        for piece in self.encoder.inner_mut().part.take_full() {
            self.upload.push(piece).await?;
        }
        Ok(())
    }

    /// Stores the rest. When this returns, the segment is durable, and no record names it.
    pub async fn finish(mut self) -> Result<Written> {
        let finished = self.complete().await;
        if finished.is_err() {
            self.upload.abort().await;
        }
        finished
    }

    /// Gives up: no object becomes visible.
    pub async fn abort(mut self) {
        self.upload.abort().await;
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<Block> {
        let failed = |source| encode_error(&self.key, source);
        self.encoder.write(batch).map_err(failed)?;
        self.encoder.flush().map_err(failed)?;
        self.encoder.sync().map_err(|error| failed(error.into()))?;
        let columns = self.encoder.flushed_row_groups().last().map(|group| group.columns());
        let ranges = columns.and_then(|columns| {
            let requests = columns.get(ANSWER_COLUMNS)?.byte_range();
            Some((columns.first()?.byte_range().0, requests.0, requests.0 + requests.1))
        });
        let (at, recent) = self.encoder.inner_mut().mark();
        let slice = |from: u64, to: u64| {
            let (from, to) = (from.checked_sub(at)?, to.checked_sub(at)?);
            recent.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
        };
        let block = ranges.and_then(|(start, requests, end)| {
            let (answer, request) = (slice(start, requests)?, slice(requests, end)?);
            Some(Block {
                rows: u32::try_from(batch.num_rows()).ok()?,
                at: start,
                answer_bytes: u32::try_from(answer.len()).ok()?,
                request_bytes: u32::try_from(request.len()).ok()?,
                answer_sha256: Digest::of(answer),
                request_sha256: Digest::of(request),
            })
        });
        block.ok_or_else(|| self.unreadable("a block was not written as one piece".into()))
    }

    async fn complete(&mut self) -> Result<Written> {
        let failed = |source| encode_error(&self.key, source);
        if self.rows == 0 {
            // No block took the beginning of the file, which is no part of the index.
            self.encoder.sync().map_err(|error| failed(error.into()))?;
            self.encoder.inner_mut().mark();
        }
        let tail_at = self.encoder.inner().recent_at;
        self.encoder.write_all(&self.index.encode()).map_err(|error| failed(error.into()))?;
        self.encoder.finish().map_err(failed)?;
        let sink = self.encoder.inner_mut();
        let tail = Bytes::from(sink.mark().1);
        let (pieces, rest, sha256, bytes) = std::mem::take(&mut sink.part).finish();
        for piece in pieces {
            self.upload.push(piece).await?;
        }
        self.upload.finish(rest).await?;
        let segment = Segment {
            key: self.key.clone(),
            sha256,
            bytes,
            rows: self.rows,
            tail_at,
            tail_sha256: Digest::of(&tail),
            past: 0,
        };
        Ok(Written { segment: Arc::new(segment), tail })
    }

    fn unreadable(&self, reason: String) -> LedgerError {
        LedgerError::Segment { key: self.key.to_string(), reason }
    }
}

/// Writes rows with sorted, distinct keys as one segment.
pub(crate) async fn write_rows(
    store: &Store,
    rows: &[Arc<Row>],
    limits: BlockLimits,
) -> Result<Written> {
    let mut writer = SegmentWriter::create(store)?;
    let mut rest = rows;
    while !rest.is_empty() {
        let (block, after) = rest.split_at(block_len(rest, limits));
        rest = after;
        let written = match to_batch(block) {
            Ok(batch) => writer.block(&batch).await,
            Err(error) => Err(encode_error(&writer.key, error.into())),
        };
        if let Err(error) = written {
            writer.abort().await;
            return Err(error);
        }
    }
    writer.finish().await
}

/// How many of the first rows make a block.
fn block_len(rows: &[Arc<Row>], limits: BlockLimits) -> usize {
    let mut bytes = 0;
    let fits = |row: &&Arc<Row>| {
        bytes += row.bytes();
        bytes <= limits.bytes
    };
    rows.iter().take(limits.rows).take_while(fits).count().max(1)
}

/// The pinned settings: the same rows in the same blocks give the same bytes.
fn properties() -> WriterProperties {
    let key = || ColumnPath::new(vec![KEY_COLUMN.to_owned()]);
    let sorted = SortingColumn { column_idx: 0, descending: false, nulls_first: false };
    let builder = WriterProperties::builder()
        .set_created_by("proofmill".to_owned())
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(vec![sorted]))
        .set_column_statistics_enabled(key(), EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(key(), false)
        .set_column_encoding(key(), Encoding::PLAIN);
    let long = LONG_COLUMNS.map(|name| ColumnPath::new(vec![name.to_owned()]));
    let packed = long.into_iter().fold(builder, |builder, column| {
        builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_compression(column, Compression::ZSTD(ZstdLevel::default()))
    });
    packed.build()
}

fn encode_error(key: &Key, source: ParquetError) -> LedgerError {
    StoreError::Encode { key: key.to_string(), source }.into()
}
