//! Memory of the device: tensors, vectors and tables, and how many rows kernels are launched with.

use std::cell::Cell;

use zerocopy::IntoBytes;

use super::driver::{Driver, Memory, Role};
use crate::backend::{DeviceError, check};
use crate::checkpoint::{Dtype, StoredTensor};

/// Rows of a tensor begin at multiples of so many numbers.
pub(super) const STRIDE: usize = 32;

/// Activations `[rows, width]`, in f32, in bfloat16, or both. Kernels are launched with a few rows
/// more than there are, see `bucket`; what those hold is never read.
#[derive(Debug)]
pub struct Tensor<M> {
    floats: M,
    /// Absent where the device computes in f32.
    halves: Option<M>,
    holds: Cell<Holds>,
    rows: usize,
    width: usize,
    capacity: usize,
}

/// Which numbers of a tensor are as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Floats,
    Halves,
    Both,
}

impl<M: Memory> Tensor<M> {
    /// An empty tensor with capacity for `capacity` rows of `width`; with bfloat16 beside f32 if `halves`.
    pub(super) fn new<D: Driver<Memory = M>>(
        driver: &D,
        capacity: usize,
        width: usize,
        halves: bool,
    ) -> Result<Self, DeviceError> {
        let numbers = bucket(capacity).saturating_mul(width.next_multiple_of(STRIDE));
        let room = |size: usize| driver.alloc(Role::Scratch, numbers.saturating_mul(size));
        let floats = room(size_of::<f32>())?;
        let halves = if halves { Some(room(size_of::<u16>())?) } else { None };
        Ok(Self { floats, halves, holds: Cell::new(Holds::Floats), rows: 0, width, capacity })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that kernels are launched with.
    pub(super) fn launched(&self) -> usize {
        bucket(self.rows)
    }

    /// Numbers in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Numbers from one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.width.next_multiple_of(STRIDE)
    }

    /// Which numbers are as they should be.
    pub(super) fn holds(&self) -> Holds {
        self.holds.get()
    }

    /// Says which numbers are as they should be.
    pub(super) fn now_holds(&self, holds: Holds) {
        self.holds.set(holds);
    }

    /// Its f32 numbers, whatever they hold.
    pub(super) fn floats(&self) -> &M {
        &self.floats
    }

    /// Its bfloat16 numbers, whatever they hold.
    pub(super) fn halves(&self) -> Result<&M, DeviceError> {
        self.halves.as_ref().ok_or_else(|| DeviceError::Failed("a tensor has no bf16".to_owned()))
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

/// A vector of f32.
#[derive(Debug)]
pub struct Vector<M> {
    memory: M,
    len: usize,
}

impl<M: Memory> Vector<M> {
    /// A copy of `values`.
    pub(super) fn new<D: Driver<Memory = M>>(
        driver: &D,
        values: &[f32],
    ) -> Result<Self, DeviceError> {
        let memory = driver.alloc(Role::Weights, size_of_val(values))?;
        driver.upload(values.as_bytes(), &memory, 0)?;
        Ok(Self { memory, len: values.len() })
    }

    /// Its numbers.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Fails unless it has `len` numbers.
    pub(super) fn expect_len(&self, len: usize) -> Result<(), DeviceError> {
        check::len(self.len, len)
    }
}

/// Rows to be looked up, as they are stored.
#[derive(Debug)]
pub struct Table<M> {
    memory: M,
    dtype: Dtype,
    rows: usize,
    width: usize,
}

impl<M: Memory> Table<M> {
    /// A copy of `rows`.
    pub(super) fn new<D: Driver<Memory = M>>(
        driver: &D,
        rows: &StoredTensor,
    ) -> Result<Self, DeviceError> {
        if rows.shape().len() != 2 {
            return Err(DeviceError::Failed(format!(
                "expected a table of 2 dimensions, found the shape {:?}",
                rows.shape()
            )));
        }
        let memory = driver.alloc(Role::Weights, rows.bytes().len())?;
        driver.upload(rows.bytes(), &memory, 0)?;
        Ok(Self { memory, dtype: rows.dtype(), rows: rows.rows(), width: rows.width() })
    }

    /// Its numbers.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// How its numbers are stored.
    pub(super) fn dtype(&self) -> Dtype {
        self.dtype
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }
}

/// The number by which kernels know a type.
pub(super) fn type_code(dtype: Dtype) -> usize {
    match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        Dtype::Bf16 => 2,
    }
}

/// The number of rows that kernels are launched with for `rows` rows; 0 stays 0. Up to 64 rows that is
/// a power of two or a multiple of 16, then a multiple of 64: few different numbers, so that a step of
/// as many texts as an earlier one is the same list of launches and can be run as the same graph.
pub(super) fn bucket(rows: usize) -> usize {
    match rows {
        0..=16 => rows.next_power_of_two() * usize::from(rows > 0),
        17..=64 => rows.next_multiple_of(16),
        _ => rows.next_multiple_of(64),
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_hold_their_rows_and_are_few() {
        let buckets: std::collections::BTreeSet<usize> = (1..=256).map(bucket).collect();
        assert_eq!(buckets, [1, 2, 4, 8, 16, 32, 48, 64, 128, 192, 256].into());
        assert!((0..5000).all(|rows| bucket(rows) >= rows && bucket(rows) < 2 * rows.max(1)));
        assert_eq!(bucket(0), 0);
    }
}
