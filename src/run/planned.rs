//! What a run will do with its stages.

use std::collections::HashSet;

use indexmap::IndexMap;
use proofmill_base::ids::{Fingerprint, StageName};
use proofmill_store::{Artifact, Stored};

use crate::run::reason::Reason;
use crate::stages::fingerprint::Components;

/// What becomes of a stage.
#[derive(Clone, Debug)]
pub enum PlannedAction {
    Cached(Stored<Artifact>),
    /// An input runs again. If it comes out as it was, the table in the store is the stage's;
    /// otherwise the stage runs.
    Revalidate(Stored<Artifact>),
    Run,
    /// It does not take part.
    Skip,
}

/// What becomes of a stage, and why.
#[derive(Clone, Debug)]
pub struct PlannedStage {
    pub fingerprint: Fingerprint,
    pub components: Components,
    pub action: PlannedAction,
    pub reason: Reason,
    /// What it gave when it last ran in this pipeline.
    pub last: Option<Stored<Artifact>>,
    /// The record in the store that this run replaces: its objects are lost, or a rerun was
    /// requested.
    pub replace: Option<Stored<Artifact>>,
}

impl PlannedAction {
    /// The table in the store, which counts for sure or if inputs come out as they were.
    pub fn stored(&self) -> Option<&Stored<Artifact>> {
        match self {
            Self::Cached(artifact) | Self::Revalidate(artifact) => Some(artifact),
            Self::Run | Self::Skip => None,
        }
    }
}

impl PlannedStage {
    /// Runs a stage whose record in the store does not count any more.
    pub(super) fn rerun(&mut self, reason: Reason) {
        if let Some(old) = self.action.stored().cloned() {
            self.action = PlannedAction::Run;
            self.last = Some(old.clone());
            self.replace = Some(old);
            self.reason = reason;
        }
    }
}

/// What becomes of all stages.
#[derive(Clone, Debug, Default)]
pub struct RunPlan {
    /// By name, in an order in which they can run.
    pub stages: IndexMap<StageName, PlannedStage>,
    /// What people should know of the store.
    pub remarks: Vec<String>,
}

impl RunPlan {
    /// Number of stages with this kind of action.
    pub fn count(&self, matching: impl Fn(&PlannedAction) -> bool) -> usize {
        self.stages.values().filter(|stage| matching(&stage.action)).count()
    }
}

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Stages that take part; all when `None`.
    pub selected: Option<HashSet<StageName>>,
    /// Stages that run even if their table is stored.
    pub again: HashSet<StageName>,
    /// Whether every object of every stored table is checked, not only what this run reads.
    pub verify: bool,
}
