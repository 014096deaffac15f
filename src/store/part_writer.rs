//! Rows into Parquet objects: encoded, hashed and stored as they come.

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tokio::io::AsyncReadExt as _;

use crate::error::Result;
use crate::part_sink::PartSink;
use crate::upload::{PIECE_BYTES, PieceUpload};
use crate::{Key, NamedFile, Part, Store, StoreError};
use proofmill_base::digest::{Digest, Hasher};
use proofmill_base::ids::FilePath;

const ROW_GROUP_ROWS_MAX: usize = 1 << 20;
/// Encoded bytes of a row group, approximately; bounds the memory of a writer.
const ROW_GROUP_BYTES_MAX: usize = 64 << 20;
/// Rows and bytes up to which a part is stored without compression.
const SMALL_ROWS_MAX: u64 = 256;
const SMALL_BYTES_MAX: usize = 64 << 10;

/// Writes one part. Encoding happens on the calling task: use one writer per partition.
///
/// Nothing is visible before [`PartWriter::finish`]; a writer that is dropped leaves nothing visible.
pub struct PartWriter {
    store: Store,
    key: Key,
    held: Held,
    /// None until the part turns out to be large.
    encoder: Option<Box<ArrowWriter<PartSink>>>,
    upload: PieceUpload,
    rows: u64,
}

/// The rows of what may become a small part.
struct Held {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl PartWriter {
    /// A writer of rows with `schema` to `key`, which must be a new one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Encode`] when Parquet cannot hold the schema.
    pub fn create(store: &Store, key: Key, schema: SchemaRef) -> Result<Self> {
        let checked = ArrowSchemaConverter::new().convert(&schema);
        checked.map_err(|source| encode_error(&key, source))?;
        let held = Held { schema, batches: Vec::new(), bytes: 0 };
        let upload = PieceUpload::new(store, &key);
        Ok(Self { store: store.clone(), key, held, encoder: None, upload, rows: 0 })
    }

    /// Takes rows. Waits only when the store is slower than the encoder.
    ///
    /// # Errors
    ///
    /// [`StoreError::Encode`] when the rows do not have the schema; a failure to store.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        if self.encoder.is_none() {
            self.held.bytes += size(batch);
            self.held.batches.push(batch.clone());
            if self.rows <= SMALL_ROWS_MAX && self.held.bytes <= SMALL_BYTES_MAX {
                return Ok(());
            }
            self.start(Size::Large)?;
        } else {
            let written = self.start(Size::Large)?.write(batch);
            written.map_err(|source| encode_error(&self.key, source))?;
        }
        for piece in self.start(Size::Large)?.inner_mut().take_full() {
            self.upload.push(piece).await?;
        }
        Ok(())
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Encodes and stores what is left. When this returns, the part is durable and visible.
    ///
    /// # Errors
    ///
    /// A failure to encode or to store; then nothing is visible.
    pub async fn finish(mut self) -> Result<Part> {
        match self.complete().await {
            Ok((sha256, bytes)) => {
                self.store.set_verified(&self.key, sha256);
                Ok(Part { key: self.key, sha256, bytes, rows: self.rows })
            }
            Err(error) => {
                self.upload.abort().await;
                Err(error)
            }
        }
    }

    /// Gives up: no object becomes visible.
    pub async fn abort(mut self) {
        self.upload.abort().await;
    }

    async fn complete(&mut self) -> Result<(Digest, u64)> {
        let encoder = self.start(Size::Small)?;
        let finished = encoder.finish();
        let sink = std::mem::take(encoder.inner_mut());
        finished.map_err(|source| encode_error(&self.key, source))?;
        let (pieces, rest, sha256, bytes) = sink.finish();
        for piece in pieces {
            self.upload.push(piece).await?;
        }
        self.upload.finish(rest).await?;
        Ok((sha256, bytes))
    }

    /// The encoder; when it has to be made now, for a part of this size and with the rows held so far.
    fn start(&mut self, size: Size) -> Result<&mut ArrowWriter<PartSink>> {
        let encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => {
                let failed = |source| encode_error(&self.key, source);
                let schema = self.held.schema.clone();
                let properties = Some(properties(size, &schema));
                let encoder = ArrowWriter::try_new(PartSink::default(), schema, properties);
                let mut encoder = Box::new(encoder.map_err(failed)?);
                let held = std::mem::take(&mut self.held.batches);
                held.iter().try_for_each(|batch| encoder.write(batch)).map_err(failed)?;
                encoder
            }
        };
        Ok(self.encoder.insert(encoder))
    }
}

/// Copies a local file into the store under `key`, which must be a new one.
///
/// # Errors
///
/// When the file cannot be read or stored; then nothing is visible.
pub async fn write_file(
    store: &Store,
    key: Key,
    name: FilePath,
    source: &std::path::Path,
) -> Result<NamedFile> {
    let mut upload = PieceUpload::new(store, &key);
    let (sha256, bytes) = match copy_pieces(&mut upload, source).await {
        Ok(copied) => copied,
        Err(error) => {
            upload.abort().await;
            return Err(error);
        }
    };
    store.set_verified(&key, sha256);
    Ok(NamedFile { name, key, sha256, bytes })
}

async fn copy_pieces(upload: &mut PieceUpload, source: &std::path::Path) -> Result<(Digest, u64)> {
    let failed = |error| StoreError::Folder { path: source.display().to_string(), source: error };
    let mut file = tokio::fs::File::open(source).await.map_err(failed)?;
    let (mut hasher, mut bytes) = (Hasher::default(), 0);
    let mut piece = BytesMut::new();
    loop {
        piece.reserve(PIECE_BYTES - piece.len());
        let limit = (PIECE_BYTES - piece.len()) as u64;
        let read = (&mut file).take(limit).read_buf(&mut piece).await.map_err(failed)?;
        if read == 0 {
            break;
        }
        if piece.len() == PIECE_BYTES {
            let full = std::mem::take(&mut piece).freeze();
            hasher.update(&full);
            bytes += full.len() as u64;
            upload.push(full).await?;
        }
    }
    hasher.update(&piece);
    bytes += piece.len() as u64;
    upload.finish(piece.freeze()).await?;
    Ok((hasher.finish(), bytes))
}

/// How large a part is, as far as its settings are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// Up to [`SMALL_ROWS_MAX`] rows and [`SMALL_BYTES_MAX`] bytes: setting up the compression of its
    /// columns would cost more than everything else.
    Small,
    Large,
}

/// The pinned settings: the same rows in the same batches give the same bytes.
fn properties(size: Size, schema: &SchemaRef) -> WriterProperties {
    let builder = WriterProperties::builder()
        .set_created_by("proofmill".to_owned())
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES_MAX));
    if size == Size::Small {
        return builder.set_compression(Compression::UNCOMPRESSED).build();
    }
    let builder = builder.set_compression(Compression::ZSTD(ZstdLevel::default()));
    let integers = schema.fields().iter().filter(|field| field.data_type().is_integer());
    // Differences pack whole numbers smaller and faster than a dictionary of them.
    let packed = integers.fold(builder, |builder, field| {
        let column = ColumnPath::new(vec![field.name().clone()]);
        builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
    });
    packed.build()
}

/// Bytes of the rows, without what their buffers hold for other rows.
fn size(batch: &RecordBatch) -> usize {
    let size = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX);
    batch.columns().iter().map(size).fold(0, usize::saturating_add)
}

fn encode_error(key: &Key, source: ParquetError) -> StoreError {
    StoreError::Encode { key: key.to_string(), source }
}
