//! A model in a folder: identified when a query first needs it, loaded when the first row does.

use std::sync::Arc;

use async_trait::async_trait;
use proofmill_engine::backend::Precision;
use proofmill_engine::model::{self, Settings};
use proofmill_engine::request::{Answer, Request, RequestError};
use proofmill_engine::schedule::Cancel;
use proofmill_udfs::model::{AskError, Key, LanguageModel, OpenError};
use tokio::sync::{OnceCell, oneshot};

use crate::models::card::open_folder;
use crate::models::host::Host;
use crate::spec::models::{Dtype, Model};

/// A model in a folder.
#[derive(Debug)]
pub struct LocalModel {
    identity: String,
    model: Model,
    settings: Settings,
    loaded: OnceCell<Result<Arc<model::Model>, OpenError>>,
}

impl LocalModel {
    /// The model, not loaded yet.
    pub fn new(model: &Model, identity: String, host: &Host) -> Self {
        let defaults = Settings::for_cores(host.cores);
        let number = |given: Option<u32>, default| given.map_or(default, |given| given as usize);
        let settings = Settings {
            precision: match model.dtype.unwrap_or_default() {
                Dtype::F32 => Precision::F32,
                Dtype::Int8 => Precision::Int8,
            },
            workers: number(model.workers, defaults.workers),
            step_tokens: number(model.step_tokens, defaults.step_tokens),
            sequences: number(model.sequences, defaults.sequences),
            cache_bytes: model.cache_mib.map_or(defaults.cache_bytes, |mib| (mib as usize) << 20),
            context: defaults.context,
        };
        Self { identity, model: model.clone(), settings, loaded: OnceCell::new() }
    }

    async fn loaded(&self) -> Result<Arc<model::Model>, AskError> {
        let load = || async {
            let (model, settings) = (self.model.clone(), self.settings);
            let opened = tokio::task::spawn_blocking(move || {
                let path = model.path.clone().unwrap_or_default();
                let folder = open_folder(&path, &model).map_err(OpenError::new)?;
                model::Model::open(&folder, &settings).map(Arc::new).map_err(OpenError::new)
            });
            opened.await.unwrap_or_else(|error| Err(OpenError::new(error)))
        };
        self.loaded.get_or_init(load).await.clone().map_err(AskError::Model)
    }
}

#[async_trait]
impl LanguageModel for LocalModel {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: Request, key: Key) -> Result<Answer, AskError> {
        let model = self.loaded().await?;
        let (sender, answer) = oneshot::channel();
        let cancel = Cancel::default();
        let _given_up = GivenUp(cancel.clone());
        // Whoever waited may be gone by then; the worker has been told.
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        model.submit(&request, key, reply, cancel);
        Ok(answer.await.unwrap_or(Err(RequestError::Cancelled))?)
    }

    fn concurrency(&self) -> usize {
        // As many wait as are under way, so that no worker runs dry.
        2 * self.settings.sequences * self.settings.workers
    }
}

/// Tells the worker when nobody waits for the answer any more.
struct GivenUp(Cancel);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
