//! Past runs, a line each.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value as Json;

use crate::draw::cells::format_float;
use crate::report::units::date_and_time;
use crate::stages::tables::metrics::{MetricPoint, measured};
use crate::views::section::{Grid, Section, View};
use proofmill_base::ids::RunId;
use proofmill_base::styled::printable;
use proofmill_catalog::progress::RunProgress;
use proofmill_catalog::summary::{RunSummary, ended};
use proofmill_pipeline::project::plain;
use proofmill_store::StageStatus;

/// Metrics of a run that its line shows.
const METRICS_SHOWN: usize = 3;

/// The runs, the newest first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct RunsView(pub Vec<RunLine>);

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct RunLine {
    pub run: RunId,
    pub pipeline: String,
    pub started_at: Option<DateTime<Utc>>,
    /// How it ended, in a word.
    pub outcome: &'static str,
    /// How far it is, if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
    pub params: BTreeMap<String, Json>,
    /// The rows of its metrics.
    pub metrics: Vec<Json>,
    /// Stages that it computed, and that it found in the store.
    pub computed: usize,
    pub cached: usize,
    /// How long it was at work.
    pub seconds: Option<f64>,
    /// The first metrics that stand for all rows of their stage.
    #[serde(skip)]
    pub first: Vec<MetricPoint>,
}

impl From<&RunSummary> for RunLine {
    fn from(run: &RunSummary) -> Self {
        let count = |status| run.stages.iter().filter(|stage| stage.status == status).count();
        let whole = measured(run).into_iter().filter(|it| it.of.is_empty());
        Self {
            run: run.run.clone(),
            pipeline: run.pipeline.clone(),
            started_at: run.started_at,
            outcome: ended(run),
            progress: run.progress.clone(),
            params: run.params.clone(),
            metrics: run.metrics.clone(),
            computed: count(StageStatus::Computed),
            cached: count(StageStatus::Cached),
            seconds: run.seconds,
            first: whole.take(METRICS_SHOWN).collect(),
        }
    }
}

impl View for RunsView {
    fn sections(&self) -> Vec<Section> {
        let header = [
            "run",
            "pipeline",
            "started (UTC)",
            "outcome",
            "computed",
            "cached",
            "seconds",
            "parameters",
            "metrics",
        ];
        let rows = self.0.iter().map(RunLine::cells).collect();
        vec![Section::Table(Grid::new(&header, &["computed", "cached", "seconds"], rows))]
    }
}

impl RunLine {
    fn cells(&self) -> Vec<String> {
        // As `--param` takes them.
        let param = |(name, value): (&String, &Json)| format!("{name}={}", plain(value));
        let metric = |it: &MetricPoint| {
            let value = it.value.map(format_float).unwrap_or_default();
            format!("{}.{}={value}", it.stage, it.metric)
        };
        let words = |all: Vec<String>| printable(&all.join(" "), false);
        vec![
            self.run.to_string(),
            self.pipeline.clone(),
            self.started_at.map(date_and_time).unwrap_or_default(),
            state_cell(self.outcome, self.progress.as_ref()),
            self.computed.to_string(),
            self.cached.to_string(),
            self.seconds.map(|seconds| format!("{seconds:.1}")).unwrap_or_default(),
            words(self.params.iter().map(param).collect()),
            words(self.first.iter().map(metric).collect()),
        ]
    }
}

/// How a run ended, or how far it is.
pub fn state_cell(state: &str, progress: Option<&RunProgress>) -> String {
    match progress {
        Some(progress) => format!("{state}, {}", progress.words()),
        None => state.to_owned(),
    }
}
