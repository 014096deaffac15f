//! `proofmill gate`

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::cli::args::Pipeline;
use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::gate::args::GateArgs;
use crate::cli::gate::check::check;
use crate::cli::output::to_file;
use crate::cli::stop::on_signals;
use crate::gate::evidence::Difference;
use crate::host::RunStart;
use crate::host::judging::{Entered, NoVerdict, WrongGate, unknown_metric};
use crate::run::planned::Choice;
use crate::run::sources::Copies;
use crate::stages::load::bytes_of;
use crate::views::ci::{annotations, junit, refused, summary as summary_of};
use crate::views::verdict::{VerdictView, difference};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_catalog::audit::entry::VerdictWord;
use proofmill_catalog::reference::{LATEST, RunReference};
use proofmill_catalog::summary::{RunSummary, summary};
use proofmill_pipeline::gate::{self, Gate, GateText};
use proofmill_store::{Store, Trigger};

/// What is said where a file cannot be written.
const STORED: &str = "the verdict is in the store";

/// Judges a run.
pub async fn gate(args: &GateArgs, environment: &Environment) -> Result<()> {
    if let Some(wanted) = &args.check {
        return check(wanted, environment).await;
    }
    match (judged(args, environment).await, args.bisect) {
        (Ok((gate, word)), is_bisect) => ended(&gate, word, is_bisect),
        (Err(error), true) => Err(Error { kind: ErrorKind::Untestable, ..error }),
        (Err(error), false) => Err(error),
    }
}

/// Judges: the name of the gate, and what it says.
async fn judged(args: &GateArgs, environment: &Environment) -> Result<(PipelineName, VerdictWord)> {
    let missing = || Error::new(ErrorKind::Usage, "no gate file is named");
    let path = args.file.as_ref().ok_or_else(missing)?;
    let (gate, text) = read(path, environment)?;
    open_files(args, path)?;
    let entered = match entered(args, &gate, environment).await {
        Ok(entered) => entered,
        Err(error) => {
            let error = said(error, text, path, environment)?;
            without_verdict(args, &gate, &error)?;
            return Err(error);
        }
    };
    if let Some(out) = &args.out {
        to_file(out, &entered.verdict.bytes()?, false, STORED)?;
    }
    let view = VerdictView::of(entered.verdict, Some((entered.stored, entered.channels)));
    environment.output.view(&view)?;
    if let Some(file) = &args.junit {
        to_file(file, junit(&view).as_bytes(), false, STORED)?;
    }
    if let Some(file) = &args.summary {
        to_file(file, summary_of(&view).as_bytes(), true, STORED)?;
    }
    if args.annotations {
        let lines = annotations(&view, |metric| text.line_of(metric));
        lines.into_iter().for_each(|line| environment.output.remark(line));
    }
    Ok((gate.name, view.word()))
}

/// Makes sure that what is to be written can be, before anything is entered or a channel moves.
fn open_files(args: &GateArgs, gate: &Path) -> Result<()> {
    let written = [&args.out, &args.junit, &args.summary];
    let mut taken: Vec<PathBuf> = vec![gate.to_owned()];
    taken.extend(args.candidate.iter().map(PathBuf::from));
    for path in written.into_iter().flatten() {
        let is_it = |other: &PathBuf| match (other.canonicalize(), path.canonicalize()) {
            (Ok(other), Ok(path)) => other == path,
            _ => other == path,
        };
        if taken.iter().any(is_it) {
            let message = format!("`{}` is named twice", path.display());
            return Err(Error::new(ErrorKind::Usage, message).with_hint("write to another file"));
        }
        taken.push(path.clone());
        to_file(path, b"", true, "nothing was judged")?;
    }
    Ok(())
}

/// Writes for CI that there is no verdict: what an earlier one wrote there must not stand for it.
fn without_verdict(args: &GateArgs, gate: &Gate, error: &Error) -> Result<()> {
    let (junit, summary) = refused(gate.name.as_str(), &error.message);
    if let Some(file) = &args.junit {
        to_file(file, junit.as_bytes(), false, STORED)?;
    }
    if let Some(file) = &args.summary {
        to_file(file, summary.as_bytes(), true, STORED)?;
    }
    Ok(())
}

/// Judges the candidate that is meant, after running it if it is a pipeline.
async fn entered(
    args: &GateArgs,
    gate: &Gate,
    environment: &Environment,
) -> Result<Entered, NoVerdict> {
    let file = args.candidate.as_deref().filter(|candidate| is_file(candidate)).map(Path::new);
    let store = match file {
        Some(_) => environment.host.store().await?,
        // Two runs that are there are compared.
        None => environment.host.store_to_read().await?,
    };
    let (stop, display) = (CancellationToken::new(), Display::of(environment));
    let watch = match file {
        Some(_) => Some(on_signals(stop.clone(), display.eraser())?),
        None => None,
    };
    let _watch = watch.map(AbortOnDropHandle::new);
    // What ran last may be another pipeline, and the baseline is named before the candidate runs.
    let default = if file.is_some() { LATEST } else { "latest~1" };
    let wanted = args.baseline.as_deref().or(gate.baseline.as_deref()).unwrap_or(default);
    let wanted: RunReference = wanted.parse()?;
    let baseline = baseline_run(&wanted, environment, &store).await?;
    if file.is_none() && !args.params.is_empty() {
        let message = "`--param` is for a pipeline file, and a run is judged".to_owned();
        return Err(Error::new(ErrorKind::Usage, message).into());
    }
    let candidate = match file {
        Some(file) => {
            let (baseline, stop) = (baseline.as_ref(), stop.clone());
            ran(file, args, gate, baseline, (&display, stop), environment, &store).await?
        }
        None => {
            let of_baseline = baseline.as_ref().map(|run| run.pipeline.as_str());
            let pipeline = of_baseline.or(wanted.pipeline().map(PipelineName::as_str));
            environment.run(&store, args.candidate.as_deref().or(pipeline)).await?
        }
    };
    if let Some(same) = baseline.as_ref().filter(|run| run.run == candidate.run) {
        let message = format!("run {} would be compared with itself", same.run);
        return Err(Error::new(ErrorKind::Usage, message)
            .with_hint("name another baseline: `proofmill runs` lists runs")
            .into());
    }
    let was_stopped = stop.is_cancelled();
    let judged = environment.host.judge(gate, baseline.as_ref(), &candidate, &store);
    tokio::select! {
        entered = judged => entered,
        () = stop.cancelled(), if !was_stopped => {
            let message = format!("stopped before run {} was judged", candidate.run);
            let command = format!("`proofmill gate BASELINE {} --file FILE` judges it", candidate.run);
            Err(Error::new(ErrorKind::Interrupted, message).with_hint(command).into())
        }
    }
}

