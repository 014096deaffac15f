//! How far a run is, as its process says with each beat.

use proofmill_base::ids::{RunId, StageName};
use proofmill_store::{Claimed, Store, StoreError, last_beat};
use serde::{Deserialize, Serialize};

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    /// Stages that take part.
    pub stages: usize,
    /// Those of them that ended, well or not.
    pub ended: usize,
    /// Those that compute now.
    pub running: Vec<StageProgress>,
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageProgress {
    pub stage: StageName,
    pub rows: u64,
    /// Rows that are expected; `None` if unknown.
    pub rows_total: Option<u64>,
    /// Requests to models that were answered.
    pub requests: u64,
}

impl RunProgress {
    /// What the process of a live run said last; `None` if it has not said anything yet.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn of(store: &Store, run: &RunId) -> Result<Option<Self>, StoreError> {
        let beat = last_beat(store, &Claimed::run(run)).await?;
        Ok(beat.and_then(|beat| serde_json::from_value(beat.progress).ok()))
    }

    /// In a few words, for people.
    pub fn words(&self) -> String {
        format!("{} of {} stages", self.ended, self.stages)
    }
}
