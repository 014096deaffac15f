//! `proofmill errors`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::views::errors::ErrorsView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_catalog::reference::LATEST;

/// Lists the rows of a run that failed, and how to ask them again.
pub async fn errors(args: &args::Errors, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await.map_err(|error| match args.stage {
        None if args.run != LATEST => {
            error.with_hint("a stage comes second: `proofmill errors latest STAGE`")
        }
        _ => error,
    })?;
    if let Some(stage) = &args.stage
        && run.table(stage).is_none()
    {
        let message = format!("run `{}` has no stage `{stage}`", run.run);
        let names: Vec<&str> = run.tables().map(|outcome| outcome.stage.as_str()).collect();
        let error = Error::new(ErrorKind::Usage, message);
        return Err(suggest::help(stage, names).into_iter().fold(error, Error::with_hint));
    }
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    let limit = if args.limit == 0 { u64::MAX as usize } else { args.limit };
    let (stage, option) = (args.stage.as_deref(), environment.store_option());
    let view = ErrorsView::of(&run, stage, limit, &store, &engine, &option).await?;
    let output = &environment.output;
    output.view(&view)?;
    if !output.json {
        view.remarks().into_iter().for_each(|remark| output.remark(remark));
    }
    Ok(())
}
