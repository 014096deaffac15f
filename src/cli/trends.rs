//! `proofmill trends`

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::output::Output;
use crate::draw::cells::format_float;
use crate::draw::plot::series::{Plot, SERIES_MAX};
use crate::draw::plot::text;
use crate::run::history::{RunSummary, list};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_base::suggest;
use proofmill_store::Outcome;

/// Columns of `measure` and `compare` that are numbers or say how they were made; all others tell rows apart.
const NUMBERS: [&str; 29] = [
    "stage",
    "name",
    "metric",
    "value",
    "ci_low",
    "ci_high",
    "ci_method",
    "se",
    "n_attempted",
    "n_answered",
    "n_errored",
    "n_excluded",
    "value_answered",
    "value_bound",
    "baseline_value",
    "candidate_value",
    "diff",
    "only_baseline",
    "only_candidate",
    "p_mcnemar",
    "p_bootstrap",
    "p_clustered",
    "p_holm",
    "n",
    "n_unpaired",
    "alpha_spent",
    "alarm",
    "e_value",
    "noise_floor",
];

/// A metric of a run.
pub struct Measured<'a> {
    run: &'a RunId,
    started_at: DateTime<Utc>,
    pub stage: &'a str,
    pub metric: &'a str,
    /// What tells it from other rows of the same metric; empty if nothing does.
    pub of: String,
    pub value: Option<f64>,
    range: [Option<f64>; 2],
}

/// Shows how a metric of a pipeline changed from run to run.
pub async fn trends(args: &args::Trends, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let mut runs = Vec::new();
    for (run, summary) in list(&store, usize::MAX, Some(&args.pipeline)).await? {
        match summary {
            Ok(summary) if summary.outcome == Some(Outcome::Succeeded) => runs.push(summary),
            Ok(_) => {}
            Err(error) => environment.output.remark(format!("run {run} cannot be read: {error}")),
        }
        if runs.len() == args.limit {
            break;
        }
    }
    runs.reverse();
    if runs.is_empty() {
        let message = format!("no run of a pipeline `{}` has succeeded", args.pipeline);
        return Err(Error::new(ErrorKind::Usage, message).with_hint("`proofmill runs` lists runs"));
    }
    let all: Vec<Measured<'_>> = runs.iter().flat_map(measured).collect();
    let names: BTreeSet<String> =
        all.iter().map(|it| format!("{}.{}", it.stage, it.metric)).collect();
    let Some(metric) = &args.metric else {
        let list: Vec<String> = names.iter().map(|name| format!("{name}\n")).collect();
        return match environment.output.json {
            true => environment.output.json(&json!(names)),
            false => environment.output.data(list.concat()),
        };
    };
    let fits = |it: &&Measured<'_>| {
        it.metric == metric || format!("{}.{}", it.stage, it.metric) == *metric
    };
    let found: Vec<&Measured<'_>> = all.iter().filter(fits).collect();
    if found.is_empty() {
        let message = format!("no run of `{}` has a metric `{metric}`", args.pipeline);
        let error = Error::new(ErrorKind::Usage, message);
        let help = suggest::help(metric, names.iter().map(String::as_str));
        return Err(help.into_iter().fold(error, Error::with_hint));
    }
    match environment.output.json {
        true => environment.output.json(&found.iter().map(|it| to_json(it)).collect()),
        false => {
            let plot = plotted(metric, &found);
            environment.output.long(format!(
                "{}\n{}",
                table(&found, &environment.output),
                text::draw(&plot)
            ))
        }
    }
}

/// The metrics of a run, from the rows that its manifest keeps.
pub fn measured(run: &RunSummary) -> Vec<Measured<'_>> {
    let Some(started_at) = run.started_at else { return Vec::new() };
    run.metrics
        .iter()
        .filter_map(|json| {
            let object = json.as_object()?;
            let text = |name: &str| object.get(name).and_then(Json::as_str);
            let number = |name: &str| object.get(name).and_then(Json::as_f64);
            // `measure` has a value, `compare` a difference.
            let value = if object.contains_key("diff") { "diff" } else { "value" };
            Some(Measured {
                run: &run.run,
                started_at,
                stage: text("stage")?,
                metric: text("name").or(text("metric"))?,
                of: of(object),
                value: number(value),
                range: [number("ci_low"), number("ci_high")],
            })
        })
        .collect()
}

/// The values that tell a row from others of its metric.
fn of(row: &Map<String, Json>) -> String {
    let shown = |value: &Json| match value {
        Json::String(text) => text.clone(),
        value => value.to_string(),
    };
    let own = row.iter().filter(|(name, _)| !NUMBERS.contains(&name.as_str()));
    own.map(|(name, value)| format!("{name}={}", shown(value))).collect::<Vec<_>>().join(" ")
}

/// Names of a series: its stage where there are several, and what tells its rows apart.
fn series(found: &[&Measured<'_>], it: &Measured<'_>) -> String {
    let several = found.iter().any(|other| other.stage != it.stage);
    let stage = if several { it.stage } else { "" };
    format!("{stage} {}", it.of).trim().to_owned()
}

fn table(found: &[&Measured<'_>], output: &Output) -> String {
    let mut rows = Vec::new();
    for (i, it) in found.iter().enumerate() {
        let name = series(found, it);
        let before = found[..i].iter().rev().find(|other| series(found, other) == name);
        let change = before.and_then(|before| Some(it.value? - before.value?));
        let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
        rows.push(vec![
            it.run.to_string(),
            it.started_at.format("%Y-%m-%d %H:%M:%S").to_string(),
            name,
            float(it.value),
            float(it.range[0]),
            float(it.range[1]),
            float(change),
        ]);
    }
    let header = ["run", "started (UTC)", "of", "value", "low", "high", "change"];
    let right = [false, false, false, true, true, true, true];
    output.table(&header.map(str::to_owned), rows, &right)
}

/// The values over time, which counts back from the newest run.
fn plotted(metric: &str, found: &[&Measured<'_>]) -> Plot {
    let newest = found.iter().map(|it| it.started_at).max().unwrap_or_default();
    let oldest = found.iter().map(|it| it.started_at).min().unwrap_or_default();
    let span = (newest - oldest).as_seconds_f64();
    let units = [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")];
    // The largest unit of which there are at least two.
    let (length, unit) =
        units.into_iter().find(|(length, _)| span >= 2.0 * length).unwrap_or((1.0, "seconds"));
    let mut plot = Plot {
        x: format!("{unit} before the newest run"),
        y: metric.to_owned(),
        range: Some("interval of each run".to_owned()),
        lines: true,
        series: Vec::new(),
        left_out: 0,
    };
    let mut names: Vec<String> = Vec::new();
    for it in found {
        let name = series(found, it);
        if !names.contains(&name) {
            names.push(name.clone());
        }
        if names.iter().position(|known| *known == name).is_some_and(|at| at < SERIES_MAX) {
            let x = (it.started_at - newest).as_seconds_f64() / length;
            plot.add(&name, Some(x), it.value, it.range);
        }
    }
    plot
}

fn to_json(it: &Measured<'_>) -> Json {
    json!({
        "run": it.run,
        "started_at": it.started_at,
        "stage": it.stage,
        "metric": it.metric,
        "of": it.of,
        "value": it.value,
        "ci_low": it.range[0],
        "ci_high": it.range[1],
    })
}
