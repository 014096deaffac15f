//! `proofmill runs`

use serde_json::{Value as Json, json};

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::trends::{Measured, measured};
use crate::draw::cells::format_float;
use crate::run::history::{RunSummary, ended, list};
use proofmill_base::error::Result;
use proofmill_base::styled::printable;
use proofmill_pipeline::project::plain;
use proofmill_store::StageStatus;

/// Metrics of a run that the list shows.
const METRICS_SHOWN: usize = 3;

/// Lists runs.
pub async fn runs(args: &args::Runs, environment: &Environment) -> Result<()> {
    let store = environment.store_to_read().await?;
    let (mut runs, mut damaged) = (Vec::new(), None);
    for (run, summary) in list(&store, args.limit, args.pipeline.as_deref()).await? {
        match summary {
            Ok(summary) => {
                summary.remark.iter().for_each(|remark| environment.output.remark(remark));
                runs.push(summary);
            }
            Err(error) => {
                let why = printable(&error.to_string(), true);
                environment.output.remark(format!("run {run} cannot be read: {why}"));
                damaged = Some(error);
            }
        }
    }
    let output = &environment.output;
    if output.json {
        output.json(&Json::Array(runs.iter().map(to_json).collect()))?;
        return damaged.map_or(Ok(()), Err);
    }
    let header = [
        "run",
        "pipeline",
        "started (UTC)",
        "outcome",
        "computed",
        "cached",
        "seconds",
        "parameters",
        "metrics",
    ];
    let rows = runs.iter().map(line).collect();
    let right = [false, false, false, false, true, true, true, false, false];
    output.long(output.table(&header.map(str::to_owned), rows, &right))?;
    damaged.map_or(Ok(()), Err)
}

fn count(run: &RunSummary, status: StageStatus) -> usize {
    run.stages.iter().filter(|stage| stage.status == status).count()
}

fn line(run: &RunSummary) -> Vec<String> {
    vec![
        run.run.to_string(),
        run.pipeline.clone(),
        run.started_at.map(|at| at.format("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default(),
        ended(run).to_owned(),
        count(run, StageStatus::Computed).to_string(),
        count(run, StageStatus::Cached).to_string(),
        run.seconds.map(|seconds| format!("{seconds:.1}")).unwrap_or_default(),
        parameters(run),
        metrics(run),
    ]
}

/// The parameters, as `--param` takes them.
fn parameters(run: &RunSummary) -> String {
    let shown = |(name, value): (&String, &Json)| format!("{name}={}", plain(value));
    printable(&run.params.iter().map(shown).collect::<Vec<_>>().join(" "), false)
}

/// The first metrics that stand for all rows of their stage.
fn metrics(run: &RunSummary) -> String {
    let all = measured(run).into_iter().filter(|it| it.of.is_empty());
    let shown = |it: Measured<'_>| {
        let value = it.value.map(format_float).unwrap_or_default();
        format!("{}.{}={value}", it.stage, it.metric)
    };
    printable(&all.take(METRICS_SHOWN).map(shown).collect::<Vec<_>>().join(" "), false)
}

fn to_json(run: &RunSummary) -> Json {
    json!({
        "run": run.run,
        "pipeline": run.pipeline,
        "started_at": run.started_at,
        "outcome": ended(run),
        "params": run.params,
        "metrics": run.metrics,
        "computed": count(run, StageStatus::Computed),
        "cached": count(run, StageStatus::Cached),
        "seconds": run.seconds,
    })
}
