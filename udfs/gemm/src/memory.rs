//! Aligned buffers of plain numbers.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a cache line, and of the widest register.
const LINE: usize = 64;
/// From this size on memory comes from the system page by page, as pages are first written to: a
/// cache that is never full costs no more than what it held.
const LARGE: usize = 1 << 20;

/// There was not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {bytes} bytes were asked for")]
pub struct OutOfMemory {
    /// That were requested.
    pub bytes: usize,
}

/// Numbers of a buffer.
pub trait Plain: Copy + Default + FromBytes + IntoBytes + Immutable {}

impl<T: Copy + Default + FromBytes + IntoBytes + Immutable> Plain for T {}

/// Zeros at first, beginning at a cache line.
#[derive(Debug)]
pub struct Buffer<T> {
    memory: Memory<T>,
    len: usize,
}

#[derive(Debug)]
enum Memory<T> {
    /// The numbers from `start` on, in a line's worth more.
    Small {
        all: Vec<T>,
        start: usize,
    },
    Large(MmapMut),
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { memory: Memory::Small { all: Vec::new(), start: 0 }, len: 0 }
    }
}

impl<T: Plain> Buffer<T> {
    /// `len` zeros.
    ///
    /// # Errors
    ///
    /// The system has no memory for them.
    pub fn new(len: usize) -> Result<Self, OutOfMemory> {
        let size = size_of::<T>();
        let bytes = len.saturating_mul(size);
        if bytes >= LARGE {
            let map = MmapMut::map_anon(bytes).map_err(|_| OutOfMemory { bytes })?;
            return Ok(Self { memory: Memory::Large(map), len });
        }
        let all = vec![T::default(); len + LINE / size];
        let start = all.as_ptr().align_offset(LINE).min(LINE / size);
        Ok(Self { memory: Memory::Small { all, start }, len })
    }

    /// The first `len` numbers, whatever they are; more memory if there are fewer.
    ///
    /// # Errors
    ///
    /// The system has no memory for them.
    pub fn room(&mut self, len: usize) -> Result<&mut [T], OutOfMemory> {
        if self.len < len {
            *self = Self::default();
            *self = Self::new(len)?;
        }
        Ok(&mut self[..len])
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Small { all, start } => &all[*start..*start + self.len],
            // Pages are aligned for all numbers, and hold a whole number of them.
            Memory::Large(map) => <[T]>::ref_from_bytes(map).unwrap_or_default(),
        }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Small { all, start } => &mut all[*start..*start + self.len],
            Memory::Large(map) => <[T]>::mut_from_bytes(map).unwrap_or_default(),
        }
    }
}
