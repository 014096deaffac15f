//! GEMM by cuBLASLt: first the sums in f32, then the epilogue.

use super::matrix::TILE;
use super::product::{Product, STORE_F32, room};
use crate::backend::{Activation, DeviceError, Linear};
use crate::cuda::device::Gpu;
use crate::cuda::driver::{Driver, Launch, Memory};
use crate::cuda::kernel::{Kernel, activation_code};
use crate::cuda::memory::{Tensor, Vector};
use crate::cuda::rows;

/// Threads of a block.
const THREADS: usize = 256;

/// A matmul for cuBLASLt: f32 `out[r, o]`, the sum over i < `depth` of `x[r, i]
/// weights[o, i]`, both bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cuda) struct Multiplication {
    pub(in crate::cuda) x: u64,
    /// Where the weights are, plain `[n][depth]`.
    pub(in crate::cuda) weights: u64,
    pub(in crate::cuda) out: u64,
    /// Rows of activations and result.
    pub(in crate::cuda) rows: usize,
    pub(in crate::cuda) shape: Shape,
}

/// What of a product is the same in every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cuda) struct Shape {
    pub(in crate::cuda) n: usize,
    /// Inputs, filled up with zeros.
    pub(in crate::cuda) depth: usize,
    /// Numbers from one row of activations to the next.
    pub(in crate::cuda) x_stride: usize,
    /// Numbers from one row of the result to the next.
    pub(in crate::cuda) out_stride: usize,
}

impl Multiplication {
    pub(in crate::cuda) fn launch(&self) -> Launch {
        let Shape { n, depth, x_stride, out_stride } = self.shape;
        Launch::new(Kernel::Product, [self.rows, n.div_ceil(THREADS), 1], THREADS)
            .cell(self.x)
            .u32(x_stride)
            .cell(self.weights)
            .cell(self.out)
            .u32(out_stride)
            .u32(self.rows)
            .u32(n)
            .u32(depth)
    }

    /// What [`Multiplication::launch`] made a launch of.
    pub(in crate::cuda) fn of(launch: &Launch) -> Result<Self, DeviceError> {
        let &[x, x_stride, weights, out, out_stride, rows, n, depth] = &launch.args[..] else {
            let given = launch.args.len();
            return Err(DeviceError::Failed(format!(
                "expected 8 arguments of a product, found {given}"
            )));
        };
        // They were numbers of 32 bits.
        let [x_stride, out_stride, rows, n, depth] =
            [x_stride, out_stride, rows, n, depth].map(|number| number as usize);
        Ok(Self { x, weights, out, rows, shape: Shape { n, depth, x_stride, out_stride } })
    }
}

/// Launches `product` of the rows of `x` from number `from` on.
pub(super) fn multiply<D: Driver>(
    gpu: &mut Gpu<D>,
    x: &Tensor<D::Memory>,
    from: u64,
    plain: &D::Memory,
    weights: &Linear<Gpu<D>>,
    product: &Product,
) -> Result<(), DeviceError> {
    rows::halves(gpu, x)?;
    let (rows, n, out_stride) = (product.rows, weights.outputs, product.out_stride);
    let sums = match product.sums {
        Some(sums) => sums,
        None => room(gpu, |scratch| &mut scratch.sums, rows * out_stride * size_of::<f32>())?,
    };
    let depth = weights.inputs.next_multiple_of(TILE);
    let shape = Shape { n, depth, x_stride: x.stride(), out_stride };
    let x = x.halves()?.address() + from * size_of::<u16>() as u64;
    let sum = Multiplication { x, weights: plain.address(), out: sums, rows, shape };
    gpu.launch(sum.launch());
    let bias = weights.bias.as_ref().map(Vector::memory);
    if finished(product, bias.is_some()) {
        return Ok(());
    }
    gpu.launch(
        Launch::new(Kernel::Finish, [rows, n.div_ceil(THREADS), 1], THREADS)
            .cell(sums)
            .u32(out_stride)
            .at_or_null(bias)
            .cell(product.out)
            .u32(out_stride)
            .u32(rows)
            .u32(n)
            .f32(product.scale)
            .u32(activation_code(product.activation))
            .u32(product.write),
    );
    Ok(())
}

/// Whether the sums are the result, where it is to be.
fn finished(product: &Product, bias: bool) -> bool {
    let plain = !bias && product.scale == 1.0 && product.activation == Activation::None;
    plain && product.write == STORE_F32 && product.sums == Some(product.out)
}

#[cfg(test)]
mod tests {
    use super::super::product::ADD_F32;
    use super::*;

    #[test]
    fn a_launch_tells_what_it_was_made_of() {
        let shape = Shape { n: 50_257, depth: 768, x_stride: 800, out_stride: 50_272 };
        let product = Multiplication { x: 1 << 40, weights: 2 << 40, out: 3, rows: 48, shape };
        assert_eq!(Multiplication::of(&product.launch()), Ok(product));
        assert!(Multiplication::of(&product.launch().u32(1)).is_err());
    }

    #[test]
    fn sums_that_nothing_becomes_of_are_the_result() {
        let product = |scale, activation, write, sums| Product {
            rows: 1,
            scale,
            activation,
            write,
            out: 7,
            out_stride: 32,
            sums,
        };
        let none = Activation::None;
        assert!(finished(&product(1.0, none, STORE_F32, Some(7)), false));
        assert!(!finished(&product(1.0, none, STORE_F32, Some(7)), true));
        assert!(!finished(&product(2.0, none, STORE_F32, Some(7)), false));
        assert!(!finished(&product(1.0, Activation::Relu, STORE_F32, Some(7)), false));
        assert!(!finished(&product(1.0, none, STORE_F32, Some(8)), false));
        assert!(!finished(&product(1.0, none, ADD_F32, None), false));
    }
}
