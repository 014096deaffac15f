//! The processor as a device: one [`Cpu`] per worker thread, each with its own scratch memory, all
//! sharing the packed weights. It is also the oracle that other devices are tested against.

mod append;
mod attend;
mod cache;
mod device;
mod gemm;
mod gemm_int8;
mod likely;
mod math;
mod matrix;
mod memory;
mod norm;
mod pick;
mod reduce;
mod rows;
mod sample;
mod simd;
#[cfg(test)]
mod tests;
mod tile;

pub use cache::Cache;
pub use device::Cpu;
pub use matrix::Matrix;
pub use memory::{Tensor, Vector};
pub use simd::Isa;
