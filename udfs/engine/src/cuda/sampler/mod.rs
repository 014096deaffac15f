//! The sampler: a record per row goes to the device, a few results per row come back; logits stay on
//! the device.

mod records;
mod results;
mod run;

pub use run::GpuSampled;
pub(super) use run::sample;
