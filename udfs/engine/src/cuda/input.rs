//! Tokens, positions and slots of a step on the device.

use super::device::Gpu;
use super::driver::{Driver, Memory};
use super::memory::bucket;
use super::staging::StagingBuffer;
use crate::backend::{DeviceError, Input};

/// The slot of rows that only fill up a launch: nothing is written.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// An [`Input`] on the device: tokens, positions and slots one after the other, each filled up to
/// the rows that kernels are launched with: with 0, slots with `NO_SLOT`.
#[derive(Debug)]
pub struct GpuInput<M> {
    /// The same as the host knows it.
    pub(super) host: Input,
    lists: StagingBuffer<M>,
    addresses: [u64; 3],
}

impl<M> Default for GpuInput<M> {
    fn default() -> Self {
        Self { host: Input::default(), lists: StagingBuffer::default(), addresses: [0; 3] }
    }
}

impl<M: Memory> GpuInput<M> {
    /// Brings `from` to the device.
    pub(super) fn bring<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        from: &Input,
    ) -> Result<(), DeviceError> {
        self.host.clone_from(from);
        let longest = from.tokens.len().max(from.positions.len()).max(from.slots.len());
        let rows = bucket(longest);
        let mut all = Vec::with_capacity(3 * rows);
        for (list, fill) in [(&from.tokens, 0), (&from.positions, 0), (&from.slots, NO_SLOT)] {
            all.extend_from_slice(list);
            all.resize(all.len() + rows - list.len(), fill);
        }
        let start = self.lists.replace(gpu, &all)?.address();
        let bytes = (rows * size_of::<u32>()) as u64;
        self.addresses = [start, start + bytes, start + 2 * bytes];
        Ok(())
    }

    pub(super) fn tokens(&self) -> u64 {
        self.addresses[0]
    }

    pub(super) fn positions(&self) -> u64 {
        self.addresses[1]
    }

    pub(super) fn slots(&self) -> u64 {
        self.addresses[2]
    }
}
