//! What the stages of a run may need, estimated before it begins: from what they took the last time
//! and from the rows that their inputs have now. `plan` shows it and a display weighs stages by it.
//! Nothing else rests on it.

use std::collections::HashMap;
use std::time::Duration;

use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, StageUsage};

use crate::run::planned::{PlannedAction, PlannedStage, RunPlan};
use crate::run::recorded::LookedUp;
use crate::stages::plan::{Prepared, PreparedStage};

/// Rows of a stage of which nothing is known.
const ROWS: u64 = 1_000;
/// What any stage takes: its table is written.
const STAGE: Duration = Duration::from_millis(5);
/// What a computed row takes, and a row that needs inference: their orders of magnitude.
const ROW: Duration = Duration::from_micros(2);
const INFERENCE_ROW: Duration = Duration::from_millis(20);

/// What a stage has in the store, or may come to have and to need. What is absent is not known, or not needed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
    /// Requests to models, whether the ledger has their answers or not.
    pub requests: Option<u64>,
    /// Those whose answer it has.
    pub recorded: Option<u64>,
    /// Prompt and new tokens of all, or of the others where that is known.
    pub tokens: Option<u64>,
    /// How long it runs, at the speed of the last time.
    pub time: Option<Duration>,
    /// Whether it asks a model, whatever is known of that.
    pub asks: bool,
}

impl Estimate {
    /// The same, where it is known what the ledger has: that costs nothing.
    pub fn with(self, found: LookedUp) -> Self {
        let LookedUp { requests, recorded } = found;
        let unrecorded = requests.saturating_sub(recorded) as f64 / requests.max(1) as f64;
        let time = self.time.map(|time| time.as_secs_f64() * unrecorded);
        Self {
            requests: Some(requests),
            recorded: Some(recorded),
            tokens: self.tokens.map(|tokens| (tokens as f64 * unrecorded).round() as u64),
            time: time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            ..self
        }
    }
}

/// What each stage has in the store or may need. A stage gives as many rows, and needs as much, for each row of its inputs as
/// the last time, whatever changed since: a run over fewer rows is a sample of one over more.
pub fn estimates<'a>(prepared: &Prepared, plan: &'a RunPlan) -> IndexMap<&'a StageName, Estimate> {
    let mut all: IndexMap<&StageName, Estimate> = IndexMap::new();
    // Inputs come before those who read them.
    for (name, planned) in &plan.stages {
        let stage = &prepared.stages[name];
        let inputs = stage.stage.inputs.iter();
        let rows = inputs.map(|input| all.get(&input.stage).and_then(|input| input.rows));
        let read = rows.reduce(|all, one| Some(all?.saturating_add(one?))).flatten();
        let estimate = match planned.action.stored() {
            Some(artifact) => stored(&artifact.record),
            None => to_compute(stage, planned, read),
        };
        all.insert(name, estimate);
    }
    all
}

fn stored(artifact: &Artifact) -> Estimate {
    Estimate { rows: Some(artifact.rows), bytes: Some(artifact.bytes), ..Estimate::default() }
}

/// What a stage may need that reads so many rows; `None` if it reads nothing, or the count is
/// unknown.
fn to_compute(stage: &PreparedStage, planned: &PlannedStage, read: Option<u64>) -> Estimate {
    let is_run = matches!(planned.action, PlannedAction::Run);
    let asks = is_run && asks_a_model(stage);
    let Some(last) = planned.last.as_ref().map(|artifact| &artifact.record) else {
        return Estimate { rows: stage.rows_expected, asks, ..Estimate::default() };
    };
    // A training makes its steps, however many pairs there are.
    let read = read.filter(|_| stage.stage.spec.kind.role() != KindRole::Model);
    let (took, usage) = ((last.rows, last.bytes, last.wall_ms), last.usage.unwrap_or_default());
    let mut estimate = Estimate { asks, ..as_the_last_time(took, usage, read) };
    if stage.stage.inputs.is_empty() {
        estimate.rows = stage.rows_expected.filter(|rows| *rows > 0).or(estimate.rows);
    }
    if !is_run {
        (estimate.requests, estimate.tokens, estimate.time) = (None, None, None);
    }
    estimate
}

