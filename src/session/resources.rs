//! What all engines of a process share: memory for rows, and disk for rows that do not fit.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::common::DataFusionError;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use object_store::ObjectStore;

use crate::session::registry::OneStore;
use crate::session::spill::Spill;
use proofmill_base::error::{Error, ErrorKind, Result};

/// How many of the largest consumers an out-of-memory error names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// What the queries of a process may use, all together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Partitions of a large query, and stages that compute at the same time.
    pub cores: usize,
    /// Memory in bytes; more is spilled to disk.
    pub memory_bytes: usize,
    /// Disk for spilling, in bytes.
    pub spill_bytes: u64,
}

impl Limits {
    /// All cores, most of the memory that is free now, and 100 GiB of spill.
    pub fn of_this_machine() -> Self {
        const FALLBACK: usize = 4 << 30;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let memory_bytes = free_memory_bytes().map_or(FALLBACK, |free| free / 10 * 7);
        Self { cores, memory_bytes, spill_bytes: 100 << 30 }
    }
}

/// Memory the kernel says can be had without swapping.
fn free_memory_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().ok().map(|kib| kib * 1024)
}

/// Memory and disk within [`Limits`]; clones share them.
#[derive(Clone, Debug)]
pub struct Resources {
    limits: Limits,
    memory: Arc<dyn MemoryPool>,
    disk: Arc<DiskManager>,
    /// Where queries spill; kept while an engine is there.
    spill: Option<Arc<Spill>>,
}

impl Resources {
    /// Spills to a folder for temporary files, from which those of killed processes go that are older than `now`.
    ///
    /// # Errors
    ///
    /// If there is no such folder.
    pub fn new(limits: Limits, now: SystemTime) -> Result<Self> {
        // Whatever only plans needs no such folder; what spills without one says so.
        let spill = Spill::new(now).ok().map(Arc::new);
        let mode = match &spill {
            Some(spill) => DiskManagerMode::Directories(vec![spill.path().to_owned()]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let disk = DiskManagerBuilder::default()
            .with_mode(mode)
            .with_max_temp_directory_size(limits.spill_bytes)
            .build()
            .map_err(not_started)?;
        let memory = FairSpillPool::new(limits.memory_bytes);
        let memory = Arc::new(TrackConsumersPool::new(memory, CONSUMERS_NAMED));
        Ok(Self { limits, memory, disk: Arc::new(disk), spill })
    }

    /// What there is.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A folder that goes with the process, for files that no other process needs; `None` where
    /// none could be made.
    pub fn scratch(&self) -> Option<&Path> {
        self.spill.as_deref().map(Spill::path)
    }

    /// What queries over the objects of one store run in. Caches are its own: keys of another store are the same.
    pub(super) fn over(&self, store: Arc<dyn ObjectStore>) -> Result<Arc<RuntimeEnv>> {
        let mut builder = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&self.memory))
            .with_object_store_registry(Arc::new(OneStore(store)));
        builder.disk_manager = Some(Arc::clone(&self.disk));
        builder.build_arc().map_err(not_started)
    }
}

fn not_started(error: DataFusionError) -> Error {
    Error::new(ErrorKind::Resources, "the query engine does not start").with_source(error)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn engines_share_memory_and_disk_and_no_cache() {
        let limits = Limits { cores: 1, memory_bytes: 1 << 20, spill_bytes: 1 << 20 };
        let resources = Resources::new(limits, SystemTime::UNIX_EPOCH).unwrap();
        let (a, b) = (resources.over(Arc::new(InMemory::new())).unwrap(), resources.clone());
        let b = b.over(Arc::new(InMemory::new())).unwrap();
        assert!(Arc::ptr_eq(&a.memory_pool, &b.memory_pool));
        assert!(Arc::ptr_eq(&a.disk_manager, &b.disk_manager));
        assert!(!Arc::ptr_eq(&a.cache_manager, &b.cache_manager));
    }
}
