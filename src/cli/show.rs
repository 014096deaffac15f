//! `proofmill show`

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use serde_json::json;

use crate::audit::lineage::inputs_of;
use crate::cli::args::{self, Format};
use crate::cli::environment::Environment;
use crate::cli::rows::{Limited, Outlet};
use crate::cli::show_models::show_models;
use crate::cli::sql::open;
use crate::report::asked;
use crate::report::page;
use crate::report::units::{bytes, count, plural};
use crate::run::history::{RunSummary, artifact, ended, tables};
use crate::run::publish::rows_json;
use crate::run::reports;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::printable;
use proofmill_base::suggest;
use proofmill_store::{Artifact, StageOutcome, Store};

/// Rows of a stage that are shown for people unless they say how many.
const ROWS_SHOWN: usize = 10;

/// Shows a run or one of its stages, or something else.
pub async fn show(args: &args::Show, environment: &Environment) -> Result<()> {
    if let Some(args::ShowOther::Models(args)) = &args.other {
        return show_models(args, environment).await;
    }
    let store = environment.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    match &args.stage {
        None => show_run(&run, environment),
        Some(stage) => show_stage(&run, stage, args, environment, &store).await,
    }
}

fn show_run(run: &RunSummary, environment: &Environment) -> Result<()> {
    let output = &environment.output;
    if output.json {
        output.json(&json!({
            "run": run.run,
            "pipeline": run.pipeline,
            "outcome": ended(run),
            "params": run.params,
            "models": run.models,
            "local_models": run.local_models,
            "stages": run.stages,
            "failed": run.failed,
            "not_run": not_run(run),
        }))?;
        return Ok(());
    }
    let pipeline = printable(&run.pipeline, true);
    output.data(format!("run {} of {pipeline}: {}\n\n", run.run, ended(run)))?;
    let header = ["stage", "kind", "status", "rows", "errors", "bytes", "ms", "fingerprint"];
    let line = |stage: &StageOutcome| {
        vec![
            stage.stage.to_string(),
            stage.kind.clone(),
            format!("{:?}", stage.status).to_lowercase(),
            count(stage.rows),
            count(stage.error_rows),
            bytes(stage.bytes),
            count(stage.wall_ms),
            stage.fingerprint.map(|f| f.0.short()).unwrap_or_default(),
        ]
    };
    let right = [false, false, false, true, true, true, true, false];
    let failed = run.failed.iter().filter_map(|failure| failure.outcome.as_ref());
    let rows = run.stages.iter().chain(failed).map(line).collect();
    output.data(output.table(&header.map(str::to_owned), rows, &right))?;
    for (model, usage) in &run.models {
        output.data(format!("\n{}\n", asked::of_model(model, usage)))?;
    }
    for (model, usage) in &run.local_models {
        output.data(format!("\n{}\n", asked::of_local_model(model, usage)))?;
    }
    for failure in &run.failed {
        let (stage, why) = (printable(&failure.stage, true), printable(&failure.message, true));
        output.data(format!("\n{stage} failed: {why}\n"))?;
        if let Some(query) = &failure.query {
            output.data(format!("its rows: {}\n", environment.sql_command(&run.run, query)))?;
        }
    }
    match not_run(run) {
        0 => Ok(()),
        n => output.data(format!("\n{} did not run\n", plural(n, "stage"))),
    }
}

/// Stages that neither ended well nor failed: they needed one that failed, or the run was stopped before.
fn not_run(run: &RunSummary) -> usize {
    run.stages_all.saturating_sub(run.stages.len() + run.failed.len())
}

