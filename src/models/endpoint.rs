//! A model behind an endpoint.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use proofmill_engine::request::{Answer, Request, RequestError};
use proofmill_remote::{RemoteError, RemoteModel, Settings};
use proofmill_udfs::model::{Key, LanguageModel, OpenError};

use crate::models::clock::Injected;
use crate::models::host::Host;
use crate::spec::models::{Api, Model};

/// A model behind an endpoint.
#[derive(Debug)]
pub struct RemoteEndpoint {
    identity: String,
    model: RemoteModel,
}

impl RemoteEndpoint {
    /// The model; its key is read, nothing is connected to.
    pub fn open(model: &Model, identity: String, host: &Host) -> Result<Self, OpenError> {
        let injected = Injected { clock: Arc::clone(&host.clock), rng: Arc::clone(&host.rng) };
        let remote = RemoteModel::open(settings(model), host.environment, Arc::new(injected));
        Ok(Self { identity, model: remote.map_err(OpenError::new)? })
    }
}

fn settings(model: &Model) -> Settings {
    let url = model.url.clone().unwrap_or_default();
    let mut settings = Settings::new(url, model.model.clone().unwrap_or_default());
    settings.api = match model.api.unwrap_or_default() {
        Api::Completions => proofmill_remote::Api::Completions,
        Api::Chat => proofmill_remote::Api::Chat { system: model.system.clone() },
    };
    let offers = model.offers.clone().unwrap_or_default();
    settings.offers.logprobs = offers.logprobs;
    settings.offers.scores = offers.scores;
    settings.offers.top_k = offers.top_k;
    settings.offers.samples = offers.samples;
    settings.key_env.clone_from(&model.key_env);
    settings.concurrency =
        model.concurrency.and_then(NonZeroU32::new).unwrap_or(settings.concurrency);
    settings.requests_per_minute = model.requests_per_minute.and_then(NonZeroU32::new);
    settings.tokens_per_minute = model.tokens_per_minute.and_then(NonZeroU32::new);
    if let Some(seconds) = model.timeout_seconds {
        settings.timeout = Duration::from_secs(seconds.into());
    }
    settings.retry.retries_max = model.retries.unwrap_or(settings.retry.retries_max);
    settings
}

#[async_trait]
impl LanguageModel for RemoteEndpoint {
    fn identity(&self) -> &str {
        &self.identity
    }

    async fn ask(&self, request: Request, _: Key) -> Result<Answer, RequestError> {
        self.model.ask(&request).await.map_err(|error| match error {
            RemoteError::Row { error, .. } => error,
            RemoteError::Model { .. } => RequestError::Failed(error.to_string()),
        })
    }

    fn concurrency(&self) -> usize {
        self.model.settings().concurrency.get() as usize
    }
}
