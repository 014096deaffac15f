//! Tokens, positions and slots of a step on the device, and the tokens that it samples.

use super::device::{Gpu, StagingBuffer};
use super::driver::{Driver, Memory, Role};
use super::memory::bucket;
use crate::backend::{DeviceError, Input, check};

/// The slot of rows that only fill up a launch: nothing is written.
pub(super) const NO_SLOT: u32 = u32::MAX;
/// The bit of a token that stands for its place among the sampled ones, as `embed` of `rows.cu` has it.
const SAMPLED: u32 = 1 << 31;

/// An [`Input`] on the device: tokens, positions and slots one after the other, each filled up to
/// the rows that kernels are launched with: with 0, slots with `NO_SLOT`.
#[derive(Debug)]
pub struct GpuInput<M> {
    /// The same as the host knows it.
    pub(super) host: Input,
    lists: StagingBuffer<M>,
    addresses: [u64; 3],
    /// Where the tokens of the step before are; 0 where there are none.
    sampled: u64,
}

/// The tokens that a step sampled. They keep their place: a step reads those of the one before and then
/// writes its own.
#[derive(Debug)]
pub struct GpuTokens<M> {
    memory: M,
    /// How many there are.
    rows: usize,
    capacity: usize,
}

impl<M> Default for GpuInput<M> {
    fn default() -> Self {
        let (host, lists) = (Input::default(), StagingBuffer::default());
        Self { host, lists, addresses: [0; 3], sampled: 0 }
    }
}

impl<M: Memory> GpuInput<M> {
    /// Brings `from` to the device, whose sampled rows take tokens of `sampled`.
    pub(super) fn bring<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        from: &Input,
        sampled: Option<&GpuTokens<M>>,
    ) -> Result<(), DeviceError> {
        check::sampled_rows(from, sampled.map_or(0, |sampled| sampled.rows))?;
        check::below(&from.tokens, SAMPLED as usize, "tokens")?;
        self.host.clone_from(from);
        self.sampled = sampled.map_or(0, |sampled| sampled.memory.address());
        let longest = from.tokens.len().max(from.positions.len()).max(from.slots.len());
        let rows = bucket(longest);
        let mut all = Vec::with_capacity(3 * rows);
        for (list, fill) in [(&from.tokens, 0), (&from.positions, 0), (&from.slots, NO_SLOT)] {
            all.extend_from_slice(list);
            all.resize(all.len() + rows - list.len(), fill);
        }
        for it in &from.sampled {
            all[it.row as usize] = it.from | SAMPLED;
        }
        let start = self.lists.replace(gpu, &all)?.address();
        let bytes = (rows * size_of::<u32>()) as u64;
        self.addresses = [start, start + bytes, start + 2 * bytes];
        Ok(())
    }

    pub(super) fn tokens(&self) -> u64 {
        self.addresses[0]
    }

    pub(super) fn sampled(&self) -> u64 {
        self.sampled
    }

    pub(super) fn positions(&self) -> u64 {
        self.addresses[1]
    }

    pub(super) fn slots(&self) -> u64 {
        self.addresses[2]
    }
}

impl<M: Memory> GpuTokens<M> {
    /// Room for the tokens of `rows` rows.
    pub(super) fn new<D: Driver<Memory = M>>(driver: &D, rows: usize) -> Result<Self, DeviceError> {
        let memory = driver.alloc(Role::Scratch, bucket(rows) * size_of::<u32>())?;
        Ok(Self { memory, rows: 0, capacity: rows })
    }

    /// Says that there are `rows` tokens; where they go.
    pub(super) fn replace(&mut self, rows: usize) -> Result<u64, DeviceError> {
        check::room(self.capacity, rows)?;
        self.rows = rows;
        Ok(self.memory.address())
    }
}
