//! `proofmill why`

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::run::plan::plan;
use crate::run::planned::Choice;
use crate::views::why::WhyView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::suggest;

/// Explains why a stage is cached or would run.
pub async fn why(args: &args::Why, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    let loaded = environment.load_from_store(&args.pipeline, &engine, &store).await?;
    let Some(prepared) = &loaded.prepared else { return Ok(()) };
    let plan = plan(prepared, &Choice::default(), "plan", &store).await?;
    let view = WhyView::of(&args.stage, prepared, &plan).ok_or_else(|| {
        let error = Error::new(ErrorKind::Usage, format!("there is no stage `{}`", args.stage));
        let names = plan.stages.keys().map(StageName::as_str);
        suggest::help(&args.stage, names).into_iter().fold(error, Error::with_hint)
    })?;
    environment.output.view(&view)
}
