//! Parquet objects into rows: the digest of the stored bytes is checked before anything is decoded.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::{GetResult, GetResultPayload, ObjectStoreExt as _};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::error::Result;
use crate::{Key, NamedFile, Part, Store, StoreError};
use proofmill_base::digest::{Digest, Hasher};

const BATCH_ROWS: usize = 8192;
/// Stored bytes that are hashed and decoded on the calling task; more leave it for a blocking one.
const INLINE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that a local file is hashed by.
const HASH_BYTES: usize = 1 << 20;

/// All rows of a part, verified.
///
/// # Errors
///
/// [`StoreError::Corrupt`], [`StoreError::WrongSize`] or [`StoreError::WrongRows`] when the part is not
/// what its record says; a failure to read.
pub async fn read_part(store: &Store, part: &Part) -> Result<Vec<RecordBatch>> {
    let bytes = fetch(store, part).await?;
    if part.bytes <= INLINE_BYTES_MAX {
        return decode_part(part, bytes);
    }
    let part = part.clone();
    tokio::task::spawn_blocking(move || decode_part(&part, bytes)).await?
}

/// The rows of a part, verified, decoded batch by batch. The stored bytes stay in memory meanwhile.
///
/// # Errors
///
/// As [`read_part`]; a wrong number of rows shows as the last item.
pub async fn stream_part(
    store: &Store,
    part: &Part,
) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
    let decoder = Decoder::open(part.clone(), fetch(store, part).await?)?;
    let schema = decoder.reader_schema();
    let next = |mut decoder: Decoder| async {
        let batch = decoder.next().transpose()?;
        Some((batch, decoder))
    };
    Ok((schema, stream::unfold(decoder, next).boxed()))
}

/// All rows of a part whose stored bytes were verified.
///
/// # Errors
///
/// [`StoreError::Decode`] when the bytes are not Parquet, [`StoreError::WrongRows`] when they hold
/// another number of rows than the record says.
pub fn decode_part(part: &Part, bytes: Bytes) -> Result<Vec<RecordBatch>> {
    let mut decoder = Decoder::open(part.clone(), bytes)?;
    let mut batches = Vec::new();
    while let Some(batch) = decoder.next()? {
        batches.push(batch);
    }
    Ok(batches)
}

/// Checks the stored bytes of a part without decoding or holding them. Free when this process wrote or
/// checked them before. Call it before anything reads the part by ranges.
///
/// # Errors
///
/// [`StoreError::Corrupt`] or [`StoreError::WrongSize`] when they are not what was committed.
pub async fn verify_part(store: &Store, part: &Part) -> Result<()> {
    verify(store, &part.key, part.sha256, part.bytes).await
}

/// [`verify_part`] for a file.
///
/// # Errors
///
/// As [`verify_part`].
pub async fn verify_file(store: &Store, file: &NamedFile) -> Result<()> {
    verify(store, &file.key, file.sha256, file.bytes).await
}

/// The stored bytes of a part, verified. What arrives wrong is read once more: it may have been changed
/// on its way only.
async fn fetch(store: &Store, part: &Part) -> Result<Bytes> {
    match fetch_once(store, part).await {
        Err(StoreError::Corrupt { .. } | StoreError::WrongSize { .. }) => {
            fetch_once(store, part).await
        }
        fetched => fetched,
    }
}

async fn fetch_once(store: &Store, part: &Part) -> Result<Bytes> {
    let key = &part.key;
    let objects = store.objects();
    let get = || async {
        let got = objects.get(key.path()).await?;
        let size = got.meta.size;
        // A body of the wrong size is not worth its memory.
        let bytes = if size == part.bytes { got.bytes().await? } else { Bytes::new() };
        Ok((bytes, size))
    };
    let (bytes, size) = store.retry("read", key, get).await?;
    check_size(key, part.bytes, size)?;
    check_size(key, part.bytes, bytes.len() as u64)?;
    let found = if part.bytes <= INLINE_BYTES_MAX {
        Digest::of(&bytes)
    } else if store.is_verified(key, part.sha256) {
        return Ok(bytes);
    } else {
        let bytes = bytes.clone();
        tokio::task::spawn_blocking(move || Digest::of(&bytes)).await?
    };
    check_digest(store, key, part.sha256, found)?;
    Ok(bytes)
}

