//! What can be told of a stage's rows before it runs: how many, which columns identify them, and
//! whether their values depend on an order that nothing fixes.

use arrow::datatypes::SchemaRef;
use indexmap::IndexMap;

use crate::graph::{Role, Stage};
use proofmill_base::ids::StageName;
use crate::session::engine::SINGLE_PARTITION_ROWS_MAX;
use crate::session::{PlanError, order};
use proofmill_pipeline::checks::CheckSeverity;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::stage::StageKind;
use crate::sqltext::{self, Query};
use crate::stages::place::Place;
use crate::stages::prepare::Outcome;
use crate::stages::prepared::{Body, PreparedStage};

/// Columns that no two rows share: those of checks that must hold, and the identity of records.
pub fn keys(stage: &Stage, schema: &SchemaRef) -> Vec<Vec<String>> {
    let checked =
        stage.spec.common.checks.iter().filter(|check| check.severity == CheckSeverity::Error);
    let unique = checked.filter_map(|check| check.unique.as_ref());
    let mut keys: Vec<Vec<String>> = unique.map(|columns| columns.all().to_vec()).collect();
    if matches!(stage.spec.kind, StageKind::Read(_)) {
        keys.push(vec!["row_id".to_owned()]);
    }
    keys.retain(|key| key.iter().all(|column| schema.index_of(column).is_ok()));
    keys
}

/// How many rows there will be, from the sizes of the sources.
pub fn rows(
    stage: &Stage,
    outcome: &Outcome,
    stages: &IndexMap<StageName, PreparedStage>,
) -> Option<u64> {
    if outcome.rows_expected.is_some() {
        return outcome.rows_expected;
    }
    if let (StageKind::Sql(_) | StageKind::Gather(_), Body::Query(plan)) =
        (&stage.spec.kind, &outcome.body)
    {
        return Some(order::rows_expected(plan));
    }
    let from = stage.inputs.iter().filter(|input| !matches!(input.role, Role::Check(_)));
    let largest = from.filter_map(|input| stages.get(&input.stage)?.table.rows_expected()).max()?;
    let each = match &stage.spec.kind {
        StageKind::Retrieve(settings) => u64::from(settings.top_k),
        _ => 1,
    };
    Some(largest.saturating_mul(each))
}

/// Says where the query of a stage depends on an order that nothing fixes, if it is expected to run on
/// several cores; if `strict`, wherever it could.
pub fn fixed_order(
    stage: &Stage,
    query: Option<&Query>,
    outcome: &Outcome,
    stages: &IndexMap<StageName, PreparedStage>,
    strict: bool,
    place: &mut Place<'_>,
) {
    let (Some(query), Body::Query(plan)) = (query, &outcome.body) else { return };
    let read =
        stage.inputs.iter().filter_map(|input| stages.get(&input.stage)?.table.rows_expected());
    let is_large = match stage.spec.common.partitions {
        Some(1) => return,
        Some(_) => true,
        None => read.sum::<u64>() >= SINGLE_PARTITION_ROWS_MAX,
    };
    if !is_large && !strict {
        return;
    }
    let Ok(found) = order::unfixed(plan) else { return };
    for one in found {
        let first_line = || 0..query.text.lines().next().map_or(0, str::len);
        let error = PlanError {
            code: Code::SqlOrder,
            message: one.message,
            range: sqltext::find_word(&query.text, &one.word).unwrap_or_else(first_line),
            help: Some(one.help),
        };
        place.remark(&["sql"], error, strict);
    }
}
