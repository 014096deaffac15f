//! RoPE and KV write, and copies of KV cache blocks. Kernels are in `cache.cu`.

use std::collections::HashSet;
use std::mem;

use super::device::Gpu;
use super::driver::{Driver, Launch, Memory};
use super::input::GpuInput;
use super::kernel::Kernel;
use super::kv_cache::Cache;
use super::memory::{Holds, Tensor, Vector};
use super::rows;
use crate::backend::{DeviceError, KvWrite, Norm, NormKind, check};

/// Warps of a block, each with one head.
const WARPS: usize = 4;

/// See [`crate::backend::Backend::write_kv`].
pub(super) fn write_kv<D: Driver>(
    gpu: &mut Gpu<D>,
    qkv: &mut Tensor<D::Memory>,
    rows: &GpuInput<D::Memory>,
    kv_write: &KvWrite<'_, Gpu<D>>,
    cache: &mut Cache<D::Memory>,
    layer: usize,
) -> Result<(), DeviceError> {
    let &KvWrite { heads, kv_heads, head_dim, norms, rope } = kv_write;
    let shape = cache.shape();
    cache.expect_numbers(gpu)?;
    let heads_all = heads + 2 * kv_heads;
    qkv.expect_width(heads_all * head_dim)?;
    let numbers = check::write_kv(kv_write, &rows.host, qkv.rows(), (shape, layer))?;
    if let Some((rope, numbers)) = rope.zip(numbers) {
        rope.cos.expect_len(numbers)?;
        rope.sin.expect_len(numbers)?;
    }

    let (kernel, from) = if cache.has_floats() {
        rows::floats(gpu, qkv)?;
        qkv.now_holds(Holds::Floats);
        (Kernel::AppendF32, qkv.floats())
    } else {
        rows::halves(gpu, qkv)?;
        qkv.now_holds(Holds::Halves);
        (Kernel::AppendBf16, qkv.halves()?)
    };
    let q_is_ready = norms.is_none() && rope.is_none();
    let first = if q_is_ready { heads } else { 0 };
    let grid = [qkv.launched(), (heads_all - first).div_ceil(WARPS), 1];
    let mut launch = Launch::new(kernel, grid, 32 * WARPS)
        .at(from)
        .u32(qkv.stride())
        .cell(rows.slots())
        .cell(rows.positions())
        .u32(first)
        .u32(heads)
        .u32(kv_heads)
        .u32(head_dim);
    for norm in [norms.map(|(q, _)| q), norms.map(|(_, k)| k)] {
        launch = with_norm(launch, norm, head_dim)?;
    }
    let [keys, values] = cache.layer(layer);
    gpu.launch(
        launch
            .at_or_null(rope.map(|rope| rope.cos.memory()))
            .at_or_null(rope.map(|rope| rope.sin.memory()))
            .cell(keys)
            .cell(values)
            .u32(cache.stride()),
    );
    Ok(())
}

/// The arguments of a norm of heads.
fn with_norm<D: Driver>(
    launch: Launch,
    norm: Option<&Norm<Gpu<D>>>,
    head_dim: usize,
) -> Result<Launch, DeviceError> {
    let Some(norm) = norm else { return Ok(launch.u32(0).cell(0).cell(0).f32(0.0)) };
    norm.weight.expect_len(head_dim)?;
    norm.bias.as_ref().map_or(Ok(()), |bias| bias.expect_len(head_dim))?;
    let kind = match norm.kind {
        NormKind::Layer => 1,
        NormKind::Rms => 2,
    };
    let bias = norm.bias.as_ref().map(Vector::memory);
    Ok(launch.u32(kind).at(norm.weight.memory()).at_or_null(bias).f32(norm.eps))
}

/// See [`crate::backend::Backend::copy_blocks`]. Runs at once, so that the list of a step is the same
/// with and without copies.
pub(super) fn copy_blocks<D: Driver>(
    gpu: &mut Gpu<D>,
    cache: &mut Cache<D::Memory>,
    pairs: &[(u32, u32)],
) -> Result<(), DeviceError> {
    let shape = cache.shape();
    for &(from, to) in pairs {
        check::below(&[from, to], shape.blocks, "blocks")?;
    }
    gpu.flush()?;
    let numbers: Vec<u32> = pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
    let mut lists = mem::take(&mut gpu.scratch.copies);
    let list = lists.replace(gpu, &numbers).map(Memory::address);
    gpu.scratch.copies = lists;
    let mut place = list?;
    let [keys, values] = cache.memory();
    for group in independent(pairs) {
        gpu.launch(
            Launch::new(Kernel::CopyBlocks, [group.len(), shape.layers, 1], 256)
                .cell(place)
                .at(keys)
                .at(values)
                .u32(shape.blocks)
                .u32(cache.block_bytes() / 16),
        );
        place += size_of_val(group) as u64;
    }
    gpu.flush()
}

/// Cuts copies that are meant one after the other into groups of which none writes what another one
/// of its group reads or writes.
fn independent(pairs: &[(u32, u32)]) -> impl Iterator<Item = &[(u32, u32)]> {
    let mut rest = pairs;
    std::iter::from_fn(move || {
        let (mut read, mut written) = (HashSet::new(), HashSet::new());
        let clash = rest.iter().position(|&(from, to)| {
            let clashes = written.contains(&from) || written.contains(&to) || read.contains(&to);
            read.insert(from);
            written.insert(to);
            clashes
        });
        let (group, later) = rest.split_at(clash.unwrap_or(rest.len()));
        rest = later;
        (!group.is_empty()).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::independent;

    proptest! {
        #[test]
        fn groups_do_what_the_pairs_do_one_by_one(
            pairs in prop::collection::vec((0..6_u32, 0..6_u32), 0..12),
        ) {
            let mut wanted: Vec<u32> = (0..6).collect();
            pairs.iter().for_each(|&(from, to)| wanted[to as usize] = wanted[from as usize]);
            let mut blocks: Vec<u32> = (0..6).collect();
            for group in independent(&pairs) {
                let before = blocks.clone();
                // All at once, in any order.
                for &(from, to) in group.iter().rev() {
                    blocks[to as usize] = before[from as usize];
                }
            }
            prop_assert_eq!(blocks, wanted);
        }
    }

    #[test]
    fn copies_that_do_not_touch_each_other_go_together() {
        assert_eq!(independent(&[(0, 1), (0, 2), (3, 4)]).count(), 1);
        assert_eq!(independent(&[(0, 1), (1, 2)]).count(), 2);
        assert_eq!(independent(&[]).count(), 0);
    }
}
