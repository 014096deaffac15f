//! A model in a folder: identified when a query first needs it, loaded when the first row does, and unloaded when no
//! stage asks it any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use proofmill_base::clock::Clock;
use proofmill_base::waits::{WaitFor, Waits};
use proofmill_engine::checkpoint::{Digested, Watch};
use proofmill_engine::model::{self, Claim, Settings};
use proofmill_engine::request::{Answer, Request, RequestError};
use proofmill_engine::schedule::{Cancel, Counts};
use proofmill_udfs::model::{AskError, Key, LanguageModel, OpenError};
use tokio::sync::{OnceCell, oneshot};
use tracing::info;

use crate::models::device::Placement;
use crate::models::identity::{ModelIdentity, open_folder};
use crate::models::runtime::Runtime;
use proofmill_pipeline::models::Model;

/// A model in a folder.
#[derive(Debug)]
pub struct LocalModel {
    identity: String,
    model: Model,
    settings: Settings,
    claim: Claim,
    digested: Digested,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// Whether a model is loaded, and what it did when it was before.
#[derive(Debug, Default)]
struct State {
    loading: Arc<Loading>,
    counts: Counts,
    notices: Vec<String>,
}

/// Filled once the model is loaded, or cannot be.
type Loading = OnceCell<Result<Arc<Loaded>, OpenError>>;

/// A model that is loaded.
#[derive(Debug)]
struct Loaded {
    model: model::Model,
    /// The files that it was read from, and that its larger tables are mapped from.
    watch: Watch,
}

impl LocalModel {
    /// The model, not loaded yet. `models` are those that may be loaded onto the same GPUs.
    pub fn new(
        model: &Model,
        identity: &ModelIdentity,
        place: &Placement,
        models: usize,
        runtime: &Runtime,
    ) -> Self {
        Self {
            identity: identity.identity(),
            model: model.clone(),
            settings: settings(model, place, runtime),
            claim: claim(model, place, models),
            digested: identity.digested().cloned().unwrap_or_default(),
            clock: Arc::clone(&runtime.clock),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.state().so_far().0
    }

    /// What readers of a run should know of how it ran.
    pub fn notices(&self) -> Vec<String> {
        self.state().so_far().1
    }

    /// Gives its memory back. Who asks it again loads it again.
    pub fn unload(&self) {
        let mut state = self.state();
        let (counts, notices) = state.so_far();
        let before = std::mem::replace(&mut *state, State { counts, notices, ..State::default() });
        if before.loaded().is_some() {
            info!(path = self.model.path, "model is unloaded");
            // Dropping it waits for its threads.
            tokio::task::spawn_blocking(move || drop(before));
        }
    }

    async fn loaded(&self) -> Result<Arc<Loaded>, AskError> {
        let load = || async {
            let (model, settings, claim) = (self.model.clone(), self.settings, self.claim.clone());
            let digested = self.digested.clone();
            let (path, began) =
                (self.model.path.clone().unwrap_or_default(), self.clock.monotonic());
            info!(path, "model is opened");
            let opened = tokio::task::spawn_blocking(move || {
                let path = model.path.clone().unwrap_or_default();
                let folder = open_folder(&path, &model).map_err(OpenError::new)?;
                // Its identity was determined when the pipeline was checked, which may be hours
                // ago.
                folder.expect(&digested).map_err(OpenError::new)?;
                let watch = folder.watch();
                let opened = match claim.gpus.is_empty() {
                    true => model::Model::open(&folder, &settings),
                    false => model::Model::open_on_gpus(&Arc::new(folder), &settings, &claim),
                };
                let model = opened.map_err(OpenError::new)?;
                watch.examine().map_err(OpenError::new)?;
                Ok(Arc::new(Loaded { model, watch }))
            });
            let opened = opened.await.unwrap_or_else(|error| Err(OpenError::new(error)));
            let ms = self.clock.monotonic().saturating_sub(began).as_millis() as u64;
            match &opened {
                Ok(_) => info!(path, ms, "model is open"),
                Err(error) => info!(path, ms, reason = %error, "model does not open"),
            }
            opened
        };
        let loading = Arc::clone(&self.state().loading);
        loading.get_or_init(load).await.clone().map_err(AskError::Model)
    }
}

impl State {
    fn loaded(&self) -> Option<&Arc<Loaded>> {
        self.loading.get()?.as_ref().ok()
    }

    /// What the model did and said so far.
    fn so_far(&self) -> (Counts, Vec<String>) {
        let mut notices = self.notices.clone();
        let Some(loaded) = self.loaded() else { return (self.counts, notices) };
        notices.extend(loaded.model.notices());
        notices.dedup();
        (self.counts + loaded.model.counts(), notices)
    }
}

/// What `model` claims of the GPUs at `place`, beside as many other models.
pub(super) fn claim(model: &Model, place: &Placement, models: usize) -> Claim {
    Claim {
        gpus: place.gpus.iter().map(|gpu| gpu.number).collect(),
        kv_cache_bytes: model.kv_cache_mib.map(|mib| (mib as usize) << 20),
        models,
    }
}

/// How `model` is run at `place`.
pub(super) fn settings(model: &Model, place: &Placement, runtime: &Runtime) -> Settings {
    let number = |given: Option<u32>, default| given.map_or(default, |given| given as usize);
    let (defaults, workers) = if place.gpus.is_empty() {
        let defaults = Settings::for_cores(runtime.cores);
        (defaults, number(model.workers, defaults.workers))
    } else {
        let defaults = Settings::for_gpus(place.gpus.len());
        (defaults, defaults.workers)
    };
    Settings {
        precision: place.precision,
        gemm: place.gemm,
        workers,
        max_batch_tokens: number(model.max_batch_tokens, defaults.max_batch_tokens),
        encoder_batch_tokens: number(model.max_batch_tokens, defaults.encoder_batch_tokens),
        max_num_seqs: number(model.max_num_seqs, defaults.max_num_seqs),
        kv_cache_bytes: model
            .kv_cache_mib
            .map_or(defaults.kv_cache_bytes, |mib| (mib as usize) << 20),
        context: defaults.context,
    }
}

#[async_trait]
impl LanguageModel for LocalModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: Request, key: Key, waits: &Waits) -> Result<Answer, AskError> {
        let loading = waits.begin(WaitFor::Loading, None);
        let loaded = self.loaded().await?;
        drop(loading);
        let (sender, answer) = oneshot::channel();
        let cancel = Cancel::default();
        let _given_up = GivenUp(cancel.clone());
        // The caller may be gone by then; the worker has been notified.
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        loaded.model.submit(&request, key, reply, cancel);
        Ok(answer.await.unwrap_or(Err(RequestError::Cancelled))?)
    }

    async fn examine(&self) -> Result<(), OpenError> {
        let watch = self.state().loaded().map(|loaded| loaded.watch.clone());
        let Some(watch) = watch else { return Ok(()) };
        // Seldom, it reads whole files again.
        let examined = tokio::task::spawn_blocking(move || watch.examine()).await;
        examined.map_err(OpenError::new)?.map_err(OpenError::new)
    }

    fn concurrency(&self) -> usize {
        // As many wait as are under way, so that no worker runs dry.
        2 * self.settings.max_num_seqs * self.settings.workers
    }
}

/// Notifies the worker when no caller waits for the answer any more.
struct GivenUp(Cancel);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
