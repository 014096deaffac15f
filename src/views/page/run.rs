//! Everything about a run on one page: its verdict, metrics, their trend, the questions that changed, what it cost and what failed.

use serde::Serialize;

use crate::diff::gated::Gated;
use crate::diff::measured::metric_names;
use crate::diff::runs::Side;
use crate::gate::verdict::GateVerdict;
use crate::report::units::date_and_time;
use crate::run::reports::{self, PageBlock};
use crate::session::Engine;
use crate::stages::tables::metrics::{MetricPoint, measured};
use crate::views::errors::ErrorsView;
use crate::views::page::changed::ChangedView;
use crate::views::page::metrics::StageMetrics;
use crate::views::run::RunView;
use crate::views::section::{Grid, Section, View};
use crate::views::trends::TrendView;
use crate::views::verdict::{NOTHING_SAID, VerdictView};
use proofmill_base::error::Result;
use proofmill_base::ids::RunId;
use proofmill_catalog::audit::channels::last_verdict;
use proofmill_catalog::summary::{RunSummary, ended, list, summary};
use proofmill_pipeline::gate::{Better, GatedMetric};
use proofmill_pipeline::kinds::statistics::ACCURACY;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Store, read_source};

/// Runs of a trend.
const TREND_RUNS_MAX: usize = 30;
/// Metrics whose trend is drawn, and whose questions are compared.
const METRICS_MAX: usize = 4;
/// Failed rows.
const ERRORS_MAX: usize = 50;

/// Everything about a run.
#[derive(Serialize)]
pub struct RunPage<'a> {
    run: RunView<'a>,
    #[serde(skip)]
    summary: &'a RunSummary,
    /// Of the last gate that judged it.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<VerdictView>,
    /// Whether it has models behind endpoints, none of which answered.
    is_silent: bool,
    metrics: Vec<StageMetrics>,
    /// Over the last runs of the pipeline.
    trends: Vec<TrendView>,
    /// The run that it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<RunId>,
    changed: Vec<ChangedView>,
    errors: ErrorsView,
    /// What its `report` stages drew.
    #[serde(skip)]
    reports: Vec<PageBlock>,
    #[serde(skip)]
    store_option: String,
}

/// What a page is made from.
pub struct PageParts<'a> {
    pub store: &'a Store,
    pub engine: &'a Engine,
    /// The option with which commands find the store.
    pub store_option: &'a str,
    /// Questions of a metric whose answers are traced.
    pub proofs: usize,
}

impl<'a> RunPage<'a> {
    /// Of a run, which is compared with `against`: unless it is given, with the baseline of its verdict, else with the run before it.
    ///
    /// # Errors
    ///
    /// If a record or a table cannot be read.
    pub async fn of(
        run: &'a RunSummary,
        against: Option<RunSummary>,
        parts: &PageParts<'_>,
    ) -> Result<Self> {
        let PageParts { store, engine, store_option, proofs } = *parts;
        let side = Side::open(run.clone(), store).await?;
        let verdict = verdict_of(run, store).await?;
        let is_earlier = |it: &RunSummary| it.is_good() && it.run <= run.run;
        let listed = list(store, TREND_RUNS_MAX, Some(&run.pipeline), is_earlier).await?;
        let mut runs: Vec<RunSummary> =
            listed.runs.into_iter().filter_map(|(_, run)| run.ok()).collect();
        runs.reverse();
        let judged = verdict.as_ref();
        let metrics = match judged {
            Some((_, verdict)) => verdict.gate.metrics.clone(),
            None => accuracies(&side),
        };
        let against = match (against, judged.and_then(|(_, it)| it.evidence.baseline.as_ref())) {
            (Some(given), _) => Some(given),
            (None, Some(baseline)) => summary(store, &baseline.run).await.ok(),
            (None, None) => runs.iter().rev().find(|it| it.run < run.run).cloned(),
        };
        let against = against.filter(|it| it.is_good() && run.is_good());
        let mut changed = Vec::new();
        if let Some(baseline) = &against {
            let before = Side::open(baseline.clone(), store).await?;
            let gated = Gated { sides: [&before, &side], store, engine };
            for metric in metrics.iter().take(METRICS_MAX) {
                changed.push(ChangedView::of(metric, &gated, proofs).await?);
            }
        }
        let mut reports = Vec::new();
        for table in run.tables() {
            let page = reports::of_stage(table, |name| run.table(name), store).await?;
            reports.extend(page.iter().flat_map(|page| page.drawn()).collect::<Vec<_>>());
        }
        let answers: u64 = run.models.values().map(|usage| usage.answers).sum();
        Ok(Self {
            run: RunView::of(run, store_option.to_owned()),
            summary: run,
            is_silent: run.is_good() && side.has_endpoints() && answers == 0,
            metrics: StageMetrics::of_run(&side),
            trends: trends(&metrics, run, &runs),
            against: against.map(|run| run.run),
            changed,
            errors: ErrorsView::of(run, None, ERRORS_MAX, store, engine, store_option).await?,
            reports,
            verdict: verdict.map(|(view, _)| view),
            store_option: store_option.to_owned(),
        })
    }

    /// The heading of the page.
    pub fn title(&self) -> String {
        let RunSummary { pipeline, run, .. } = self.summary;
        match &self.verdict {
            Some(verdict) => format!("{pipeline}, run {run}: {}", verdict.word().word()),
            None => format!("{pipeline}, run {run}: {}", ended(self.summary)),
        }
    }

