//! What commands work with: clock, randomness, store and engine, made once from the options.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use crate::cli::args::{Global, Pipeline, STORE_DEFAULT};
use crate::cli::output::{Output, sound};
use crate::cli::project;
use crate::memory::Memories;
use crate::models::{self, Gpus, NoLedger, Recorded, Runtime};
use crate::report::units;
use crate::run::past_tables::past_tables;
use crate::session::{Engine, Limits};
use crate::stages::load::{self, Draft, Loaded};
use crate::stages::stored_tables::{FromStore, StoredTableName, StoredTables};
use crate::views::run::sql_command;
use crate::views::shell::quoted;
use proofmill_base::clock::{Clock, SystemClock};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_base::rng::{Rng, SeededRng};
use proofmill_catalog::reference::RunReference;
use proofmill_catalog::summary::RunSummary;
use proofmill_store::{Location, Store, run_ids};

/// The cache where there is no folder for one: nothing can be kept there, nor planted by others, as could
/// be in a folder for everybody's temporary files.
const NO_CACHE: &str = "/dev/null/proofmill";
/// How far the clocks of two machines may be apart without a word.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// What commands work with.
pub struct Environment {
    pub output: Output,
    pub limits: Limits,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    gpus: Gpus,
    store: String,
    /// The profile that was asked for, and the parameters of the one that counts.
    profile: Option<String>,
    profile_params: Vec<(String, String)>,
    /// Whether a log says what happens, so that no progress is shown.
    pub is_logged: bool,
}

impl Environment {
    /// From the options and the project file.
    ///
    /// # Errors
    ///
    /// If the project file cannot be read, or has no such profile.
    pub fn new(global: &Global) -> Result<Self> {
        let output = Output::new(global.json, global.color, !global.no_pager);
        let profile = project::profile(global.profile.as_deref(), &output)?;
        let mut limits = Limits::of_this_machine();
        limits.cores = global.jobs.map_or(limits.cores, usize::from);
        limits.memory_bytes = global.memory.unwrap_or(limits.memory_bytes);
        let profile_params = profile.params();
        let store = global.store.clone().or(profile.store);
        Ok(Self {
            output,
            limits,
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::from_entropy()),
            gpus: Gpus::new(proofmill_engine::model::gpus),
            store: store.unwrap_or_else(|| STORE_DEFAULT.to_owned()),
            profile: global.profile.clone(),
            profile_params,
            is_logged: global.log.is_some(),
        })
    }

    /// Reads a pipeline file, with the parameters that were given and those of the profile.
    pub fn draft(&self, pipeline: &Pipeline) -> Result<Draft> {
        let mut draft = load::read(&pipeline.pipeline, &pipeline.params, &self.profile_params)?;
        pipeline.limit.iter().for_each(|rows| draft.limit(rows.get()));
        Ok(draft)
    }

    /// The option that gives another command the same parameters; nothing if none was asked for.
    pub fn profile_option(&self) -> String {
        let option = |name: &String| format!(" --profile {}", quoted(name));
        self.profile.as_ref().map(option).unwrap_or_default()
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

    /// The command that asks `query` of a run, as a shell takes it.
    pub fn sql_command(&self, run: &RunId, query: &str) -> String {
        sql_command(&self.store_option(), run, query)
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

    /// An identity for a run that starts now, behind all runs of the store; a clock that is behind them is remarked on.
    pub async fn next_run(&self, store: &Store) -> Result<RunId> {
        let runs = run_ids(store).await?;
        let Some(newest) = runs.first() else { return Ok(self.new_run()) };
        let now = self.clock.now();
        let behind = newest.began().and_then(|began| (began - now).to_std().ok());
        if let Some(behind) = behind.filter(|behind| *behind > CLOCKS_DIFFER) {
            self.output.remark(format!(
                "the clock of this machine, {}, is {} behind run {newest}: one of the two clocks is wrong. This run gets the next id after it",
                now.format("%Y-%m-%d %H:%M:%S UTC"),
                units::clock(behind),
            ));
        }
        Ok(RunId::after(newest, now, self.rng.as_ref()))
    }

    /// An identity for a query outside any run.
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
    pub async fn load(&self, pipeline: &Pipeline, engine: &Arc<Engine>) -> Result<Loaded> {
        self.sound(self.load_with_mistakes(pipeline, engine).await?)
    }

    /// Loads a pipeline as far as it goes. Memories that users teach are not read: their tables are empty. The
    /// store is opened only if the pipeline reads tables of past runs.
    pub async fn load_with_mistakes(
        &self,
        pipeline: &Pipeline,
        engine: &Arc<Engine>,
    ) -> Result<Loaded> {
        let draft = self.draft(pipeline)?;
        let tables = match draft.stored_tables() {
            wanted if wanted.is_empty() => StoredTables::default(),
            wanted => self.past_tables(&self.store().await?, wanted).await?,
        };
        Ok(draft.prepare(engine, &FromStore { tables, ..FromStore::default() }))
    }

    async fn past_tables(
        &self,
        store: &Store,
        wanted: BTreeSet<StoredTableName>,
    ) -> Result<StoredTables> {
        let (tables, remarks) = past_tables(store, wanted).await?;
        remarks.iter().for_each(|remark| self.output.remark(remark));
        Ok(tables)
    }

    /// As [`Self::load`], with what of `store` the pipeline names.
    pub async fn load_from_store(
        &self,
        pipeline: &Pipeline,
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<Loaded> {
        let draft = self.draft(pipeline)?;
        let memories = Memories::read(store, draft.memories()).await?;
        let tables = self.past_tables(store, draft.stored_tables()).await?;
        self.sound(draft.prepare(engine, &FromStore { memories, tables }))
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
            Error::new(ErrorKind::Usage, "there is no cache folder")
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
