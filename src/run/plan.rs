//! What a run will do: every stage's fingerprint, whether the store has its table, and why not.

use std::collections::{HashMap, HashSet};

use indexmap::IndexMap;

use crate::graph::Role;
use proofmill_base::ids::{Fingerprint, PipelineName, StageName};
use crate::run::freshness;
use crate::run::reason::Reason;
use crate::stages::components::Components;
use crate::stages::prepared::Prepared;
use proofmill_store::{
    Artifact, Lookup, Manifest, Store, StoreError, Stored, find_many, latest_manifest,
};

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

/// Plans a run of `prepared`. `nonce` stands for what differs between runs.
pub async fn plan(
    prepared: &Prepared,
    choice: &Choice,
    nonce: &str,
    store: &Store,
) -> Result<RunPlan, StoreError> {
    let mut plan = fingerprints(prepared, choice, nonce);
    let wanted: Vec<Fingerprint> = plan.stages.values().map(|stage| stage.fingerprint).collect();
    let found = find_many(store, &wanted).await?;
    for (stage, lookup) in plan.stages.values_mut().zip(found) {
        match lookup {
            Lookup::Found(artifact)
                if matches!(stage.action, Action::Run) && stage.reason != Reason::Asked =>
            {
                stage.action = Action::Cached(artifact);
                stage.reason = Reason::Stored;
            }
            Lookup::Found(artifact) => {
                stage.last = Some(artifact.clone());
                stage.replace = Some(artifact);
            }
            Lookup::Damaged(_) if stage.reason == Reason::Never => stage.reason = Reason::Lost,
            Lookup::Absent | Lookup::Damaged(_) => {}
        }
    }
    freshness::settle(&mut plan, prepared, choice, store).await?;
    explain(&mut plan, prepared, store).await?;
    Ok(plan)
}

/// All fingerprints, each from those of its inputs.
fn fingerprints(prepared: &Prepared, choice: &Choice, nonce: &str) -> RunPlan {
    let mut plan = RunPlan::default();
    for (name, stage) in &prepared.stages {
        let mut components = stage.components.clone();
        for input in &stage.stage.inputs {
            if let (Some(label), Some(input)) = (label(&input.role), plan.stages.get(&input.stage))
            {
                components.set(label, input.fingerprint);
            }
        }
        let selected = choice.selected.as_ref().is_none_or(|selected| selected.contains(name));
        let reason = if !stage.volatile.is_empty() {
            components.set("run", nonce);
            Reason::Volatile(stage.volatile.clone())
        } else if choice.again.contains(name) {
            Reason::Asked
        } else {
            Reason::Never
        };
        let stage = StagePlan {
            fingerprint: components.fingerprint(),
            components,
            action: if selected { Action::Run } else { Action::Skip },
            reason,
            last: None,
            replace: None,
        };
        plan.stages.insert(name.clone(), stage);
    }
    plan
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

/// Finds out why stages run that ran before: what counted then, and what counts now.
async fn explain(plan: &mut RunPlan, prepared: &Prepared, store: &Store) -> Result<(), StoreError> {
    let unexplained =
        |stage: &StagePlan| matches!(stage.action, Action::Run) && stage.reason == Reason::Never;
    if !plan.stages.values().any(unexplained) {
        return Ok(());
    }
    let Ok(pipeline) = prepared.graph.pipeline.name.parse::<PipelineName>() else { return Ok(()) };
    let latest = latest_manifest(store, &pipeline).await?;
    plan.remarks.extend(latest.unreadable.iter().map(|error| {
        format!("{error}; what changed since that run cannot be told, and nothing else needs it")
    }));
    let Some(last) = latest.manifest else { return Ok(()) };
    let before = fingerprints_of(&last.record);
    let (names, wanted): (Vec<StageName>, Vec<Fingerprint>) = plan
        .stages
        .iter()
        .filter(|(_, stage)| unexplained(stage))
        .filter_map(|(name, _)| Some((name.clone(), *before.get(name)?)))
        .unzip();
    let found = find_many(store, &wanted).await?;
    for (name, lookup) in names.iter().zip(found) {
        if let (Some(stage), Some(artifact)) = (plan.stages.get_mut(name), lookup.found()) {
            stage.reason = Reason::compare(&artifact.record.components, stage.components.map());
            stage.last = Some(artifact);
        }
    }
    Ok(())
}

fn fingerprints_of(manifest: &Manifest) -> HashMap<StageName, Fingerprint> {
    let stages = manifest.stages.iter();
    stages.filter_map(|stage| Some((stage.stage.clone(), stage.fingerprint?))).collect()
}
