//! Metrics of a run, one by one.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::stages::tables::results::{ResultRole, result_column};
use proofmill_base::ids::RunId;
use proofmill_catalog::summary::RunSummary;

/// A metric of a run.
#[derive(Clone, Debug, Serialize)]
pub struct MetricPoint {
    pub run: RunId,
    pub started_at: DateTime<Utc>,
    pub stage: String,
    pub metric: String,
    /// What tells it from other rows of the same metric; empty if nothing does.
    pub of: String,
    /// The same, by name.
    #[serde(skip)]
    pub labels: Vec<(String, String)>,
    pub value: Option<f64>,
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}

/// The metrics of a run, from the rows that its manifest keeps.
pub fn measured(run: &RunSummary) -> Vec<MetricPoint> {
    let Some(started_at) = run.started_at else { return Vec::new() };
    let point = |row: &Json| {
        let row = row.as_object()?;
        let text = |name: &str| row.get(name).and_then(Json::as_str).map(str::to_owned);
        let number = |name: &str| row.get(name).and_then(Json::as_f64);
        // `measure` has a value, `compare` a difference.
        let value = if row.contains_key("diff") { "diff" } else { "value" };
        let labels = labels(row);
        let of: Vec<String> = labels.iter().map(|(name, of)| format!("{name}={of}")).collect();
        Some(MetricPoint {
            run: run.run.clone(),
            started_at,
            stage: text("stage")?,
            metric: text("name").or(text("metric"))?,
            of: of.join(" "),
            labels,
            value: number(value),
            ci_low: number("ci_low"),
            ci_high: number("ci_high"),
        })
    };
    run.metrics.iter().filter_map(point).collect()
}

/// The values that tell a row from others of its metric.
fn labels(row: &Map<String, Json>) -> Vec<(String, String)> {
    let shown = |value: &Json| match value {
        Json::String(text) => text.clone(),
        value => value.to_string(),
    };
    let is_label = |name: &str| {
        name != "stage" && result_column(name).is_none_or(|it| it.role == ResultRole::Label)
    };
    let labels = row.iter().filter(|(name, _)| is_label(name));
    labels.map(|(name, value)| (name.clone(), shown(value))).collect()
}
