//! The processor as a device: one [`Cpu`] per worker, each with its own scratch memory, all sharing the packed weights
//! and, through their [`Team`], the threads of those that have nothing to do. It is also the oracle that other devices
//! are tested against.

mod attend;
mod device;
mod epilogue;
mod gumbel;
mod kv_cache;
mod kv_write;
mod math;
mod matrix;
mod memory;
mod norm;
mod product;
mod rows;
mod sampler;
mod team;
#[cfg(test)]
mod tests;
mod top_k;

pub use device::Cpu;
pub use kv_cache::Cache;
pub use matrix::Matrix;
pub use memory::{Tensor, Vector};
pub use proofmill_gemm::Isa;
pub use team::Team;
