//! What commands work with: clock, randomness, store and engine, made once from the options.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::memory::InMemory;

use crate::cli::args::{Global, Pipeline, STORE_DEFAULT};
use crate::cli::output::{Output, sound};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::rng::{Rng, SeededRng};
use crate::session::{Engine, Limits};
use crate::stages::load::{Loaded, load};
use crate::store::{Location, Store};

/// What commands work with.
pub struct Environment {
    /// Where they write.
    pub output: Output,
    /// What the engine may use.
    pub limits: Limits,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    store: String,
}

impl Environment {
    /// From the options.
    pub fn new(global: &Global) -> Self {
        let mut limits = Limits::of_this_machine();
        limits.cores = global.jobs.map_or(limits.cores, usize::from);
        limits.memory_bytes = global.memory.unwrap_or(limits.memory_bytes);
        Self {
            output: Output::new(global.json, global.color),
            limits,
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::from_entropy()),
            store: global.store.clone(),
        }
    }

    /// The store that the options name.
    pub async fn store(&self) -> Result<Store> {
        let location: Location = self.store.parse()?;
        Ok(Store::open(&location, Arc::clone(&self.clock), Arc::clone(&self.rng)).await?)
    }

    /// The option that leads another command to the same store; nothing for the default.
    pub fn store_option(&self) -> String {
        match self.store.as_str() {
            STORE_DEFAULT => String::new(),
            store => format!(" --store {store}"),
        }
    }

    /// A store that lasts as long as the command.
    pub async fn memory_store(&self) -> Result<Store> {
        Ok(Store::in_memory(Arc::clone(&self.clock), Arc::clone(&self.rng)).await?)
    }

    /// An engine over `store`.
    pub fn engine(&self, store: &Store) -> Result<Arc<Engine>> {
        Ok(Arc::new(Engine::new(Arc::clone(store.objects()), self.limits)?))
    }

    /// An engine that only plans.
    pub fn planner(&self) -> Result<Engine> {
        Engine::new(Arc::new(InMemory::new()), self.limits)
    }

    /// Loads a pipeline that must be sound; its mistakes are printed.
    pub fn load(&self, pipeline: &Pipeline, engine: &Engine) -> Result<Loaded> {
        let loaded = load(&pipeline.pipeline, &pipeline.params, engine)?;
        self.output.diagnostics_if_any(&loaded.diagnostics, &loaded.sources);
        sound(&loaded.diagnostics)?;
        Ok(loaded)
    }

    /// The folder for opened indexes: `$XDG_CACHE_HOME/proofmill`, or its usual place.
    pub fn cache(&self) -> Result<PathBuf> {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
        let folder = cache.filter(|path| path.is_absolute()).or_else(home);
        let folder = folder.ok_or_else(|| {
            Error::new(ErrorKind::Usage, "there is no folder for caches")
                .with_hint("set XDG_CACHE_HOME or HOME")
        })?;
        Ok(folder.join("proofmill").join("index"))
    }
}
