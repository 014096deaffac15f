//! Past runs: what they were made of, how they ended, what they gave.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures::{StreamExt, stream};

use crate::audit::history::History;
use crate::event::{Event, StageFailure};
use crate::outcomes::{Outcomes, sessions};
use crate::progress::RunProgress;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, Result};
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_store::{
    Artifact, Claimed, Life, LocalUsage, ModelUsage, Outcome, PipelineRef, ReportedModels, Session,
    SourceRefs, StageOutcome, Store, StoreError, Stored, find_exact, life, read_log, read_manifest,
};

/// Logs that are read at the same time.
const LOGS_READ_MAX: usize = 16;

/// What a run was made of, beside its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOrigin {
    /// Where its file was, and the digest of its bytes.
    pub file: PipelineRef,
    /// Templates with the digests of their texts.
    pub templates: BTreeMap<String, Digest>,
    /// Versions of the code that took part, and the build of the program.
    pub code: BTreeMap<String, String>,
    /// The texts that it was made of; none before programs kept them.
    pub sources: SourceRefs,
}

/// A run in the list of runs.
#[derive(Clone, Debug)]
pub struct RunSummary {
    pub run: RunId,
    pub pipeline: String,
    /// `None` only if its log has no entry that can be read.
    pub origin: Option<RunOrigin>,
    /// How it ended; `None` while it runs, or if it was killed.
    pub outcome: Option<Outcome>,
    pub started_at: Option<DateTime<Utc>>,
    /// Its stages that ended well.
    pub stages: Vec<StageOutcome>,
    /// Its stages that failed, each with the reason.
    pub failed: Vec<StageFailure>,
    /// How many stages took part.
    pub stages_all: usize,
    pub params: BTreeMap<String, serde_json::Value>,
    /// Digest of the stored bytes of its manifest; none unless it is published.
    pub manifest: Option<Digest>,
    /// Rows of its metrics; none unless it succeeded.
    pub metrics: Vec<serde_json::Value>,
    /// Usage of models behind endpoints; known of published runs only.
    pub models: BTreeMap<String, ModelUsage>,
    /// What endpoints called themselves; known of published runs only.
    pub reported: ReportedModels,
    /// What models in folders computed; known of published runs only.
    pub local_models: BTreeMap<String, LocalUsage>,
    /// Seconds in which it was at work.
    pub seconds: Option<f64>,
    /// Whether its process is there, if it has not ended.
    pub life: Option<Life>,
    /// How far it is, if it runs and its process has said so.
    pub progress: Option<RunProgress>,
    /// What people should know of its records.
    pub remark: Option<String>,
}

impl RunSummary {
    /// A stage that has a table: one that ended well, or whose table failed its checks and is kept for people to
    /// look at.
    pub fn table(&self, stage: &str) -> Option<&StageOutcome> {
        self.tables().find(|outcome| outcome.stage.as_str() == stage)
    }

    /// Whether it succeeded.
    pub fn is_good(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
    }

    /// The same run, with something more that people should know of it.
    pub fn remarked(self, note: String) -> Self {
        let remark = match self.remark {
            Some(remark) => format!("{remark}; {note}"),
            None => note,
        };
        Self { remark: Some(remark), ..self }
    }

    /// All stages that have a table.
    pub fn tables(&self) -> impl Iterator<Item = &StageOutcome> {
        let rejected = self.failed.iter().filter_map(|failure| failure.outcome.as_ref());
        self.stages.iter().chain(rejected).filter(|outcome| outcome.artifact.is_some())
    }
}

/// Runs, newest first.
#[derive(Debug)]
pub struct Listed {
    /// Each with what keeps it from being read, if anything does: its pipeline may then be unknown.
    pub runs: Vec<(RunId, Result<RunSummary>)>,
    /// What people should know of the list.
    pub remark: Option<String>,
}

/// The newest `limit` runs that fit, of one pipeline if it is named.
///
/// # Errors
///
/// If the store fails.
pub async fn list(
    store: &Store,
    limit: usize,
    pipeline: Option<&str>,
    fits: impl Fn(&RunSummary) -> bool,
) -> Result<Listed> {
    // No run is of a pipeline whose name is none.
    let named = pipeline.and_then(|name| name.parse().ok());
    let mut history = History::of_pipeline(store, named.as_ref());
    let mut runs = Vec::new();
    while runs.len() < limit {
        // As many as could be missing, read at the same time.
        let mut next = Vec::new();
        while next.len() < LOGS_READ_MAX.min(limit - runs.len()) {
            let Some(logged) = history.next().await? else { break };
            let name = logged.pipeline.as_ref().map(PipelineName::as_str);
            if name.is_none() || pipeline.is_none() || name == pipeline {
                next.push(logged.run);
            }
        }
        if next.is_empty() {
            break;
        }
        let summaries = next.into_iter().map(|run| async move {
            let summary = summary(store, &run).await.map_err(Error::from);
            (run, summary)
        });
        let mut summaries = stream::iter(summaries).buffered(LOGS_READ_MAX);
        while let Some((run, summary)) = summaries.next().await {
            let of_pipeline =
                |summary: &RunSummary| pipeline.is_none_or(|name| summary.pipeline == name);
            if summary.as_ref().map_or(true, |summary| of_pipeline(summary) && fits(summary)) {
                runs.push((run, summary));
            }
        }
    }
    // Runs that no entry of the log names come last in its order.
    runs.sort_by(|a, b| b.0.cmp(&a.0));
    let remark = history.broken().map(|broken| {
        format!("{broken}; runs are listed by their folders, and `proofmill audit verify --all` reports more")
    });
    Ok(Listed { runs, remark })
}

