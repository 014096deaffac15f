//! Models on GPUs: which there are, and a worker for each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open::{Model, OpenError};
use super::settings::Settings;
use super::start::{LoadedDevice, WorkerInit, load};
use crate::checkpoint::Folder;
use crate::cuda::system::{self, System};
use crate::cuda::{GemmBackend, Gpu};

/// Percent of the memory that is free beside the weights that a KV cache of no given size leaves for
/// activations and for whatever else may come.
const SPARED_PERCENT: usize = 15;

/// A GPU that models can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number among all GPUs of the machine.
    pub number: u32,
    pub name: String,
    /// Bytes of its memory.
    pub bytes: u64,
}

/// Why no GPU can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}{}", help.map(|help| format!("; {help}")).unwrap_or_default())]
pub struct NoGpu {
    pub why: String,
    /// What to do about it.
    pub help: Option<&'static str>,
}

/// What is known of a GPU once it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What its kernels are made of.
    pub kernels: String,
    /// Bytes of its memory that are free.
    pub free_bytes: u64,
}

/// The GPUs of a model and how much of their memory it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Their numbers; a worker for each.
    pub gpus: Vec<u32>,
    /// KV caches of all workers together, in bytes; a share of the free memory if `None`.
    pub kv_cache_bytes: Option<usize>,
    /// Models that share what is free, this one counted.
    pub models: usize,
    /// A folder for compiled kernels.
    pub kernels: PathBuf,
}

impl Claim {
    /// Bytes of the KV cache on one GPU, with `free` bytes beside the weights.
    pub fn cache_of(&self, free: u64) -> u64 {
        let share = || free / 100 * (100 - SPARED_PERCENT) as u64 / self.models.max(1) as u64;
        let given = |all: usize| (all / self.gpus.len().max(1)) as u64;
        self.kv_cache_bytes.map_or_else(share, given)
    }
}

/// The GPUs that models can run on, by their numbers; never none.
pub fn gpus() -> Result<Vec<GpuInfo>, NoGpu> {
    let info = |gpu: system::ProbedGpu| {
        let number = u32::try_from(gpu.index).unwrap_or(u32::MAX);
        GpuInfo { number, name: gpu.name, bytes: gpu.bytes as u64 }
    };
    let all = system::gpus().map_err(|no| NoGpu { why: no.to_string(), help: no.help() })?;
    Ok(all.into_iter().map(info).collect())
}

/// Opens a GPU for a moment. `kernels` is a folder for compiled kernels.
pub fn open_gpu(number: u32, kernels: &Path) -> Result<Opened, OpenError> {
    let gpu = open(number, kernels, GemmBackend::Builtin)?;
    Ok(Opened { kernels: gpu.kernels().to_string(), free_bytes: gpu.free_bytes()? as u64 })
}

fn open(number: u32, kernels: &Path, gemm: GemmBackend) -> Result<System, OpenError> {
    let opened = System::open(number as usize, kernels, gemm);
    opened.map_err(|error| OpenError::Gpu(error.to_string()))
}

impl Model {
    /// Starts a worker for each GPU of `claim`, which loads the weights onto it. Of the settings, the
    /// number of workers and the cache do not count.
    pub fn open_on_gpus(
        folder: &Arc<Folder>,
        settings: &Settings,
        claim: &Claim,
    ) -> Result<Self, OpenError> {
        let settings = Settings { workers: claim.gpus.len(), ..*settings };
        let init = |&number: &u32| -> WorkerInit<Gpu<System>> {
            let (folder, claim) = (Arc::clone(folder), claim.clone());
            Box::new(move || {
                let system = open(number, &claim.kernels, settings.gemm)?;
                let backend = Gpu::new(system, settings.precision);
                let network = Arc::new(load(&folder, &backend, &settings)?);
                let free = backend.driver().free_bytes()? as u64;
                let cache = usize::try_from(claim.cache_of(free)).unwrap_or(usize::MAX);
                Ok(LoadedDevice { backend, network, kv_cache_bytes: Some(cache) })
            })
        };
        Self::begin(folder, &settings, claim.gpus.iter().map(init).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_share_of_what_is_free_or_what_is_given() {
        let claim = Claim {
            gpus: vec![0, 1],
            kv_cache_bytes: None,
            models: 2,
            kernels: PathBuf::from("kernels"),
        };
        assert_eq!(claim.cache_of(1000), 425);
        assert_eq!(Claim { models: 1, ..claim.clone() }.cache_of(1000), 850);
        assert_eq!(Claim { kv_cache_bytes: Some(600), ..claim }.cache_of(1000), 300);
    }
}
