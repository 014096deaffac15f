//! Attention: which kernel is run for which rows. Kernels are in `attend.cu` and `attend_plain.cu`.

use super::device::Gpu;
use super::driver::{Driver, Launch, Memory};
use super::kernel::Kernel;
use super::kv_cache::Cache;
use super::memory::bucket;
use super::memory::{Holds, Tensor};
use super::metadata::{AttentionQuery, GpuMetadata};
use super::rows;
use crate::backend::{Attend, DeviceError, check};

/// Threads of a block.
const THREADS: usize = 128;
/// Warps of a block of `attend_plain_*`, each with one head.
const WARPS: usize = THREADS / 32;
/// Keys of a chunk.
const CHUNK: usize = 64;
/// What the warps of `attend_keys_*` tell each other: maxima and weights of 16 rows.
const TILE_SHARED: usize = 16 * WARPS * size_of::<f32>() + 16 * (CHUNK + 8) * size_of::<u16>();

/// Keys and values of two chunks for heads of up to `dim`, and the slots of two.
const fn chunk_shared(dim: usize) -> usize {
    2 * 2 * CHUNK * (dim + 8) * size_of::<u16>() + 2 * CHUNK * size_of::<u32>()
}

/// See [`crate::backend::Backend::attend`].
pub(super) fn attend<D: Driver>(
    gpu: &mut Gpu<D>,
    q: &Tensor<D::Memory>,
    metadata: &GpuMetadata<D::Memory>,
    attend: &Attend<'_, Gpu<D>>,
    cache: &Cache<D::Memory>,
    layer: usize,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    let &Attend { heads, kv_heads, head_dim, scale, causal, bias } = attend;
    let shape = cache.shape();
    check::attend(attend, q.width(), (shape, layer))?;
    cache.expect_numbers(gpu)?;
    if let Some(bias) = bias {
        bias.weights.expect_len(heads * (2 * bias.reach + 1))?;
    }
    let last = causal || bias.is_some();
    let group = heads / kv_heads;
    let work = metadata.work(AttentionQuery { rows: q.rows(), shape, last, group })?;
    out.set_rows(q.rows(), heads * head_dim)?;

    let (from, to) = if cache.has_floats() {
        rows::floats(gpu, q)?;
        out.now_holds(Holds::Floats);
        (q.floats(), out.floats())
    } else {
        rows::halves(gpu, q)?;
        out.now_holds(Holds::Halves);
        (q.halves()?, out.halves()?)
    };
    let lists = metadata.addresses();
    let [keys, values] = cache.layer(layer);
    let begun = |kernel, grid| {
        Launch::new(kernel, grid, THREADS)
            .at(from)
            .u32(q.stride())
            .at(to)
            .u32(out.stride())
            .cell(lists.sorted)
            .cell(lists.slots)
            .cell(keys)
            .cell(values)
            .u32(kv_heads)
            .u32(group)
            .u32(head_dim)
            .f32(scale)
            .u32(usize::from(causal))
            .at_or_null(bias.map(|bias| bias.weights.memory()))
            .u32(bias.map_or(0, |bias| bias.reach))
    };
    match AttentionKernel::of(cache) {
        AttentionKernel::Tiles { few, many, dim } => {
            let shared = chunk_shared(dim);
            let blocks = [bucket(work.few) * kv_heads, bucket(work.units) * kv_heads * group];
            gpu.launch(begun(few, [blocks[0], 1, 1]).shared(shared + TILE_SHARED));
            gpu.launch(begun(many, [blocks[1], 1, 1]).shared(shared).cell(lists.units));
        }
        AttentionKernel::Plain { kernel } => {
            let shared = WARPS * (2 * cache.stride() + 64) * size_of::<f32>();
            let launch = begun(kernel, [q.launched(), heads.div_ceil(WARPS), 1]);
            gpu.launch(launch.shared(shared).cell(lists.row_segments).u32(cache.stride()));
        }
    }
    Ok(())
}

/// How heads are computed with.
enum AttentionKernel {
    /// On tensor cores, with a kernel for segments of few rows and one for those of many: the bits of
    /// a row are the same. Heads have up to `dim` numbers.
    Tiles { few: Kernel, many: Kernel, dim: usize },
    /// Without.
    Plain { kernel: Kernel },
}

impl AttentionKernel {
    fn of<M: Memory>(cache: &Cache<M>) -> Self {
        let head_dim = cache.shape().head_dim;
        match head_dim.div_ceil(64) {
            _ if cache.has_floats() => Self::Plain { kernel: Kernel::AttendPlainF32 },
            1 if head_dim.is_multiple_of(8) => {
                Self::Tiles { few: Kernel::AttendKeys64, many: Kernel::AttendRows64, dim: 64 }
            }
            2 if head_dim.is_multiple_of(8) => {
                Self::Tiles { few: Kernel::AttendKeys128, many: Kernel::AttendRows128, dim: 128 }
            }
            _ => Self::Plain { kernel: Kernel::AttendPlainBf16 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::SHARED_LEAST;

    #[test]
    fn chunks_fit_the_shared_memory_of_every_device() {
        assert!([64, 128].into_iter().all(|dim| chunk_shared(dim) + TILE_SHARED <= SHARED_LEAST));
    }
}
