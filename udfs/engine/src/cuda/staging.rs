//! Staging buffers: lists of numbers that a step copies to the device, in memory that grows when it must.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::device::Gpu;
use super::driver::{Driver, Memory, Role};
use crate::backend::DeviceError;

/// Lists that were brought to the device together. It keeps its place from step to step unless it
/// has to grow, so that the launches that name it stay the same.
#[derive(Debug)]
pub(super) struct StagingBuffer<M> {
    memory: Option<M>,
}

impl<M> Default for StagingBuffer<M> {
    fn default() -> Self {
        Self { memory: None }
    }
}

impl<M: Memory> StagingBuffer<M> {
    /// Room for `bytes`, whatever they hold. Kernels that wait and name the old place run first.
    pub(super) fn room<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        bytes: usize,
    ) -> Result<&M, DeviceError> {
        match &mut self.memory {
            Some(memory) if memory.bytes() >= bytes => {}
            slot => {
                gpu.flush()?;
                let room = bytes.next_power_of_two().max(256);
                *slot = None;
                *slot = Some(gpu.driver().alloc(Role::Staging, room)?);
            }
        }
        self.memory.as_ref().ok_or(DeviceError::OutOfMemory { bytes })
    }

    /// Replaces what it holds by `numbers`.
    pub(super) fn replace<D: Driver<Memory = M>, T: IntoBytes + Immutable>(
        &mut self,
        gpu: &mut Gpu<D>,
        numbers: &[T],
    ) -> Result<&M, DeviceError> {
        let bytes = numbers.as_bytes();
        self.room(gpu, bytes.len())?;
        let memory = self.memory.as_ref().ok_or(DeviceError::OutOfMemory { bytes: bytes.len() })?;
        gpu.upload(bytes, memory)?;
        Ok(memory)
    }
}

impl<D: Driver> Gpu<D> {
    /// Numbers from the device, `offset` numbers into `from`.
    pub(super) fn numbers<T: FromBytes + IntoBytes + Clone + Default>(
        &mut self,
        from: &D::Memory,
        offset: usize,
        count: usize,
    ) -> Result<Vec<T>, DeviceError> {
        self.flush()?;
        let mut all = vec![T::default(); count];
        self.driver().download(from, offset * size_of::<T>(), all.as_mut_bytes())?;
        Ok(all)
    }
}
