//! Runs that might have been: a past run with a part of another in place of its own. What such a run gives says what the part
//! does to the metrics. It is a run of the store, whose tables and answers count for later runs; but no list of runs, reference or
//! channel ever means it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::diagnostic::Severity;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, RunPart, SourceRole, Store, Trigger};

use crate::diff::runs::Side;
use crate::diff::swap::{Cost, Swap};
use crate::graph::select::upstream;
use crate::host::budget::Budget;
use crate::host::kept::KeptPipeline;
use crate::host::{Host, RunStart};
use crate::report::units::plural;
use crate::run::estimate::{Estimate, estimates};
use crate::run::plan::plan;
use crate::run::planned::{Choice, PlannedAction};
use crate::run::recorded::recorded;
use crate::run::sources::Copies;
use crate::session::Engine;
use crate::stages::load::{Draft, Loaded};
use crate::stages::plan::Prepared;
use crate::stages::stored_tables::PinnedTables;

/// A past run that can be made of other parts.
pub struct PastRun {
    pub side: Side,
    pipeline: KeptPipeline,
    draft: Draft,
}

impl PastRun {
    /// A run that succeeded, with its texts and the records of its tables.
    ///
    /// # Errors
    ///
    /// If it did not succeed or kept no texts, or a record cannot be read.
    pub async fn open(run: RunSummary, store: &Store) -> Result<Self> {
        if !run.is_good() {
            let message = format!("run {} did not succeed", run.run);
            return Err(Error::new(ErrorKind::Usage, message).with_hint("name two runs that did"));
        }
        let pipeline = KeptPipeline::of(&run, store).await?;
        let draft = pipeline.draft()?;
        Ok(Self { side: Side::open(run, store).await?, pipeline, draft })
    }

    /// The tables of its stages whose rows come from outside.
    fn outside(&self, wanted: KindRole) -> BTreeMap<&StageName, &Artifact> {
        let stages = self.draft.outside().filter(|(_, role)| *role == wanted);
        stages.filter_map(|(name, _)| Some((name, self.side.record(name)?))).collect()
    }
}

/// What differs in a part of two runs, in words; `None` if nothing does.
pub fn difference(part: RunPart, [a, b]: [&PastRun; 2]) -> Option<String> {
    let names = match part {
        RunPart::File => {
            let texts = |run: &PastRun| -> BTreeMap<String, _> {
                let sources = run.side.run.origin.iter().flat_map(|origin| &origin.sources);
                let texts = sources.filter(|(_, source)| source.role != SourceRole::Code);
                texts.map(|(path, source)| (path.clone(), source.sha256.to_string())).collect()
            };
            differing(&texts(a), &texts(b))
        }
        RunPart::Params => {
            let params = |run: &PastRun| run.pipeline.params.iter().cloned().collect();
            differing(&params(a), &params(b))
        }
        RunPart::Models => differing(&models(a), &models(b)),
        RunPart::Inputs | RunPart::Memory => {
            let role = match part {
                RunPart::Memory => KindRole::Memory,
                _ => KindRole::Source,
            };
            let tables = |run: &PastRun| -> BTreeMap<String, String> {
                let tables = run.outside(role).into_iter();
                tables.map(|(name, it)| (name.to_string(), it.digest().to_string())).collect()
            };
            differing(&tables(a), &tables(b))
        }
    };
    (!names.is_empty()).then(|| names.join(", "))
}

/// What the models of a run are, by the stage that asks and the part of its fingerprint.
fn models(run: &PastRun) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, (_, found)) in &run.side.stages {
        let parts = found.record.components.iter().filter(|(part, _)| {
            !part.starts_with("settings.")
                && (part.starts_with("model.") || part.contains(".model."))
        });
        all.extend(parts.map(|(part, value)| (format!("{name} {part}"), value.clone())));
    }
    all
}

/// The names whose values differ.
fn differing(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) -> Vec<String> {
    let new = b.keys().filter(|name| !a.contains_key(*name));
    a.keys().chain(new).filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}

/// What a swap would give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// The tables of one of the two runs, which is named.
    Known(usize),
    Run(Cost),
}