/// What a table of so many rows and bytes took, for as many rows of its inputs as are `read` now. The numbers of a record may be
/// any: sums and products stay within their types.
fn as_the_last_time(
    (rows, bytes, wall_ms): (u64, u64, u64),
    usage: StageUsage,
    read: Option<u64>,
) -> Estimate {
    let StageUsage { input_rows, answered, replayed, tokens } = usage;
    let growth = match read {
        Some(read) if input_rows > 0 => read as f64 / input_rows as f64,
        _ => 1.0,
    };
    let scaled = |count: u64, by: f64| (count as f64 * by).round() as u64;
    let requests = answered.saturating_add(replayed);
    // Answers that the ledger had took no time, and their tokens are unknown.
    let of_all = if answered > 0 { requests as f64 / answered as f64 } else { 1.0 };
    let seconds = wall_ms as f64 / 1e3 * of_all * growth;
    Estimate {
        rows: Some(scaled(rows, growth)),
        bytes: Some(scaled(bytes, growth)),
        requests: (requests > 0).then(|| scaled(requests, growth)),
        recorded: None,
        tokens: (tokens > 0).then(|| scaled(tokens, of_all * growth)),
        time: Duration::try_from_secs_f64(seconds).ok(),
        asks: false,
    }
}

/// How long each stage that will run may take: as long as the last time for as many rows, or what its rows would.
pub fn expected(prepared: &Prepared, plan: &RunPlan) -> HashMap<StageName, Duration> {
    let estimates = estimates(prepared, plan);
    let mut rows: HashMap<&StageName, u64> = HashMap::new();
    let mut times = HashMap::new();
    for (name, planned) in &plan.stages {
        let (stage, estimate) = (&prepared.stages[name], estimates[name]);
        let inputs = stage.stage.inputs.iter().filter_map(|input| rows.get(&input.stage));
        let inputs_most = inputs.copied().max();
        rows.insert(name, estimate.rows.or(inputs_most).unwrap_or(ROWS));
        if matches!(planned.action, PlannedAction::Run) {
            // A table of one row may be made of a million.
            let worked_on = inputs_most.max(estimate.rows).unwrap_or(ROWS);
            let worked_on = u32::try_from(worked_on).unwrap_or(u32::MAX);
            let row = if estimate.asks { INFERENCE_ROW } else { ROW };
            times.insert(name.clone(), estimate.time.unwrap_or(row * worked_on).max(STAGE));
        }
    }
    times
}

/// Whether what a model is counts for the stage's fingerprint.
fn asks_a_model(stage: &PreparedStage) -> bool {
    stage.components.map().keys().any(|name| name.starts_with("model."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_take_more_of_everything() {
        let usage = StageUsage { input_rows: 10, answered: 8, replayed: 2, tokens: 160 };
        let found = as_the_last_time((5, 80, 2_000), usage, Some(40));
        assert_eq!((found.rows, found.requests, found.tokens), (Some(20), Some(40), Some(800)));
        // Of ten answers eight took time.
        assert_eq!(found.time, Some(Duration::from_secs(10)));
        let same = as_the_last_time((5, 80, 2_000), usage, None);
        assert_eq!((same.rows, same.requests), (Some(5), Some(10)));
    }

    #[test]
    fn no_number_of_a_record_is_too_large() {
        let all = u64::MAX;
        let usage = StageUsage { input_rows: 1, answered: 1, replayed: all, tokens: all };
        let found = as_the_last_time((all, all, all), usage, Some(all));
        assert_eq!((found.rows, found.requests, found.tokens), (Some(all), Some(all), Some(all)));
        assert_eq!(found.time, None);
    }
}
