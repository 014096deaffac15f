//! `proofmill plan`

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::run::choice;
use crate::cli::why::change_json;
use crate::report::units::{bytes, count, duration, plural};
use crate::run::estimate::{Estimate, estimates};
use crate::run::plan::plan as plan_run;
use crate::run::planned::{PlannedAction, PlannedStage};
use crate::run::reason::Reason;
use crate::run::recorded::recorded;
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
    let recorded = recorded(prepared, &plan, &loaded.engine, &store).await;
    let (mut estimates, output) = (estimates(prepared, &plan), &environment.output);
    for (name, found) in &recorded {
        estimates.entry(name).and_modify(|estimate| *estimate = estimate.with(*found));
    }
    plan.remarks.iter().for_each(|remark| output.remark(remark));
    if output.json {
        let stages = plan
            .stages
            .iter()
            .map(|(name, stage)| to_json(name, stage, prepared, &estimates[name]));
        output.json(&Json::Array(stages.collect()))?;
        return Ok(());
    }
    let columns = Columns::of(estimates.values());
    let line = |(name, stage)| line(name, stage, prepared, &estimates[name], columns);
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
    if let Some(all) = in_all(estimates.values()) {
        output.remark(all);
    }
    Ok(())
}

/// What all stages estimate together, as far as their last time tells; `None` if that is nothing worth to be told.
fn in_all<'a>(estimates: impl Iterator<Item = &'a Estimate> + Clone) -> Option<String> {
    let sum = |of: fn(&Estimate) -> Option<u64>| {
        estimates.clone().filter_map(of).fold(0, u64::saturating_add)
    };
    let (requests, tokens) = (sum(|it| it.requests), sum(|it| it.tokens));
    let recorded = sum(|it| it.recorded);
    let times = estimates.clone().filter_map(|it| it.time);
    let time = times.fold(Duration::ZERO, Duration::saturating_add);
    let unknown = estimates.clone().filter(|it| it.asks && it.requests.is_none()).count();
    let mut parts = Vec::new();
    if requests > 0 {
        let has =
            if recorded > 0 { format!(", {} recorded", count(recorded)) } else { String::new() };
        parts.push(format!("about {}{has}", plural(requests as usize, "request")));
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
    fn of<'a>(estimates: impl Iterator<Item = &'a Estimate> + Clone) -> Self {
        let requests = estimates.clone().any(|it| it.requests.is_some());
        Self { requests, time: estimates.clone().any(|it| slow(it).is_some()) }
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
fn slow(estimate: &Estimate) -> Option<Duration> {
    estimate.time.filter(|time| *time >= Duration::from_secs(1))
}

fn line(
    name: &StageName,
    stage: &PlannedStage,
    prepared: &Prepared,
    estimate: &Estimate,
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
        text(estimate.rows.map(count)),
        text(estimate.bytes.map(bytes)),
    ];
    if columns.requests {
        let has = |recorded| format!(", {} recorded", count(recorded));
        let has = estimate.recorded.filter(|recorded| *recorded > 0).map(has).unwrap_or_default();
        let requests = estimate.requests.map(|requests| count(requests) + &has);
        cells.extend([text(requests), text(estimate.tokens.map(count))]);
    }
    if columns.time {
        cells.push(text(slow(estimate).map(duration)));
    }
    cells.push(reason);
    cells
}

fn to_json(
    name: &StageName,
    stage: &PlannedStage,
    prepared: &Prepared,
    estimate: &Estimate,
) -> Json {
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
        "rows": estimate.rows,
        "bytes": estimate.bytes,
        "requests": estimate.requests,
        "recorded": estimate.recorded,
        "tokens": estimate.tokens,
        "seconds": estimate.time.map(|time| time.as_secs_f64()),
    })
}
