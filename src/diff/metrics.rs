//! Metrics of two runs, and paired tests over the rows behind them.
//!
//! A stage `measure` says in its record what it counts; with the same expressions in both runs, the rows that it
//! measured are paired by their key, and the difference is tested as `compare` does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, Float64Array, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use serde::Serialize;

use crate::diff::pair::{TablePair, by, table_of};
use crate::diff::runs::Side;
use crate::session::{Engine, StageTable};
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::paired::{Paired, few_clusters, paired};
use crate::stages::tables::query::rows_of;
use crate::stages::tables::values::{Key, text_at};
use proofmill_base::error::{Error, Result};
use proofmill_pipeline::kinds::statistics::{ACCURACY, Interval};
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, Store};
use proofmill_udfs::stats;

/// A metric in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct MetricDiff {
    pub stage: String,
    /// The columns that split the table, with their values.
    pub by: Vec<(String, Option<String>)>,
    pub metric: String,
    /// Its value in each run, over all rows of the run.
    pub values: [Option<f64>; 2],
    pub test: Option<PairedTest>,
}

/// A difference over the rows that both runs have.
#[derive(Clone, Debug, Serialize)]
pub struct PairedTest {
    /// Rows in both runs.
    pub n: usize,
    /// The columns that they are paired by.
    pub on: Vec<String>,
    /// Mean of the second run less that of the first.
    pub diff: f64,
    pub ci_low: f64,
    pub ci_high: f64,
    /// Rows that only the first run has right, and only the second; for booleans.
    pub only_a: Option<u64>,
    pub only_b: Option<u64>,
    /// Clustered, else by signs where all rows differ alike, else exact McNemar for booleans, else of the bootstrap.
    pub p: Option<f64>,
    /// The same after Holm's correction over all tests of the comparison.
    pub p_holm: Option<f64>,
}

impl PairedTest {
    fn new(found: &Paired, on: &[String]) -> Self {
        let (ci_low, ci_high) = found.interval;
        Self {
            n: found.n,
            on: on.to_vec(),
            diff: found.diff,
            ci_low,
            ci_high,
            only_a: found.discordant.map(|(a, _)| a),
            only_b: found.discordant.map(|(_, b)| b),
            p: found.p(),
            p_holm: found.p(),
        }
    }
}

/// The metrics of all `measure` stages that both runs have, and what keeps some of them from a test.
///
/// # Errors
///
/// When a table is lost or damaged, or cannot be read.
pub async fn metrics(
    a: &Side,
    b: &Side,
    on: &[String],
    store: &Store,
    engine: &Engine,
) -> Result<(Vec<MetricDiff>, Vec<String>)> {
    let (mut all, mut remarks) = (Vec::new(), Vec::new());
    for (name, (_, theirs)) in &b.stages {
        let theirs = theirs.record.as_ref();
        let Some(ours) = a.record(name) else { continue };
        let is_metrics = |it: &Artifact| KindRole::of(&it.kind) == Some(KindRole::Metrics);
        if !is_metrics(theirs) || !is_metrics(ours) {
            continue;
        }
        let mut found = values(name.as_str(), [ours, theirs], store, engine).await?;
        if ours.digest() != theirs.digest() {
            match tests([a, b], [ours, theirs], on, store, engine).await? {
                Ok((key, tests)) => {
                    let fewest = tests.values().filter_map(|found| found.clusters).min();
                    let column = theirs.components.get("settings.cluster").zip(fewest);
                    let few = column.and_then(|(column, fewest)| few_clusters(column, fewest));
                    remarks.extend(few.map(|few| format!("`{name}`: {few}")));
                    for metric in &mut found {
                        let of = (texts(&metric.by), metric.metric.clone());
                        metric.test = tests.get(&of).map(|found| PairedTest::new(found, &key));
                    }
                }
                Err(why) => remarks.push(format!("`{name}` is not tested: {why}")),
            }
        }
        all.extend(found);
    }
    let tested: Vec<f64> = all.iter().filter_map(|it| it.test.as_ref()?.p).collect();
    if !tested.is_empty() {
        let corrected = stats::holm(&tested).map_err(StageError::from)?;
        let tests = all.iter_mut().filter_map(|it| it.test.as_mut()).filter(|it| it.p.is_some());
        tests.zip(corrected).for_each(|(test, p)| test.p_holm = Some(p));
    }
    Ok((all, remarks))
}

fn texts(by: &[(String, Option<String>)]) -> Key {
    by.iter().map(|(_, value)| value.clone()).collect()
}

