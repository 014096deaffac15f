//! `proofmill audit replay`

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::cli::audit::args::ReplayArgs;
use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::stop::on_signals;
use crate::host::RunStart;
use crate::host::kept::KeptPipeline;
use crate::report::units::plural;
use crate::run::notice::{Notice, Observer};
use crate::run::planned::Choice;
use crate::run::replay::Replay;
use crate::run::sources::Copies;
use crate::stages::stored_tables::PinnedTables;
use crate::views::replay::ReplayView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::rng::mix64;
use proofmill_catalog::summary::{RunSummary, artifact};
use proofmill_store::{Artifact, Store, Stored, Trigger, ledger_prefix};

/// Computes a run again, and compares.
pub async fn replay(args: &ReplayArgs, environment: &Environment) -> Result<()> {
    let host = &environment.host;
    let stop = CancellationToken::new();
    let display = Display::of(environment);
    let watch = on_signals(stop.clone(), display.eraser())?;
    let store = host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    let tables = tables(&store, &run).await?;
    let chosen = args.sample.map(|share| sample(&run, tables.keys(), share));
    let folder = tempfile::Builder::new().prefix("proofmill-replay-").tempdir();
    let folder = folder.map_err(|error| {
        let message = format!("no folder for what is computed again: {error}");
        Error::new(ErrorKind::Resources, message)
    })?;
    // With recorded answers hidden, models on this machine compute them again.
    let hidden = if args.recompute { vec![ledger_prefix()] } else { Vec::new() };
    let overlay = store.overlay(folder.path(), hidden)?;
    let id = host.new_run();
    let engine = host.engine(&overlay, &id)?;
    let kept = KeptPipeline::of(&run, &store).await?;
    let (path, draft) = (kept.path.clone(), kept.draft()?);
    let (loaded, _) =
        host.load_kept(draft, kept.texts, PinnedTables::new(), &engine, &overlay).await?;
    let loaded = environment.valid(loaded)?;
    let replay = Arc::new(Replay::new(run.run.clone(), tables, chosen));
    let start = RunStart {
        loaded,
        path,
        choice: Choice::default(),
        run: id,
        is_resumed: false,
        trigger: Trigger::Command,
        copies: Copies::WithoutCode,
        replay: Some(Arc::clone(&replay)),
        budget: None,
    };
    let observer = Arc::new(Replaying(display.observer()));
    let ended =
        display.during(host.clock(), Box::pin(host.run(start, overlay, observer, stop))).await;
    watch.abort();
    let ended = ended?;
    let replayed = replay.take();
    let order = run.stages.iter().map(|ended| &ended.stage);
    let stages = order.filter_map(|stage| Some((stage.clone(), replayed.get(stage)?.clone())));
    let view = ReplayView::new(run.run.clone(), stages.collect());
    let differs = view.first_difference();
    environment.output.view(&view)?;
    if let Some(error) = ended.result.error {
        return Err(error);
    }
    match differs {
        None => Ok(()),
        Some((stage, what)) => {
            let message = format!("stage `{stage}` does not come out as it was: {what}");
            Err(Error::new(ErrorKind::Stage, message).with_hint(format!(
                "{} in all; the tables of the run are as they were",
                plural(view.differences(), "stage")
            )))
        }
    }
}

/// The tables that a run gave, by stage.
async fn tables(store: &Store, run: &RunSummary) -> Result<BTreeMap<StageName, Stored<Artifact>>> {
    let mut tables = BTreeMap::new();
    for ended in &run.stages {
        if let Some(stored) = artifact(store, ended).await? {
            tables.insert(ended.stage.clone(), stored);
        }
    }
    Ok(tables)
}

/// A share of the stages of a run, the same each time.
fn sample<'a>(
    run: &RunSummary,
    stages: impl Iterator<Item = &'a StageName>,
    share: f64,
) -> HashSet<StageName> {
    let chance = |stage: &StageName| {
        let text = format!("{} {stage}", run.run);
        let seed = text.bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
        seed as f64 / u64::MAX as f64
    };
    let mut all: Vec<(f64, &StageName)> = stages.map(|stage| (chance(stage), stage)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // At least one: a sample of nothing says nothing.
    let wanted = ((all.len() as f64 * share).ceil() as usize).max(1);
    all.into_iter().take(wanted).map(|(_, stage)| stage.clone()).collect()
}

/// Shows a run that is computed again, but not that it succeeded: what came out is for the comparison to say.
struct Replaying(Arc<dyn Observer>);

impl Observer for Replaying {
    fn notice(&self, notice: &Notice<'_>) {
        if !matches!(notice, Notice::Finished { .. }) {
            self.0.notice(notice);
        }
    }
}
