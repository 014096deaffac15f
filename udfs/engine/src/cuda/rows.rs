//! Operations that go over whole rows and multiply no matrices, and the change between f32 and
//! bfloat16. Kernels are in `rows.cu`.

use std::mem;

use super::device::Gpu;
use super::driver::{Driver, Launch, Memory};
use super::input::GpuInput;
use super::kernel::{Kernel, activation_code};
use super::memory::bucket;
use super::memory::{Holds, Table, Tensor, type_code};
use super::metadata::GpuMetadata;
use crate::backend::check::{self, TableSize};
use crate::backend::{Activation, DeviceError, Embedding, Norm, NormKind, Pool};
use crate::checkpoint::Dtype;

/// Numbers that a thread works on at a time.
const FOUR: usize = 4;
/// Most threads of a block.
const THREADS: usize = 256;

/// Threads for a row. They decide the order of sums, and only the width decides them.
fn threads(width: usize) -> usize {
    width.div_ceil(FOUR).next_multiple_of(32).clamp(32, THREADS)
}

/// Makes the f32 numbers of `x` valid.
pub(super) fn floats<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    match x.holds() {
        Holds::Floats | Holds::Both => Ok(()),
        Holds::Halves => convert(gpu, Kernel::Widen, x, x.halves()?, x.floats()),
    }
}

/// Makes the bfloat16 numbers of `x` valid.
pub(super) fn halves<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    match x.holds() {
        Holds::Halves | Holds::Both => Ok(()),
        Holds::Floats => convert(gpu, Kernel::Narrow, x, x.floats(), x.halves()?),
    }
}

fn convert<D: Driver>(
    gpu: &mut Gpu<D>,
    kernel: Kernel,
    x: &Tensor<D::Memory>,
    from: &D::Memory,
    to: &D::Memory,
) -> Result<(), DeviceError> {
    let fours = x.launched() * x.stride() / FOUR;
    gpu.launch(
        Launch::new(kernel, [fours.div_ceil(THREADS), 1, 1], THREADS).at(from).at(to).u32(fours),
    );
    x.now_holds(Holds::Both);
    Ok(())
}

/// Numbers that are valid, and their type: f32 where both are.
fn numbers<M: Memory>(x: &Tensor<M>) -> Result<(&M, usize), DeviceError> {
    match x.holds() {
        Holds::Floats | Holds::Both => Ok((x.floats(), type_code(Dtype::F32))),
        Holds::Halves => Ok((x.halves()?, type_code(Dtype::Bf16))),
    }
}

/// See [`crate::backend::Backend::embed`].
pub(super) fn embed<D: Driver>(
    gpu: &mut Gpu<D>,
    rows: &GpuInput<D::Memory>,
    embedding: &Embedding<Gpu<D>>,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    let (width, table) = (embedding.width, &embedding.tokens);
    out.set_rows(rows.host.tokens.len(), width)?;
    let size = |table: &Table<D::Memory>| TableSize { rows: table.rows(), width: table.width() };
    let sizes = embedding.positions.as_ref().map(|(table, first)| (size(table), *first));
    check::embedding(&rows.host, width, size(table), sizes)?;
    let (places, places_type, first) = match &embedding.positions {
        None => (None, 0, 0),
        Some((table, first)) => (Some(table.memory()), type_code(table.dtype()), *first as usize),
    };
    embedding.kind.as_ref().map_or(Ok(()), |kind| kind.expect_len(width))?;
    gpu.launch(
        Launch::new(Kernel::Embed, [out.launched(), 1, 1], threads(width))
            .cell(rows.tokens())
            .cell(rows.sampled())
            .cell(rows.positions())
            .at(table.memory())
            .u32(type_code(table.dtype()))
            .f32(embedding.scale)
            .at_or_null(places)
            .u32(places_type)
            .u32(first)
            .at_or_null(embedding.kind.as_ref().map(|kind| kind.memory()))
            .at(out.floats())
            .u32(width)
            .u32(out.stride()),
    );
    out.now_holds(Holds::Floats);
    Ok(())
}

