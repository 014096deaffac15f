//! Processes that answer requests of runs.

use proofmill_base::error::Result;
use proofmill_store::{Claimed, Life, Store, last_beat, life, workers_prefix};
use serde::Serialize;

use crate::relay::worker::WorkerProgress;
use crate::report::units::count;
use crate::views::section::{Grid, Section, View};

/// The workers of a store.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct WorkersView(Vec<WorkerLine>);

/// A worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerLine {
    worker: String,
    is_alive: bool,
    /// What it said with its last beat.
    #[serde(flatten)]
    progress: WorkerProgress,
}

impl WorkersView {
    /// Of a store: those that have shown a sign of life and did not end in order.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn of(store: &Store) -> Result<Self> {
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
        Ok(Self(lines))
    }
}

impl View for WorkersView {
    fn sections(&self) -> Vec<Section> {
        if self.0.is_empty() {
            return vec![Section::Text(
                "no worker: `proofmill work --model NAME=FOLDER`\n".to_owned(),
            )];
        }
        let row = |it: &WorkerLine| {
            let WorkerProgress { models, held, answered, refused } = &it.progress;
            vec![
                it.worker.clone(),
                if it.is_alive { "alive" } else { "gone" }.to_owned(),
                models.join(", "),
                count(*held),
                count(*answered),
                count(*refused),
            ]
        };
        let header = ["worker", "life", "models", "segments held", "answered", "without answer"];
        let numbers = ["segments held", "answered", "without answer"];
        vec![Section::Table(Grid::new(&header, &numbers, self.0.iter().map(row).collect()))]
    }
}