/// The values of a `measure` in both runs.
async fn values(
    stage: &str,
    records: [&Artifact; 2],
    store: &Store,
    engine: &Engine,
) -> Result<Vec<MetricDiff>> {
    let mut all: Vec<MetricDiff> = Vec::new();
    for (side, record) in records.into_iter().enumerate() {
        let Some(table) = table_of(record, store).await? else { continue };
        let split = by(record);
        let mut columns: Vec<String> = split.iter().map(|name| quoted(name)).collect();
        columns.extend(["name".to_owned(), "value".to_owned()]);
        let sql = format!("SELECT {} FROM t", columns.join(", "));
        let rows = Columns::of(&sql, "t", &table, split.len() + 1, engine).await?;
        for row in 0..rows.len() {
            let by = split.iter().cloned().zip(rows.text(row, 0..split.len())).collect();
            let metric = text_at(&rows.texts[split.len()], row).unwrap_or_default();
            let value = rows.value(row, 0);
            match all.iter_mut().find(|known| known.metric == metric && known.by == by) {
                Some(known) => known.values[side] = value,
                None => {
                    let mut values = [None; 2];
                    values[side] = value;
                    let stage = stage.to_owned();
                    all.push(MetricDiff { stage, by, metric, values, test: None });
                }
            }
        }
    }
    Ok(all)
}

/// The paired comparison of each group and metric.
type Tests = HashMap<(Key, String), Paired>;