async fn verify(store: &Store, key: &Key, expected: Digest, bytes: u64) -> Result<()> {
    if store.is_verified(key, expected) {
        return Ok(());
    }
    match verify_once(store, key, expected, bytes).await {
        Err(StoreError::Corrupt { .. } | StoreError::WrongSize { .. }) => {
            verify_once(store, key, expected, bytes).await
        }
        verified => verified,
    }
}

async fn verify_once(store: &Store, key: &Key, expected: Digest, bytes: u64) -> Result<()> {
    let objects = store.objects();
    let hash = || async { digest_of(objects.get(key.path()).await?).await };
    let (found, size) = store.retry("read", key, hash).await?;
    check_size(key, bytes, size)?;
    check_digest(store, key, expected, found)
}

impl Store {
    /// The digest and the size of what is stored at `key`, read from the store; none when there is no such object.
    ///
    /// # Errors
    ///
    /// When the object cannot be read, also after retries.
    pub async fn digest(&self, key: &Key) -> Result<Option<(Digest, u64)>> {
        let objects = self.objects();
        let hash = || async { digest_of(objects.get(key.path()).await?).await };
        match self.retry("read", key, hash).await {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same of many small objects, in the order of `keys`.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn digests(&self, keys: Vec<Key>) -> Result<Vec<Option<(Digest, u64)>>> {
        let found = self.get_all(&keys).await?;
        let digest = |bytes: Bytes| (Digest::of(&bytes), bytes.len() as u64);
        let all = move || found.into_iter().map(|bytes| bytes.map(digest)).collect();
        Ok(tokio::task::spawn_blocking(all).await?)
    }
}

async fn digest_of(got: GetResult) -> object_store::Result<(Digest, u64)> {
    match got.payload {
        GetResultPayload::File(mut file, path) => {
            let hash = move || {
                let (mut hasher, mut size) = (Hasher::default(), 0);
                let mut buffer = vec![0; HASH_BYTES];
                loop {
                    match std::io::Read::read(&mut file, &mut buffer)? {
                        0 => return Ok((hasher.finish(), size)),
                        read => {
                            hasher.update(&buffer[..read]);
                            size += read as u64;
                        }
                    }
                }
            };
            let hashed: std::io::Result<_> = tokio::task::spawn_blocking(hash).await?;
            hashed.map_err(|source| object_store::Error::Generic {
                store: "DurableLocal",
                source: format!("{}: {source}", path.display()).into(),
            })
        }
        GetResultPayload::Stream(mut pieces) => {
            let (mut hasher, mut size) = (Hasher::default(), 0);
            while let Some(piece) = pieces.try_next().await? {
                hasher.update(&piece);
                size += piece.len() as u64;
            }
            Ok((hasher.finish(), size))
        }
    }
}

fn check_size(key: &Key, expected: u64, found: u64) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(StoreError::WrongSize { key: key.to_string(), expected, found })
}

fn check_digest(store: &Store, key: &Key, expected: Digest, found: Digest) -> Result<()> {
    if expected == found {
        store.set_verified(key, expected);
        return Ok(());
    }
    Err(StoreError::Corrupt { key: key.to_string(), expected, found })
}

/// A Parquet reader that turns panics of the decoder into errors and counts rows.
struct Decoder {
    part: Part,
    reader: ParquetRecordBatchReader,
    rows: u64,
    ended: bool,
}

impl Decoder {
    fn open(part: Part, bytes: Bytes) -> Result<Self> {
        let open = || {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
            builder.with_batch_size(BATCH_ROWS).build()
        };
        let reader = guarded(&part, open)?;
        Ok(Self { part, reader, rows: 0, ended: false })
    }

    fn reader_schema(&self) -> SchemaRef {
        arrow::array::RecordBatchReader::schema(&self.reader)
    }

    /// The next rows. After an error there are none.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        let reader = &mut self.reader;
        match guarded(&self.part, || reader.next().transpose())? {
            Some(batch) => {
                self.rows += batch.num_rows() as u64;
                self.ended = false;
                Ok(Some(batch))
            }
            None if self.rows == self.part.rows => Ok(None),
            None => {
                let (key, expected) = (self.part.key.to_string(), self.part.rows);
                Err(StoreError::WrongRows { key, expected, found: self.rows })
            }
        }
    }
}

/// Runs the decoder, which may panic on bytes that it did not write.
fn guarded<T, E: std::fmt::Display>(
    part: &Part,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T> {
    let failed = |reason: String| StoreError::Decode { key: part.key.to_string(), reason };
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("the decoder panicked".to_owned())),
    }
}
