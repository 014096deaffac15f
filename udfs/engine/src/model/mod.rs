//! The public API of the engine: a model opened from a folder, used by any number of threads.

mod gpu;
mod measure;
mod open;
mod open_error;
mod prepare;
mod settings;
mod start;

pub use gpu::{Claim, GpuInfo, NoGpu, Opened, gpus, open_gpu};
pub use measure::{Size, measure};
pub use open::Model;
pub use open_error::OpenError;
pub use settings::Settings;
pub use start::DeviceFactory;

pub use crate::cuda::GemmBackend;
