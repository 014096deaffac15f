//! `proofmill plan`

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::run::choice;
use crate::cli::why::change_json;
use crate::report::units::{bytes, count, duration, plural};
use crate::run::plan::plan as plan_run;
use crate::run::planned::{PlannedAction, PlannedStage};
use crate::run::reason::Reason;
use crate::run::work::{Need, needs};
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
    let (needs, output) = (needs(prepared, &plan), &environment.output);
    plan.remarks.iter().for_each(|remark| output.remark(remark));
    if output.json {
        let stages =
            plan.stages.iter().map(|(name, stage)| to_json(name, stage, prepared, &needs[name]));
        output.json(&Json::Array(stages.collect()))?;
        return Ok(());
    }
    let columns = Columns::of(needs.values());
    let line = |(name, stage)| line(name, stage, prepared, &needs[name], columns);
    let rows = plan.stages.iter().map(line).collect();
    output.long(output.table(&columns.header(), rows, &columns.numbers()))?;
    let run = plan.count(|action| matches!(action, PlannedAction::Run));
    let cached = plan.count(|action| matches!(action, PlannedAction::Cached(_)));
    let pending = plan.count(|action| matches!(action, PlannedAction::Revalidate(_)));
    let pending = match pending {
        0 => String::new(),
        n => format!(", {n} more if an input comes out otherwise"),
    };
    output.remark(format!("\n{} would run{pending}, {cached} in the store", plural(run, "stage")));
    if let Some(all) = in_all(needs.values()) {
        output.remark(all);
    }
    Ok(())
}

/// What all stages need together, as far as their last time tells; `None` if that is nothing worth to be told.
fn in_all<'a>(needs: impl Iterator<Item = &'a Need> + Clone) -> Option<String> {
    let sum = |of: fn(&Need) -> Option<u64>| needs.clone().filter_map(of).sum::<u64>();
    let (requests, tokens) = (sum(|need| need.requests), sum(|need| need.tokens));
    let time: Duration = needs.clone().filter_map(|need| need.time).sum();
    let unknown = needs.clone().filter(|need| need.asks && need.requests.is_none()).count();
    let mut parts = Vec::new();
    if requests > 0 {
        parts.push(format!("about {}", plural(requests as usize, "request")));
    }
    if tokens > 0 {
        parts.push(format!("about {} tokens", count(tokens)));
    }
    if time >= Duration::from_secs(1) {
        let time = duration(time);
        parts.push(format!("about {time} one stage after the other, as fast as the last time"));
    }
    if unknown > 0 && requests > 0 {
        let stages = plural(unknown, "stage");
        parts.push(format!("what {stages} more will ask is not known before its first run"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn action(stage: &PlannedStage) -> &'static str {
    match stage.action {
        PlannedAction::Cached(_) => "cached",
        PlannedAction::Revalidate(_) => "revalidate",
        PlannedAction::Run => "run",
        PlannedAction::Skip => "skip",
    }
}

/// Columns that a table only has where a stage has something in them.
#[derive(Clone, Copy)]
struct Columns {
    requests: bool,
    time: bool,
}

impl Columns {
    fn of<'a>(needs: impl Iterator<Item = &'a Need> + Clone) -> Self {
        let requests = needs.clone().any(|need| need.requests.is_some());
        Self { requests, time: needs.clone().any(|need| slow(need).is_some()) }
    }

    fn header(self) -> Vec<String> {
        let mut header = vec!["stage", "kind", "action", "rows", "bytes"];
        if self.requests {
            header.extend(["requests", "tokens"]);
        }
        if self.time {
            header.push("time");
        }
        header.push("because");
        header.into_iter().map(str::to_owned).collect()
    }

    /// Which of them hold numbers.
    fn numbers(self) -> Vec<bool> {
        let all = self.header().len();
        (0..all).map(|at| at > 2 && at + 1 < all).collect()
    }
}

/// How long a stage runs, if that is worth to be told.
fn slow(need: &Need) -> Option<Duration> {
    need.time.filter(|time| *time >= Duration::from_secs(1))
}

fn line(
    name: &StageName,
    stage: &PlannedStage,
    prepared: &Prepared,
    need: &Need,
    columns: Columns,
) -> Vec<String> {
    let about = if matches!(stage.action, PlannedAction::Cached(_)) { "" } else { "~" };
    let text = |value: Option<String>| value.map(|it| format!("{about}{it}")).unwrap_or_default();
    let reason = match &stage.action {
        PlannedAction::Skip => "it is not selected".to_owned(),
        _ => stage.reason.to_string(),
    };
    let mut cells = vec![
        name.to_string(),
        prepared.stages[name].stage.spec.kind.name().to_owned(),
        action(stage).to_owned(),
        text(need.rows.map(count)),
        text(need.bytes.map(bytes)),
    ];
    if columns.requests {
        cells.extend([text(need.requests.map(count)), text(need.tokens.map(count))]);
    }
    if columns.time {
        cells.push(text(slow(need).map(duration)));
    }
    cells.push(reason);
    cells
}

fn to_json(name: &StageName, stage: &PlannedStage, prepared: &Prepared, need: &Need) -> Json {
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
        "rows": need.rows,
        "bytes": need.bytes,
        "requests": need.requests,
        "tokens": need.tokens,
        "seconds": need.time.map(|time| time.as_secs_f64()),
    })
}
