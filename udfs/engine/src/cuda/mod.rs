//! A GPU as a device: the same operations as the processor's, made of the kernels in `udfs/kernels`.
//! [`Gpu`] decides what is launched, a [`Driver`] launches it: the system's CUDA, or an emulator in
//! tests, so that all but the driver is tested without a GPU.

mod attend;
mod backend;
mod device;
mod driver;
mod gemm;
mod input;
mod kernel;
mod kv_cache;
mod kv_write;
mod memory;
mod metadata;
mod nearest;
mod rows;
mod sampler;
pub mod system;

pub use device::Gpu;
pub use driver::{ARGS_MAX, Driver, GemmBackend, Launch, Memory, Role, SHARED_LEAST};
pub use gemm::Matrix;
pub use input::{GpuInput, GpuTokens};
pub use kernel::{COMMON, Kernel, SOURCES};
pub use kv_cache::Cache;
pub use memory::{Table, Tensor, Vector};
pub use metadata::GpuMetadata;
pub use nearest::Vectors;
pub use sampler::GpuSampled;
