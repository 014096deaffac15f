//! Pieces of a GPU's memory. They may be dropped on any thread.

use std::sync::Arc;

use super::stream::Stream;
use crate::backend::DeviceError;
use crate::cuda::driver::Memory;

/// A piece of memory, given back when dropped.
pub struct Piece {
    owner: Owner,
    address: u64,
    bytes: usize,
}

/// What a piece is cut from.
enum Owner {
    /// One of several pieces of a slab.
    Slab(#[expect(dead_code, reason = "it only keeps the slab alive")] Arc<Slab>),
    /// The stream's own pool, to which this piece goes back in the order of the stream.
    Pool(Arc<Stream>),
}

/// Memory that is cut into pieces.
pub(super) struct Slab {
    stream: Arc<Stream>,
    address: u64,
}

impl Slab {
    /// Zeros.
    pub(super) fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Self, DeviceError> {
        Ok(Self { address: stream.take(bytes)?, stream: Arc::clone(stream) })
    }

    /// Where it begins.
    pub(super) fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.stream.give_back(self.address);
    }
}

impl Piece {
    /// `bytes` bytes of a slab, from `offset` on.
    pub(super) fn of_slab((slab, offset): (Arc<Slab>, usize), bytes: usize) -> Self {
        let address = slab.address + offset as u64;
        Self { owner: Owner::Slab(slab), address, bytes }
    }

    /// Zeros that go back to the stream's pool; where it has none, a slab of their own.
    pub(super) fn pooled(stream: &Arc<Stream>, bytes: usize) -> Result<Self, DeviceError> {
        let room = bytes.max(1);
        if !stream.ordered() {
            return Ok(Self::of_slab((Arc::new(Slab::new(stream, room)?), 0), bytes));
        }
        let address = stream.take_in_order(room)?;
        Ok(Self { owner: Owner::Pool(Arc::clone(stream)), address, bytes })
    }

    /// The address of `bytes` bytes from `offset` on.
    pub(super) fn part(&self, offset: usize, bytes: usize) -> Result<u64, DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(self.address + offset as u64),
            _ => Err(DeviceError::Failed(format!(
                "{bytes} bytes from {offset} on are not in a piece of {}",
                self.bytes
            ))),
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        match &self.owner {
            Owner::Slab(_) => {}
            Owner::Pool(stream) => stream.give_back_in_order(self.address),
        }
    }
}

impl Memory for Piece {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Piece({} bytes at {:#x})", self.bytes, self.address)
    }
}
