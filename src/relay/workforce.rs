//! The workers of a store, as their signs of life tell of them.

use proofmill_store::{Claimed, Life, Store, StoreError, last_beat, life, workers_prefix};
use serde::Serialize;

use crate::relay::worker::WorkerProgress;

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerLine {
    /// The name that it made up.
    pub worker: String,
    pub is_alive: bool,
    /// What it said with its last beat.
    #[serde(flatten)]
    pub progress: WorkerProgress,
}

impl WorkerLine {
    /// Its life in a word.
    pub fn life(&self) -> &'static str {
        if self.is_alive { "alive" } else { "gone" }
    }
}

/// The workers of a store that have shown a sign of life and did not end in order, by their names.
///
/// # Errors
///
/// If the store fails.
pub async fn workforce(store: &Store) -> Result<Vec<WorkerLine>, StoreError> {
    let mut lines = Vec::new();
    for worker in store.folders(&workers_prefix()).await? {
        let Ok(claimed) = Claimed::worker(&worker) else { continue };
        let is_alive = life(store, &claimed).await? != Life::Dead;
        let beat = last_beat(store, &claimed).await?;
        let progress = beat.and_then(|beat| serde_json::from_value(beat.progress).ok());
        if is_alive || progress.is_some() {
            let progress = progress.unwrap_or_default();
            lines.push(WorkerLine { worker, is_alive, progress });
        }
    }
    Ok(lines)
}
