//! What is known of a stage's rows before it runs: how many, which columns identify them, and
//! whether their values depend on an order that nothing fixes.

use proofmill_pipeline::checks::CheckSeverity;
use proofmill_pipeline::code::Code;

use crate::graph::Stage;
use crate::session::engine::SINGLE_PARTITION_ROWS_MAX;
use crate::session::{PlanError, order};
use crate::sqltext::{self, Query};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::kind::{Inputs, Preparation};

/// Columns that no two rows share: those of checks that must hold, and the identity of records.
pub fn keys(stage: &Stage, preparation: &Preparation) -> Vec<Vec<String>> {
    let checked =
        stage.spec.common.checks.iter().filter(|check| check.severity == CheckSeverity::Error);
    let unique = checked.filter_map(|check| check.unique.as_ref());
    let mut keys: Vec<Vec<String>> = unique.map(|columns| columns.all().to_vec()).collect();
    keys.extend(preparation.unique.map(|column| vec![column.to_owned()]));
    keys.retain(|key| key.iter().all(|column| preparation.schema.index_of(column).is_ok()));
    keys
}

/// How many rows there will be, from the sizes of the sources.
pub fn rows(inputs: Inputs<'_>, preparation: &Preparation) -> Option<u64> {
    match &preparation.query {
        _ if preparation.rows_expected.is_some() => preparation.rows_expected,
        Some(plan) => Some(order::rows_expected(plan)),
        None => inputs.rows_expected(),
    }
}

/// Says where the query of a stage depends on an order that nothing fixes, if it is expected to run on
/// several cores; if `strict`, wherever it could.
pub fn fixed_order(
    inputs: Inputs<'_>,
    query: Option<&Query>,
    preparation: &Preparation,
    strict: bool,
    diagnostics: &mut Diagnostics<'_>,
) {
    let (Some(query), Some(plan)) = (query, &preparation.query) else { return };
    let Inputs { stage, stages } = inputs;
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
        diagnostics.remark(&["sql"], error, strict);
    }
}
