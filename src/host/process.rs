//! Clock, randomness, stores and engines of a process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::memory::InMemory;
use tokio::sync::Semaphore;

use crate::memory::Memories;
use crate::models::{Gpus, ModelSource, NoLedger, Recorded, Runtime};
use crate::relay::coordinator::Relay;
use crate::report::units;
use crate::run::past_tables::past_tables;
use crate::session::{Engine, Limits, Resources};
use crate::stages::load::{Draft, Loaded};
use crate::stages::sink::KeptBudget;
use crate::stages::stored_tables::{FromStore, KeptTexts, PinnedTables, StoredTables};
use proofmill_audit::key_file;
use proofmill_audit::note::Signer;
use proofmill_base::clock::Clock;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_base::rng::Rng;
use proofmill_catalog::audit::history::newest_run;
use proofmill_remote::budget::AllowanceSlot;
use proofmill_store::{Location, Store, run_ids};

/// The environment variable that names the file of the key that signs.
pub const SIGN_KEY: &str = "PROOFMILL_SIGN_KEY";
/// The cache where there is no folder for one: nothing can be kept there, nor planted by others, as could
/// be in a folder for everybody's temporary files.
const NO_CACHE: &str = "/dev/null/proofmill";
/// How far the clocks of two machines may be apart without a word.
const CLOCKS_DIFFER: Duration = Duration::from_secs(60);

/// What a process takes from the machine and from its user.
pub struct HostParts {
    pub limits: Limits,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub gpus: Gpus,
    /// The environment, for keys of endpoints.
    pub environment: fn(&str) -> Option<String>,
    /// Folder for what can be computed again; `None` where there is none.
    pub cache: Option<PathBuf>,
    /// The store, as [`Location`] reads it.
    pub store: String,
}

/// What all runs of a process share.
pub struct Host {
    parts: HostParts,
    /// Made by the first engine: a command that runs no query needs no folder to spill to.
    resources: Mutex<Option<Resources>>,
    /// Permits to compute: one for each core.
    pub(super) permits: Arc<Semaphore>,
    pub(super) kept: KeptBudget,
}

impl Host {
    pub fn new(parts: HostParts) -> Self {
        let permits = Arc::new(Semaphore::new(parts.limits.cores));
        Self { parts, resources: Mutex::default(), permits, kept: KeptBudget::default() }
    }

