//! What the stages of a run may need, told before it begins: from what they took the last time and from the rows that
//! their inputs have now. `plan` shows it and a display weighs stages by it. Nothing else rests on it.

use std::collections::HashMap;
use std::time::Duration;

use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_store::{Artifact, Work};

use crate::run::planned::{PlannedAction, PlannedStage, RunPlan};
use crate::stages::plan::{Prepared, PreparedStage};

/// Rows of a stage of which nothing is known.
const ROWS: u64 = 1_000;
/// What any stage takes: its table is written.
const STAGE: Duration = Duration::from_millis(5);
/// What a row takes that is computed, and one that a model is asked about: their orders of magnitude.
const ROW: Duration = Duration::from_micros(2);
const ASKED_ROW: Duration = Duration::from_millis(20);

/// What a stage has, or may come to have and to need. What is absent is not known, or not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Need {
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// Requests to models, if the ledger has none of their answers.
    pub requests: Option<u64>,
    /// Their prompt and new tokens.
    pub tokens: Option<u64>,
    /// How long it runs, at the speed of the last time.
    pub time: Option<Duration>,
    /// Whether it asks a model, whatever is known of that.
    pub asks: bool,
}

/// What each stage has in the store or may need. A stage gives as many rows, and needs as much, for each row of its inputs as the
/// last time, whatever changed since: a run over fewer rows is a sample of one over more.
pub fn needs<'a>(prepared: &Prepared, plan: &'a RunPlan) -> IndexMap<&'a StageName, Need> {
    let mut needs: IndexMap<&StageName, Need> = IndexMap::new();
    // Inputs come before those who read them.
    for (name, planned) in &plan.stages {
        let stage = &prepared.stages[name];
        let inputs = stage.stage.inputs.iter();
        let read: Option<u64> =
            inputs.map(|input| needs.get(&input.stage).and_then(|need| need.rows)).sum();
        let need = match planned.action.stored() {
            Some(artifact) => stored(&artifact.record),
            None => to_compute(stage, planned, read),
        };
        needs.insert(name, need);
    }
    needs
}

fn stored(artifact: &Artifact) -> Need {
    Need { rows: Some(artifact.rows), bytes: Some(artifact.bytes), ..Need::default() }
}

/// What a stage may need that reads so many rows.
fn to_compute(stage: &PreparedStage, planned: &PlannedStage, read: Option<u64>) -> Need {
    let asks = matches!(planned.action, PlannedAction::Run) && asks_a_model(stage);
    let Some(last) = planned.last.as_ref().map(|artifact| &artifact.record) else {
        return Need { rows: stage.rows_expected, asks, ..Need::default() };
    };
    let grown = last.work.and_then(|work| growth(work, stage, read)).unwrap_or(1.0);
    let scaled = |count: u64| (count as f64 * grown).round() as u64;
    let mut need = Need { asks, ..stored(last) };
    (need.rows, need.bytes) = (need.rows.map(scaled), need.bytes.map(scaled));
    if stage.stage.inputs.is_empty() {
        need.rows = stage.rows_expected.filter(|rows| *rows > 0).or(need.rows);
    }
    if !matches!(planned.action, PlannedAction::Run) {
        return need;
    }
    let Work { answered, replayed, tokens, .. } = last.work.unwrap_or_default();
    // Answers that the ledger had took no time, and nobody knows their tokens.
    let of_all = (answered + replayed) as f64 / answered.max(1) as f64;
    if asks && answered + replayed > 0 {
        need.requests = Some(scaled(answered + replayed));
        need.tokens = (tokens > 0).then(|| (tokens as f64 * of_all * grown).round() as u64);
    }
    let all_again = if answered > 0 { of_all } else { 1.0 };
    need.time = Some(Duration::from_millis(last.wall_ms).mul_f64(all_again * grown));
    need
}

/// By how much more rows a stage reads than the last time; `None` if it read nothing then, or nobody knows.
fn growth(work: Work, stage: &PreparedStage, read: Option<u64>) -> Option<f64> {
    let known = !stage.stage.inputs.is_empty() && work.input_rows > 0;
    Some(read? as f64 / work.input_rows as f64).filter(|_| known)
}

/// How long each stage that will run may take: as long as the last time for as many rows, or what its rows would.
pub fn expected(prepared: &Prepared, plan: &RunPlan) -> HashMap<StageName, Duration> {
    let needs = needs(prepared, plan);
    let mut rows: HashMap<&StageName, u64> = HashMap::new();
    let mut times = HashMap::new();
    for (name, planned) in &plan.stages {
        let (stage, need) = (&prepared.stages[name], needs[name]);
        let inputs = stage.stage.inputs.iter().filter_map(|input| rows.get(&input.stage));
        let inputs_most = inputs.copied().max();
        rows.insert(name, need.rows.or(inputs_most).unwrap_or(ROWS));
        if matches!(planned.action, PlannedAction::Run) {
            // A table of one row may be made of a million.
            let worked_on = inputs_most.max(need.rows).unwrap_or(ROWS);
            let worked_on = u32::try_from(worked_on).unwrap_or(u32::MAX);
            let row = if need.asks { ASKED_ROW } else { ROW };
            times.insert(name.clone(), need.time.unwrap_or(row * worked_on).max(STAGE));
        }
    }
    times
}

/// Whether what a model is counts for the stage's fingerprint.
fn asks_a_model(stage: &PreparedStage) -> bool {
    stage.components.map().keys().any(|name| name.starts_with("model."))
}
