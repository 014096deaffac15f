//! `proofmill diff --attribute`

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use crate::cli::args;
use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::stop::on_signals;
use crate::diff::swap::{Swap, SwapEnd, effects};
use crate::host::counterfactual::{Outlook, PastRun, difference};
use crate::stages::tables::metrics::{MetricPoint, measured};
use crate::views::attribution::AttributionView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::summary::{RunSummary, summary};
use proofmill_store::{RunPart, Store};

/// Says which part of two runs moves their metrics: with `--dry-run` what it takes to find out, else after runs that might have been.
pub async fn attribute(
    args: &args::Diff,
    [a, b]: [RunSummary; 2],
    environment: &Environment,
    store: &Store,
) -> Result<()> {
    let (host, output) = (&environment.host, &environment.output);
    let metrics = [measured(&a), measured(&b)];
    if metrics.iter().all(Vec::is_empty) {
        return Err(Error::new(ErrorKind::Usage, "neither run has metrics")
            .with_hint("a `measure` or `compare` stage gives some"));
    }
    let ids = [a.run.clone(), b.run.clone()];
    let runs = [PastRun::open(a, store).await?, PastRun::open(b, store).await?];
    let runs = [&runs[0], &runs[1]];
    let differ = RunPart::ALL.into_iter().filter_map(|part| Some((part, difference(part, runs)?)));
    let differ: Vec<(RunPart, String)> = differ.collect();
    let parts: Vec<RunPart> = differ.iter().map(|(part, _)| *part).collect();
    let engine = host.engine(store, &host.new_run())?;
    let mut swaps: Vec<(Swap, SwapEnd)> = Vec::new();
    for part in std::iter::once(None).chain(parts.iter().copied().map(Some)) {
        for of in [0, 1] {
            let swap = Swap { of, part };
            let end = match host.outlook(swap, runs, &engine, store).await {
                Ok(Outlook::Known(run)) => SwapEnd::Known { run: ids[run].clone() },
                Ok(Outlook::Run(cost)) => SwapEnd::Planned(cost),
                Err(error) if part.is_some() => SwapEnd::Failed { why: error.to_string() },
                Err(error) => return Err(error),
            };
            swaps.push((swap, end));
        }
    }
    let outlook = AttributionView::of(ids.clone(), differ.clone(), swaps.clone(), Vec::new());
    output.remark(outlook.cost());
    if args.dry_run {
        return output.view(&outlook);
    }
    let (stop, display) = (CancellationToken::new(), Display::of(environment));
    let watch = on_signals(stop.clone(), display.eraser())?;
    let mut found: BTreeMap<Swap, Vec<MetricPoint>> = BTreeMap::new();
    for (swap, end) in &mut swaps {
        match end {
            // A run as it was needs no second one.
            SwapEnd::Known { run } if swap.part.is_some() => {
                let known = ids.iter().position(|id| id == run).unwrap_or(0);
                found.insert(*swap, metrics[known].clone());
            }
            SwapEnd::Planned(cost) => {
                let cost = *cost;
                let start = Box::pin(host.start_of(*swap, cost, runs, store)).await?;
                let run = start.run.clone();
                let ended = host.run(start, store.clone(), display.observer(), stop.child_token());
                let ended = display.during(host.clock(), Box::pin(ended)).await?;
                if stop.is_cancelled() {
                    let message = format!("stopped during run {run}");
                    return Err(Error::new(ErrorKind::Interrupted, message)
                        .with_hint("the same command goes on: what was computed is in the store"));
                }
                let of_run = summary(store, &run).await?;
                *end = match of_run.is_good() {
                    true => {
                        found.insert(*swap, measured(&of_run));
                        SwapEnd::Ran { run, cost }
                    }
                    false => SwapEnd::Failed { why: why(&of_run, ended.spent) },
                };
            }
            SwapEnd::Known { .. } | SwapEnd::Ran { .. } | SwapEnd::Failed { .. } => {}
        }
    }
    watch.abort();
    let effects = effects([&metrics[0], &metrics[1]], &found, &parts);
    output.view(&AttributionView::of(ids, differ, swaps, effects))
}

/// Why a run has no metrics.
fn why(run: &RunSummary, spent: Option<String>) -> String {
    match (spent, run.failed.first()) {
        (Some(spent), _) => format!("{spent}, more than planned: run {}", run.run),
        (None, Some(failure)) => format!("{}: {}", failure.stage, failure.message),
        (None, None) => format!("run {} did not end", run.run),
    }
}
