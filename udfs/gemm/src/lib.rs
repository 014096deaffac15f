//! Matrix products whose bits depend on nothing but their operands: not on the instruction set, the number of
//! rows or threads, or the sizes of caches.
//!
//! Every sum of an f32 product has one accumulator that takes its inputs in order, so that tiles and blocks do
//! not show; sums of bytes are exact integers. Reading order: `simd` (sixteen lanes, and the instruction sets),
//! `reduce` (sums of one row), `memory` (aligned buffers), `tile` (how rows are cut), `operand` (the left-hand side), `gemm_f32` and
//! `gemm_int8` (the kernels), `panels` (the right-hand side, packed once), `products` (products of plain matrices in memory).

mod gemm_f32;
mod gemm_int8;
mod memory;
mod operand;
mod panels;
mod products;
pub mod reduce;
mod simd;
#[cfg(test)]
mod tests;
mod tile;

pub use memory::{Buffer, OutOfMemory, Plain};
pub use operand::Operand;
pub use panels::{INT8_INPUTS_MAX, Int8Panels, Panels, Scratch};
pub use products::{Multiplier, Sums};
pub use simd::{Isa, LANES, Level, Simd, SimdKernel};
pub use tile::{Epilogue, PANEL, Store};
