//! The parameters of every product, and the scratch memory for its sums.

use std::mem;

use crate::backend::{Activation, DeviceError};
use crate::cuda::device::{Gpu, Scratch, StagingBuffer};
use crate::cuda::driver::{Driver, Memory};

/// What becomes of a product.
pub(super) struct Product {
    /// Of the activations, and of the result.
    pub(super) rows: usize,
    pub(super) scale: f32,
    pub(super) activation: Activation,
    pub(super) write: usize,
    pub(super) out: u64,
    pub(super) out_stride: usize,
    /// Where f32 sums may stand meanwhile, in rows of the same length; `out` if that is f32. Nowhere
    /// if `out` is added to.
    pub(super) sums: Option<u64>,
}

/// As `common.cu` numbers them.
pub(super) const STORE_F32: usize = 0;
pub(super) const ADD_F32: usize = 1;
pub(super) const STORE_BF16: usize = 2;

/// Where a buffer of the scratch memory begins, with room for `bytes`.
pub(super) fn room<D: Driver>(
    gpu: &mut Gpu<D>,
    buffer: impl Fn(&mut Scratch<D::Memory>) -> &mut StagingBuffer<D::Memory>,
    bytes: usize,
) -> Result<u64, DeviceError> {
    let mut taken = mem::take(buffer(&mut gpu.scratch));
    let address = taken.room(gpu, bytes).map(Memory::address);
    *buffer(&mut gpu.scratch) = taken;
    address
}