/// See [`crate::backend::Backend::norm`]. The result is in f32, and in bfloat16 if the device
/// computes in that.
pub(super) fn norm<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    norm: &Norm<Gpu<D>>,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    let width = x.width();
    norm.weight.expect_len(width)?;
    norm.bias.as_ref().map_or(Ok(()), |bias| bias.expect_len(width))?;
    out.set_rows(x.rows(), width)?;
    floats(gpu, x)?;
    let rms = match norm.kind {
        NormKind::Layer => false,
        NormKind::Rms => true,
    };
    let halves = if gpu.has_halves() { Some(out.halves()?) } else { None };
    gpu.launch(
        Launch::new(Kernel::Norm, [x.launched(), 1, 1], threads(width))
            .at(x.floats())
            .at(norm.weight.memory())
            .at_or_null(norm.bias.as_ref().map(|bias| bias.memory()))
            .f32(norm.eps)
            .u32(usize::from(rms))
            .at(out.floats())
            .at_or_null(halves)
            .u32(width)
            .u32(x.stride()),
    );
    out.now_holds(if gpu.has_halves() { Holds::Both } else { Holds::Floats });
    Ok(())
}

/// See [`crate::backend::Backend::glu`]. The result is in bfloat16 if the device computes in that.
pub(super) fn glu<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    activation: Activation,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    let width = out.width();
    x.expect_width(2 * width)?;
    out.set_rows(x.rows(), width)?;
    let (from, from_type) = numbers(x)?;
    let (to, to_type, holds) = match gpu.has_halves() {
        true => (out.halves()?, Dtype::Bf16, Holds::Halves),
        false => (out.floats(), Dtype::F32, Holds::Floats),
    };
    let threads = threads(width);
    gpu.launch(
        Launch::new(Kernel::Gate, [x.launched(), width.div_ceil(FOUR * threads), 1], threads)
            .at(from)
            .u32(from_type)
            .u32(x.stride())
            .u32(activation_code(activation))
            .at(to)
            .u32(type_code(to_type))
            .u32(width)
            .u32(out.stride()),
    );
    out.now_holds(holds);
    Ok(())
}

/// See [`crate::backend::Backend::index_select`].
pub(super) fn index_select<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    rows: &[u32],
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    check::below(rows, x.rows(), "rows")?;
    out.set_rows(rows.len(), x.width())?;
    if rows.is_empty() {
        return Ok(());
    }
    let mut filled = rows.to_vec();
    filled.resize(bucket(rows.len()), 0);
    let mut lists = mem::take(&mut gpu.scratch.row_indices);
    let list = lists.replace(gpu, &filled).map(Memory::address);
    gpu.scratch.row_indices = lists;
    let (from, from_type) = numbers(x)?;
    gpu.launch(
        Launch::new(Kernel::Gather, [out.launched(), 1, 1], threads(x.stride()))
            .at(from)
            .u32(from_type)
            .cell(list?)
            .at(out.floats())
            .u32(x.stride()),
    );
    out.now_holds(Holds::Floats);
    Ok(())
}

/// See [`crate::backend::Backend::pool`].
pub(super) fn pool<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    metadata: &GpuMetadata<D::Memory>,
    pool: Pool,
    normalize: bool,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    check::segments(&metadata.host, x.rows())?;
    out.set_rows(metadata.host.segments.len(), x.width())?;
    let (from, from_type) = numbers(x)?;
    let way = match pool {
        Pool::Mean => 0,
        Pool::First => 1,
        Pool::Last => 2,
    };
    gpu.launch(
        Launch::new(Kernel::Pool, [out.launched(), 1, 1], THREADS)
            .at(from)
            .u32(from_type)
            .cell(metadata.segments())
            .u32(way)
            .u32(usize::from(normalize))
            .at(out.floats())
            .u32(x.width())
            .u32(x.stride()),
    );
    out.now_holds(Holds::Floats);
    Ok(())
}
