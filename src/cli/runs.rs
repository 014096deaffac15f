//! `proofmill runs`

use std::collections::BTreeSet;

use crate::cli::args::{self, RunsOther};
use crate::cli::environment::Environment;
use crate::report::units::plural;
use crate::views::runs::{RunLine, RunsView};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::printable;
use proofmill_catalog::audit::history::unsuccessful_since_published;
use proofmill_catalog::summary::list;
use proofmill_store::{Claimed, order_stop};

/// Lists runs, or stops one.
pub async fn runs(args: &args::Runs, environment: &Environment) -> Result<()> {
    if let Some(RunsOther::Stop(stop)) = &args.other {
        return order(&stop.run, environment).await;
    }
    let store = environment.host.store_to_read().await?;
    let (mut runs, mut damaged) = (Vec::new(), None);
    let listed = list(&store, args.limit, args.pipeline.as_deref(), |_| true).await?;
    listed.remark.iter().for_each(|remark| environment.output.remark(remark));
    for (run, summary) in listed.runs {
        match summary {
            Ok(summary) => {
                summary.remark.iter().for_each(|remark| environment.output.remark(remark));
                runs.push(RunLine::from(&summary));
            }
            Err(error) => {
                let why = printable(&error.to_string(), true);
                environment.output.remark(format!("run {run} cannot be read: {why}"));
                damaged = Some(error);
            }
        }
    }
    let pipelines: BTreeSet<String> = runs.iter().map(|line| line.pipeline.clone()).collect();
    environment.output.view(&RunsView(runs))?;
    let pipelines = pipelines.iter().filter_map(|name| name.parse().ok()).collect();
    for (pipeline, count) in unsuccessful_since_published(&store, &pipelines).await? {
        let (runs, were) = (plural(count, "run"), if count == 1 { "was" } else { "were" });
        environment.output.remark(format!(
            "{runs} of `{pipeline}` failed or {were} stopped since the last published one"
        ));
    }
    damaged.map_or(Ok(()), Err)
}

/// Orders a run to stop.
async fn order(run: &str, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(run)).await?;
    if run.outcome.is_some() {
        return Err(Error::new(ErrorKind::Usage, format!("run {} has ended", run.run)));
    }
    order_stop(&store, &Claimed::run(&run.run)).await?;
    environment.output.remark(format!(
        "run {} stops within seconds, if its process is alive; `proofmill runs` shows whether it has",
        run.run
    ));
    Ok(())
}
