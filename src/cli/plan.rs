//! `proofmill plan`

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::run::choice;
use crate::cli::why::change_json;
use crate::report::units::{bytes, count, plural};
use crate::run::plan::plan as plan_run;
use crate::run::planned::{PlannedAction, PlannedStage};
use crate::run::reason::Reason;
use crate::stages::plan::Prepared;
use proofmill_base::error::Result;
use proofmill_base::ids::StageName;

/// Says what a run would do.
pub async fn plan(args: &args::Plan, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let engine = environment.engine(&store, &environment.new_run())?;
    let loaded = environment.load_from_store(&args.pipeline, &engine, &store).await?;
    let Some(prepared) = &loaded.prepared else { return Ok(()) };
    let (select, rerun) = (args.select.as_deref(), args.rerun.as_deref());
    let choice = choice(Some(prepared), select, rerun, args.verify, &store).await?;
    let plan = plan_run(prepared, &choice, "plan", &store).await?;
    let output = &environment.output;
    plan.remarks.iter().for_each(|remark| output.remark(remark));
    if output.json {
        let stages = plan.stages.iter().map(|(name, stage)| to_json(name, stage, prepared));
        output.json(&Json::Array(stages.collect()))?;
        return Ok(());
    }
    let header = ["stage", "kind", "action", "rows", "bytes", "because"].map(str::to_owned);
    let rows = plan.stages.iter().map(|(name, stage)| line(name, stage, prepared)).collect();
    output.long(output.table(&header, rows, &[false, false, false, true, true, false]))?;
    let run = plan.count(|action| matches!(action, PlannedAction::Run));
    let cached = plan.count(|action| matches!(action, PlannedAction::Cached(_)));
    let pending = plan.count(|action| matches!(action, PlannedAction::Revalidate(_)));
    let pending = match pending {
        0 => String::new(),
        n => format!(", {n} more if an input comes out otherwise"),
    };
    output.remark(format!("\n{} would run{pending}, {cached} in the store", plural(run, "stage")));
    Ok(())
}

fn action(stage: &PlannedStage) -> &'static str {
    match stage.action {
        PlannedAction::Cached(_) => "cached",
        PlannedAction::Revalidate(_) => "revalidate",
        PlannedAction::Run => "run",
        PlannedAction::Skip => "skip",
    }
}

/// Rows and bytes: what is stored, or what is expected from the last time or the source's size.
fn size(name: &StageName, stage: &PlannedStage, prepared: &Prepared) -> (Option<u64>, Option<u64>) {
    match stage.action.stored().or(stage.last.as_ref()) {
        Some(artifact) => (Some(artifact.record.rows), Some(artifact.record.bytes)),
        None => (prepared.stages[name].rows_expected, None),
    }
}

fn line(name: &StageName, stage: &PlannedStage, prepared: &Prepared) -> Vec<String> {
    let (rows, size) = size(name, stage, prepared);
    let about = if matches!(stage.action, PlannedAction::Cached(_)) { "" } else { "~" };
    let reason = match &stage.action {
        PlannedAction::Skip => "it is not selected".to_owned(),
        _ => stage.reason.to_string(),
    };
    vec![
        name.to_string(),
        prepared.stages[name].stage.spec.kind.name().to_owned(),
        action(stage).to_owned(),
        rows.map(|rows| format!("{about}{}", count(rows))).unwrap_or_default(),
        size.map(|size| format!("{about}{}", bytes(size))).unwrap_or_default(),
        reason,
    ]
}

fn to_json(name: &StageName, stage: &PlannedStage, prepared: &Prepared) -> Json {
    let (rows, size) = size(name, stage, prepared);
    let changes: Vec<Json> = match &stage.reason {
        Reason::Changed(changes) => changes.iter().map(change_json).collect(),
        _ => Vec::new(),
    };
    json!({
        "stage": name,
        "kind": prepared.stages[name].stage.spec.kind.name(),
        "action": action(stage),
        "reason": stage.reason.to_string(),
        "changes": changes,
        "fingerprint": stage.fingerprint,
        "rows": rows,
        "bytes": size,
    })
}
