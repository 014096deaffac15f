//! GEMM with weight matrices: which kernel, in which tiles, and the epilogue.

mod cublaslt;
mod matrix;
mod product;
mod tiling;

use super::device::Gpu;
use super::driver::{Driver, Launch, Memory};
use super::kernel::{Kernel, activation_code};
use super::memory::{Holds, STRIDE, Tensor, Vector};
use super::rows;
use crate::backend::{Activation, DeviceError, Linear, Write, check};
pub(super) use cublaslt::{Multiplication, Shape};
pub use matrix::Matrix;
use matrix::{TILE_INT8, Weights};
use product::{ADD_F32, Product, STORE_BF16, STORE_F32, room};
use tiling::{SLICES, Size, TileKind, Tiling};

/// `out = activation(x W^T + bias)`, or that added to `out`. A result that is stored is bf16 where
/// the device computes in bf16; one that is added to is f32.
pub(super) fn linear<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    weights: &Linear<Gpu<D>>,
    activation: Activation,
    write: Write,
    out: &mut Tensor<D::Memory>,
) -> Result<(), DeviceError> {
    expect_linear(x, weights)?;
    let holds = match write {
        Write::Store => {
            out.set_rows(x.rows(), weights.outputs)?;
            if gpu.has_halves() { Holds::Halves } else { Holds::Floats }
        }
        Write::Add => {
            out.expect_width(weights.outputs)?;
            check::one_per_row(out.rows(), x.rows(), "rows to add to")?;
            rows::floats(gpu, out)?;
            Holds::Floats
        }
    };
    let (to, to_write) = match (holds, write) {
        (Holds::Halves | Holds::Both, _) => (out.halves()?, STORE_BF16),
        (Holds::Floats, Write::Store) => (out.floats(), STORE_F32),
        (Holds::Floats, Write::Add) => (out.floats(), ADD_F32),
    };
    let product = Product {
        rows: x.launched(),
        scale: 1.0,
        activation,
        write: to_write,
        out: to.address(),
        out_stride: out.stride(),
        sums: match write {
            Write::Store => Some(out.floats().address()),
            Write::Add => None,
        },
    };
    multiply(gpu, x, 0, weights, product)?;
    out.now_holds(holds);
    Ok(())
}

/// f32 logits `scale * (x W^T + bias)` of rows `first..first + rows` of `x`, which is launched with
/// no fewer, one after the other in `to`; rows begin at multiples of [`STRIDE`] numbers. Columns
/// beyond the outputs stay as they are.
pub(super) fn logits<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    first: usize,
    rows: usize,
    head: &Linear<Gpu<D>>,
    scale: f32,
    to: &D::Memory,
) -> Result<(), DeviceError> {
    expect_linear(x, head)?;
    let out_stride = head.outputs.next_multiple_of(STRIDE);
    check::expect(first + rows <= x.launched(), || {
        format!("rows {first} to {} are not among {}", first + rows, x.launched())
    })?;
    check::expect(rows * out_stride * size_of::<f32>() <= to.bytes(), || {
        format!("logits of {rows} rows do not fit {} bytes", to.bytes())
    })?;
    let (activation, write, out) = (Activation::None, STORE_F32, to.address());
    let sums = Some(out);
    multiply(gpu, x, first, head, Product { rows, scale, activation, write, out, out_stride, sums })
}

