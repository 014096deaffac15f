//! The logits of some rows at a time, and the kernels that choose from them.

use std::mem;

use super::super::device::Gpu;
use super::super::driver::{Driver, Launch, Memory};
use super::super::gemm;
use super::super::kernel::Kernel;
use super::super::memory::bucket;
use super::super::memory::{STRIDE, Tensor};
use super::super::staging::StagingBuffer;
use super::records::SamplerRecords;
use super::results::answer;
use crate::backend::{DeviceError, Linear, RowSampling, SamplerOutput, SamplingMetadata, check};

/// Logits that are computed before the next rows follow: 256 MiB.
const LOGITS_BYTES: usize = 256 << 20;
/// Threads of a block, as `pick.cu` has it.
const THREADS: usize = 512;

/// Buffers of the sampler, kept from step to step.
#[derive(Debug)]
pub(in crate::cuda) struct Scratch<M> {
    logits: StagingBuffer<M>,
    asked: StagingBuffer<M>,
    results: StagingBuffer<M>,
}

impl<M> Default for Scratch<M> {
    fn default() -> Self {
        Self {
            logits: StagingBuffer::default(),
            asked: StagingBuffer::default(),
            results: StagingBuffer::default(),
        }
    }
}

/// See [`crate::backend::Backend::sample`].
pub(in crate::cuda) fn sample<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    head: &Linear<Gpu<D>>,
    scale: f32,
    sampling: &SamplingMetadata,
    out: &mut SamplerOutput,
) -> Result<(), DeviceError> {
    check::sampling(sampling, x.rows(), head.outputs)?;
    out.clear();
    let rows = rows_at_once(head.outputs.next_multiple_of(STRIDE));
    let mut scratch = mem::take(&mut gpu.scratch.sampler);
    let done = sampling.rows.chunks(rows).enumerate().try_for_each(|(index, some)| {
        let step = Step { first: index * rows, sampling: some, all: sampling };
        scratch.sample(gpu, x, head, scale, step, out)
    });
    gpu.scratch.sampler = scratch;
    done
}

/// As many rows as have room for their logits and as a launch is filled up to; at least one.
fn rows_at_once(stride: usize) -> usize {
    let most = LOGITS_BYTES / size_of::<f32>() / stride.max(1);
    (1..=most).rev().find(|&rows| bucket(rows) == rows).unwrap_or(1)
}

/// Rows whose logits are computed together.
struct Step<'a> {
    first: usize,
    sampling: &'a [RowSampling],
    all: &'a SamplingMetadata,
}

impl<M: Memory> Scratch<M> {
    fn sample<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        x: &Tensor<M>,
        head: &Linear<Gpu<D>>,
        scale: f32,
        step: Step<'_>,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        let vocabulary = head.outputs;
        let stride = vocabulary.next_multiple_of(STRIDE);
        let launched = bucket(step.sampling.len());
        let asked = SamplerRecords::new(step.sampling, step.all, launched, vocabulary)?;
        let logits = self.logits.room(gpu, launched * stride * size_of::<f32>())?;
        let results = self.results.room(gpu, asked.cells * size_of::<u64>())?;
        let words = self.asked.replace(gpu, &asked.words)?.address();

        gemm::logits(gpu, x, step.first, launched, head, scale, logits)?;
        let launch = |kernel| {
            Launch::new(kernel, [launched, 1, 1], THREADS)
                .at(logits)
                .u32(vocabulary)
                .u32(stride)
                .cell(words)
                .cell(words + (asked.lists * size_of::<u32>()) as u64)
                .at(results)
        };
        gpu.launch(launch(Kernel::PickStats));
        if asked.top {
            gpu.launch(launch(Kernel::PickTop));
        }
        if asked.sample {
            gpu.launch(launch(Kernel::PickSample));
        }
        let cells = gpu.numbers(results, 0, asked.cells)?;
        answer(step.sampling, &asked, &cells, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LOGITS_BYTES, rows_at_once};
    use crate::cuda::memory::bucket;

    #[test]
    fn logits_fit_and_launches_are_filled() {
        for vocabulary in [1_usize, 5_000, 32_128, 152_064, 262_144, 5_000_000, 1 << 30] {
            let stride = vocabulary.next_multiple_of(32);
            let rows = rows_at_once(stride);
            assert_eq!(bucket(rows), rows);
            assert!(rows == 1 || rows * stride * 4 <= LOGITS_BYTES, "{vocabulary}");
        }
        assert_eq!(rows_at_once(262_144), 256);
    }

    #[test]
    fn the_last_rows_are_among_those_launched() {
        let filled = (1..=256).filter(|&rows| bucket(rows) == rows);
        for (at_once, rows) in filled.flat_map(|at_once| (1..=600).map(move |rows| (at_once, rows)))
        {
            let first = (rows - 1) / at_once * at_once;
            assert!(first + bucket(rows - first) <= bucket(rows), "{rows} rows, {at_once} at once");
        }
    }
}
