//! From the bytes of a file to UTF-8: digest, decompression, limits, encoding, as one reader.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use encoding_rs::Encoding;

use crate::encoding::to_utf8;
use crate::error::Refusal;
use crate::limits::{EXPANSION_FREE_BYTES, EXPANSION_MAX, ZSTD_WINDOW_LOG_MAX};
use proofmill_base::digest::{Digest, Hasher};
use proofmill_pipeline::kinds::read::Compression;

const READ_BYTES: usize = 256 << 10;

/// The text of a file.
pub type Text = BufReader<Box<dyn Read>>;

/// Opens a file. The hashing tells what has been read of it.
pub fn open_text(
    path: &Path,
    compression: Compression,
    encoding: Option<&'static Encoding>,
) -> io::Result<(Text, HashingReader)> {
    let hashing = HashingReader::open(path)?;
    let bytes = BufReader::with_capacity(READ_BYTES, hashing.clone());
    let bytes: Box<dyn Read> = match compression {
        Compression::None => Box::new(bytes),
        Compression::Gzip => {
            Box::new(Bounded::new(flate2::bufread::MultiGzDecoder::new(bytes), &hashing))
        }
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(Bounded::new(decoder, &hashing))
        }
    };
    Ok((BufReader::with_capacity(READ_BYTES, to_utf8(bytes, encoding)?), hashing))
}

/// The digest and the length of a file.
pub fn digest_of(path: &Path) -> io::Result<(Digest, u64)> {
    let hashing = HashingReader::open(path)?;
    let digest = hashing.digest()?;
    Ok((digest, hashing.bytes_read()))
}

/// The bytes of a file, hashed and counted as they are read.
#[derive(Clone)]
pub struct HashingReader(Rc<RefCell<HashedFile>>);

struct HashedFile {
    file: File,
    hasher: Hasher,
    bytes: u64,
}

impl HashingReader {
    fn open(path: &Path) -> io::Result<Self> {
        let tapped = HashedFile { file: File::open(path)?, hasher: Hasher::default(), bytes: 0 };
        Ok(Self(Rc::new(RefCell::new(tapped))))
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.0.borrow().bytes
    }

    /// The digest of the whole file; reads what is left of it.
    pub fn digest(&self) -> io::Result<Digest> {
        let mut rest = vec![0; READ_BYTES];
        while self.clone().read(&mut rest)? > 0 {}
        Ok(self.0.borrow().hasher.clone().finish())
    }
}

impl Read for HashingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut tapped = self.0.borrow_mut();
        let len = loop {
            match tapped.file.read(out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        tapped.hasher.update(&out[..len]);
        tapped.bytes += len as u64;
        Ok(len)
    }
}

/// Decompressed bytes that may not outgrow their file beyond measure.
struct Bounded<R> {
    inner: R,
    hashing: HashingReader,
    bytes: u64,
}

impl<R> Bounded<R> {
    fn new(inner: R, hashing: &HashingReader) -> Self {
        Self { inner, hashing: hashing.clone(), bytes: 0 }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(out).map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        self.bytes += len as u64;
        if self.bytes > EXPANSION_FREE_BYTES
            && self.bytes / EXPANSION_MAX > self.hashing.bytes_read()
        {
            return Err(io::Error::other(Refusal::Expansion));
        }
        Ok(len)
    }
}
