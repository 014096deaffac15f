//! Which of the tables in the store count for a run: those that are whole, that were made of the very
//! tables that this run has for their inputs, and whose failures would not pass by themselves.
//!
//! A fingerprint says what a table should be. That it is, only the objects and the inputs behind it say.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};

use crate::run::planned::{Choice, PlannedAction, PlannedStage, RunPlan};
use crate::run::reason::Reason;
use crate::run::stored::{is_result, needs_confirmation};
use crate::stages::plan::Prepared;
use proofmill_base::ids::StageName;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, Store, StoreError, Stored, read_part, verify_file, verify_part};

/// Tables whose objects are hashed at the same time.
const VERIFIED_AT_ONCE_MAX: usize = 16;

/// Turns hits into what they are: stages that are cached, that run, or that depend on how an input
/// comes out.
pub async fn settle(
    plan: &mut RunPlan,
    prepared: &Prepared,
    choice: &Choice,
    store: &Store,
) -> Result<(), StoreError> {
    drop_lost(plan, store).await?;
    drop_transient(plan);
    drop_changed_exports(plan, prepared, store).await;
    let mut whole = HashSet::new();
    loop {
        compare_inputs(plan, prepared);
        if !drop_damaged(plan, prepared, choice, store, &mut whole).await? {
            return Ok(());
        }
    }
}

/// A record whose objects are gone is no hit.
async fn drop_lost(plan: &mut RunPlan, store: &Store) -> Result<(), StoreError> {
    let mut objects = Vec::new();
    let mut owners = Vec::new();
    for (i, stage) in plan.stages.values().enumerate() {
        if let PlannedAction::Cached(artifact) = &stage.action {
            for object in artifact.record.objects() {
                objects.push(object);
                owners.push(i);
            }
        }
    }
    let there = store.exists_all(&objects).await?;
    for (owner, there) in owners.into_iter().zip(there) {
        if !there {
            plan.stages[owner].rerun(Reason::Lost);
        }
    }
    Ok(())
}

/// Rows that failed for a reason that may pass are computed again.
fn drop_transient(plan: &mut RunPlan) {
    for stage in plan.stages.values_mut() {
        if let PlannedAction::Cached(artifact) = &stage.action
            && let rows @ 1.. = artifact.record.transient_errors
        {
            stage.rerun(Reason::Transient(rows));
        }
    }
}

/// An export whose file is not there any more, or another one, is no hit.
async fn drop_changed_exports(plan: &mut RunPlan, prepared: &Prepared, store: &Store) {
    for (name, stage) in &mut plan.stages {
        let PlannedAction::Cached(artifact) = &stage.action else { continue };
        let export = prepared.stages.get(name).and_then(|stage| stage.export.as_ref());
        let Some(export) = export else { continue };
        let rows = match artifact.record.parts.first() {
            Some(part) => read_part(store, part).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let is_current = export.is_current(&rows, &artifact.record.files);
        if !is_current {
            stage.rerun(Reason::ExportChanged);
        }
    }
}

/// A table that was made of other tables than this run has is no hit; one of whose inputs runs again
/// may be one. Inputs stand before what reads them.
fn compare_inputs(plan: &mut RunPlan, prepared: &Prepared) {
    for (i, (name, stage)) in prepared.stages.iter().enumerate() {
        let Some(artifact) = plan.stages[i].action.stored().cloned() else { continue };
        debug_assert_eq!(plan.stages.get_index(i).map(|(planned, _)| planned), Some(name));
        let mut others = Vec::new();
        let mut pending = Vec::new();
        let mut unknown = false;
        for input in &stage.stage.inputs {
            let Some(label) = input.role.label() else { continue };
            let Some(made_of) = &artifact.record.inputs else {
                unknown = true;
                continue;
            };
            match &plan.stages[&input.stage].action {
                PlannedAction::Cached(now) if made_of.get(&label) == Some(&now.record.digest()) => {
                }
                PlannedAction::Cached(_) => others.push(input.stage.clone()),
                PlannedAction::Run | PlannedAction::Revalidate(_) => {
                    pending.push(input.stage.clone())
                }
                PlannedAction::Skip => {}
            }
        }
        let planned = &mut plan.stages[i];
        if unknown {
            planned.rerun(Reason::InputsUnknown);
        } else if !others.is_empty() {
            planned.rerun(Reason::InputsReplaced(others));
        } else if !pending.is_empty() {
            planned.action = PlannedAction::Revalidate(artifact);
            planned.reason = Reason::InputsRun(pending);
        }
    }
}

/// A table that this run reads and that is not what its record says is computed again. True if there
/// was one. `whole` are the stages that were found to be all right.
async fn drop_damaged(
    plan: &mut RunPlan,
    prepared: &Prepared,
    choice: &Choice,
    store: &Store,
    whole: &mut HashSet<StageName>,
) -> Result<bool, StoreError> {
    let read: Vec<StageName> = match choice.verify {
        true => plan.stages.keys().cloned().collect(),
        false => read_by(plan, prepared),
    };
    let unchecked = read.into_iter().filter(|name| !whole.contains(name)).filter_map(|name| {
        let artifact = plan.stages.get(&name)?.action.stored()?.clone();
        Some((name, artifact))
    });
    let checks = unchecked.map(|(name, artifact)| async move {
        match verify(store, &artifact.record, choice.verify).await {
            Ok(()) => Ok((name, None)),
            Err(error) if error.is_damage() => Ok((name, Some(error.to_string()))),
            Err(error) => Err(error),
        }
    });
    let checks: Vec<_> = checks.collect();
    let found: HashMap<StageName, Option<String>> =
        stream::iter(checks).buffer_unordered(VERIFIED_AT_ONCE_MAX).try_collect().await?;
    let mut damaged = false;
    for (name, error) in found {
        match (error, plan.stages.get_mut(&name)) {
            (Some(error), Some(stage)) => {
                stage.rerun(Reason::Damaged(error));
                damaged = true;
            }
            _ => {
                whole.insert(name);
            }
        }
    }
    Ok(damaged)
}

/// The stages whose rows this run reads: inputs of what runs or may run, and what is shown at its end.
fn read_by(plan: &RunPlan, prepared: &Prepared) -> Vec<StageName> {
    let runs = |stage: &PlannedStage| {
        matches!(stage.action, PlannedAction::Run | PlannedAction::Revalidate(_))
    };
    let mut read = HashSet::new();
    for (name, stage) in &prepared.stages {
        let planned = &plan.stages[name];
        let checked = |stored: &Stored<Artifact>| needs_confirmation(stage, &stored.record);
        let is_checked = planned.action.stored().is_some_and(checked);
        if runs(planned) || is_checked {
            read.extend(stage.stage.inputs.iter().map(|input| input.stage.clone()));
        }
        let is_page = stage.stage.spec.kind.role() == KindRole::Page;
        if is_checked || is_page || is_result(prepared, name) {
            read.insert(name.clone());
        }
    }
    read.into_iter().collect()
}

/// Files of an index are hashed when they are opened from the folder where they are kept; those in a
/// bucket are fetched for nothing else than to be checked only if `all` are.
async fn verify(store: &Store, artifact: &Artifact, all: bool) -> Result<(), StoreError> {
    let errors = artifact.errors.iter().filter(|_| all);
    for part in artifact.parts.iter().chain(errors) {
        verify_part(store, part).await?;
    }
    for file in artifact.files.iter().filter(|_| all || store.is_local()) {
        verify_file(store, file).await?;
    }
    Ok(())
}
