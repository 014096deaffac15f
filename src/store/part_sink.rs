//! Where encoded Parquet goes: hashed as it comes and cut into pieces of equal size.

use std::io::{Result, Write};

use bytes::Bytes;

use proofmill_base::digest::{Digest, Hasher};
use crate::upload::PIECE_BYTES;

/// Collects bytes into pieces.
#[derive(Default)]
pub struct PartSink {
    full: Vec<Bytes>,
    current: Vec<u8>,
    hasher: Hasher,
    bytes: u64,
}

impl PartSink {
    /// The pieces that are full.
    pub fn take_full(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.full)
    }

    /// The full pieces, the last piece, the digest of everything and its size in bytes.
    pub fn finish(self) -> (Vec<Bytes>, Bytes, Digest, u64) {
        (self.full, self.current.into(), self.hasher.finish(), self.bytes)
    }
}

impl Write for PartSink {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        let room = PIECE_BYTES - self.current.len();
        let taken = &data[..data.len().min(room)];
        self.hasher.update(taken);
        self.current.extend_from_slice(taken);
        self.bytes += taken.len() as u64;
        if self.current.len() == PIECE_BYTES {
            let next = Vec::with_capacity(PIECE_BYTES);
            self.full.push(std::mem::replace(&mut self.current, next).into());
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
