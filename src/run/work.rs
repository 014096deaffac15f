//! How long the stages of a run may take, guessed before it begins, so that a display can weigh them. Nothing
//! else rests on it: as soon as a stage has a pace, that counts.

use std::collections::HashMap;
use std::time::Duration;

use indexmap::IndexMap;
use proofmill_base::ids::StageName;

use crate::run::planned::{PlannedAction, RunPlan};
use crate::stages::plan::{Prepared, PreparedStage};

/// Rows of a stage of which nothing is known.
const ROWS: u64 = 1_000;
/// What any stage takes: its table is written.
const STAGE: Duration = Duration::from_millis(5);
/// What a row takes that is computed, and one that a model is asked about: their orders of magnitude.
const ROW: Duration = Duration::from_micros(2);
const ASKED_ROW: Duration = Duration::from_millis(20);

/// How long each stage that will run may take: as long as the last time, or what its rows would.
pub fn expected(prepared: &Prepared, plan: &RunPlan) -> HashMap<StageName, Duration> {
    let mut rows: IndexMap<&StageName, u64> = IndexMap::new();
    let mut times = HashMap::new();
    // Inputs come before those who read them.
    for (name, planned) in &plan.stages {
        let stage = &prepared.stages[name];
        let inputs = stage.stage.inputs.iter().filter_map(|input| rows.get(&input.stage));
        let known = planned.action.stored().or(planned.last.as_ref());
        let known = known.map(|artifact| &artifact.record);
        let of_stage = known.map(|record| record.rows).or(stage.rows_expected);
        let inputs_most = inputs.copied().max();
        rows.insert(name, of_stage.or(inputs_most).unwrap_or(ROWS));
        if matches!(planned.action, PlannedAction::Run) {
            // A table of one row may be made of a million.
            let worked_on = inputs_most.max(of_stage).unwrap_or(ROWS);
            let worked_on = u32::try_from(worked_on).unwrap_or(u32::MAX);
            let row = if asks_a_model(stage) { ASKED_ROW } else { ROW };
            let last = known.map(|record| Duration::from_millis(record.wall_ms));
            times.insert(name.clone(), last.unwrap_or(row * worked_on).max(STAGE));
        }
    }
    times
}

/// Whether what a model is counts for the stage's fingerprint.
fn asks_a_model(stage: &PreparedStage) -> bool {
    stage.components.map().keys().any(|name| name.starts_with("model."))
}
