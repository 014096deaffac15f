//! What commands work with: clock, randomness, store and engine, made once from the options.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::memory::InMemory;

use crate::cli::args::{Global, Pipeline, STORE_DEFAULT};
use crate::cli::output::{Output, sound};
use crate::cli::shell::quoted;
use crate::memory::Memories;
use crate::models::{self, Gpus, NoLedger, Recorded, Runtime};
use crate::run::history::RunSummary;
use crate::run::reference::RunReference;
use crate::session::{Engine, Limits};
use crate::stages::load::{self, Loaded};
use proofmill_base::clock::{Clock, SystemClock};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_base::rng::{Rng, SeededRng};
use proofmill_store::{Location, Store};

/// The cache where there is no folder for one: nothing can be kept there, nor planted by others, as could
/// be in a folder for everybody's temporary files.
const NO_CACHE: &str = "/dev/null/proofmill";

/// What commands work with.
pub struct Environment {
    pub output: Output,
    pub limits: Limits,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    gpus: Gpus,
    store: String,
    /// Whether a log says what happens, so that no progress is shown.
    pub is_logged: bool,
}

impl Environment {
    /// From the options.
    pub fn new(global: &Global) -> Self {
        let mut limits = Limits::of_this_machine();
        limits.cores = global.jobs.map_or(limits.cores, usize::from);
        limits.memory_bytes = global.memory.unwrap_or(limits.memory_bytes);
        Self {
            output: Output::new(global.json, global.color, !global.no_pager),
            limits,
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::from_entropy()),
            gpus: Gpus::new(proofmill_engine::model::gpus),
            store: global.store.clone(),
            is_logged: global.log.is_some(),
        }
    }

    /// The store that the options name.
    pub async fn store(&self) -> Result<Store> {
        let location: Location = self.store.parse()?;
        Ok(Store::open(&location, Arc::clone(&self.clock), Arc::clone(&self.rng)).await?)
    }

    /// The store, for a command that only reads: a folder that is not there is not made, and an empty store
    /// stands for it.
    pub async fn store_to_read(&self) -> Result<Store> {
        match self.store.parse()? {
            Location::Local(path) if !path.try_exists().unwrap_or(true) => {
                self.memory_store().await
            }
            _ => self.store().await,
        }
    }

    /// The option that leads another command to the same store; nothing for the default.
    pub fn store_option(&self) -> String {
        match self.store.as_str() {
            STORE_DEFAULT => String::new(),
            store => format!(" --store {}", quoted(store)),
        }
    }

    /// A store that lasts as long as the command.
    pub async fn memory_store(&self) -> Result<Store> {
        Ok(Store::in_memory(Arc::clone(&self.clock), Arc::clone(&self.rng)).await?)
    }

    /// The run that is meant, the latest unless it is named; what people should know of it is said.
    pub async fn run(&self, store: &Store, wanted: Option<&str>) -> Result<RunSummary> {
        let wanted: RunReference = wanted.unwrap_or("latest").parse()?;
        let run = wanted.find(store).await?;
        run.remark.iter().for_each(|remark| self.output.remark(remark));
        Ok(run)
    }

    /// An identity for a run, or for a query outside any run, that starts now.
    pub fn new_run(&self) -> RunId {
        RunId::new(self.clock.now(), self.rng.as_ref())
    }

    /// The clock of the machine.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The GPUs of the machine.
    pub fn gpus(&self) -> &Gpus {
        &self.gpus
    }

    /// An engine over `store`; what models say is kept there, as said to `run`.
    pub fn engine(&self, store: &Store, run: &RunId) -> Result<Arc<Engine>> {
        let ledger = Arc::new(Recorded::new(store.clone(), run.clone()));
        let source = models::ModelSource { runtime: self.runtime(), ledger };
        Ok(Arc::new(Engine::new(Arc::clone(store.objects()), self.limits, source)?))
    }

    fn runtime(&self) -> Runtime {
        Runtime {
            cores: self.limits.cores,
            gpus: self.gpus.clone(),
            clock: Arc::clone(&self.clock),
            rng: Arc::clone(&self.rng),
            environment: |name| std::env::var(name).ok(),
            cache: cache_root().unwrap_or_else(|| PathBuf::from(NO_CACHE)),
        }
    }

    /// An engine that only plans.
    pub fn planner(&self) -> Result<Arc<Engine>> {
        let source = models::ModelSource { runtime: self.runtime(), ledger: Arc::new(NoLedger) };
        Engine::new(Arc::new(InMemory::new()), self.limits, source).map(Arc::new)
    }

    /// Loads a pipeline that must be sound; its mistakes are printed. Memories are not read.
    pub fn load(&self, pipeline: &Pipeline, engine: &Arc<Engine>) -> Result<Loaded> {
        self.sound(load::load(&pipeline.pipeline, &pipeline.params, engine)?)
    }

    /// As [`Self::load`], with the memories of `store` that the pipeline names.
    pub async fn load_with_memories(
        &self,
        pipeline: &Pipeline,
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<Loaded> {
        let draft = load::read(&pipeline.pipeline, &pipeline.params)?;
        let memories = Memories::read(store, draft.memories()).await?;
        self.sound(draft.prepare(engine, &memories))
    }

    fn sound(&self, loaded: Loaded) -> Result<Loaded> {
        match sound(&loaded.diagnostics) {
            Ok(()) => self.output.warnings(&loaded.diagnostics, &loaded.sources),
            Err(_) => self.output.diagnostics(&loaded.diagnostics, &loaded.sources)?,
        }
        sound(&loaded.diagnostics)?;
        Ok(loaded)
    }

    /// The folder for opened indexes: `$XDG_CACHE_HOME/proofmill`, or its usual place.
    pub fn cache(&self) -> Result<PathBuf> {
        let folder = cache_root().ok_or_else(|| {
            Error::new(ErrorKind::Usage, "there is no folder for caches")
                .with_hint("set XDG_CACHE_HOME or HOME")
        })?;
        Ok(folder.join("index"))
    }
}

impl Environment {
    /// A remark that this machine has made once is not made again. Where nothing can be kept, it is.
    pub fn remark_once(&self, text: &str) {
        let marker = cache_root()
            .map(|folder| folder.join("said").join(Digest::of(text.as_bytes()).short()));
        let is_new = |marker: &PathBuf| {
            let _ = marker.parent().map(std::fs::create_dir_all);
            let made = std::fs::File::create_new(marker);
            !made.is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
        };
        if marker.as_ref().is_none_or(is_new) {
            self.output.remark(text);
        }
    }
}

/// `$XDG_CACHE_HOME/proofmill`, or its usual place.
fn cache_root() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = cache.filter(|path| path.is_absolute()).or_else(home);
    folder.map(|folder| folder.join("proofmill"))
}
