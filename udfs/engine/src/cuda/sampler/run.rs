//! The logits of some rows at a time, and the kernels that choose from them.

use std::mem;

use zerocopy::IntoBytes;

use super::super::device::{Gpu, SamplerScratch};
use super::super::driver::{Driver, Launch, Memory};
use super::super::gemm;
use super::super::input::GpuTokens;
use super::super::kernel::Kernel;
use super::super::memory::bucket;
use super::super::memory::{STRIDE, Tensor};
use super::records::{OWN_CELLS, RECORD, SamplerRecords};
use super::results::answer;
use crate::backend::{DeviceError, Linear, RowSampling, SamplerOutput, SamplingMetadata, check};

/// Threads of a block, as `pick.cu` has it.
const THREADS: usize = 512;
/// The same, of `pick_ids`.
const IDS_THREADS: usize = 256;

/// The requests of rows whose cells are on their way to the host.
#[derive(Debug)]
pub struct GpuSampled<C> {
    rows: Vec<RowSampling>,
    requested: SamplerRecords,
    /// None where there are no rows.
    cells: Option<C>,
}

impl<C> GpuSampled<C> {
    /// See [`crate::backend::Backend::read_sampled`].
    pub(in crate::cuda) fn read<D: Driver<Download = C>>(
        self,
        driver: &D,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        out.clear();
        let Some(copy) = self.cells else { return Ok(()) };
        let mut cells = vec![0_u64; self.requested.cells];
        driver.end_download(copy, cells.as_mut_bytes())?;
        answer(&self.rows, &self.requested, &cells, out);
        Ok(())
    }
}

/// See [`crate::backend::Backend::sample`].
pub(in crate::cuda) fn sample<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    head: &Linear<Gpu<D>>,
    scale: f32,
    sampling: &SamplingMetadata,
    tokens: Option<&mut GpuTokens<D::Memory>>,
) -> Result<GpuSampled<D::Download>, DeviceError> {
    check::sampling(sampling, x.rows(), head.outputs)?;
    let rows = sampling.rows.len();
    let ids = tokens.map(|tokens| tokens.replace(rows)).transpose()?;
    let stride = head.outputs.next_multiple_of(STRIDE);
    let at_once = rows_at_once(stride, gpu.scratch.sampler.logits_bytes);
    let requested = SamplerRecords::new(sampling, at_once, head.outputs)?;
    let mut cells = None;
    if rows > 0 {
        let mut scratch = mem::take(&mut gpu.scratch.sampler);
        let begun = scratch.launch(gpu, x, (head, scale), (&requested, rows, at_once), ids);
        gpu.scratch.sampler = scratch;
        cells = Some(begun?);
    }
    Ok(GpuSampled { rows: sampling.rows.clone(), requested, cells })
}

/// As many rows as have room for their logits and as a launch is filled up to; at least one.
fn rows_at_once(stride: usize, bytes: usize) -> usize {
    let most = bytes / size_of::<f32>() / stride.max(1);
    (1..=most).rev().find(|&rows| bucket(rows) == rows).unwrap_or(1)
}

impl<M: Memory> SamplerScratch<M> {
    /// Runs what was launched so far and the sampling of `rows` rows, so many at once, and begins to bring the cells
    /// back. Their tokens go to `ids`, if somebody goes on with them.
    fn launch<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        x: &Tensor<M>,
        (head, scale): (&Linear<Gpu<D>>, f32),
        (requested, rows, at_once): (&SamplerRecords, usize, usize),
        ids: Option<u64>,
    ) -> Result<D::Download, DeviceError> {
        let vocabulary = head.outputs;
        let stride = vocabulary.next_multiple_of(STRIDE);
        let most = bucket(rows.min(at_once));
        let logits = self.logits.room(gpu, most * stride * size_of::<f32>())?;
        let results = self.results.room(gpu, requested.cells * size_of::<u64>())?;
        let words = self.requested.replace(gpu, &requested.words)?.address();
        let lists = words + (requested.lists * size_of::<u32>()) as u64;
        for first in (0..rows).step_by(at_once) {
            let launched = bucket(at_once.min(rows - first));
            let behind = |bytes: usize| (first * bytes) as u64;
            let records = words + behind(RECORD * size_of::<u32>());
            let cells = results.address() + behind(OWN_CELLS * size_of::<u64>());
            gemm::logits(gpu, x, first, launched, head, scale, logits)?;
            let launch = |kernel| {
                Launch::new(kernel, [launched, 1, 1], THREADS)
                    .at(logits)
                    .u32(vocabulary)
                    .u32(stride)
                    .cell(records)
                    .cell(lists)
                    .cell(cells)
            };
            gpu.launch(launch(Kernel::PickStats));
            if requested.top {
                gpu.launch(launch(Kernel::PickTop));
            }
            if requested.sample {
                gpu.launch(launch(Kernel::PickSample));
            }
            if let Some(ids) = ids {
                let blocks = launched.div_ceil(IDS_THREADS);
                gpu.launch(
                    Launch::new(Kernel::PickIds, [blocks, 1, 1], IDS_THREADS)
                        .cell(records)
                        .cell(cells)
                        .u32(launched)
                        .cell(ids + behind(size_of::<u32>())),
                );
            }
        }
        gpu.flush()?;
        gpu.driver().begin_download(results, 0, requested.cells * size_of::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::rows_at_once;
    use crate::cuda::device::LOGITS_BYTES;
    use crate::cuda::memory::bucket;

    #[test]
    fn logits_fit_and_launches_are_filled() {
        for vocabulary in [1_usize, 5_000, 32_128, 152_064, 262_144, 5_000_000, 1 << 30] {
            let stride = vocabulary.next_multiple_of(32);
            let rows = rows_at_once(stride, LOGITS_BYTES);
            assert_eq!(bucket(rows), rows);
            assert!(rows == 1 || rows * stride * 4 <= LOGITS_BYTES, "{vocabulary}");
        }
        assert_eq!(rows_at_once(262_144, LOGITS_BYTES), 256);
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
