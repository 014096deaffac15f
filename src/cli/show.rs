//! `proofmill show`

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use serde_json::json;

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::show_models::show_models;
use crate::cli::sql::fetch;
use crate::draw::table::{aligned, of_batches};
use crate::report::page;
use crate::report::units::{bytes, count, plural};
use crate::run::history::{RunSummary, artifact, ended, tables};
use crate::run::publish::rows_json;
use crate::run::reports;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::printable;
use proofmill_base::suggest;
use proofmill_store::{StageOutcome, Store};

/// Shows a run or one of its stages, or something else.
pub async fn show(args: &args::Show, environment: &Environment) -> Result<()> {
    if let Some(args::ShowOther::Models(args)) = &args.other {
        return show_models(args, environment).await;
    }
    let store = environment.store().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    match &args.stage {
        None => show_run(&run, environment),
        Some(stage) => show_stage(&run, stage, args.rows, environment, &store).await,
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
    output.data(aligned(&header.map(str::to_owned), rows, &right))?;
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
    rows: usize,
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
    if let Some(page) = page.filter(|_| !output.json) {
        output.data(page::text(&page))?;
        return Ok(());
    }
    let engine = environment.engine(store, &environment.new_run())?;
    let (schema, batches) = match tables(store, outcome).await?.into_iter().next() {
        Some((name, table)) => {
            let table = table as Arc<dyn TableProvider>;
            let named = HashMap::from([(name.to_string(), table)]);
            let sql = format!("SELECT * FROM {name} LIMIT {rows}");
            fetch(&sql, named, &engine, usize::MAX, 0).await?
        }
        None => return Ok(()),
    };
    if output.json {
        let name = &outcome.stage;
        output.json(&json!({"artifact": record.as_ref(), "rows": rows_json(name, &batches)}))?;
        return Ok(());
    }
    output.data(format!(
        "{} ({}): {} rows, {}\nfingerprint {}\nmade by run {} at {}\n",
        record.stage,
        printable(&record.kind, true),
        count(record.rows),
        bytes(record.bytes),
        record.fingerprint,
        record.created_by,
        record.created_at.format("%Y-%m-%d %H:%M:%S UTC"),
    ))?;
    for part in record.parts.iter().chain(&record.errors) {
        output.data(format!("  {}  sha256 {}\n", part.key, part.sha256))?;
    }
    for note in &record.notes {
        output.data(format!("note: {}\n", printable(note, true)))?;
    }
    output.data(format!("\n{}", of_batches(&schema, &batches, false)))?;
    Ok(())
}
