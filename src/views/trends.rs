//! Metrics of a pipeline from run to run.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::draw::cells::format_float;
use crate::draw::plot::series::{Plot, SERIES_MAX};
use crate::report::units::date_and_time;
use crate::stages::tables::metrics::{MetricPoint, measured};
use crate::views::section::{Grid, Section, View};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::suggest;
use proofmill_catalog::summary::RunSummary;

/// The names of the metrics that a pipeline has.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct MetricNames(BTreeSet<String>);

impl MetricNames {
    /// Of these runs.
    pub fn of(runs: &[RunSummary]) -> Self {
        Self(runs.iter().flat_map(measured).map(|it| name(&it)).collect())
    }
}

impl View for MetricNames {
    fn sections(&self) -> Vec<Section> {
        vec![Section::Text(self.0.iter().map(|name| format!("{name}\n")).collect())]
    }
}

/// A metric over runs, the oldest first.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct TrendView {
    points: Vec<MetricPoint>,
    #[serde(skip)]
    metric: String,
}

impl TrendView {
    /// Of `metric`, which may be named with its stage, in these runs of a pipeline.
    ///
    /// # Errors
    ///
    /// If none of them has such a metric.
    pub fn of(pipeline: &str, metric: &str, runs: &[RunSummary]) -> Result<Self> {
        let fits = |it: &MetricPoint| it.metric == metric || name(it) == metric;
        let points: Vec<_> = runs.iter().flat_map(measured).filter(fits).collect();
        if points.is_empty() {
            let message = format!("no run of `{pipeline}` has a metric `{metric}`");
            let error = Error::new(ErrorKind::Usage, message);
            let names = MetricNames::of(runs).0;
            let help = suggest::help(metric, names.iter().map(String::as_str));
            return Err(help.into_iter().fold(error, Error::with_hint));
        }
        Ok(Self { points, metric: metric.to_owned() })
    }

    /// Names of a series: its stage where there are several, and what tells its rows apart.
    fn series(&self, it: &MetricPoint) -> String {
        let several = self.points.iter().any(|other| other.stage != it.stage);
        let stage = if several { &it.stage } else { "" };
        format!("{stage} {}", it.of).trim().to_owned()
    }

    /// The values over time, which counts back from the newest run.
    pub fn plot(&self) -> Plot {
        let starts = || self.points.iter().map(|it| it.started_at);
        let newest = starts().max().unwrap_or_default();
        let span = (newest - starts().min().unwrap_or_default()).as_seconds_f64();
        let units = [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")];
        // The largest unit of which there are at least two.
        let (length, unit) =
            units.into_iter().find(|(length, _)| span >= 2.0 * length).unwrap_or((1.0, "seconds"));
        let mut plot = Plot {
            x: format!("{unit} before the newest run"),
            y: self.metric.clone(),
            range: Some("interval of each run".to_owned()),
            lines: true,
            series: Vec::new(),
            left_out: 0,
        };
        let mut names: Vec<String> = Vec::new();
        for it in &self.points {
            let name = self.series(it);
            if !names.contains(&name) {
                names.push(name.clone());
            }
            if names.iter().position(|known| *known == name).is_some_and(|at| at < SERIES_MAX) {
                let x = (it.started_at - newest).as_seconds_f64() / length;
                plot.add(&name, Some(x), it.value, [it.ci_low, it.ci_high]);
            }
        }
        plot
    }
}

impl View for TrendView {
    fn sections(&self) -> Vec<Section> {
        let mut rows = Vec::new();
        for (i, it) in self.points.iter().enumerate() {
            let series = self.series(it);
            let before = self.points[..i].iter().rev().find(|other| self.series(other) == series);
            let change = before.and_then(|before| Some(it.value? - before.value?));
            let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
            rows.push(vec![
                it.run.to_string(),
                date_and_time(it.started_at),
                series,
                float(it.value),
                float(it.ci_low),
                float(it.ci_high),
                float(change),
            ]);
        }
        let header = ["run", "started (UTC)", "of", "value", "low", "high", "change"];
        let table = Grid::new(&header, &["value", "low", "high", "change"], rows);
        vec![Section::Table(table), Section::Plot(self.plot())]
    }
}

fn name(it: &MetricPoint) -> String {
    format!("{}.{}", it.stage, it.metric)
}
