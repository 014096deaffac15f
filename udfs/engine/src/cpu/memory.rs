//! Memory of the device: the tensors and vectors made of aligned buffers.

use proofmill_gemm::{Buffer, LANES, OutOfMemory};

use crate::backend::{DeviceError, check};

impl From<OutOfMemory> for DeviceError {
    fn from(OutOfMemory { bytes }: OutOfMemory) -> Self {
        Self::OutOfMemory { bytes }
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