    /// What its queries may use, all together.
    pub fn limits(&self) -> Limits {
        self.parts.limits
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.parts.clock)
    }

    pub fn gpus(&self) -> &Gpus {
        &self.parts.gpus
    }

    /// The store, opened.
    ///
    /// # Errors
    ///
    /// If its address cannot be read, or it does not answer.
    pub async fn store(&self) -> Result<Store> {
        let location: Location = self.parts.store.parse()?;
        Ok(Store::open(&location, self.clock(), Arc::clone(&self.parts.rng)).await?)
    }

    /// The store, for what only reads: a folder that is not there is not made, and an empty store stands for it.
    ///
    /// # Errors
    ///
    /// As [`Self::store`].
    pub async fn store_to_read(&self) -> Result<Store> {
        match self.parts.store.parse()? {
            Location::Local(path) if !path.try_exists().unwrap_or(true) => {
                self.memory_store().await
            }
            _ => self.store().await,
        }
    }

    /// A store that lasts as long as it is held.
    ///
    /// # Errors
    ///
    /// If it cannot be set up.
    pub async fn memory_store(&self) -> Result<Store> {
        Ok(Store::in_memory(self.clock(), Arc::clone(&self.parts.rng)).await?)
    }

    /// A variable of the environment, unless it is empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.parts.environment)(name).filter(|value| !value.is_empty())
    }

    /// The key that signs checkpoints of the audit log, if `PROOFMILL_SIGN_KEY` names one.
    ///
    /// # Errors
    ///
    /// If its file cannot be read, or is none of a key.
    pub fn signer(&self) -> Result<Option<Signer>> {
        self.variable(SIGN_KEY).map(|path| key_file::read(Path::new(&path))).transpose()
    }

    /// An identity for a query outside any run.
    pub fn new_run(&self) -> RunId {
        RunId::new(self.parts.clock.now(), self.parts.rng.as_ref())
    }

    /// An identity for a run that starts now, behind all runs of the store; and a remark if the clock is behind them.
    ///
    /// # Errors
    ///
    /// If the store does not answer.
    pub async fn next_run(&self, store: &Store) -> Result<(RunId, Option<String>)> {
        // A bucket's list of all runs takes a request for each thousand of them, where the log names the newest in few; names of
        // folders cost next to nothing, and a store without a log has nothing else.
        let named = if store.is_local() { None } else { newest_run(store).await? };
        let newest = match named {
            Some(newest) => Some(newest),
            None => run_ids(store).await?.into_iter().next(),
        };
        let Some(newest) = newest else { return Ok((self.new_run(), None)) };
        let now = self.parts.clock.now();
        let behind = newest.began().and_then(|began| (began - now).to_std().ok());
        let remark = behind.filter(|behind| *behind > CLOCKS_DIFFER).map(|behind| {
            format!(
                "the clock of this machine, {}, is {} behind run {newest}: one of the two clocks is wrong. This run gets the next id after it",
                now.format("%Y-%m-%d %H:%M:%S UTC"),
                units::clock(behind),
            )
        });
        Ok((RunId::after(&newest, now, self.parts.rng.as_ref()), remark))
    }

    /// An engine over `store`; what models say is kept there, as said to `run`.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn engine(&self, store: &Store, run: &RunId) -> Result<Arc<Engine>> {
        self.recording_engine(store, run, None)
    }

    /// The same for a run, whose models workers answer for as well if it has them.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn engine_of_run(
        &self,
        store: &Store,
        run: &RunId,
        has_workers: bool,
    ) -> Result<Arc<Engine>> {
        self.recording_engine(store, run, has_workers.then(|| Relay { store: store.clone() }))
    }

    fn recording_engine(
        &self,
        store: &Store,
        run: &RunId,
        relay: Option<Relay>,
    ) -> Result<Arc<Engine>> {
        let ledger = Arc::new(Recorded::new(store.clone(), run.clone()));
        let source = ModelSource { runtime: Runtime { relay, ..self.runtime() }, ledger };
        Engine::new(Arc::clone(store.objects()), self.resources()?, source).map(Arc::new)
    }

    /// An engine over `store` whose models compute every answer anew, and keep none.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn engine_without_ledger(&self, store: &Store) -> Result<Arc<Engine>> {
        let source = ModelSource { runtime: self.runtime(), ledger: Arc::new(NoLedger) };
        Engine::new(Arc::clone(store.objects()), self.resources()?, source).map(Arc::new)
    }

    /// An engine that only plans.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn planner(&self) -> Result<Arc<Engine>> {
        let source = ModelSource { runtime: self.runtime(), ledger: Arc::new(NoLedger) };
        Engine::new(Arc::new(InMemory::new()), self.resources()?, source).map(Arc::new)
    }

    /// Prepares a pipeline with what of `store` it names; and remarks about the runs that it reads.
    ///
    /// # Errors
    ///
    /// If the store does not answer, or a run cannot be read.
    pub async fn load(
        &self,
        draft: Draft,
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<(Loaded, BTreeSet<String>)> {
        prepare(draft, Taken::default(), engine, store).await
    }

    /// The same, of a pipeline whose texts a past run kept, with some of its tables.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn load_kept(
        &self,
        draft: Draft,
        texts: KeptTexts,
        pinned: PinnedTables,
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<(Loaded, BTreeSet<String>)> {
        prepare(draft, Taken { texts: Some(texts), pinned }, engine, store).await
    }

    /// The same without memories: their tables are empty. The store is opened only for tables of past runs.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub async fn load_without_memories(
        &self,
        draft: Draft,
        engine: &Arc<Engine>,
    ) -> Result<(Loaded, BTreeSet<String>)> {
        let (tables, remarks) = match draft.stored_tables() {
            wanted if wanted.is_empty() => (StoredTables::default(), BTreeSet::new()),
            wanted => past_tables(&self.store().await?, wanted).await?,
        };
        let from_store = FromStore { tables, ..FromStore::default() };
        Ok((draft.prepare(engine, &from_store), remarks))
    }

    /// The folder for opened indexes.
    ///
    /// # Errors
    ///
    /// Where there is no cache folder.
    pub fn cache(&self) -> Result<PathBuf> {
        let folder = self.parts.cache.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Usage, "there is no cache folder")
                .with_hint("set XDG_CACHE_HOME or HOME")
        })?;
        Ok(folder.join("index"))
    }

    pub(super) fn runtime(&self) -> Runtime {
        Runtime {
            cores: self.parts.limits.cores,
            gpus: self.parts.gpus.clone(),
            clock: self.clock(),
            rng: Arc::clone(&self.parts.rng),
            environment: self.parts.environment,
            cache: self.parts.cache.clone().unwrap_or_else(|| PathBuf::from(NO_CACHE)),
            allowance: AllowanceSlot::default(),
            relay: None,
        }
    }

    fn resources(&self) -> Result<Resources> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = resources.as_ref() {
            return Ok(made.clone());
        }
        let made = Resources::new(self.parts.limits, self.parts.clock.now().into())?;
        Ok(resources.insert(made).clone())
    }
}

/// What is taken from past runs in place of what is on disk.
#[derive(Default)]
struct Taken {
    texts: Option<KeptTexts>,
    pinned: PinnedTables,
}

/// Prepares a pipeline with what of `store` it names.
async fn prepare(
    draft: Draft,
    Taken { texts, pinned }: Taken,
    engine: &Arc<Engine>,
    store: &Store,
) -> Result<(Loaded, BTreeSet<String>)> {
    let memories = Memories::read(store, draft.memories()).await?;
    let (tables, remarks) = past_tables(store, draft.stored_tables()).await?;
    Ok((draft.prepare(engine, &FromStore { memories, tables, texts, pinned }), remarks))
}
