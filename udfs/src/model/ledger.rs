//! Where answers are kept: the first one to a request counts, for ever.

use std::fmt::Debug;

use async_trait::async_trait;

use super::canonical::Key;

/// Recorded answers by the key of their request.
#[async_trait]
pub trait Ledger: Send + Sync + Debug {
    /// The recorded answer of each key, as JSON, in the order of the keys; `None` where there is none.
    async fn look_up(&self, keys: &[Key]) -> Result<Vec<Option<String>>, LedgerError>;

    /// Records answers durably. Where a key has an answer already, that one stays. Returns the answer
    /// that counts for each key, in their order.
    async fn record(&self, new: Vec<New>) -> Result<Vec<String>, LedgerError>;
}

/// An answer to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// SHA-256 over model and request.
    pub key: Key,
    pub model: String,
    /// Kind of the request: `generate`, `score`, `embed` or `hidden`.
    pub kind: &'static str,
    pub request: String,
    pub answer: String,
}

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LedgerError(Box<dyn std::error::Error + Send + Sync>);

impl LedgerError {
    /// The error with its cause, which is shown as it is.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}
