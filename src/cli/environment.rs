//! What commands work with beside what every process does: the terminal, and the options that other commands need to say the same.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::args::{Global, Pipeline, STORE_DEFAULT};
use crate::cli::output::{Output, valid};
use crate::cli::project;
use crate::host::{Host, HostParts};
use crate::models::Gpus;
use crate::session::{Engine, Limits};
use crate::stages::load::{self, Draft, Loaded};
use crate::views::run::sql_command;
use crate::views::shell::quoted;
use proofmill_base::clock::SystemClock;
use proofmill_base::digest::Digest;
use proofmill_base::error::Result;
use proofmill_base::ids::RunId;
use proofmill_base::rng::SeededRng;
use proofmill_catalog::reference::{LATEST, RunReference};
use proofmill_catalog::summary::RunSummary;
use proofmill_store::Store;

/// What commands work with.
pub struct Environment {
    pub output: Output,
    pub host: Host,
    store: String,
    /// The requested profile, and the parameters of the one that counts.
    profile: Option<String>,
    profile_params: Vec<(String, String)>,
    /// Whether the profile has workers answer.
    pub has_workers: bool,
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
        let (has_workers, store) = (profile.workers, global.store.clone().or(profile.store));
        let store = store.unwrap_or_else(|| STORE_DEFAULT.to_owned());
        let host = Host::new(HostParts {
            limits,
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SeededRng::from_entropy()),
            gpus: Gpus::new(proofmill_engine::model::gpus),
            environment: |name| std::env::var(name).ok(),
            cache: cache_root(),
            store: store.clone(),
        });
        let (profile, is_logged) = (global.profile.clone(), global.log.is_some());
        Ok(Self { output, host, store, profile, profile_params, has_workers, is_logged })
    }

    /// Reads a pipeline file, with the parameters that were given and those of the profile.
    pub fn draft(&self, pipeline: &Pipeline) -> Result<Draft> {
        let mut draft = load::read(&pipeline.pipeline, &pipeline.params, &self.profile_params)?;
        pipeline.limit.iter().for_each(|rows| draft.limit(rows.get()));
        pipeline.generation.iter().for_each(|generation| draft.ask_anew(generation));
        Ok(draft)
    }

    /// The option that gives another command the same parameters; nothing if no profile was
    /// requested.
    pub fn profile_option(&self) -> String {
        let option = |name: &String| format!(" --profile {}", quoted(name));
        self.profile.as_ref().map(option).unwrap_or_default()
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

    /// The run that is meant, the latest unless it is named; what people should know of it is said.
    pub async fn run(&self, store: &Store, wanted: Option<&str>) -> Result<RunSummary> {
        self.referenced(store, &wanted.unwrap_or(LATEST).parse()?).await
    }

    /// The run that a reference means; what people should know of it is said.
    pub async fn referenced(&self, store: &Store, wanted: &RunReference) -> Result<RunSummary> {
        let run = wanted.find(store).await?;
        run.remark.iter().for_each(|remark| self.output.remark(remark));
        Ok(run)
    }

    /// An identity for a run that starts now; a clock that is behind other runs is remarked on.
    pub async fn next_run(&self, store: &Store) -> Result<RunId> {
        let (run, remark) = self.host.next_run(store).await?;
        remark.iter().for_each(|remark| self.output.remark(remark));
        Ok(run)
    }

    /// Loads a pipeline that must be valid; its diagnostics are printed. Memories are not read.
    pub async fn load(&self, pipeline: &Pipeline, engine: &Arc<Engine>) -> Result<Loaded> {
        self.valid(self.load_with_diagnostics(pipeline, engine).await?)
    }

    /// Loads a pipeline as far as it goes. Memories that users teach are not read: their tables are empty. The
    /// store is opened only if the pipeline reads tables of past runs.
    pub async fn load_with_diagnostics(
        &self,
        pipeline: &Pipeline,
        engine: &Arc<Engine>,
    ) -> Result<Loaded> {
        let loaded = self.host.load_without_memories(self.draft(pipeline)?, engine).await?;
        Ok(self.remarked(loaded))
    }

    /// As [`Self::load`], with what of `store` the pipeline names.
    pub async fn load_from_store(
        &self,
        pipeline: &Pipeline,
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<Loaded> {
        let loaded = self.host.load(self.draft(pipeline)?, engine, store).await?;
        self.valid(self.remarked(loaded))
    }

    fn remarked(&self, (loaded, remarks): (Loaded, BTreeSet<String>)) -> Loaded {
        remarks.iter().for_each(|remark| self.output.remark(remark));
        loaded
    }

    /// The pipeline, if it has no errors; its diagnostics are printed.
    pub fn valid(&self, loaded: Loaded) -> Result<Loaded> {
        match valid(&loaded.diagnostics) {
            Ok(()) => self.output.warnings(&loaded.diagnostics, &loaded.sources),
            Err(_) => self.output.diagnostics(&loaded.diagnostics, &loaded.sources)?,
        }
        valid(&loaded.diagnostics)?;
        Ok(loaded)
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
