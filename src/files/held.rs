//! A file that is read in pieces and out of order, held to its digest: opened once, digested through that
//! handle, read through it, and looked at again at the end.
//!
//! Text is read once from start to end, so that its digest can be taken of the very bytes that are parsed.
//! Parquet is not: what is at a path may be another file by the time a row group is read, and may be
//! written to in place without a trace in its length and its time of last write.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use crate::error::FilesError;
use proofmill_base::digest::{Digest, Hasher};

const READ_BYTES: usize = 256 << 10;

/// A file that is held open, and the digest of what is in it.
#[derive(Debug)]
pub struct Held {
    shown: String,
    file: Arc<File>,
    state: State,
    /// The digest of its bytes.
    pub digest: Digest,
    pub bytes: u64,
}

/// What the host says of a file. Every change of its bytes shows in the time of its last change, which,
/// unlike the time of its last write, cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    changed: (i64, i64),
}

impl From<Metadata> for State {
    fn from(metadata: Metadata) -> Self {
        Self { bytes: metadata.len(), changed: (metadata.ctime(), metadata.ctime_nsec()) }
    }
}

impl Held {
    /// Opens a file, shown as `shown`, and digests it.
    pub fn open(shown: &str, path: &Path) -> Result<Self, FilesError> {
        let open = || {
            let file = File::open(path)?;
            let state = State::from(file.metadata()?);
            let (digest, bytes) = digest_of(&file)?;
            let (shown, file) = (shown.to_owned(), Arc::new(file));
            Ok(Self { shown, file, state, digest, bytes })
        };
        open().map_err(|error| FilesError::io(shown, error))
    }

    /// Checks that the bytes are still those of the digest.
    pub fn unchanged(&self) -> Result<(), FilesError> {
        let failed = |error| FilesError::io(&self.shown, error);
        if State::from(self.file.metadata().map_err(failed)?) == self.state {
            return Ok(());
        }
        // Another name or other permissions are no other bytes.
        match digest_of(&self.file).map_err(failed)? == (self.digest, self.bytes) {
            true => Ok(()),
            false => Err(FilesError::Changed { path: self.shown.clone() }),
        }
    }

    /// The bytes, for a decoder.
    pub fn content(&self) -> Content {
        Content { file: Arc::clone(&self.file), bytes: self.bytes }
    }
}

/// One file, held once for all that read it at the same time.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Weak<Held>>>);

impl Shared {
    /// The file at `path`, whose digest must be `digest`.
    pub fn hold(&self, shown: &str, path: &Path, digest: &Digest) -> Result<Arc<Held>, FilesError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.upgrade() {
            return Ok(held);
        }
        let opened = Arc::new(Held::open(shown, path)?);
        if opened.digest != *digest {
            return Err(FilesError::Changed { path: shown.to_owned() });
        }
        *held = Arc::downgrade(&opened);
        Ok(opened)
    }
}

/// The bytes of a held file at any place, for readers that know nothing of each other.
#[derive(Clone, Debug)]
pub struct Content {
    file: Arc<File>,
    bytes: u64,
}

impl Length for Content {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for Content {
    type T = BufReader<Reading>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BufReader::new(Reading { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A length that a damaged file claims must not be allocated before it is there.
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            let message = format!("expected {length} bytes at {start} of {}", self.bytes);
            return Err(ParquetError::EOF(message));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// Reads a file from a place on, independently of its other readers.
#[derive(Debug)]
pub struct Reading {
    file: Arc<File>,
    at: u64,
}

impl Read for Reading {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(out, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

/// The digest and the length of an open file.
fn digest_of(file: &File) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut at) = (Hasher::default(), 0);
    let mut piece = vec![0; READ_BYTES];
    loop {
        match file.read_at(&mut piece, at) {
            Ok(0) => return Ok((hasher.finish(), at)),
            Ok(len) => {
                hasher.update(&piece[..len]);
                at += len as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