/// One run, as its manifest or its log tells it.
///
/// # Errors
///
/// When its records are damaged, or the store fails.
pub async fn summary(store: &Store, run: &RunId) -> Result<RunSummary, StoreError> {
    let manifest = match read_manifest(store, run).await {
        Err(error @ StoreError::Damaged { .. }) => return from_log(store, run, Some(error)).await,
        manifest => manifest?,
    };
    if let Some(stored) = manifest {
        let manifest = &stored.record;
        return Ok(RunSummary {
            run: run.clone(),
            pipeline: manifest.pipeline.name.to_string(),
            origin: Some(RunOrigin {
                file: manifest.pipeline.clone(),
                templates: manifest.templates.clone(),
                code: manifest.code.clone(),
                sources: manifest.sources.clone(),
            }),
            outcome: Some(manifest.outcome),
            started_at: Some(manifest.started_at),
            stages: manifest.stages.clone(),
            failed: Vec::new(),
            stages_all: manifest.stages.len(),
            params: manifest.params.clone(),
            manifest: Some(stored.sha256),
            metrics: manifest.metrics.clone(),
            models: manifest.models.clone(),
            reported: manifest.reported(),
            local_models: manifest.local_models.clone(),
            seconds: Some(match manifest.sessions.as_slice() {
                [] => (manifest.finished_at - manifest.started_at).as_seconds_f64(),
                sessions => at_work(sessions),
            }),
            life: None,
            progress: None,
            remark: None,
        });
    }
    from_log(store, run, None).await
}

/// One run as its log tells it: one that is not published, or whose manifest is `damaged`.
async fn from_log(
    store: &Store,
    run: &RunId,
    damaged: Option<StoreError>,
) -> Result<RunSummary, StoreError> {
    let remark = damaged
        .map(|error| format!("{error}; the run is shown from its log, which holds the same"));
    let entries = read_log::<Event>(store, run).await?;
    let mut summary = RunSummary {
        run: run.clone(),
        pipeline: String::new(),
        origin: None,
        outcome: None,
        started_at: entries.first().map(|entry| entry.t_utc),
        stages: Vec::new(),
        failed: Vec::new(),
        stages_all: 0,
        params: BTreeMap::new(),
        manifest: None,
        metrics: Vec::new(),
        models: BTreeMap::new(),
        reported: ReportedModels::new(),
        local_models: BTreeMap::new(),
        seconds: (!entries.is_empty()).then(|| at_work(&sessions(&entries))),
        life: None,
        progress: None,
        remark,
    };
    let mut ended_well = Outcomes::default();
    for event in entries.iter().filter_map(|entry| entry.event()) {
        match event {
            Event::Started { pipeline, params, code, templates, sources, stages, .. } => {
                // A resumed run computes again what failed.
                summary.failed.clear();
                summary.stages_all = *stages;
                summary.pipeline = pipeline.name.to_string();
                summary.origin = Some(RunOrigin {
                    file: pipeline.clone(),
                    templates: templates.clone(),
                    code: code.clone(),
                    sources: sources.clone(),
                });
                summary.params = params.clone();
                summary.outcome = None;
            }
            Event::Stages(ended) => ended.iter().for_each(|outcome| ended_well.add(outcome)),
            Event::Failed { failures } => summary.failed.extend(failures.iter().cloned()),
            Event::Finished { outcome } => summary.outcome = Some(*outcome),
        }
    }
    summary.stages = ended_well.all();
    if summary.outcome.is_none() && summary.started_at.is_some() {
        summary.life = Some(life(store, &Claimed::run(run)).await?);
        if summary.life == Some(Life::Alive) {
            summary.progress = RunProgress::of(store, run).await?;
        }
    }
    Ok(summary)
}

fn at_work(sessions: &[Session]) -> f64 {
    let seconds = |session: &Session| (session.finished_at - session.started_at).as_seconds_f64();
    sessions.iter().map(seconds).sum()
}

/// How a run ended, in a word.
pub fn ended(run: &RunSummary) -> &'static str {
    match run.outcome {
        Some(Outcome::Succeeded) => "succeeded",
        Some(Outcome::Failed) => "failed",
        Some(Outcome::Interrupted) => "stopped",
        None => match run.life {
            Some(Life::Alive) => "running",
            Some(Life::Dead) => "dead",
            Some(Life::Unknown) | None => "unfinished",
        },
    }
}

/// The record of what a stage of a past run gave: the very one that the run names, even if another took
/// its place since. `None` if the stage gave nothing.
///
/// # Errors
///
/// When the record is not in the store any more, is damaged, or the store fails.
pub async fn artifact(store: &Store, stage: &StageOutcome) -> Result<Option<Stored<Artifact>>> {
    match (&stage.fingerprint, &stage.artifact) {
        (Some(fingerprint), Some(named)) => {
            Ok(Some(find_exact(store, fingerprint, named.sha256).await?))
        }
        _ => Ok(None),
    }
}
