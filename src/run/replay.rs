//! A run that is computed again, stage by stage from its stored inputs, to compare what comes out with what it gave.
//!
//! It runs over an overlay of its store, so that nothing of it stays. Each stage is given the stored tables of the run, not those
//! that were just computed: a stage that differs is one finding, and does not become one of all stages downstream.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use futures::TryStreamExt;
use serde::Serialize;

use crate::run::planned::{PlannedAction, RunPlan};
use crate::run::reason::Reason;
use crate::stages::kind::Repeats;
use crate::stages::plan::Prepared;
use proofmill_base::digest::Digest;
use proofmill_base::ids::{Fingerprint, RunId, StageName};
use proofmill_store::{Artifact, RowLeaves, Store, StoreError, Stored, stream_part};

/// What is computed again, and what came out so far.
#[derive(Debug)]
pub struct Replay {
    /// The run.
    pub of: RunId,
    /// The tables that it gave.
    pub tables: BTreeMap<StageName, Stored<Artifact>>,
    /// The stages that are computed again; all that can be, if there is none.
    pub chosen: Option<HashSet<StageName>>,
    replayed: Mutex<BTreeMap<StageName, Replayed>>,
}

/// What became of a stage that was computed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "detail")]
pub enum Replayed {
    /// The same rows in the same order, or the same files.
    SameRows,
    /// The same rows in another order, where the kind promises no more.
    SameSet,
    /// The same, but from answers that models gave then and that were not computed again.
    FromRecord,
    /// Something else came out.
    Differs(String),
    /// It cannot be computed again, or its kind does not say what would come out.
    NotCovered(String),
}

impl Replay {
    /// Of the run `of` with these tables: of all stages, or of those `chosen`.
    pub fn new(
        of: RunId,
        tables: BTreeMap<StageName, Stored<Artifact>>,
        chosen: Option<HashSet<StageName>>,
    ) -> Self {
        Self { of, tables, chosen, replayed: Mutex::default() }
    }

    /// Has each stage of `plan` computed again whose table can be compared; the others give the tables that they gave.
    pub fn arrange(&self, plan: &mut RunPlan, prepared: &Prepared) {
        let models = &prepared.graph.pipeline.models;
        let is_remote =
            |name: &String| models.get(name).is_some_and(|(model, _)| model.url.is_some());
        for (name, planned) in &mut plan.stages {
            let stage = &prepared.stages[name];
            let Some(original) = self.tables.get(name) else {
                planned.action = PlannedAction::Skip;
                continue;
            };
            let then = &original.record;
            let why = if then.fingerprint != planned.fingerprint {
                let changed = Reason::compare(&then.components, planned.components.map());
                Some(format!("this program would compute something else: {changed}"))
            } else if stage.export.is_some() {
                Some("it writes files outside the store".to_owned())
            } else if stage.models.iter().any(is_remote) {
                Some("an endpoint answered: its answers are recorded, not computed".to_owned())
            } else if !stage.volatile.is_empty() {
                Some(format!("it calls {}", stage.volatile.join(", ")))
            } else if let Some(why) = stage.unrepeatable {
                Some(why.to_owned())
            } else if !self.chosen.as_ref().is_none_or(|chosen| chosen.contains(name)) {
                planned.action = PlannedAction::Cached(original.clone());
                continue;
            } else {
                None
            };
            planned.replace = None;
            planned.action = match why {
                None => PlannedAction::Run,
                Some(why) => {
                    self.set(name, Replayed::NotCovered(why));
                    PlannedAction::Cached(original.clone())
                }
            };
        }
    }

    /// The table that a stage gave, if it had this fingerprint then.
    pub fn original(
        &self,
        stage: &StageName,
        fingerprint: &Fingerprint,
    ) -> Option<&Stored<Artifact>> {
        self.tables.get(stage).filter(|stored| stored.record.fingerprint == *fingerprint)
    }

    /// Records what became of a stage.
    pub fn set(&self, stage: &StageName, replayed: Replayed) {
        let mut all = self.replayed.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(stage.clone(), replayed);
    }

    /// What became of each stage that is known of.
    pub fn take(&self) -> BTreeMap<StageName, Replayed> {
        std::mem::take(&mut self.replayed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Compares a table that was computed again with the one that the run gave.
///
/// # Errors
///
/// If one of them cannot be read.
pub async fn compare(
    store: &Store,
    original: &Artifact,
    again: &Artifact,
    repeats: Repeats,
) -> Result<Replayed, StoreError> {
    if original.schema_ipc != again.schema_ipc {
        return Ok(Replayed::Differs("other columns".to_owned()));
    }
    let files = |artifact: &Artifact| -> Vec<_> {
        artifact.files.iter().map(|file| (file.name.to_string(), file.sha256)).collect()
    };
    let (then, now) = (files(original), files(again));
    if let Some((name, _)) = then.iter().find(|file| !now.contains(file)) {
        return Ok(Replayed::Differs(format!("the file `{name}` has other bytes")));
    }
    if then.len() != now.len() {
        return Ok(Replayed::Differs(format!("{} files, {} before", now.len(), then.len())));
    }
    let errors = |artifact: &Artifact| artifact.errors.iter().map(|part| part.rows).sum::<u64>();
    if errors(original) != errors(again) {
        return Ok(Replayed::Differs(format!(
            "{} rows failed, {} before",
            errors(again),
            errors(original)
        )));
    }
    if original.rows_root.is_some() && original.rows_root == again.rows_root {
        return Ok(Replayed::SameRows);
    }
    if original.rows != again.rows {
        return Ok(Replayed::Differs(format!("{} rows, {} before", again.rows, original.rows)));
    }
    let (mut then, mut now) = (leaves(store, original).await?, leaves(store, again).await?);
    let Some(first) = then.iter().zip(&now).position(|(then, now)| then != now) else {
        return Ok(Replayed::SameRows);
    };
    then.sort_unstable();
    now.sort_unstable();
    Ok(match (then == now, repeats) {
        (true, Repeats::Set | Repeats::Recorded) => Replayed::SameSet,
        (true, Repeats::Rows) => {
            Replayed::Differs(format!("the same rows in another order, from row {} on", first + 1))
        }
        (false, _) => Replayed::Differs(format!("row {} is another", first + 1)),
    })
}

/// The hash of each row, in order.
async fn leaves(store: &Store, artifact: &Artifact) -> Result<Vec<Digest>, StoreError> {
    let mut all = Vec::new();
    for part in &artifact.parts {
        let (_, mut batches) = stream_part(store, part).await?;
        while let Some(batch) = batches.try_next().await? {
            let mut leaves = RowLeaves::default();
            leaves.push(&batch, 1);
            all.extend(leaves.finish().into_iter().flatten());
        }
    }
    Ok(all)
}
