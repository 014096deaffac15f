//! A GPU as a device: the same operations as the processor's, made of the kernels in `udfs/kernels`.
//! [`Gpu`] decides what is launched, a [`Driver`] launches it: the system's CUDA, or an emulator in
//! tests, so that all but the driver runs where no GPU is.

mod append;
mod attend;
mod cache;
mod device;
mod driver;
mod gemm;
mod input;
mod kernel;
mod layout;
mod list;
mod memory;
mod nearest;
mod pick;
mod rows;
pub mod system;

pub use cache::Cache;
pub use device::Gpu;
pub use driver::{ARGS_MAX, Driver, Launch, Memory, Products, Role};
pub use gemm::Matrix;
pub use input::GpuInput;
pub use kernel::{COMMON, Kernel, SOURCES};
pub use layout::GpuLayout;
pub use memory::{Table, Tensor, Vector};
pub use nearest::Vectors;
