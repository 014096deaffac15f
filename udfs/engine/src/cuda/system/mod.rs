//! The system's CUDA as a [`Driver`](super::Driver): which GPUs there are, their memory, the compiled
//! kernels, and launches, replayed as graphs where they come again.

mod arena;
mod copies;
mod cublas;
mod device;
mod failure;
mod graphs;
mod launcher;
mod locate;
mod matmul_algorithms;
mod memory;
mod modules;
mod probe;
mod ring;
mod source;
mod stream;

pub use copies::PendingCopy;
pub use device::{OpenGpuError, System};
pub use graphs::GraphCounts;
pub use memory::Piece;
pub use probe::{ProbeError, ProbedGpu, gpus};
