//! A gate over two runs: finds what it needs, judges, stores the verdict with its evidence, and enters it in the audit log.

use std::sync::Arc;

use bytes::Bytes;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{ChannelName, PipelineName};
use proofmill_base::suggest;
use proofmill_catalog::audit::channels;
use proofmill_catalog::audit::entry::{Channels, Ending, Judged, VerdictWord};
use proofmill_catalog::summary::{RunSummary, list};
use proofmill_pipeline::gate::{Gate, GatePlace, GatedMetric};
use proofmill_pipeline::project::plain;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{ReportedModel, SourceRef, Store, keep_sources, read_source, writer_name};

use crate::diff::gated::{Gated, NoEvidence};
use crate::diff::measured::metric_names;
use crate::diff::runs::{Side, StageState, runs};
use crate::diff::vary::{self, Text};
use crate::gate::evidence::{
    Difference, Evidence, JudgedRun, MetricEvidence, Noise, ReportedChange,
};
use crate::gate::verdict::{GateVerdict, named};
use crate::host::Host;
use crate::host::kept::KeptPipeline;
use crate::session::Engine;
use crate::stages::load::{LIMIT, Loaded};
use crate::stages::tables::metrics::{MetricPoint, measured};

/// A verdict, and where it is.
#[derive(Clone, Debug)]
pub struct Entered {
    pub verdict: GateVerdict,
    /// The stored verdict.
    pub stored: SourceRef,
    /// All channels of the pipeline after it.
    pub channels: Channels,
}

/// A part of a gate that no run has, with what helps.
#[derive(Debug)]
pub struct WrongGate {
    pub place: GatePlace,
    pub message: String,
    pub help: Option<String>,
}

/// Why there is no verdict.
#[derive(Debug)]
pub enum NoVerdict {
    WrongGate(WrongGate),
    Failed(Error),
}

/// The first metric of a gate that a pipeline will not have.
pub fn unknown_metric(gate: &Gate, loaded: &Loaded) -> Option<WrongGate> {
    let prepared = loaded.prepared.as_ref()?;
    let of_stage = |metric: &GatedMetric| {
        let stage = prepared.stages.get(&metric.stage)?;
        let is_measure = stage.stage.spec.kind.role() == KindRole::Metrics;
        is_measure.then(|| metric_names(stage.components.map()))
    };
    gate.metrics.iter().enumerate().find_map(|(at, metric)| {
        let wrong = |message, help| {
            let place = GatePlace::Metric(at);
            WrongGate { place, message, help }
        };
        match of_stage(metric) {
            None => {
                let message = format!("the pipeline has no `measure` called `{}`", metric.stage);
                Some(wrong(message, None))
            }
            Some(names) if names.contains(&metric.metric) => None,
            Some(names) => {
                let message = format!("`{}` has no metric `{}`", metric.stage, metric.metric);
                let help = suggest::help(&metric.metric, names.iter().map(String::as_str));
                Some(wrong(message, help))
            }
        }
    })
}

impl<E: Into<Error>> From<E> for NoVerdict {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Host {
    /// Judges a run, and enters the verdict.
    ///
    /// # Errors
    ///
    /// If the gate is wrong, a table cannot be read, or the store does not take the verdict.
    pub async fn judge(
        &self,
        gate: &Gate,
        baseline: Option<&RunSummary>,
        candidate: &RunSummary,
        store: &Store,
    ) -> Result<Entered, NoVerdict> {
        for run in baseline.iter().copied().chain([candidate]) {
            refuse_trial(run)?;
        }
        let pipeline: PipelineName = candidate.pipeline.parse().map_err(|error| {
            Error::new(ErrorKind::Store, format!("run {}: {error}", candidate.run))
        })?;
        let evidence = self.evidence(gate, baseline, candidate, store).await?;
        let verdict = GateVerdict::of(gate.clone(), evidence)?;
        let bytes = verdict.bytes()?;
        let stored = named(&bytes);
        keep_sources(store, vec![Bytes::from(bytes)]).await?;
        // The same verdict may have been there before, and damaged: no channel moves by one that cannot be read.
        read_source(store, &stored).await.map_err(|error| {
            Error::from(error).with_hint("delete it, or restore it from a backup, and judge again")
        })?;
        let entry = Judged {
            gate: gate.name.clone(),
            pipeline,
            candidate: candidate.run.clone(),
            baseline: baseline.map(|run| run.run.clone()),
            word: verdict.judgement.word,
            verdict: stored.clone(),
            channels: Channels::new(),
        };
        let passed = verdict.judgement.word == VerdictWord::Pass;
        let channel: Option<&ChannelName> = gate.channel.as_ref().filter(|_| passed);
        let channels = channels::judged(store, &writer_name(store), entry, channel)
            .await
            .map_err(Error::from)?;
        Ok(Entered { verdict, stored, channels })
    }

