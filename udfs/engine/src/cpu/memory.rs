//! Memory of the device: aligned buffers, and the tensors and vectors made of them.

use std::ops::{Deref, DerefMut};

use super::simd::LANES;
use crate::backend::DeviceError;

/// Bytes of a cache line, and of the widest register.
const LINE: usize = 64;

/// Zeros at first, beginning at a cache line.
#[derive(Debug, Default)]
pub(super) struct Buffer<T> {
    /// `len` numbers and a line's worth more.
    all: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> Buffer<T> {
    /// `len` zeros.
    pub(super) fn new(len: usize) -> Result<Self, DeviceError> {
        let size = size_of::<T>();
        let room = len.saturating_add(LINE / size);
        // Only an attempt can fail; only the other way to ask leaves pages of zeros untouched, so
        // that what is never used costs nothing.
        Vec::<T>::new()
            .try_reserve_exact(room)
            .map_err(|_| DeviceError::OutOfMemory { bytes: room.saturating_mul(size) })?;
        let all = vec![T::default(); room];
        let start = all.as_ptr().align_offset(LINE).min(LINE / size);
        Ok(Self { all, start, len })
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

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.start..self.start + self.len]
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
    /// No rows, and room for `capacity` of `width`.
    pub(super) fn new(capacity: usize, width: usize) -> Result<Self, DeviceError> {
        let data = Buffer::new(capacity.saturating_mul(width))?;
        Ok(Self { data, rows: 0, width, capacity })
    }

    /// Rows.
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
        if rows > self.capacity {
            return Err(DeviceError::Failed(format!(
                "{rows} rows do not fit a tensor with room for {}",
                self.capacity
            )));
        }
        self.rows = rows;
        Ok(())
    }

    /// Fails unless rows have `width` numbers.
    pub(super) fn expect_width(&self, width: usize) -> Result<(), DeviceError> {
        if self.width == width {
            return Ok(());
        }
        Err(DeviceError::Failed(format!("a tensor is {} wide instead of {width}", self.width)))
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
        if self.len == len {
            return Ok(());
        }
        Err(DeviceError::Failed(format!("a vector has {} numbers instead of {len}", self.len)))
    }
}
