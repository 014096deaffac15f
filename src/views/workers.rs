//! Processes that answer requests of runs.

use proofmill_base::error::Result;
use proofmill_store::Store;
use serde::Serialize;

use crate::relay::worker::WorkerProgress;
use crate::relay::workforce::{WorkerLine, workforce};
use crate::report::units::count;
use crate::views::section::{Grid, Section, View};

/// The workers of a store.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct WorkersView(Vec<WorkerLine>);

impl WorkersView {
    /// Of a store: those that have shown a sign of life and did not end in order.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn of(store: &Store) -> Result<Self> {
        Ok(Self(workforce(store).await?))
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
            let WorkerProgress { models, held, answered, refused, per_minute } = &it.progress;
            vec![
                it.worker.clone(),
                it.life().to_owned(),
                models.join(", "),
                count(*held),
                count(*answered),
                count(*refused),
                count(*per_minute),
            ]
        };
        let numbers = ["segments held", "answered", "without answer", "per minute"];
        let header = [&["worker", "life", "models"], &numbers[..]].concat();
        vec![Section::Table(Grid::new(&header, &numbers, self.0.iter().map(row).collect()))]
    }
}