/// Launches `product` of the rows of `x` from `first` on.
fn multiply<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    first: usize,
    weights: &Linear<Gpu<D>>,
    product: Product,
) -> Result<(), DeviceError> {
    let (n, k) = (weights.outputs, weights.inputs);
    let bias = weights.bias.as_ref().map(Vector::memory);
    let from = (first * x.stride()) as u64;
    let finished = |launch: Launch| {
        launch
            .cell(product.out)
            .u32(product.out_stride)
            .u32(product.rows)
            .u32(n)
            .u32(k)
            .f32(product.scale)
            .u32(activation_code(product.activation))
            .u32(product.write)
    };
    let (packed, scales, kernels) = match &weights.matrix.weights {
        Weights::F32(packed) => {
            rows::floats(gpu, x)?;
            let grid = [n.div_ceil(64), product.rows.div_ceil(64), 1];
            let launch = Launch::new(Kernel::GemmF32, grid, 256)
                .cell(x.floats().address() + from * size_of::<f32>() as u64)
                .u32(x.stride())
                .at(packed)
                .at_or_null(bias);
            gpu.launch(finished(launch));
            return Ok(());
        }
        Weights::Bf16(packed) => (packed, None, &TensorKernels::BF16),
        Weights::RowMajor(plain) => {
            return cublaslt::multiply(gpu, x, from, plain, weights, &product);
        }
        Weights::Int8(packed, scales) => (packed, Some(scales), &TensorKernels::INT8),
    };
    rows::halves(gpu, x)?;
    let from = x.halves()?.address() + from * size_of::<u16>() as u64;
    let TensorRows { address, stride, scales: row_scales } = match scales {
        None => TensorRows { address: from, stride: x.stride(), scales: 0 },
        Some(_) => quantise(gpu, from, x.stride(), product.rows, k)?,
    };
    let driver = gpu.driver();
    let size = Size {
        processors: driver.processors(),
        shared: driver.shared_per_block(),
        exact: scales.is_some(),
    };
    let tiling = Tiling::of(product.rows, n, k, size);
    let slices = if tiling.parts == 1 {
        0
    } else {
        let numbers = SLICES * product.rows * n.next_multiple_of(STRIDE);
        room(gpu, |scratch| &mut scratch.sums, numbers * size_of::<f32>())?
    };
    let begun = |kernel, grid, threads| {
        let launch = Launch::new(kernel, grid, threads)
            .cell(address)
            .u32(stride)
            .cell(row_scales)
            .at(packed)
            .at_or_null(scales)
            .at_or_null(bias);
        finished(launch).cell(slices)
    };
    let blocks = [n.div_ceil(tiling.outputs), product.rows.div_ceil(tiling.rows), tiling.parts];
    let launch = |kernel| begun(kernel, blocks, tiling.threads).shared(tiling.shared);
    gpu.launch(match tiling.kind {
        TileKind::Narrow(tile) => launch(kernels.narrow).u32(tile),
        TileKind::Middle => launch(kernels.middle),
        TileKind::WideExact => launch(kernels.wide),
        TileKind::Wide(stages) => launch(kernels.wide).u32(stages),
    });
    if tiling.parts > 1 {
        let grid = [n.div_ceil(ADDED_BY_BLOCK), product.rows, 1];
        let written = tiling.written(k.div_ceil(kernels.tile), size.exact);
        gpu.launch(begun(kernels.add_slices, grid, ADDING_THREADS).u32(written));
    }
    Ok(())
}

/// Threads of a block that adds slices, and numbers of a row that it adds.
const ADDING_THREADS: usize = 128;
const ADDED_BY_BLOCK: usize = 8 * ADDING_THREADS;

/// Kernels that differ only in the numbers that they multiply.
struct TensorKernels {
    narrow: Kernel,
    middle: Kernel,
    wide: Kernel,
    add_slices: Kernel,
    /// Inputs of a tile.
    tile: usize,
}

impl TensorKernels {
    const BF16: Self = Self {
        narrow: Kernel::GemmNarrowBf16,
        middle: Kernel::GemmMiddleBf16,
        wide: Kernel::GemmWideBf16,
        add_slices: Kernel::AddSlicesBf16,
        tile: matrix::TILE,
    };
    const INT8: Self = Self {
        narrow: Kernel::GemmNarrowInt8,
        middle: Kernel::GemmMiddleInt8,
        wide: Kernel::GemmWideInt8,
        add_slices: Kernel::AddSlicesInt8,
        tile: TILE_INT8,
    };
}

/// Rows as the tensor cores take them.
struct TensorRows {
    address: u64,
    /// Numbers from one row to the next.
    stride: usize,
    /// What a byte of each row is worth; null for bf16.
    scales: u64,
}

/// Makes bytes of `rows` rows of bf16 that begin at `from`.
fn quantise<D: Driver>(
    gpu: &mut Gpu<D>,
    from: u64,
    from_stride: usize,
    rows: usize,
    k: usize,
) -> Result<TensorRows, DeviceError> {
    let stride = k.next_multiple_of(TILE_INT8);
    let bytes = rows * stride;
    let address = room(gpu, |scratch| &mut scratch.bytes, bytes + rows * size_of::<f32>())?;
    let scales = address + bytes as u64;
    let launch = Launch::new(Kernel::Quantise, [rows, 1, 1], 256)
        .cell(from)
        .u32(from_stride)
        .cell(address)
        .u32(stride)
        .cell(scales);
    gpu.launch(launch);
    Ok(TensorRows { address, stride, scales })
}

/// Fails unless the parts of `linear` fit each other and `x`.
fn expect_linear<D: Driver>(
    x: &Tensor<D::Memory>,
    linear: &Linear<Gpu<D>>,
) -> Result<(), DeviceError> {
    let (n, k) = (linear.matrix.n(), linear.matrix.k());
    check::linear(linear, (n, k))?;
    linear.bias.as_ref().map_or(Ok(()), |bias| bias.expect_len(n))?;
    x.expect_width(k)
}
