//! `proofmill audit root`

use crate::cli::audit::args::RootArgs;
use crate::cli::environment::Environment;
use crate::views::audit::RootView;
use proofmill_audit::roots;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_catalog::summary::artifact;

/// Prints the root of a table.
pub async fn root(args: &RootArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    let found = run.table(&args.stage).ok_or_else(|| {
        let message = format!("run `{}` has no table `{}`", run.run, args.stage);
        let names = run.stages.iter().map(|it| it.stage.as_str());
        let error = Error::new(ErrorKind::Usage, message);
        suggest::help(&args.stage, names).into_iter().fold(error, Error::with_hint)
    })?;
    let Some(table) = artifact(&store, found).await? else { return Ok(()) };
    let root = roots::root(&store, &table).await?;
    let (stage, rows) = (found.stage.clone(), table.record.rows);
    environment.output.view(&RootView { run: run.run, stage, rows, root })
}