async fn show_stage(
    run: &RunSummary,
    stage: &str,
    args: &args::Show,
    environment: &Environment,
    store: &Store,
) -> Result<()> {
    let output = &environment.output;
    let failure = run.failed.iter().find(|failure| failure.stage == stage);
    if let Some(failure) = failure {
        let message = format!("stage `{stage}` failed in run `{}`: {}", run.run, failure.message);
        if run.table(stage).is_none() {
            return Err(Error::new(ErrorKind::Stage, message));
        }
        output.remark(format!("{}; no other stage reads this table", printable(&message, true)));
    }
    let found =
        run.table(stage).or_else(|| run.stages.iter().find(|it| it.stage.as_str() == stage));
    let outcome = found.ok_or_else(|| {
        let error =
            Error::new(ErrorKind::Usage, format!("run `{}` has no stage `{stage}`", run.run));
        let names = run.stages.iter().map(|outcome| outcome.stage.as_str());
        suggest::help(stage, names).into_iter().fold(error, Error::with_hint)
    })?;
    let Some(stored) = artifact(store, outcome).await? else {
        return Err(Error::new(ErrorKind::Stage, format!("stage `{stage}` has no table"))
            .with_hint("it failed; `proofmill runs` shows how the run ended"));
    };
    let record = &stored.record;
    let find = |name: &str| run.table(name);
    let page = reports::of_stage(outcome, find, store).await?;
    let as_it_is = !output.json && args.out.format.is_none() && args.out.output.is_none();
    if let Some(page) = page.filter(|_| as_it_is) {
        return output.long(page::text(&page));
    }
    let mut outlet = Outlet::of(&args.out, ROWS_SHOWN, output)?;
    let with_record = outlet.prints(Format::Json);
    outlet.limit = match args.rows {
        None if with_record && args.out.limit.is_none() => Some(ROWS_SHOWN),
        None => outlet.limit,
        rows => rows,
    };
    let engine = environment.engine(store, &environment.new_run())?;
    let Some((name, table)) = tables(store, outcome).await?.into_iter().next() else {
        return Ok(());
    };
    let named = HashMap::from([(name.to_string(), table as Arc<dyn TableProvider>)]);
    let limit = outlet.limit.map(|rows| format!(" LIMIT {rows}")).unwrap_or_default();
    let sql = format!("SELECT * FROM {name}{limit}");
    let (schema, rows) = open(&sql, named, &engine, 0).await?;
    if with_record {
        let batches = Limited::new(rows, None).collect().await?;
        let rows = rows_json(&outcome.stage, &batches);
        return output.json(&json!({"artifact": record.as_ref(), "rows": rows}));
    }
    outlet.heading = heading(record, run);
    outlet.give(&schema, rows, output).await
}

/// What stands above the rows of a stage.
fn heading(record: &Artifact, run: &RunSummary) -> String {
    let mut text = format!(
        "{} ({}): {}, {}\nfingerprint {}\nmade by run {} at {}\n",
        record.stage,
        printable(&record.kind, true),
        plural(record.rows as usize, "row"),
        bytes(record.bytes),
        record.fingerprint,
        record.created_by,
        record.created_at.format("%Y-%m-%d %H:%M:%S UTC"),
    );
    let made_of = made_of(record, run);
    if !made_of.is_empty() {
        text += &format!("made of: {}\n", made_of.join(", "));
    }
    for part in record.parts.iter().chain(&record.errors) {
        text += &format!("  {}  sha256 {}\n", part.key, part.sha256);
    }
    for note in &record.notes {
        text += &format!("note: {}\n", printable(note, true));
    }
    text + "\n"
}

/// The tables that a table was computed from, by their names in `run`, each with its part in the stage.
fn made_of(record: &Artifact, run: &RunSummary) -> Vec<String> {
    let inputs = inputs_of(record).into_iter().map(|(part, input)| {
        let stage = run.stages.iter().find(|stage| stage.fingerprint == Some(input));
        let name = stage.map_or_else(|| input.0.short(), |stage| stage.stage.to_string());
        // In SQL the part is the name.
        if part == name { name } else { format!("{name} ({})", printable(&part, true)) }
    });
    inputs.collect()
}
