//! How many of the requests of a run have recorded answers, counted before it begins: the queries
//! of inference stages run over the tables that are stored, with the ledger alone. No request is
//! sent and nothing is written.

use std::collections::HashMap;
use std::sync::Arc;

use proofmill_base::ids::StageName;
use proofmill_store::Store;
use proofmill_udfs::model::{Counters, Failure, Key};

use crate::graph::Role;
use crate::run::bind::fill;
use crate::run::permanent_failures::permanent_failures;
use crate::run::planned::{PlannedAction, RunPlan};
use crate::session::Engine;
use crate::session::execute::drained;
use crate::stages::error::StageError;
use crate::stages::plan::{Prepared, PreparedStage};

/// Rows of inputs above which the count would take too long.
const ROWS_MAX: u64 = 100_000;

/// The rows of a stage that ask a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// Those that ask; of equal requests each row counts. What failed before for a reason that stays does not ask.
    pub requests: u64,
    /// Those whose answer is in the ledger.
    pub recorded: u64,
}

/// What is known of each stage that would run, asks a model, and reads nothing but stored tables. The tables of `prepared` are
/// filled for it. Where a table cannot be read or a query fails, nothing is known: a plan goes on without.
pub async fn recorded(
    prepared: &Prepared,
    plan: &RunPlan,
    engine: &Engine,
    store: &Store,
) -> HashMap<StageName, LookedUp> {
    let mut all = HashMap::new();
    for (name, planned) in &plan.stages {
        let stage = &prepared.stages[name];
        if !matches!(planned.action, PlannedAction::Run) || stage.asking.is_none() {
            continue;
        }
        if let Ok(Some(rows)) = inputs(stage, prepared, plan, store).await
            && rows <= ROWS_MAX
            && let failures = permanent_failures(store, planned).await
            && let Ok(found) = look_up(stage, rows, engine, failures).await
        {
            all.insert(name.clone(), found);
        }
    }
    all
}

/// Fills the tables that the stage reads; the rows of all, or `None` if one of them is not stored or may change.
async fn inputs(
    stage: &PreparedStage,
    prepared: &Prepared,
    plan: &RunPlan,
    store: &Store,
) -> Result<Option<u64>, StageError> {
    let mut rows: u64 = 0;
    for input in stage.stage.inputs.iter().filter(|input| !matches!(input.role, Role::Check(_))) {
        let Some(PlannedAction::Cached(stored)) =
            plan.stages.get(&input.stage).map(|planned| &planned.action)
        else {
            return Ok(None);
        };
        rows = rows.saturating_add(stored.record.rows);
        let table = &prepared.stages[&input.stage].table;
        if rows <= ROWS_MAX && table.stored().is_none() {
            fill(table, &stored.record, None, store).await?;
        }
    }
    Ok(Some(rows))
}

async fn look_up(
    stage: &PreparedStage,
    rows: u64,
    engine: &Engine,
    failures: HashMap<Key, Failure>,
) -> Result<LookedUp, StageError> {
    let Some(query) = &stage.asking else { return Ok(LookedUp { requests: 0, recorded: 0 }) };
    let counters = Arc::new(Counters::default());
    // What the ledger does not have is left alone, as where a run is stopped.
    counters.interrupt();
    counters.fail_again(failures);
    let state = engine.watched(rows, stage.stage.spec.common.partitions, &counters);
    drained(query, &state).await?;
    let counts = counters.now();
    Ok(LookedUp { requests: counts.rows - counts.failed_again, recorded: counts.replayed })
}