/// What keeps a gate from judging; a metric that no run has is shown at its place.
fn said(error: NoVerdict, text: GateText, path: &Path, environment: &Environment) -> Result<Error> {
    let WrongGate { place, message, help } = match error {
        NoVerdict::Failed(error) => return Ok(error),
        NoVerdict::WrongGate(wrong) => wrong,
    };
    let first = message.clone();
    let (wrong, sources) = text.wrong(place, message, help.as_deref());
    environment.output.diagnostics(&wrong, &sources)?;
    let message = format!("`{}` has errors; no run was judged: {first}", path.display());
    Ok(Error::new(ErrorKind::Pipeline, message))
}

/// How the command ends.
fn ended(gate: &PipelineName, word: VerdictWord, is_bisect: bool) -> Result<()> {
    let kind = match word {
        VerdictWord::Pass => return Ok(()),
        VerdictWord::Fail => ErrorKind::Stage,
        VerdictWord::CannotTell | VerdictWord::NotComparable | VerdictWord::NotFinished => {
            if is_bisect {
                ErrorKind::Untestable
            } else {
                ErrorKind::Undecided
            }
        }
    };
    Err(Error::new(kind, format!("the gate `{gate}` says: {}", word.word())))
}

/// Reads a gate file; its diagnostics are printed.
fn read(path: &Path, environment: &Environment) -> Result<(Gate, GateText)> {
    let bytes = bytes_of(path).map_err(|why| Error::new(ErrorKind::Usage, why))?;
    let shown = path.display().to_string();
    gate::parse(&shown, &bytes).or_else(|(wrong, sources)| {
        environment.output.diagnostics(&wrong, &sources)?;
        Err(Error::new(ErrorKind::Pipeline, format!("`{shown}` has errors")))
    })
}

/// The run that is compared with; none for a channel that no run is in yet.
pub async fn baseline_run(
    wanted: &RunReference,
    environment: &Environment,
    store: &Store,
) -> Result<Option<RunSummary>> {
    if let Some(reason) = wanted.missing_channel(store).await? {
        environment.output.remark(reason);
        return Ok(None);
    }
    environment.referenced(store, wanted).await.map(Some)
}

fn is_file(candidate: &str) -> bool {
    [".yaml", ".yml"].iter().any(|extension| candidate.ends_with(extension))
}

/// Runs a pipeline, unless it differs from the baseline in what may not.
async fn ran(
    path: &Path,
    args: &GateArgs,
    gate: &Gate,
    baseline: Option<&RunSummary>,
    (display, stop): (&Display, CancellationToken),
    environment: &Environment,
    store: &Store,
) -> Result<RunSummary, NoVerdict> {
    let host = &environment.host;
    let run = environment.next_run(store).await?;
    let engine = host.engine(store, &run)?;
    let pipeline = Pipeline::with(path, &args.params);
    let loaded = environment.load_from_store(&pipeline, &engine, store).await?;
    if let Some(wrong) = unknown_metric(gate, &loaded) {
        return Err(NoVerdict::WrongGate(wrong));
    }
    if let Some(baseline) = baseline {
        refuse(&host.differences(gate, baseline, &loaded, store).await?)?;
    }
    let start = RunStart {
        loaded,
        path: path.display().to_string(),
        choice: Choice::default(),
        run: run.clone(),
        is_resumed: false,
        trigger: Trigger::Command,
        copies: Copies::All,
        replay: None,
        budget: None,
    };
    let ended = host.run(start, store.clone(), display.observer(), stop);
    let ended = display.during(host.clock(), Box::pin(ended)).await;
    if let Some(error) = ended?.result.error {
        let hint = error.hint.iter().map(|hint| format!("\n  {hint}"));
        environment.output.remark(format!("run {run}: {error}{}", hint.collect::<String>()));
    }
    Ok(summary(store, &run).await?)
}

/// Refuses a candidate that differs in what may not, before it runs.
fn refuse(differences: &[Difference]) -> Result<()> {
    let Some(first) = differences.first() else { return Ok(()) };
    let more = match differences.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!("{}{more}; nothing ran", difference(first));
    Err(Error::new(ErrorKind::Pipeline, message)
        .with_hint("`vary` of the gate lists what may differ, and `same` what may not"))
}
