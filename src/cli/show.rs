//! `proofmill show`

use std::collections::HashMap;
use std::sync::Arc;

use crate::cli::args::{self, Printed};
use crate::cli::environment::Environment;
use crate::cli::rows::{Limited, Outlet};
use crate::cli::show_models::show_models;
use crate::cli::sql::open;
use crate::report::page;
use crate::run::bind::tables;
use crate::run::publish::rows_json;
use crate::run::reports;
use crate::views::audit::{SourceView, source_named};
use crate::views::run::RunView;
use crate::views::stage::{StageView, heading};
use datafusion::catalog::TableProvider;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::styled::printable;
use proofmill_base::suggest;
use proofmill_catalog::summary::{RunSummary, artifact};
use proofmill_pipeline::kinds::read::Format;
use proofmill_store::{SourceRole, Store, read_source};

/// Rows of a stage that are shown for people unless they say how many.
const ROWS_SHOWN: usize = 10;

/// Shows a run or one of its stages, or something else.
pub async fn show(args: &args::Show, environment: &Environment) -> Result<()> {
    if let Some(args::ShowOther::Models(args)) = &args.other {
        return show_models(args, environment).await;
    }
    let store = environment.host.store_to_read().await?;
    if let Some(run) = &args.source {
        return show_source(run, args.stage.as_deref(), environment, &store).await;
    }
    let run = environment.run(&store, Some(&args.run)).await?;
    match &args.stage {
        None => {
            let view = RunView::of(&run, environment.store_option());
            environment.output.view(&view)
        }
        Some(stage) => show_stage(&run, stage, args, environment, &store).await,
    }
}

/// Prints a text that a run was made of, its pipeline file unless another is named.
async fn show_source(
    run: &str,
    name: Option<&str>,
    environment: &Environment,
    store: &Store,
) -> Result<()> {
    let run = environment.run(store, Some(run)).await?;
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let sources = run.origin.as_ref().map(|origin| origin.sources.clone()).unwrap_or_default();
    if sources.is_empty() {
        return Err(usage(format!("run {} keeps none of its texts", run.run))
            .with_hint("an older proofmill ran it; runs of this one keep them"));
    }
    let found = match name {
        Some(name) => source_named(&sources, name),
        None => {
            let mut all = sources.iter();
            let file = all.find(|(_, source)| source.role == SourceRole::Pipeline);
            file.map(|(path, source)| (path.as_str(), source))
        }
    };
    let Some((path, source)) = found else {
        let name = name.unwrap_or_default();
        let error = usage(format!("run {} has no text `{name}`", run.run));
        let paths = sources.keys().map(String::as_str);
        return Err(suggest::help(name, paths).into_iter().fold(error, Error::with_hint));
    };
    if !source.stored {
        let message = format!("`{path}` of run {} was not copied", run.run);
        return Err(usage(message).with_hint(format!(
            "the run was started with `--no-code-copy`, or the file is large; its SHA-256 is {}",
            source.sha256
        )));
    }
    let text = read_source(store, source).await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if name.is_none() && sources.len() > 1 {
        let others: Vec<&str> =
            sources.keys().map(String::as_str).filter(|it| *it != path).collect();
        let listed = printable(&others.join(", "), false);
        environment
            .output
            .remark(format!("with a name, `--source` prints another of its texts: {listed}"));
    }
    let path = path.to_owned();
    environment.output.view(&SourceView { run: run.run, path, text, sources })
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
    let with_record = outlet.prints(Printed::Rows(Format::Json));
    outlet.limit = match args.rows {
        None if with_record && args.out.limit.is_none() => Some(ROWS_SHOWN),
        None => outlet.limit,
        rows => rows,
    };
    let engine = environment.host.engine(store, &environment.host.new_run())?;
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
        return output.json(&StageView { artifact: Arc::clone(record), rows });
    }
    outlet.heading = heading(record, run);
    outlet.give(&schema, rows, output).await
}
