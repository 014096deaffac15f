//! `proofmill runs`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::runs::{RunLine, RunsView};
use proofmill_base::error::Result;
use proofmill_base::styled::printable;
use proofmill_catalog::summary::list;

/// Lists runs.
pub async fn runs(args: &args::Runs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let (mut runs, mut damaged) = (Vec::new(), None);
    for (run, summary) in list(&store, args.limit, args.pipeline.as_deref()).await? {
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
    environment.output.view(&RunsView(runs))?;
    damaged.map_or(Ok(()), Err)
}
