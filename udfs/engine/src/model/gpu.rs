//! Models on GPUs: which there are, and a worker for each.

use std::sync::{Arc, OnceLock};

use super::open::Model;
use super::open_error::OpenError;
use super::settings::Settings;
use super::start::{LoadedDevice, WithoutGraphs, WorkerInit, load};
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
    /// Its compute capability, major and minor.
    pub capability: (u32, u32),
    /// Bytes of its memory.
    pub bytes: u64,
}

impl GpuInfo {
    /// Those of the highest compute capability: tensor cores of another one may give other last bits.
    pub fn newest(all: &[Self]) -> Vec<Self> {
        let newest = all.iter().map(|gpu| gpu.capability).max();
        all.iter().filter(|gpu| Some(gpu.capability) == newest).cloned().collect()
    }
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
    /// What its kernels are compiled for.
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
        GpuInfo { number, name: gpu.name, capability: gpu.capability, bytes: gpu.bytes as u64 }
    };
    let all = system::gpus().map_err(|no| NoGpu { why: no.to_string(), help: no.help() })?;
    Ok(all.into_iter().map(info).collect())
}

/// Opens a GPU for a moment.
pub fn open_gpu(number: u32) -> Result<Opened, OpenError> {
    let gpu = open(number, GemmBackend::Builtin)?;
    let (major, minor) = gpu.capability();
    let kernels = format!("compiled by the driver for compute capability {major}.{minor}");
    Ok(Opened { kernels, free_bytes: gpu.free_bytes()? as u64 })
}

fn open(number: u32, gemm: GemmBackend) -> Result<System, OpenError> {
    let opened = System::open(number as usize, gemm);
    opened.map_err(|error| OpenError::Gpu(error.to_string()))
}

/// Fails if two of the GPUs with these numbers would give answers of different bits.
fn expect_alike(numbers: &[u32]) -> Result<(), OpenError> {
    let all = gpus().map_err(|no| OpenError::Gpu(no.to_string()))?;
    let mut chosen = all.iter().filter(|gpu| numbers.contains(&gpu.number));
    let first = chosen.next();
    let other = first.and_then(|first| chosen.find(|gpu| gpu.capability != first.capability));
    match (first, other) {
        (Some(first), Some(other)) => {
            let said = |GpuInfo { number, name, capability: (major, minor), .. }: &GpuInfo| {
                format!("cuda:{number} {name} has compute capability {major}.{minor}")
            };
            Err(OpenError::Gpu(format!(
                "a model does not run on unlike GPUs, whose answers may differ in their last bits: {}, \
                 {}; name one of them as `device`",
                said(first),
                said(other)
            )))
        }
        _ => Ok(()),
    }
}

impl Model {
    /// Starts a worker for each GPU of `claim`, which loads the weights onto it. Of the settings, the
    /// number of workers and the cache do not count. Fails if the GPUs are of different compute
    /// capabilities.
    pub fn open_on_gpus(
        folder: &Arc<Folder>,
        settings: &Settings,
        claim: &Claim,
    ) -> Result<Self, OpenError> {
        expect_alike(&claim.gpus)?;
        let settings = Settings { workers: claim.gpus.len(), ..*settings };
        let without_graphs = WithoutGraphs::of(&claim.gpus);
        let init = |(number, given_up): &(u32, Arc<OnceLock<String>>)| -> WorkerInit<Gpu<System>> {
            let (number, given_up) = (*number, Arc::clone(given_up));
            let (folder, claim) = (Arc::clone(folder), claim.clone());
            Box::new(move || {
                let system = open(number, settings.gemm)?.telling(given_up);
                let backend = Gpu::new(system, settings.precision);
                let network = Arc::new(load(&folder, &backend, &settings)?);
                let free = backend.driver().free_bytes()? as u64;
                let cache = usize::try_from(claim.cache_of(free)).unwrap_or(usize::MAX);
                Ok(LoadedDevice { backend, network, kv_cache_bytes: Some(cache) })
            })
        };
        let inits = without_graphs.0.iter().map(init).collect();
        let mut model = Self::begin(folder, &settings, inits)?;
        model.without_graphs = without_graphs;
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_share_of_what_is_free_or_what_is_given() {
        let claim = Claim { gpus: vec![0, 1], kv_cache_bytes: None, models: 2 };
        assert_eq!(claim.cache_of(1000), 425);
        assert_eq!(Claim { models: 1, ..claim.clone() }.cache_of(1000), 850);
        assert_eq!(Claim { kv_cache_bytes: Some(600), ..claim }.cache_of(1000), 300);
    }

    #[test]
    fn the_newest_gpus_are_alike() {
        let gpu =
            |number, capability| GpuInfo { number, name: String::new(), capability, bytes: 1 };
        let all = [gpu(0, (8, 9)), gpu(1, (12, 0)), gpu(2, (9, 0)), gpu(3, (12, 0))];
        let numbers: Vec<u32> = GpuInfo::newest(&all).iter().map(|gpu| gpu.number).collect();
        assert_eq!(numbers, [1, 3]);
        assert!(GpuInfo::newest(&[]).is_empty());
    }
}
