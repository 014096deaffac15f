//! Metrics of two runs, and paired tests over the rows behind them.
//!
//! A stage `measure` says in its record what it counts; with the same expressions in both runs, the rows that it
//! measured are paired by their key, and the difference is tested as `compare` does.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::diff::measured::{Measured, Row, inputs};
use crate::diff::pair::{TablePair, by, table_of};
use crate::diff::runs::Side;
use crate::session::Engine;
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::paired::{Paired, few_clusters, paired};
use crate::stages::tables::query::TextsAndNumbers;
use crate::stages::tables::values::{Key, text_at};
use proofmill_base::error::{Error, Result};
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
pub(super) async fn values(
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
        let rows = TextsAndNumbers::of(&sql, "t", &table, split.len() + 1, engine).await?;
        for row in 0..rows.rows() {
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
    let [first, second] = match inputs(sides, records) {
        Ok(inputs) => inputs,
        Err(why) => return Ok(Err(why)),
    };
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
    let measured = Measured::of(records[1]);
    let first = items(measured.rows(name, &pair.a, &on, engine).await?);
    let second = items(measured.rows(name, &pair.b, &on, engine).await?);
    compared(&measured, &first, &second).map(|tests| Ok((on, tests)))
}

/// A row that was measured.
struct Item {
    cluster: Option<String>,
    /// By metric.
    values: Vec<f64>,
}

/// Rows by group and key.
type Items = BTreeMap<(Key, Key), Item>;

/// Those that are not left out; one without a value counts as 0.
fn items(rows: Vec<Row>) -> Items {
    let kept = rows.into_iter().filter(|row| !row.is_excluded);
    let item = |row: Row| {
        let values = row.values.into_iter().map(|value| value.unwrap_or(0.0)).collect();
        ((row.group, row.key), Item { cluster: row.cluster, values })
    };
    kept.map(item).collect()
}

fn compared(measured: &Measured, first: &Items, second: &Items) -> Result<Tests> {
    let mut groups: BTreeMap<&[Option<String>], Vec<(&Item, &Item)>> = BTreeMap::new();
    for (id, item) in first {
        if let Some(theirs) = second.get(id) {
            groups.entry(&id.0).or_default().push((item, theirs));
        }
    }
    let mut tests = Tests::new();
    for (group, pairs) in groups {
        let clusters: Vec<_> = pairs.iter().map(|(ours, _)| ours.cluster.as_deref()).collect();
        let clusters = measured.cluster.as_ref().map(|_| clusters.as_slice());
        for (m, (metric, _)) in measured.metrics.iter().enumerate() {
            let a: Vec<f64> = pairs.iter().map(|(ours, _)| ours.values[m]).collect();
            let b: Vec<f64> = pairs.iter().map(|(_, theirs)| theirs.values[m]).collect();
            let boolean = a.iter().chain(&b).all(|value| *value == 0.0 || *value == 1.0);
            let found =
                paired(&a, &b, clusters, boolean, &measured.ci).map_err(StageError::from)?;
            tests.insert((group.to_vec(), metric.clone()), found);
        }
    }
    Ok(tests)
}
