//! Why a model cannot be opened.

use crate::backend::DeviceError;
use crate::checkpoint::LoadError;

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its folder is not as it should be.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The device runs out of memory for the weights.
    #[error(
        "the weights do not fit: {0}; keep them in fewer bits with `dtype`, take a smaller model, or \
         another `device`"
    )]
    Weights(DeviceError),
    /// The device runs out of memory for the smallest passes beside the weights.
    #[error(
        "the model does not fit, even with {tokens} tokens of cache and passes of {max_batch_tokens} \
         tokens: {error}; keep its weights in fewer bits with `dtype`, take a smaller model, or \
         another `device`"
    )]
    NoRoom {
        /// Tokens of the smallest pass.
        max_batch_tokens: usize,
        /// Tokens of the smallest cache.
        tokens: usize,
        error: DeviceError,
    },
    #[error("{0}")]
    Gpu(String),
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The cache holds not even one text.
    #[error(
        "{bytes} bytes of cache hold {tokens} tokens per worker; raise `kv_cache_mib` so that {needed} fit"
    )]
    SmallCache { bytes: usize, tokens: usize, needed: usize },
    /// The operating system gave no thread.
    #[error("no thread for a worker: {0}")]
    Thread(#[from] std::io::Error),
    /// There is no worker, or one panicked.
    #[error("a worker of the model stopped before it was ready")]
    Stopped,
}
