//! `proofmill trends`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::trends::{MetricNames, TrendView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::summary::{RunSummary, list};

/// Shows how a metric of a pipeline changed from run to run.
pub async fn trends(args: &args::Trends, environment: &Environment) -> Result<()> {
    let (store, output) = (environment.host.store_to_read().await?, &environment.output);
    let mut runs = Vec::new();
    let listed = list(&store, args.limit, Some(&args.pipeline), RunSummary::is_good).await?;
    listed.remark.iter().for_each(|remark| output.remark(remark));
    for (run, summary) in listed.runs {
        match summary {
            Ok(summary) => runs.push(summary),
            Err(error) => output.remark(format!("run {run} cannot be read: {error}")),
        }
    }
    runs.reverse();
    if runs.is_empty() {
        let message = format!("no run of a pipeline `{}` has succeeded", args.pipeline);
        return Err(Error::new(ErrorKind::Usage, message).with_hint("`proofmill runs` lists runs"));
    }
    match &args.metric {
        None => output.view(&MetricNames::of(&runs)),
        Some(metric) => output.view(&TrendView::of(&args.pipeline, metric, &runs)?),
    }
}
