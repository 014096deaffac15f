//! What a model must be able to do to stand behind the SQL functions.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use proofmill_base::waits::Waits;
use proofmill_engine::request::{Answer, Request, RequestError};

use super::canonical::Key;

/// A model that answers requests: on this machine or behind an endpoint.
#[async_trait]
pub trait LanguageModel: Send + Sync + Debug {
    /// Everything that can change an answer, in one canonical text: digests of weights, tokenizer
    /// and configuration, engine version, number type and device class; or endpoint and model name.
    /// Part of every request's key.
    fn identity(&self) -> &str;

    /// Answers one request. The noise of samples depends on `key` and nothing else that varies.
    /// Called for many rows at the same time; the implementation forms batches. Dropping the future
    /// gives the request up. While it waits for something else than its answer, it says so in `waits`.
    async fn ask(&self, request: Request, key: Key, waits: &Waits) -> Result<Answer, AskError>;

    /// Fails if what it answered of late may not be kept under its identity: called before answers
    /// are recorded or given out.
    async fn examine(&self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Most requests worth having in flight at the same time, over all queries; at least 1.
    fn concurrency(&self) -> usize;
}

/// Makes a model ready when the first row needs it.
///
/// Opening tells who the model is. Weights may be loaded as late as the first
/// [`LanguageModel::ask`]: a query whose answers are all recorded never gets there.
#[async_trait]
pub trait Opener: Send + Sync + Debug {
    /// Opens the model. Called at most once unless the query that waits for it is dropped; an error
    /// is final.
    async fn open(&self) -> Result<Arc<dyn LanguageModel>, OpenError>;
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AskError {
    /// This request has none; others may.
    #[error(transparent)]
    Row(#[from] RequestError),
    /// This request has none now, and may have one another time: an endpoint was busy, slow or broken.
    #[error(transparent)]
    Passing(RequestError),
    /// No request has one: the model does not load, its key is missing, no server answers there.
    #[error(transparent)]
    Model(OpenError),
    /// No further request has one: what may be spent on the model is spent. Those under way may have.
    #[error(transparent)]
    Spent(OpenError),
}

/// Why a model cannot be used, with what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(Arc<dyn std::error::Error + Send + Sync>);

impl OpenError {
    /// The error with its cause, which is shown as it is.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(cause.into()))
    }
}
