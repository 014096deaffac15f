//! `proofmill run`

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use crate::cli::args;
use crate::cli::environment::Environment;
use crate::cli::shell::quoted;
use crate::cli::stop::on_signals;
use crate::console::{Stream, is_terminal};
use crate::graph::Graph;
use crate::graph::select::{UnknownSelection, select, upstream};
use crate::report::lines::Lines;
use crate::report::logged::Logged;
use crate::report::metrics;
use crate::report::page;
use crate::report::terminal::Terminal;
use crate::report::units::plural;
use crate::run::notice::Observer;
use crate::run::planned::Choice;
use crate::run::provenance::machine;
use crate::run::publish::{Request, RunResult, rows_json, run as run_pipeline};
use crate::run::reference::newest_of;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{RunId, StageName};
use proofmill_store::{StageStatus, Store};

/// How often progress bars are brought up to date.
const TICK: Duration = Duration::from_millis(120);

/// Runs a pipeline and prints its numbers.
pub async fn run(args: &args::Run, environment: &Environment) -> Result<()> {
    let stop = CancellationToken::new();
    let watch = on_signals(stop.clone())?;
    let store = environment.store().await?;
    let resume = match args.resume.as_deref() {
        // A file without a name is refused below.
        Some("latest") => match environment.draft(&args.pipeline)?.name() {
            Some(pipeline) => Some(newest_of(&store, pipeline).await?.run),
            None => None,
        },
        Some(run) => Some(environment.run(&store, Some(run)).await?.run),
        None => None,
    };
    let (run, is_resumed) = match resume {
        Some(run) => (run, true),
        None => (environment.new_run(), false),
    };
    store.sweep_staging();
    let engine = environment.engine(&store, &run)?;
    let loaded = environment.load_from_store(&args.pipeline, &engine, &store).await?;
    if let Some(why) = loaded.engine.models().why_no_gpu() {
        let remark = format!("no GPU is used: {why}; models run on the processor");
        environment.output.remark(&remark);
    }
    let graph = loaded.prepared.as_ref().map(|prepared| &prepared.graph);
    let choice = choice(graph, args.select.as_deref(), args.rerun.as_deref(), args.verify)?;
    if stop.is_cancelled() {
        return Err(Error::new(ErrorKind::Interrupted, "it was stopped before anything ran"));
    }
    let (observer, ticker) = observer(environment.is_logged);
    let request = Request {
        loaded,
        path: args.pipeline.pipeline.display().to_string(),
        machine: machine(&environment.limits),
        choice,
        run,
        is_resumed,
        jobs: environment.limits.cores,
        cache: environment.cache()?,
        observer,
        stop,
    };
    let result = run_pipeline(request, store.clone()).await;
    watch.abort();
    if let Some(ticker) = ticker {
        ticker.abort();
    }
    let mut result = result?;
    result.error = result.error.map(|error| match error.kind {
        ErrorKind::Interrupted => {
            let command = resume_command(args, &result.run, environment);
            error.with_hint(format!("`{command}` goes on where it was"))
        }
        _ => error,
    });
    finish(result, environment, &store)
}

/// The command that goes on with a run, as a shell takes it.
fn resume_command(args: &args::Run, run: &RunId, environment: &Environment) -> String {
    let mut command =
        format!("proofmill run {}", quoted(&args.pipeline.pipeline.to_string_lossy()));
    for (name, value) in &args.pipeline.params {
        command += &format!(" --param {}", quoted(&format!("{name}={value}")));
    }
    for (option, value) in [("select", &args.select), ("rerun", &args.rerun)] {
        command.extend(value.iter().map(|value| format!(" --{option} {}", quoted(value))));
    }
    command
        + &environment.profile_option()
        + &environment.store_option()
        + " --resume "
        + run.as_str()
}

/// The stages that options choose.
pub fn choice(
    graph: Option<&Graph>,
    selected: Option<&str>,
    rerun: Option<&str>,
    verify: bool,
) -> Result<Choice> {
    let stages = |terms: &str| -> Result<HashSet<StageName>> {
        let Some(graph) = graph else { return Ok(HashSet::new()) };
        select(graph, terms).map_err(|error: UnknownSelection| {
            let help = error.help.clone();
            let error = Error::new(ErrorKind::Usage, error.to_string());
            help.into_iter().fold(error, Error::with_hint)
        })
    };
    let again = rerun.map(stages).transpose()?.unwrap_or_default();
    let selected = selected.map(stages).transpose()?;
    // What a selected stage needs must at least be in the store.
    let selected = selected.zip(graph).map(|(selected, graph)| upstream(graph, selected));
    Ok(Choice { selected, again, verify })
}

/// Entries of the log where there is one; otherwise progress bars on a terminal, and lines elsewhere.
fn observer(is_logged: bool) -> (Arc<dyn Observer>, Option<tokio::task::JoinHandle<()>>) {
    if is_logged {
        return (Arc::new(Logged), None);
    }
    if !is_terminal(Stream::Err) {
        return (Arc::new(Lines), None);
    }
    let terminal = Arc::new(Terminal::new());
    let drawn = Arc::clone(&terminal);
    let ticker = tokio::spawn(async move {
        loop {
            tokio::time::sleep(TICK).await;
            drawn.tick();
        }
    });
    (terminal, Some(ticker))
}

fn finish(result: RunResult, environment: &Environment, store: &Store) -> Result<()> {
    // What failed in the run is said first, whatever becomes of its numbers.
    let printed = print(&result, environment, store);
    result.error.map_or(printed, Err)
}

fn print(result: &RunResult, environment: &Environment, store: &Store) -> Result<()> {
    let output = &environment.output;
    if output.json {
        output.json(&json(result, store))?;
    } else {
        // What a page shows is not shown a second time.
        let on_a_page = |stage| result.pages.iter().any(|page| page.tables.contains_key(stage));
        for (stage, batches) in result.metrics.iter().filter(|(stage, _)| !on_a_page(stage)) {
            output.data(format!("\n{}", metrics::of_stage(stage, batches)))?;
        }
        for page in &result.pages {
            output.data(format!("\n{}", page::text(page)))?;
        }
        let count = |status| result.stages.values().filter(|stage| stage.status == status).count();
        output.remark(format!(
            "\n{} computed, {} from the store; tables in {}",
            plural(count(StageStatus::Computed), "stage"),
            count(StageStatus::Cached),
            store.url(),
        ));
        // A store in memory is gone with the command.
        if store.url().scheme() != "memory" {
            let of_run = format!("{} --run {}", environment.store_option(), result.run);
            output.remark(format!("look at them with\n  proofmill show{of_run}"));
            let mut tables = result.stages.values().filter(|stage| stage.artifact.is_some());
            let last =
                tables.next_back().map(|last| format!("SELECT * FROM {} LIMIT 10", last.stage));
            // What is wrong comes last, where it is seen.
            let failed = result.failed.iter().filter_map(|failure| failure.query.clone());
            for query in last.into_iter().chain(failed) {
                output.remark(format!("  {}", environment.sql_command(&result.run, &query)));
            }
        }
    }
    Ok(())
}

fn json(result: &RunResult, store: &Store) -> Json {
    let metrics: Vec<Json> =
        result.metrics.iter().flat_map(|(stage, batches)| rows_json(stage, batches)).collect();
    json!({
        "run": result.run,
        "outcome": result.outcome,
        "store": store.url().as_str(),
        "error": result.error.as_ref().map(|error| error.message.clone()),
        "metrics": metrics,
        "pages": result.pages.iter().map(page::json).collect::<Vec<_>>(),
        "stages": result.stages.values().collect::<Vec<_>>(),
    })
}
