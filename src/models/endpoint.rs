//! A model behind an endpoint. Its key is read when the first request is sent: what was answered
//! before needs none.

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use proofmill_base::waits::Waits;
use proofmill_engine::request::{Answer, Request};
use proofmill_remote::{ModelError, Money, RemoteError, RemoteModel, Reported, Settings, Usage};
use proofmill_udfs::model::{AskError, Key, LanguageModel, OpenError};

use crate::models::runtime::Runtime;
use proofmill_pipeline::models::Model;

/// A model behind an endpoint.
#[derive(Debug)]
pub struct RemoteEndpoint {
    identity: String,
    settings: Settings,
    runtime: Runtime,
    opened: OnceLock<Result<RemoteModel, OpenError>>,
}

impl RemoteEndpoint {
    /// The model; nothing is read and nothing connected to.
    pub fn new(model: &Model, identity: String, runtime: &Runtime) -> Self {
        let (settings, runtime) = (settings(model), runtime.clone());
        Self { identity, settings, runtime, opened: OnceLock::new() }
    }

    /// Usage so far, and what that cost where there are prices; `None` if there was none.
    pub fn spent(&self) -> Option<(Usage, Option<Money>)> {
        let model = self.opened.get()?.as_ref().ok()?;
        Some((model.usage(), model.cost())).filter(|(usage, _)| usage.requests > 0)
    }

    /// What it called itself in its answers, with how many of them.
    pub fn reported(&self) -> Vec<(Reported, u64)> {
        let model = self.opened.get().and_then(|opened| opened.as_ref().ok());
        model.map(RemoteModel::reported).unwrap_or_default()
    }

    fn opened(&self) -> Result<&RemoteModel, AskError> {
        let opened = self.opened.get_or_init(|| {
            let (clock, rng) = (Arc::clone(&self.runtime.clock), Arc::clone(&self.runtime.rng));
            let settings = self.settings.clone();
            RemoteModel::open(settings, self.runtime.environment, clock, rng)
                .map(|model| model.within(Arc::clone(&self.runtime.allowance)))
                .map_err(OpenError::new)
        });
        opened.as_ref().map_err(|error| AskError::Model(error.clone()))
    }
}

fn settings(model: &Model) -> Settings {
    let url = model.url.clone().unwrap_or_default();
    let mut settings = Settings::new(url, model.model.clone().unwrap_or_default());
    settings.api = model.api.unwrap_or_default();
    settings.system.clone_from(&model.system);
    settings.capabilities = model.capabilities.unwrap_or_default();
    settings.api_key_env.clone_from(&model.api_key_env);
    settings.concurrency =
        model.concurrency.and_then(NonZeroU32::new).unwrap_or(settings.concurrency);
    settings.requests_per_minute = model.requests_per_minute.and_then(NonZeroU32::new);
    settings.tokens_per_minute = model.tokens_per_minute.and_then(NonZeroU32::new);
    settings.budget = model.budget.unwrap_or_default();
    settings.prices = model.prices;
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

    async fn ask(&self, request: Request, _: Key, waits: &Waits) -> Result<Answer, AskError> {
        let answer = self.opened()?.ask_watched(&request, waits).await;
        answer.map_err(|error| match error {
            RemoteError::Row { error, transient: true, .. } => AskError::Passing(error),
            RemoteError::Row { error, transient: false, .. } => AskError::Row(error),
            RemoteError::Model { error: ModelError::Budget(_), .. } => {
                AskError::Spent(OpenError::new(error))
            }
            RemoteError::Model { .. } => AskError::Model(OpenError::new(error)),
        })
    }

    fn concurrency(&self) -> usize {
        self.settings.concurrency.get() as usize
    }
}
