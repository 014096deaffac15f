//! `measure`: numbers with their denominators and intervals.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use proofmill_udfs::stats::{self, Interval as Estimate, Method, ROUNDING};

use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::tables::paired::few_clusters;
use crate::stages::tables::values::{self, Columns, Key, Metric, Selection, groups, text_at};
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::measure::Measure;
use proofmill_pipeline::kinds::statistics::{Interval, all_metrics};

/// A prepared `measure`.
#[derive(Clone, Debug)]
pub struct MeasurePlan {
    plan: LogicalPlan,
    metrics: Vec<Metric>,
    settings: Measure,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for MeasurePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (numbers, notes) = compute(self, &execution.session()).await?;
        let mut computed = execution.sink.table(numbers).await?;
        computed.notes.extend(notes);
        Ok(computed)
    }
}

impl Kind for Measure {
    fn traits(&self) -> Traits {
        Traits {
            version: 5,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let table = inputs.table("from")?;
        let input = table.schema();
        let mut selection = Selection::new(engine, &self.from, table)?;
        let mut valid = true;
        for (i, column) in self.by.iter().enumerate() {
            valid &=
                diagnostics.column(&["measure", "by", &i.to_string()], column, &input).is_some();
        }
        if let Some(cluster) = &self.cluster {
            valid &= diagnostics.column(&["measure", "cluster"], cluster, &input).is_some();
        }
        let wanted = all_metrics(&self.correct, &self.metrics);
        values::check_names(&self.correct, &self.metrics, "measure", diagnostics)?;
        if wanted.is_empty() {
            let message = "nothing to measure: give `correct` or `metrics`".to_owned();
            diagnostics.error(&["measure"], Code::MissingKey, message, None);
            return None;
        }
        let metrics = selection.metrics(&wanted, &["measure"], diagnostics);
        if let Some(exclude) = &self.exclude {
            valid &= selection.exclude(exclude, &["measure", "exclude"], diagnostics).is_some();
        }
        let metrics = metrics.filter(|_| valid)?;
        self.by.iter().for_each(|column| selection.text(column));
        self.cluster.iter().for_each(|column| selection.text(column));
        components.set_order("metrics", wanted.keys());
        let schema = schema(self);
        let plan = selection.plan()?;
        let plan =
            MeasurePlan { plan, metrics, settings: self.clone(), schema: Arc::clone(&schema) };
        Some(Preparation::new(schema, plan))
    }
}

fn schema(settings: &Measure) -> SchemaRef {
    let by = settings.by.iter().map(|column| Field::new(column, DataType::Utf8, true));
    let number = |name: &str| Field::new(name, DataType::Float64, true);
    let count = |name: &str| Field::new(name, DataType::Int64, false);
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let fixed = [
        text("name"),
        number("value"),
        number("ci_low"),
        number("ci_high"),
        text("ci_method"),
        number("se"),
        count("n_attempted"),
        count("n_answered"),
        count("n_errored"),
        count("n_excluded"),
        number("value_answered"),
        number("value_bound"),
    ];
    Arc::new(Schema::new(by.chain(fixed).collect::<Vec<_>>()))
}

/// One line of the result.
struct Line {
    by: Key,
    name: String,
    estimate: Option<Estimate>,
    method: String,
    attempted: usize,
    errored: usize,
    excluded: usize,
    /// Groups of rows that are not independent, where there are rows and `cluster` names such groups.
    clusters: Option<usize>,
    value_answered: Option<f64>,
    value_bound: Option<f64>,
}

/// Averages all metrics; with what a person should know of the numbers.
pub async fn compute(
    plan: &MeasurePlan,
    state: &SessionState,
) -> Result<(RecordBatch, Vec<String>), StageError> {
    let texts = plan.settings.by.len() + usize::from(plan.settings.cluster.is_some());
    let columns = values::read(&plan.plan, texts, state).await?;
    let plan = plan.clone();
    let lines = move || {
        let lines = lines(&plan, &columns)?;
        Ok((batch(&plan.schema, &lines)?, notes(&plan, &lines)))
    };
    tokio::task::spawn_blocking(lines)
        .await
        .unwrap_or_else(|error| Err(StageError::Task(error.to_string())))
}

/// That no row stands behind the numbers, or that few clusters do.
fn notes(plan: &MeasurePlan, lines: &[Line]) -> Vec<String> {
    if lines.iter().all(|line| line.attempted == 0) {
        return vec![format!("`{}` has no rows: nothing was measured", plan.settings.from)];
    }
    if lines.iter().all(|line| line.attempted == line.excluded) {
        return vec!["all rows are excluded: nothing was measured".to_owned()];
    }
    let fewest = lines.iter().filter_map(|line| line.clusters).min();
    let column = plan.settings.cluster.as_ref().zip(fewest);
    column.and_then(|(column, fewest)| few_clusters(column, fewest)).into_iter().collect()
}

fn lines(plan: &MeasurePlan, columns: &Columns) -> Result<Vec<Line>, StageError> {
    let settings = &plan.settings;
    let rows = columns.values.first().map_or(0, Float64Array::len);
    let excluded = settings.exclude.as_ref().and_then(|_| columns.values.last());
    let is_excluded = |row: usize| excluded.is_some_and(|column| column.value(row) != 0.0);
    let cluster = settings.cluster.as_ref().and_then(|_| columns.texts.last());
    let mut lines = Vec::new();
    for (by, rows) in groups(&columns.texts[..settings.by.len()], rows) {
        let kept: Vec<usize> = rows.iter().copied().filter(|row| !is_excluded(*row)).collect();
        let clusters: Option<Key> =
            cluster.map(|column| kept.iter().map(|row| text_at(column, *row)).collect());
        let groups = clusters.as_ref().map(|names| names.iter().collect::<HashSet<_>>().len());
        for (metric, column) in plan.metrics.iter().zip(&columns.values) {
            let answered: Vec<f64> = kept
                .iter()
                .filter(|row| column.is_valid(**row))
                .map(|row| column.value(*row))
                .collect();
            let all: Vec<f64> = kept
                .iter()
                .map(|row| if column.is_valid(*row) { column.value(*row) } else { 0.0 })
                .collect();
            let (estimate, method) = estimate(metric, &all, clusters.as_deref(), &settings.ci)?;
            let errored = kept.len() - answered.len();
            let sum: f64 = answered.iter().sum();
            lines.push(Line {
                by: by.clone(),
                name: metric.name.clone(),
                estimate,
                method,
                attempted: rows.len(),
                errored,
                excluded: rows.len() - kept.len(),
                clusters: groups.filter(|groups| *groups > 0),
                value_answered: (!answered.is_empty()).then(|| sum / answered.len() as f64),
                value_bound: (metric.boolean && !kept.is_empty())
                    .then(|| (sum + errored as f64) / kept.len() as f64),
            });
        }
    }
    Ok(lines)
}

/// The mean with its interval, and how the interval was made. Rows that are all alike do not tell how far others might be from them.
fn estimate(
    metric: &Metric,
    values: &[f64],
    clusters: Option<&[Option<String>]>,
    ci: &Interval,
) -> Result<(Option<Estimate>, String), StageError> {
    if values.is_empty() {
        return Ok((None, "none".to_owned()));
    }
    let Interval { bootstrap, seed, level } = *ci;
    let (found, method) = match (bootstrap, clusters) {
        (Some(n), None) => {
            let found = stats::bootstrap_mean(values, n, seed, level, Method::Percentile)?;
            (known(found), format!("bootstrap {n} seed {seed}"))
        }
        (Some(n), Some(clusters)) => {
            let found =
                stats::cluster_bootstrap(values, clusters, n, seed, level, Method::Percentile)?;
            (known(found), format!("cluster bootstrap {n} seed {seed}"))
        }
        (None, Some(clusters)) if metric.boolean => {
            (stats::clustered_wilson(values, clusters, level)?, "clustered wilson".to_owned())
        }
        (None, Some(clusters)) => {
            let found = stats::clustered_se(values, clusters)?;
            // Few clusters tell little of their own spread.
            let multiplier = stats::t_multiplier(level, found.df())?;
            (known(within(found.mean, found.se, multiplier)), "clustered".to_owned())
        }
        (None, None) if metric.boolean => {
            let right = values.iter().filter(|value| **value == 1.0).count() as u64;
            (stats::wilson(right, values.len() as u64, level)?, "wilson".to_owned())
        }
        (None, None) => {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance =
                values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let multiplier = stats::normal_multiplier(level)?;
            (known(within(mean, (variance / n).sqrt(), multiplier)), "normal".to_owned())
        }
    };
    if !found.estimate.is_finite() || found.se.is_infinite() {
        return Err(StageError::Data {
            message: format!(
                "the values of `{}`, or their squares, are too large to sum",
                metric.name
            ),
            help: "scale them down in its expression, such as by 1e6".to_owned(),
        });
    }
    let unit = if clusters.is_some() { "clusters" } else { "rows" };
    let method = if found.low.is_nan() { format!("none: no {unit} that differ") } else { method };
    Ok((Some(found), method))
}

/// The estimate without its interval where that would be empty.
fn known(found: Estimate) -> Estimate {
    match found.se <= ROUNDING * found.estimate.abs() {
        true => Estimate { low: f64::NAN, high: f64::NAN, se: f64::NAN, ..found },
        false => found,
    }
}

/// The interval of so many standard errors to either side.
fn within(mean: f64, se: f64, multiplier: f64) -> Estimate {
    let half = multiplier * se;
    Estimate { estimate: mean, low: mean - half, high: mean + half, se }
}

fn batch(schema: &SchemaRef, lines: &[Line]) -> Result<RecordBatch, StageError> {
    let number = |of: &dyn Fn(&Line) -> Option<f64>| -> ArrayRef {
        let finite = |line| of(line).filter(|value| value.is_finite());
        Arc::new(lines.iter().map(finite).collect::<Float64Array>())
    };
    let count = |of: &dyn Fn(&Line) -> usize| -> ArrayRef {
        Arc::new(lines.iter().map(|line| Some(of(line) as i64)).collect::<Int64Array>())
    };
    let text = |of: &dyn Fn(&Line) -> Option<String>| -> ArrayRef {
        Arc::new(lines.iter().map(of).collect::<StringArray>())
    };
    let groups = schema.fields().len() - 12;
    let mut columns: Vec<ArrayRef> =
        (0..groups).map(|i| text(&|line| line.by[i].clone())).collect();
    columns.extend([
        text(&|line| Some(line.name.clone())),
        number(&|line| line.estimate.map(|e| e.estimate)),
        number(&|line| line.estimate.map(|e| e.low)),
        number(&|line| line.estimate.map(|e| e.high)),
        text(&|line| Some(line.method.clone())),
        number(&|line| line.estimate.map(|e| e.se)),
        count(&|line| line.attempted),
        count(&|line| line.attempted - line.excluded - line.errored),
        count(&|line| line.errored),
        count(&|line| line.excluded),
        number(&|line| line.value_answered),
        number(&|line| line.value_bound),
    ]);
    values::table(schema, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::tables::results::result_column;

    #[test]
    fn all_columns_but_those_of_by_are_known() {
        let settings = r#"{"from": "t", "correct": "hit", "by": ["seed"]}"#;
        let schema = schema(&serde_json::from_str(settings).unwrap());
        let unknown = schema.fields().iter().filter(|field| result_column(field.name()).is_none());
        assert_eq!(unknown.map(|field| field.name().as_str()).collect::<Vec<_>>(), ["seed"]);
    }
}