impl Host {
    /// What a swap between two runs would give.
    ///
    /// # Errors
    ///
    /// If the parts do not fit together, or a stage upstream of metrics writes outside the store.
    pub async fn outlook(
        &self,
        swap: Swap,
        runs: [&PastRun; 2],
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<Outlook> {
        let (_, loaded, choice) = self.swapped(swap, runs, engine, store).await?;
        let Some(prepared) = &loaded.prepared else { return Err(unfit(&loaded)) };
        let planned = plan(prepared, &choice, "counterfactual", store).await?;
        let is_run = |run: &PastRun| {
            let mut stages = planned.stages.iter();
            stages.all(|(name, stage)| {
                matches!(stage.action, PlannedAction::Skip)
                    || run.side.record(name).is_some_and(|it| it.fingerprint == stage.fingerprint)
            })
        };
        if let Some(known) = runs.iter().position(|run| is_run(run)) {
            return Ok(Outlook::Known(known));
        }
        let found = recorded(prepared, &planned, &loaded.engine, store).await;
        let mut all = estimates(prepared, &planned);
        for (name, found) in &found {
            all.entry(name).and_modify(|estimate| *estimate = estimate.with(*found));
        }
        let is_computed =
            |it: &PlannedAction| matches!(it, PlannedAction::Run | PlannedAction::Revalidate(_));
        let unrecorded = |it: &Estimate| match (it.asks, it.requests) {
            (false, _) => Some(0),
            (true, None) => None,
            (true, Some(requests)) => Some(requests.saturating_sub(it.recorded.unwrap_or(0))),
        };
        let mut requests = all.values().map(unrecorded);
        let requests = requests.try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?)));
        Ok(Outlook::Run(Cost { stages: planned.count(is_computed) as u64, requests }))
    }

    /// How a swap is run. It sends no more requests than its outlook says, where that is known.
    ///
    /// # Errors
    ///
    /// As [`Self::outlook`].
    pub async fn start_of(
        &self,
        swap: Swap,
        cost: Cost,
        runs: [&PastRun; 2],
        store: &Store,
    ) -> Result<RunStart> {
        let (run, _) = self.next_run(store).await?;
        let engine = self.engine(store, &run)?;
        let (path, loaded, choice) = self.swapped(swap, runs, &engine, store).await?;
        let id = |at: usize| runs[at].side.run.run.clone();
        let from = if swap.part.is_some() { 1 - swap.of } else { swap.of };
        Ok(RunStart {
            loaded,
            path,
            choice,
            run,
            is_resumed: false,
            trigger: Trigger::Counterfactual { of: id(swap.of), from: id(from), part: swap.part },
            copies: Copies::WithoutCode,
            replay: None,
            budget: cost.requests.map(Budget::of_requests),
        })
    }

    /// The pipeline of a swap, and the stages that take part: metrics, and what they need.
    async fn swapped(
        &self,
        Swap { of, part }: Swap,
        runs: [&PastRun; 2],
        engine: &Arc<Engine>,
        store: &Store,
    ) -> Result<(String, Loaded, Choice)> {
        let from = |wanted: RunPart| runs[if part == Some(wanted) { 1 - of } else { of }];
        let file = &from(RunPart::File).pipeline;
        let mut draft = file.draft_with(&from(RunPart::Params).pipeline)?;
        draft.take_models(&from(RunPart::Models).draft);
        let (inputs, memory) = (from(RunPart::Inputs), from(RunPart::Memory));
        let mut pinned = PinnedTables::new();
        for (name, role) in draft.outside() {
            let side = &if role == KindRole::Memory { memory } else { inputs }.side;
            if let Some((_, found)) = side.stages.get(name) {
                pinned.insert(name.clone(), Arc::clone(&found.record));
            }
        }
        let (loaded, _) = self.load_kept(draft, file.texts.clone(), pinned, engine, store).await?;
        let is_wrong = loaded.diagnostics.iter().any(|it| it.severity == Severity::Error);
        let Some(prepared) = loaded.prepared.as_ref().filter(|_| !is_wrong) else {
            return Err(unfit(&loaded));
        };
        let choice = Choice { selected: Some(measured(prepared)?), ..Choice::default() };
        Ok((file.path.clone(), loaded, choice))
    }
}

/// The stages of metrics and what they need.
fn measured(prepared: &Prepared) -> Result<HashSet<StageName>> {
    let is_result = |role: KindRole| role.is_result();
    let results =
        prepared.stages.iter().filter(|(_, stage)| is_result(stage.stage.spec.kind.role()));
    let all = upstream(&prepared.graph, results.map(|(name, _)| name.clone()));
    let exports: Vec<&str> = all
        .iter()
        .filter(|name| prepared.stages.get(*name).is_some_and(|stage| stage.export.is_some()))
        .map(StageName::as_str)
        .collect();
    match exports.as_slice() {
        [] => Ok(all),
        [first, ..] => {
            let message = format!(
                "{} upstream of metrics writes outside the store: `{first}`",
                plural(exports.len(), "stage")
            );
            Err(Error::new(ErrorKind::Usage, message).with_hint("no such run is computed again"))
        }
    }
}

/// What keeps parts of two runs from being one pipeline.
fn unfit(loaded: &Loaded) -> Error {
    let mut errors = loaded.diagnostics.iter().filter(|it| it.severity == Severity::Error);
    let why = errors.next().map(|it| {
        let (line, column) = loaded.sources.position(it.span);
        format!("{}:{line}:{column}: {}", loaded.sources.get(it.span.source).name, it.message)
    });
    Error::new(ErrorKind::Pipeline, why.unwrap_or_else(|| "the file is no pipeline".to_owned()))
}
