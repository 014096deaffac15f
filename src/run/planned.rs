//! What a run will do with its stages.

use std::collections::HashSet;

use indexmap::IndexMap;
use proofmill_base::ids::{Fingerprint, StageName};
use proofmill_store::{Artifact, Stored};

use crate::graph::Role;
use crate::run::reason::Reason;
use crate::stages::components::Components;

/// What becomes of a stage.
#[derive(Clone, Debug)]
pub enum Action {
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
pub struct StagePlan {
    pub fingerprint: Fingerprint,
    pub components: Components,
    pub action: Action,
    pub reason: Reason,
    /// What it gave when it last ran in this pipeline.
    pub last: Option<Stored<Artifact>>,
    /// The record in the store that this run replaces: its objects are lost, or it was asked to.
    pub replace: Option<Stored<Artifact>>,
}

impl Action {
    /// The table in the store, which counts for sure or if inputs come out as they were.
    pub fn stored(&self) -> Option<&Stored<Artifact>> {
        match self {
            Self::Cached(artifact) | Self::Revalidate(artifact) => Some(artifact),
            Self::Run | Self::Skip => None,
        }
    }
}

impl StagePlan {
    /// Runs a stage whose record in the store does not count any more.
    pub(super) fn rerun(&mut self, reason: Reason) {
        if let Some(old) = self.action.stored().cloned() {
            self.action = Action::Run;
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
    pub stages: IndexMap<StageName, StagePlan>,
    /// What people should know of the store.
    pub remarks: Vec<String>,
}

impl RunPlan {
    /// Number of stages with this kind of action.
    pub fn count(&self, matching: impl Fn(&Action) -> bool) -> usize {
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

/// The name of an input among the components; `None` for what only a check looks at.
pub(super) fn label(role: &Role) -> Option<String> {
    match role {
        Role::Table(written) => Some(format!("input.{written}")),
        Role::From => Some("input.from".to_owned()),
        Role::Memory => Some("input.memory".to_owned()),
        Role::Dev => Some("input.dev".to_owned()),
        Role::Context => Some("input.context".to_owned()),
        Role::Proofs => Some("input.proofs".to_owned()),
        Role::Blocked => Some("input.blocked".to_owned()),
        Role::Confirmed => Some("input.confirmed".to_owned()),
        Role::Baseline => Some("input.baseline".to_owned()),
        Role::Candidate => Some("input.candidate".to_owned()),
        Role::Ranking(i) => Some(format!("input.from[{i}]")),
        Role::Instance(i) => Some(format!("input.instance[{i}]")),
        Role::Block(i) => Some(format!("input.block[{i}]")),
        Role::Check(_) => None,
    }
}