    async fn evidence(
        &self,
        gate: &Gate,
        baseline: Option<&RunSummary>,
        candidate: &RunSummary,
        store: &Store,
    ) -> Result<Evidence, NoVerdict> {
        let mut evidence = Evidence {
            baseline: baseline.map(judged_run),
            candidate: judged_run(candidate),
            metrics: Vec::new(),
            differences: Vec::new(),
            requests: None,
            reported: Vec::new(),
            first_difference: None,
        };
        let Some(baseline) = baseline.filter(|run| run.is_good() && candidate.is_good()) else {
            evidence.metrics = gate.metrics.iter().map(|_| MetricEvidence::none()).collect();
            return Ok(evidence);
        };
        let sides = [
            Side::open(baseline.clone(), store).await?,
            Side::open(candidate.clone(), store).await?,
        ];
        let sides = [&sides[0], &sides[1]];
        let engine = self.engine(store, &self.new_run())?;
        let gated = Gated { sides, store, engine: &engine };
        for (at, metric) in gate.metrics.iter().enumerate() {
            let mut found = match gated.of(metric).await {
                Ok(found) => found,
                Err(NoEvidence::Unknown(message, help)) => {
                    let place = GatePlace::Metric(at);
                    return Err(NoVerdict::WrongGate(WrongGate { place, message, help }));
                }
                Err(NoEvidence::TooLarge(message, help)) => {
                    let (place, help) = (GatePlace::MinEffect(at), Some(help));
                    return Err(NoVerdict::WrongGate(WrongGate { place, message, help }));
                }
                Err(NoEvidence::Failed(error)) => return Err(error.into()),
            };
            if let Some(runs) = gate.noise {
                found.noise = noise(metric, runs, candidate, store).await?;
            }
            evidence.metrics.push(found);
        }
        evidence.requests = sides[1]
            .has_endpoints()
            .then(|| candidate.models.values().map(|usage| usage.answers).sum());
        evidence.reported = reported(baseline, candidate, store).await?;
        let found = runs(sides[0], sides[1]).stages.into_iter();
        let mut others = found.filter(|stage| stage.state != StageState::Same);
        evidence.first_difference = others.next().map(|stage| stage.stage);
        if gate.limits_differences() {
            let loaded = [
                self.kept(sides[0], &engine, store).await,
                self.kept(sides[1], &engine, store).await,
            ];
            let texts = [&loaded[0], &loaded[1]].map(|it| it.as_ref().and_then(text_of));
            evidence.differences = vary::of_runs(gate, sides, texts).map_err(unknown_item)?;
        }
        Ok(evidence)
    }

    /// What differs between a run and a pipeline that has not run, and may not.
    ///
    /// # Errors
    ///
    /// If the records of the run cannot be read, or the gate lists something that neither has.
    pub async fn differences(
        &self,
        gate: &Gate,
        baseline: &RunSummary,
        loaded: &Loaded,
        store: &Store,
    ) -> Result<Vec<Difference>, NoVerdict> {
        match text_of(loaded).filter(|_| gate.limits_differences()) {
            Some(text) => {
                let side = Side::open(baseline.clone(), store).await?;
                let before = self.kept(&side, &loaded.engine, store).await;
                let before = before.as_ref().and_then(text_of);
                vary::of_text(gate, &side, before, text).map_err(unknown_item)
            }
            None => Ok(Vec::new()),
        }
    }

