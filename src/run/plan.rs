//! What a run will do: every stage's fingerprint, whether the store has its table, and why not.

use std::collections::HashMap;

use proofmill_base::ids::{Fingerprint, PipelineName, StageName};
use proofmill_catalog::audit::history::latest_manifest;
use proofmill_store::{Lookup, Manifest, Store, StoreError, find_many};

use crate::run::freshness;
use crate::run::planned::{Choice, PlannedAction, PlannedStage, RunPlan};
use crate::run::reason::Reason;
use crate::stages::plan::Prepared;

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
                if matches!(stage.action, PlannedAction::Run)
                    && stage.reason != Reason::Requested =>
            {
                stage.action = PlannedAction::Cached(artifact);
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

/// The stages that would run for a reason of their own: new or with other settings, sources, models or versions; with
/// a table that is lost, damaged or has rows to be requested again. Not those that only have inputs
/// that run.
pub async fn changed(prepared: &Prepared, store: &Store) -> Result<Vec<StageName>, StoreError> {
    let plan = plan(prepared, &Choice::default(), "plan", store).await?;
    let is_own = |stage: &PlannedStage| match &stage.reason {
        Reason::Changed(changes) => {
            changes.iter().any(|change| !change.component.starts_with("input."))
        }
        Reason::Never
        | Reason::Volatile(_)
        | Reason::Unrepeatable(_)
        | Reason::Requested
        | Reason::Lost
        | Reason::Damaged(_)
        | Reason::Transient(_)
        | Reason::ExportChanged => true,
        Reason::Stored
        | Reason::InputsReplaced(_)
        | Reason::InputsRun(_)
        | Reason::InputsUnknown => false,
    };
    let own = plan.stages.iter().filter(|(_, stage)| is_own(stage));
    Ok(own.map(|(name, _)| name.clone()).collect())
}

/// All fingerprints, each from those of its inputs.
fn fingerprints(prepared: &Prepared, choice: &Choice, nonce: &str) -> RunPlan {
    let mut plan = RunPlan::default();
    for (name, stage) in &prepared.stages {
        let mut components = stage.components.clone();
        for input in &stage.stage.inputs {
            if let (Some(label), Some(input)) = (input.role.label(), plan.stages.get(&input.stage))
            {
                components.set(label, input.fingerprint);
            }
        }
        let selected = choice.selected.as_ref().is_none_or(|selected| selected.contains(name));
        let reason = if !stage.volatile.is_empty() {
            components.set("run", nonce);
            Reason::Volatile(stage.volatile.clone())
        } else if let Some(why) = stage.unrepeatable {
            components.set("run", nonce);
            Reason::Unrepeatable(why)
        } else if choice.again.contains(name) {
            Reason::Requested
        } else {
            Reason::Never
        };
        let stage = PlannedStage {
            fingerprint: components.fingerprint(),
            components,
            action: if selected { PlannedAction::Run } else { PlannedAction::Skip },
            reason,
            last: None,
            replace: None,
        };
        plan.stages.insert(name.clone(), stage);
    }
    plan
}

/// Finds out why stages run that ran before: what counted then, and what counts now.
async fn explain(plan: &mut RunPlan, prepared: &Prepared, store: &Store) -> Result<(), StoreError> {
    let unexplained = |stage: &PlannedStage| {
        matches!(stage.action, PlannedAction::Run) && stage.reason == Reason::Never
    };
    if !plan.stages.values().any(unexplained) {
        return Ok(());
    }
    let Ok(pipeline) = prepared.graph.pipeline.name.parse::<PipelineName>() else { return Ok(()) };
    let latest = latest_manifest(store, &pipeline).await?;
    plan.remarks.extend(latest.unreadable.iter().map(|error| {
        format!("{error}; changes since that run are unknown, and nothing else depends on it")
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
