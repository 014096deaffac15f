//! The processor as a device: one [`Cpu`] per worker thread, each with its own scratch memory, all
//! sharing the packed weights. It is also the oracle that other devices are tested against.

mod attend;
mod device;
mod gemm;
mod gemm_int8;
mod gumbel;
mod kv_cache;
mod kv_write;
mod math;
mod matrix;
mod memory;
mod norm;
mod reduce;
mod rows;
mod sampler;
mod simd;
#[cfg(test)]
mod tests;
mod tile;
mod top_k;

pub use device::Cpu;
pub use kv_cache::Cache;
pub use matrix::Matrix;
pub use memory::{Tensor, Vector};
pub use simd::Isa;