    /// What the run was made of.
    fn origin(&self) -> Option<Section> {
        let origin = self.summary.origin.as_ref()?;
        let row = |(path, source): (&String, &proofmill_store::SourceRef)| {
            let kept = if source.stored { "yes" } else { "no" };
            vec![path.clone(), kept.to_owned(), source.sha256.to_string()]
        };
        let rows: Vec<_> = origin.sources.iter().map(row).collect();
        let (store, run) = (&self.store_option, &self.summary.run);
        let commands = format!(
            "the text that ran: proofmill show{store} --source {run}; evidence: proofmill audit{store} verify {run}"
        );
        let grid = Grid::new(&["file", "kept", "SHA-256"], &[], rows).noted(commands);
        (!grid.rows.is_empty()).then_some(Section::Table(grid))
    }
}

impl View for RunPage<'_> {
    fn sections(&self) -> Vec<Section> {
        let run = self.summary;
        let started = run.started_at.map(|at| format!("started {} UTC", date_and_time(at)));
        let seconds = run.seconds.map(|seconds| format!("{seconds:.1} s of work"));
        let params = run
            .params
            .iter()
            .map(|(name, value)| format!("{name} = {}", proofmill_pipeline::project::plain(value)));
        let mut head: Vec<String> = started.into_iter().chain(seconds).chain(params).collect();
        if self.is_silent {
            head.push(NOTHING_SAID.to_owned());
        }
        let mut all = vec![Section::Text(head.join("\n") + "\n")];
        let mut part = |title, sections: Vec<Section>| {
            if !sections.is_empty() {
                all.push(Section::Heading(title));
                all.extend(sections);
            }
        };
        part("Verdict", self.verdict.iter().flat_map(View::sections).collect());
        part("Metrics", self.metrics.iter().map(StageMetrics::section).collect());
        part("Trend", self.trends.iter().map(|trend| Section::Plot(trend.plot())).collect());
        let against = self.against.iter().map(|run| Section::Text(format!("against run {run}\n")));
        let changed = self.changed.iter().flat_map(ChangedView::sections);
        part("Questions that changed", against.chain(changed).collect());
        part("Report", self.reports.iter().flat_map(drawn).collect());
        part("Stages, models, cost", self.run.sections());
        part("Failed rows", self.errors.sections());
        part("Made of", self.origin().into_iter().collect());
        all
    }
}

/// The last verdict about a run, with what it is about; `None` if there is none, or it is damaged.
async fn verdict_of(run: &RunSummary, store: &Store) -> Result<Option<(VerdictView, GateVerdict)>> {
    let Some(judged) = last_verdict(store, run).await? else { return Ok(None) };
    let bytes = read_source(store, &judged.verdict).await?;
    let verdict = GateVerdict::checked(&bytes)?;
    let view = VerdictView::of(verdict.clone(), Some((judged.verdict, judged.channels)));
    Ok(Some((view, verdict)))
}

/// The accuracies of a run over all rows: of other metrics, which values are better is unknown.
fn accuracies(side: &Side) -> Vec<GatedMetric> {
    let records = side.stages.iter().map(|(name, (_, found))| (name, &found.record));
    let is_accuracy = |record: &proofmill_store::Artifact| {
        KindRole::of(&record.kind) == Some(KindRole::Metrics)
            && !record.components.contains_key("settings.by[0]")
            && metric_names(&record.components).iter().any(|name| name == ACCURACY)
    };
    let metric = |stage: &proofmill_base::ids::StageName| GatedMetric {
        stage: stage.clone(),
        metric: ACCURACY.to_owned(),
        group: Default::default(),
        unit: Vec::new(),
        cluster: None,
        better: Better::Higher,
        min_effect: 0.0,
        detect: None,
    };
    records.filter(|(_, record)| is_accuracy(record)).map(|(stage, _)| metric(stage)).collect()
}

/// The trend of each metric of the gate; without one, of the first metrics over all rows.
fn trends(metrics: &[GatedMetric], run: &RunSummary, runs: &[RunSummary]) -> Vec<TrendView> {
    let of_gate = metrics.iter().map(|it| format!("{}.{}", it.stage, it.metric));
    let whole = measured(run).into_iter().filter(|it| it.of.is_empty());
    let whole = whole.map(|it: MetricPoint| format!("{}.{}", it.stage, it.metric));
    let mut names: Vec<String> = Vec::new();
    for name in of_gate.chain(whole) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if runs.len() < 2 {
        return Vec::new();
    }
    let trend = |name: &String| TrendView::of(&run.pipeline, name, runs).ok();
    names.iter().take(METRICS_MAX).filter_map(trend).collect()
}

fn drawn(block: &PageBlock) -> Vec<Section> {
    let heading = block.title.as_ref().map(|title| Section::Text(format!("{title}\n")));
    let content = block.content.clone();
    let drawn = match &block.svg {
        Some(svg) => {
            let title = block.title.clone().unwrap_or_else(|| "a picture of the report".to_owned());
            Section::Picture { title, text: content, svg: svg.clone() }
        }
        None => Section::Drawn(content),
    };
    heading.into_iter().chain([drawn]).collect()
}
