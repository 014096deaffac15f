//! `proofmill plan`

use crate::cli::args::{self, Pipeline};
use crate::cli::environment::Environment;
use crate::run::estimate::estimates;
use crate::run::plan::plan as plan_run;
use crate::run::recorded::recorded;
use crate::run::selection::choice;
use crate::views::plan::PlanView;
use proofmill_base::error::Result;
use proofmill_pipeline::models::Ask;

/// Says what a run would do.
pub async fn plan(args: &args::Plan, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let engine = environment.host.engine(&store, &environment.host.new_run())?;
    // No run has this word: nothing is recorded under it.
    let generation = (args.ask == Ask::All).then(|| "plan".to_owned());
    let pipeline = Pipeline { generation, ..args.pipeline.clone() };
    let loaded = environment.load_from_store(&pipeline, &engine, &store).await?;
    let Some(prepared) = &loaded.prepared else { return Ok(()) };
    let (select, rerun) = (args.select.as_deref(), args.rerun.as_deref());
    let choice = choice(prepared, select, rerun, args.verify, &store).await?;
    let plan = plan_run(prepared, &choice, "plan", &store).await?;
    let recorded = recorded(prepared, &plan, &loaded.engine, &store).await;
    let (mut estimates, output) = (estimates(prepared, &plan), &environment.output);
    for (name, found) in &recorded {
        estimates.entry(name).and_modify(|estimate| *estimate = estimate.with(*found));
    }
    plan.remarks.iter().for_each(|remark| output.remark(remark));
    let view = PlanView::of(prepared, &plan, &estimates);
    output.view(&view)?;
    if !output.json {
        view.remarks().into_iter().for_each(|remark| output.remark(remark));
    }
    Ok(())
}