    /// The pipeline of a run, over the tables that it read, if it can still be prepared: code of programs may be gone.
    async fn kept(&self, side: &Side, engine: &Arc<Engine>, store: &Store) -> Option<Loaded> {
        let kept = KeptPipeline::of(&side.run, store).await.ok()?;
        let draft = kept.draft().ok()?;
        let pinned = side.outside(&draft);
        let (loaded, _) = self.load_kept(draft, kept.texts, pinned, engine, store).await.ok()?;
        let prepared = loaded.prepared.as_ref()?;
        // A stage that cannot be prepared is missing: which models it asks is unknown.
        let is_whole = side.stages.keys().all(|name| prepared.stages.contains_key(name));
        is_whole.then_some(loaded)
    }
}

fn unknown_item((place, message): (GatePlace, String)) -> NoVerdict {
    NoVerdict::WrongGate(WrongGate { place, message, help: None })
}

fn text_of(loaded: &Loaded) -> Option<Text<'_>> {
    let prepared = loaded.prepared.as_ref()?;
    Some(Text { prepared, sources: &loaded.sources })
}

/// An error for a run that read only a part of its sources: its numbers are those of no evaluation.
///
/// # Errors
///
/// If it is one.
pub fn refuse_trial(run: &RunSummary) -> Result<()> {
    let Some(rows) = run.params.get(LIMIT) else { return Ok(()) };
    let message = format!(
        "run {} is a trial: of each source it read {} rows at most (`{LIMIT}`)",
        run.run,
        plain(rows)
    );
    Err(Error::new(ErrorKind::Usage, message)
        .with_hint("name another run: `proofmill runs` lists runs"))
}

fn judged_run(run: &RunSummary) -> JudgedRun {
    let how = run.outcome.map(Ending::from);
    JudgedRun { run: run.run.clone(), how, manifest: run.manifest }
}

/// Endpoints that call themselves something else than in the baseline; or, where they gave no answer there, than in the last run before
/// the candidate in which they answered.
async fn reported(
    baseline: &RunSummary,
    candidate: &RunSummary,
    store: &Store,
) -> Result<Vec<ReportedChange>> {
    let names = |all: &[ReportedModel]| {
        let name = |it: &ReportedModel| {
            let parts = [&it.model, &it.system_fingerprint].into_iter().flatten();
            parts.map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let mut names: Vec<String> = all.iter().map(name).collect();
        names.sort();
        names
    };
    let mut changes = Vec::new();
    for (model, now) in &candidate.reported {
        let before = match baseline.reported.get(model) {
            Some(before) => Some(before.clone()),
            None => {
                let answered =
                    |run: &RunSummary| run.run < candidate.run && run.reported.contains_key(model);
                let listed = list(store, 1, Some(&candidate.pipeline), answered).await?;
                let last = listed.runs.into_iter().find_map(|(_, run)| run.ok());
                last.and_then(|run| run.reported.get(model).cloned())
            }
        };
        let Some(before) = before else { continue };
        let (before, now) = (names(&before), names(now));
        if before != now {
            changes.push(ReportedChange { model: model.clone(), before, now });
        }
    }
    Ok(changes)
}

/// How far the values of a metric lie apart in the runs before a candidate.
async fn noise(
    metric: &GatedMetric,
    runs: u32,
    candidate: &RunSummary,
    store: &Store,
) -> Result<Option<Noise>> {
    let before = |run: &RunSummary| {
        run.is_good() && run.run < candidate.run && !run.params.contains_key(LIMIT)
    };
    let limit = usize::try_from(runs).unwrap_or(usize::MAX);
    let listed = list(store, limit, Some(&candidate.pipeline), before).await?;
    let values = listed.runs.iter().filter_map(|(_, run)| value(run.as_ref().ok()?, metric));
    let values: Vec<f64> = values.collect();
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let found = Noise { runs: values.len() as u64, floor: largest - smallest };
    Ok((values.len() >= 2).then_some(found))
}

/// The value of a metric in a run.
fn value(run: &RunSummary, metric: &GatedMetric) -> Option<f64> {
    let is_it = |it: &MetricPoint| {
        it.stage == metric.stage.as_str()
            && it.metric == metric.metric
            && it.labels.len() == metric.group.len()
            && it.labels.iter().all(|(name, value)| metric.group.get(name) == Some(value))
    };
    measured(run).into_iter().find(is_it)?.value
}
