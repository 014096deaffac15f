//! [`Gpu`]: what waits to be run, and memory that operations use from step to step. Each operation is checked and put on a
//! list; the list runs when something is sampled or brought back, so that a whole step is known before it begins.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::driver::{Driver, Launch, Memory, Role};
use crate::backend::{DeviceError, Precision};

/// Logits that are computed before the next rows follow, unless [`Gpu::with_logits`] says otherwise: 256 MiB.
pub(super) const LOGITS_BYTES: usize = 256 << 20;

/// A GPU, or what stands for one, with the kernels that wait to be run.
///
/// Kernels that wait name memory by its address: a caller that drops a tensor, an input or the like
/// that an operation was given has something downloaded first. What a step uses lives as long as
/// its worker.
pub struct Gpu<D: Driver> {
    driver: D,
    precision: Precision,
    waiting: Vec<Launch>,
    pub(super) scratch: Scratch<D::Memory>,
}

/// Memory that operations use from step to step.
pub(super) struct Scratch<M> {
    pub(super) row_indices: StagingBuffer<M>,
    pub(super) copies: StagingBuffer<M>,
    pub(super) sampler: SamplerScratch<M>,
    /// Products that are to be added to something, and sums of slices.
    pub(super) sums: StagingBuffer<M>,
    /// Rows of bytes, and what a byte of each is worth.
    pub(super) bytes: StagingBuffer<M>,
}

/// Buffers of the sampler, kept from step to step.
#[derive(Debug)]
pub(super) struct SamplerScratch<M> {
    pub(super) logits: StagingBuffer<M>,
    pub(super) requested: StagingBuffer<M>,
    pub(super) results: StagingBuffer<M>,
    /// Bytes of logits that are computed before the next rows follow.
    pub(super) logits_bytes: usize,
}

impl<M> Default for SamplerScratch<M> {
    fn default() -> Self {
        Self {
            logits: StagingBuffer::default(),
            requested: StagingBuffer::default(),
            results: StagingBuffer::default(),
            logits_bytes: LOGITS_BYTES,
        }
    }
}

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
    /// A device that computes with weights of `precision`.
    pub fn new(driver: D, precision: Precision) -> Self {
        let scratch = Scratch {
            row_indices: Default::default(),
            copies: Default::default(),
            sampler: Default::default(),
            sums: Default::default(),
            bytes: Default::default(),
        };
        Self { driver, precision, waiting: Vec::new(), scratch }
    }

    /// The same, whose sampler takes so many bytes for logits. Decides how many rows are sampled at once, and never
    /// what comes out.
    #[must_use]
    pub fn with_logits(mut self, bytes: usize) -> Self {
        self.scratch.sampler.logits_bytes = bytes;
        self
    }

    /// What runs the kernels.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// Of weights, keys and values.
    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether activations are bfloat16 where they are multiplied, and so keys and values.
    pub(super) fn has_halves(&self) -> bool {
        match self.precision {
            Precision::F32 => false,
            Precision::Bf16 | Precision::Int8 => true,
        }
    }

    /// Puts a kernel on the list.
    pub(super) fn launch(&mut self, launch: Launch) {
        if !launch.grid.contains(&0) {
            self.waiting.push(launch);
        }
    }

    /// Runs what is on the list.
    pub(super) fn flush(&mut self) -> Result<(), DeviceError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let done = self.driver.run(&self.waiting);
        self.waiting.clear();
        done
    }

    /// Copies `from` to the beginning of `to`, after the kernels on the list that know it.
    pub(super) fn upload(&mut self, from: &[u8], to: &D::Memory) -> Result<(), DeviceError> {
        let range = to.address()..to.address() + to.bytes() as u64;
        if self.waiting.iter().any(|launch| launch.args.iter().any(|cell| range.contains(cell))) {
            self.flush()?;
        }
        self.driver.upload(from, to, 0)
    }

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
