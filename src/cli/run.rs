//! `proofmill run`

use tokio_util::sync::CancellationToken;

use crate::cli::args::{self, Pipeline};
use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::stop::on_signals;
use crate::host::{EndedRun, RunStart};
use crate::report::metrics;
use crate::report::model_usage;
use crate::report::page;
use crate::report::units::plural;
use crate::run::planned::Choice;
use crate::run::publish::RunResult;
use crate::run::selection::choice;
use crate::run::sources::Copies;
use crate::views::result::ResultView;
use crate::views::schedule::sampled_words;
use crate::views::shell::quoted;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_catalog::reference::newest_of;
use proofmill_catalog::summary::summary;
use proofmill_pipeline::models::Ask;
use proofmill_schedule::state::SampledStage;
use proofmill_store::{StageStatus, Store, Trigger};

/// Runs a pipeline and prints its numbers.
pub async fn run(args: &args::Run, environment: &Environment) -> Result<()> {
    let stop = CancellationToken::new();
    let display = Display::of(environment);
    let watch = on_signals(stop.clone(), display.eraser())?;
    let store = environment.host.store().await?;
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
        None => (environment.next_run(&store).await?, false),
    };
    store.sweep_staging();
    let has_workers = args.workers || environment.has_workers;
    if let Some(budget) = args.budget.as_ref().filter(|_| has_workers) {
        budget.fits_workers().map_err(|why| {
            let help = "leave workers out, or bound the time; `budget` of a model in the file holds over all workers";
            Error::new(ErrorKind::Usage, why).with_hint(help)
        })?;
    }
    let engine = environment.host.engine_of_run(&store, &run, has_workers)?;
    // A run that is resumed asks under the same word as before.
    let generation = (args.ask == Ask::All).then(|| run.to_string());
    let pipeline = Pipeline { generation, ..args.pipeline.clone() };
    let loaded = environment.load_from_store(&pipeline, &engine, &store).await?;
    if let Some(why) = loaded.engine.models().why_no_gpu() {
        environment.remark_once(&format!("no GPU is used: {why}; models run on the processor"));
    }
    let limited = args.pipeline.limit.map(|rows| {
        format!("`--limit {rows}`: each `read` gives at most {}. These are not the numbers of the full pipeline",
            plural(usize::try_from(rows.get()).unwrap_or(usize::MAX), "row"),)
    });
    limited.iter().for_each(|text| environment.output.remark(text));
    let (select, rerun) = (args.select.as_deref(), args.rerun.as_deref());
    let choice = match &loaded.prepared {
        Some(prepared) => choice(prepared, select, rerun, args.verify, &store).await?,
        None => Choice::default(),
    };
    if stop.is_cancelled() {
        return Err(Error::new(ErrorKind::Interrupted, "the run was stopped before any stage ran"));
    }
    let path = args.pipeline.pipeline.display().to_string();
    let copies = if args.no_code_copy { Copies::WithoutCode } else { Copies::All };
    let budget = args.budget.clone();
    let replay = None;
    let trigger = Trigger::Command;
    let start = RunStart { loaded, path, choice, run, is_resumed, trigger, copies, replay, budget };
    let run = environment.host.run(start, store.clone(), display.observer(), stop);
    let ended = display.during(environment.host.clock(), Box::pin(run)).await;
    watch.abort();
    let EndedRun { mut result, spent } = ended?;
    let sampled = match (args.ask, &result.error) {
        (Ask::Sample(share), None) => {
            let word = result.run.to_string();
            let ended = summary(&store, &result.run).await?;
            let again = environment.host.sample(&ended, share, &word, &store);
            // The run is what it is: what becomes of its sample is said after its numbers.
            Some(Box::pin(again).await)
        }
        _ => None,
    };
    let (sampled, no_sample) = match sampled {
        Some(Err(error)) => (None, Some(error)),
        sampled => (sampled.and_then(Result::ok), None),
    };
    // What failed in the run is said first, whatever becomes of its numbers.
    let printed = print(&result, sampled.as_deref(), environment, &store);
    limited.iter().for_each(|text| environment.output.remark(text));
    let Some(error) = result.error.take() else {
        return printed.and(no_sample.map_or(Ok(()), Err));
    };
    Err(match error.kind {
        ErrorKind::Interrupted => {
            let command = resume_command(args, &result.run, environment);
            let error = match (spent, &args.budget) {
                (Some(spent), Some(budget)) => {
                    let message = format!("{}: {spent}, and `--budget` is {budget}", error.message);
                    Error::new(ErrorKind::Resources, message)
                }
                _ => error,
            };
            error.with_hint(format!("`{command}` resumes it"))
        }
        // Where there is a log, why it failed stands there, if that was wanted.
        _ if environment.is_logged => error,
        _ => said_once(error, &result),
    })
}

/// The error of a run whose stages failed, without what was said when they did.
fn said_once(error: Error, result: &RunResult) -> Error {
    let failed = result.stages.values().filter(|stage| stage.status == StageStatus::Failed);
    let failed: Vec<String> = failed.map(|stage| format!("`{}`", stage.stage)).collect();
    let message = match failed.as_slice() {
        [] => return error,
        [one] => format!("stage {one} failed (see above)"),
        several => format!("stages {} failed (see above)", several.join(", ")),
    };
    Error { message, ..error }
}

/// The command that goes on with a run, as a shell takes it.
fn resume_command(args: &args::Run, run: &RunId, environment: &Environment) -> String {
    let mut command =
        format!("proofmill run {}", quoted(&args.pipeline.pipeline.to_string_lossy()));
    for (name, value) in &args.pipeline.params {
        command += &format!(" --param {}", quoted(&format!("{name}={value}")));
    }
    let budget = args.budget.as_ref().map(ToString::to_string);
    let limit = args.pipeline.limit.as_ref().map(ToString::to_string);
    let options =
        [("limit", &limit), ("select", &args.select), ("rerun", &args.rerun), ("budget", &budget)];
    if args.workers {
        command += " --workers";
    }
    if args.ask != Ask::Ledger {
        command += &format!(" --ask {}", args.ask);
    }
    for (option, value) in options {
        command.extend(value.iter().map(|value| format!(" --{option} {}", quoted(value))));
    }
    command
        + &environment.profile_option()
        + &environment.store_option()
        + " --resume "
        + run.as_str()
}

fn print(
    result: &RunResult,
    sampled: Option<&[SampledStage]>,
    environment: &Environment,
    store: &Store,
) -> Result<()> {
    let output = &environment.output;
    if output.json {
        output.json(&ResultView::of(result, sampled, store))?;
    } else {
        // What a page shows is not shown a second time.
        let on_a_page = |stage| result.pages.iter().any(|page| page.tables.contains_key(stage));
        for (stage, batches) in result.metrics.iter().filter(|(stage, _)| !on_a_page(stage)) {
            output.data(format!("\n{}", metrics::of_stage(stage, batches, output.width())))?;
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
        for (model, usage) in &result.models {
            output.remark(model_usage::of_model(model, usage));
        }
        for (model, usage) in &result.local_models {
            output.remark(model_usage::of_local_model(model, usage));
        }
        let sampled = sampled.into_iter().flatten().map(sampled_words);
        sampled.for_each(|line| output.remark(line));
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