/// The columns that rows are paired by, and the comparisons; or why there are none.
async fn tests(
    sides: [&Side; 2],
    records: [&Artifact; 2],
    on: &[String],
    store: &Store,
    engine: &Engine,
) -> Result<std::result::Result<(Vec<String>, Tests), String>> {
    let [ours, theirs] = records;
    let settings = |record: &Artifact| -> BTreeMap<String, String> {
        let settings = record.components.iter().filter(|(name, _)| name.starts_with("settings."));
        settings.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if settings(ours) != settings(theirs) {
        return Ok(Err("the two runs measure different things".to_owned()));
    }
    let mut measured = Vec::new();
    for (side, record) in sides.into_iter().zip(records) {
        let input = record.components.get("input.from").and_then(|input| side.stage_of(input));
        let Some(input) = input else {
            return Ok(Err(format!(
                "run {} does not have the rows that it was measured on",
                side.run.run
            )));
        };
        measured.push(input);
    }
    let [first, second] = measured.as_slice() else { return Ok(Ok((Vec::new(), Tests::new()))) };
    let name = first.stage.as_str();
    let Some(pair) = TablePair::of(name, sides, [first, second], store).await? else {
        return Ok(Err(format!("`{name}` has no rows")));
    };
    let on = match pair.key(on, engine).await {
        Ok(on) => on,
        Err(Error { message, hint, .. }) => {
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            return Ok(Err(format!("{message}{hint}")));
        }
    };
    let plan = Measured::of(theirs, on);
    let first = plan.items(name, &pair.a, engine).await?;
    let second = plan.items(name, &pair.b, engine).await?;
    plan.compared(&first, &second).map(|tests| Ok((plan.on, tests)))
}

/// What a `measure` counts, row by row.
struct Measured {
    by: Vec<String>,
    on: Vec<String>,
    cluster: Option<String>,
    exclude: Option<String>,
    /// Names with their expressions.
    metrics: Vec<(String, String)>,
    ci: Interval,
}

/// A row that was measured.
struct Item {
    cluster: Option<String>,
    /// By metric.
    values: Vec<f64>,
}

/// Rows by group and key.
type Items = BTreeMap<(Key, Key), Item>;

impl Measured {
    fn of(record: &Artifact, on: Vec<String>) -> Self {
        let setting = |name: &str| record.components.get(&format!("settings.{name}")).cloned();
        let number = |name: &str| setting(name).and_then(|value| value.parse().ok());
        let default = Interval::default();
        let named = record.components.iter().filter_map(|(name, expression)| {
            Some((name.strip_prefix("settings.metrics.")?.to_owned(), expression.clone()))
        });
        let accuracy = setting("correct").map(|expression| (ACCURACY.to_owned(), expression));
        Self {
            by: by(record),
            on,
            cluster: setting("cluster"),
            exclude: setting("exclude"),
            metrics: accuracy.into_iter().chain(named).collect(),
            ci: Interval {
                bootstrap: setting("ci.bootstrap").and_then(|value| value.parse().ok()),
                seed: setting("ci.seed")
                    .and_then(|value| value.parse().ok())
                    .unwrap_or(default.seed),
                level: number("ci.level").unwrap_or(default.level),
            },
        }
    }

    /// The rows of a table that the expressions call `name`; a row without a value counts as 0.
    async fn items(&self, name: &str, table: &Arc<StageTable>, engine: &Engine) -> Result<Items> {
        let cluster = self.cluster.iter();
        let columns: Vec<String> =
            self.by.iter().chain(&self.on).chain(cluster).map(|name| quoted(name)).collect();
        let texts = columns.iter().enumerate().map(|(i, column)| format!("{column} AS t{i}"));
        let metrics = self.metrics.iter().enumerate();
        let values = metrics.map(|(i, (_, expression))| format!("({expression}) AS v{i}"));
        let wanted: Vec<String> = texts.chain(values).collect();
        let kept = self.exclude.as_ref().map(|it| format!(" WHERE ({it}) IS NOT TRUE"));
        let sql = format!("SELECT {} FROM {name}{}", wanted.join(", "), kept.unwrap_or_default());
        let rows = Columns::of(&sql, name, table, columns.len(), engine).await?;
        let key = self.by.len()..self.by.len() + self.on.len();
        let item = |row: usize| {
            let cluster = match self.cluster {
                Some(_) => text_at(&rows.texts[key.end], row),
                None => None,
            };
            let values = (0..self.metrics.len()).map(|i| rows.value(row, i).unwrap_or(0.0));
            let id = (rows.text(row, 0..key.start), rows.text(row, key.clone()));
            (id, Item { cluster, values: values.collect() })
        };
        Ok((0..rows.len()).map(item).collect())
    }

    fn compared(&self, first: &Items, second: &Items) -> Result<Tests> {
        let mut groups: BTreeMap<&[Option<String>], Vec<(&Item, &Item)>> = BTreeMap::new();
        for (id, item) in first {
            if let Some(theirs) = second.get(id) {
                groups.entry(&id.0).or_default().push((item, theirs));
            }
        }
        let mut tests = Tests::new();
        for (group, pairs) in groups {
            let clusters: Vec<_> = pairs.iter().map(|(ours, _)| ours.cluster.as_deref()).collect();
            let clusters = self.cluster.as_ref().map(|_| clusters.as_slice());
            for (m, (metric, _)) in self.metrics.iter().enumerate() {
                let a: Vec<f64> = pairs.iter().map(|(ours, _)| ours.values[m]).collect();
                let b: Vec<f64> = pairs.iter().map(|(_, theirs)| theirs.values[m]).collect();
                let boolean = a.iter().chain(&b).all(|value| *value == 0.0 || *value == 1.0);
                let found =
                    paired(&a, &b, clusters, boolean, &self.ci).map_err(StageError::from)?;
                tests.insert((group.to_vec(), metric.clone()), found);
            }
        }
        Ok(tests)
    }
}

/// Texts and numbers of a query.
struct Columns {
    texts: Vec<StringArray>,
    values: Vec<Float64Array>,
    rows: usize,
}

impl Columns {
    /// The first `texts` columns of the query as texts, the rest as numbers.
    async fn of(
        sql: &str,
        name: &str,
        table: &Arc<StageTable>,
        texts: usize,
        engine: &Engine,
    ) -> Result<Self> {
        let (schema, batches) = rows_of(sql, &[(name, table)], engine).await?;
        let all = concat_batches(&schema, &batches).map_err(StageError::from)?;
        let column = |i: usize, kind| cast(all.column(i), &kind).map_err(StageError::from);
        let text = |i| Ok(column(i, DataType::Utf8)?.as_any().downcast_ref().cloned());
        let value = |i| Ok(column(i, DataType::Float64)?.as_any().downcast_ref().cloned());
        let texts_: Result<Option<_>, StageError> = (0..texts).map(text).collect();
        let values: Result<Option<_>, StageError> = (texts..all.num_columns()).map(value).collect();
        Ok(Self {
            texts: texts_?.unwrap_or_default(),
            values: values?.unwrap_or_default(),
            rows: all.num_rows(),
        })
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn text(&self, row: usize, columns: std::ops::Range<usize>) -> Key {
        self.texts[columns].iter().map(|column| text_at(column, row)).collect()
    }

    fn value(&self, row: usize, column: usize) -> Option<f64> {
        let column = &self.values[column];
        column.is_valid(row).then(|| column.value(row))
    }
}
