//! Memory of the device: aligned buffers, and the tensors and vectors made of them.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::simd::LANES;
use crate::backend::{DeviceError, check};

/// Bytes of a cache line, and of the widest register.
const LINE: usize = 64;
/// From this size on memory comes from the system page by page, as pages are first written to: a
/// cache that is never full costs no more than what it held.
const LARGE: usize = 1 << 20;

/// Numbers of a buffer.
pub(super) trait Plain: Copy + Default + FromBytes + IntoBytes + Immutable {}

impl<T: Copy + Default + FromBytes + IntoBytes + Immutable> Plain for T {}

/// Zeros at first, beginning at a cache line.
#[derive(Debug)]
pub(super) struct Buffer<T> {
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
    pub(super) fn new(len: usize) -> Result<Self, DeviceError> {
        let size = size_of::<T>();
        let bytes = len.saturating_mul(size);
        if bytes >= LARGE {
            let map = MmapMut::map_anon(bytes).map_err(|_| DeviceError::OutOfMemory { bytes })?;
            return Ok(Self { memory: Memory::Large(map), len });
        }
        let all = vec![T::default(); len + LINE / size];
        let start = all.as_ptr().align_offset(LINE).min(LINE / size);
        Ok(Self { memory: Memory::Small { all, start }, len })
    }

    /// The first `len` numbers, whatever they are; more memory if there are fewer.
    pub(super) fn room(&mut self, len: usize) -> Result<&mut [T], DeviceError> {
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

/// Activations `[rows, width]`.
#[derive(Debug)]
pub struct Tensor {
    data: Buffer<f32>,
    rows: usize,
    width: usize,
    capacity: usize,
}

impl Tensor {
    /// An empty tensor with capacity for `capacity` rows of `width`.
    pub(super) fn new(capacity: usize, width: usize) -> Result<Self, DeviceError> {
        let data = Buffer::new(capacity.saturating_mul(width))?;
        Ok(Self { data, rows: 0, width, capacity })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// All numbers.
    pub(super) fn data(&self) -> &[f32] {
        &self.data[..self.rows * self.width]
    }

    /// All numbers.
    pub(super) fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data[..self.rows * self.width]
    }

    /// The numbers of row `row`.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.width..][..self.width]
    }

    /// Makes it `rows` rows of `width`, whatever they hold.
    pub(super) fn set_rows(&mut self, rows: usize, width: usize) -> Result<(), DeviceError> {
        self.expect_width(width)?;
        check::room(self.capacity, rows)?;
        self.rows = rows;
        Ok(())
    }

    /// Fails unless rows have `width` numbers.
    pub(super) fn expect_width(&self, width: usize) -> Result<(), DeviceError> {
        check::width(self.width, width)
    }
}

/// A vector, filled up with zeros to whole registers and panels.
#[derive(Debug)]
pub struct Vector {
    data: Buffer<f32>,
    len: usize,
}

impl Vector {
    /// A copy of `values`.
    pub(super) fn new(values: &[f32]) -> Result<Self, DeviceError> {
        let mut data = Buffer::new(values.len().next_multiple_of(2 * LANES))?;
        data[..values.len()].copy_from_slice(values);
        Ok(Self { data, len: values.len() })
    }

    /// Its numbers.
    pub(super) fn values(&self) -> &[f32] {
        &self.data[..self.len]
    }

    /// Its numbers and the zeros after them.
    pub(super) fn padded(&self) -> &[f32] {
        &self.data
    }

    /// Fails unless it has `len` numbers.
    pub(super) fn expect_len(&self, len: usize) -> Result<(), DeviceError> {
        check::len(self.len, len)
    }
}
