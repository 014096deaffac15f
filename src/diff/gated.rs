//! What a gate finds in two runs: each metric of it, question by question.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::catalog::TableProvider;
use proofmill_base::error::{Error, Result};
use proofmill_base::suggest::{self, some_names};
use proofmill_pipeline::gate::{Better, GatedMetric};
use proofmill_pipeline::role::KindRole;
use proofmill_store::{Artifact, Store};
use proofmill_udfs::stats;

use crate::diff::measured::{Measured, Row, inputs};
use crate::diff::metrics::values;
use crate::diff::pair::TablePair;
use crate::diff::questions::{ChangedQuestion, QuestionPair, Questions, changed, paired};
use crate::diff::runs::Side;
use crate::gate::evidence::{
    ClusterCounts, Counts, MetricEvidence, MetricFound, PairedQuestions, Unanswered,
};
use crate::run::bind::tables_of;
use crate::session::{Engine, StageTable};
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind::quoted;
use crate::stages::tables::query::TextsAndNumbers;
use crate::stages::tables::values::Key;

/// Two runs and where their tables are.
pub struct Gated<'a> {
    /// Baseline and candidate.
    pub sides: [&'a Side; 2],
    pub store: &'a Store,
    pub engine: &'a Engine,
}

/// The questions of two runs.
enum Compared {
    /// They are of the same table.
    Equal {
        questions: u64,
        answered: u64,
    },
    Paired {
        unit: Vec<String>,
        cluster: Option<String>,
        pairs: Vec<QuestionPair>,
    },
}

/// Why a metric has no evidence.
pub enum NoEvidence {
    /// Neither run has it: the gate is wrong. With what helps.
    Unknown(String, Option<String>),
    /// No drop of it is as large as the smallest that matters: the gate is wrong. With what helps.
    TooLarge(String, String),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for NoEvidence {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Gated<'_> {
    /// What is found of a metric.
    ///
    /// # Errors
    ///
    /// If neither run has it, or a table cannot be read.
    pub async fn of(&self, metric: &GatedMetric) -> Result<MetricEvidence, NoEvidence> {
        let records = self.sides.map(|side| {
            let is_metrics = |it: &&Artifact| KindRole::of(&it.kind) == Some(KindRole::Metrics);
            side.record(&metric.stage).filter(is_metrics)
        });
        let incomparable = |reason: String| MetricEvidence {
            values: [None; 2],
            found: MetricFound::Incomparable { reason },
            noise: None,
        };
        let [ours, theirs] = match records {
            [Some(ours), Some(theirs)] => [ours, theirs],
            [None, None] => {
                let message = format!("no run has a `measure` called `{}`", metric.stage);
                return Err(NoEvidence::Unknown(message, self.stages()));
            }
            [ours, _] => {
                let run = &self.sides[usize::from(ours.is_some())].run.run;
                return Ok(incomparable(format!("run {run} has no `{}`", metric.stage)));
            }
        };
        let all = values(metric.stage.as_str(), [ours, theirs], self.store, self.engine).await?;
        let is_it = |by: &[(String, Option<String>)]| {
            let fits = |(column, value): (&String, &String)| {
                by.iter().any(|(name, of)| name == column && of.as_ref() == Some(value))
            };
            by.len() == metric.group.len() && metric.group.iter().all(fits)
        };
        let mut those = all.iter().filter(|it| it.metric == metric.metric && is_it(&it.by));
        let Some(value) = those.next().map(|it| it.values) else {
            let named = all.iter().map(|it| {
                let by = it.by.iter().map(|(name, value)| {
                    format!(" {name}: {}", value.as_deref().unwrap_or("NULL"))
                });
                format!("{}{}", it.metric, by.collect::<String>())
            });
            let named: BTreeSet<String> = named.collect();
            let help = format!("it has {}", some_names(named.iter().map(String::as_str)));
            let group = if metric.group.is_empty() { "" } else { " of this `where`" };
            let message = format!("`{}` has no metric `{}`{group}", metric.stage, metric.metric);
            return Err(NoEvidence::Unknown(message, Some(help)));
        };
        let found = match self.found(metric, [ours, theirs]).await? {
            Ok(found) => found,
            Err(reason) => MetricFound::Incomparable { reason },
        };
        if let MetricFound::Paired(paired) = &found
            && paired.binary
            && metric.min_effect >= 1.0
        {
            let (effect, name) = (metric.min_effect, &metric.metric);
            let message = format!("`{name}` is a rate, and no rate drops by {effect} or more");
            let help = format!("{effect} points of a hundred are `{}`", effect / 100.0);
            return Err(NoEvidence::TooLarge(message, help));
        }
        Ok(MetricEvidence { values: value, found, noise: None })
    }

    /// The `measure` stages of the candidate, for advice.
    fn stages(&self) -> Option<String> {
        let stages = self.sides[1]
            .stages
            .iter()
            .filter(|(_, (_, found))| KindRole::of(&found.record.kind) == Some(KindRole::Metrics));
        let names: Vec<&str> = stages.map(|(name, _)| name.as_str()).collect();
        let named = || format!("the candidate has {}", some_names(names.iter().copied()));
        (!names.is_empty()).then(named)
    }

    /// What is found in the questions of both runs; or why they cannot be compared.
    async fn found(
        &self,
        metric: &GatedMetric,
        records: [&Artifact; 2],
    ) -> Result<std::result::Result<MetricFound, String>, NoEvidence> {
        Ok(match self.compared(metric, records).await? {
            Err(why) => Err(why),
            Ok(Compared::Equal { questions, answered }) => {
                Ok(MetricFound::Equal { questions, answered })
            }
            Ok(Compared::Paired { unit, cluster, pairs }) => {
                let counted =
                    counted(&pairs, unit, cluster, metric.better).map_err(StageError::from)?;
                Ok(MetricFound::Paired(Box::new(counted)))
            }
        })
    }

    /// The questions that changed, and the columns that tell them apart; or why the runs cannot be compared.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub async fn changed(
        &self,
        metric: &GatedMetric,
    ) -> Result<std::result::Result<(Vec<String>, Vec<ChangedQuestion>), String>, NoEvidence> {
        let [Some(ours), Some(theirs)] = self.sides.map(|side| side.record(&metric.stage)) else {
            return Ok(Err(format!("one of the runs has no `{}`", metric.stage)));
        };
        let compared = self.compared(metric, [ours, theirs]).await?;
        Ok(compared.map(|compared| match compared {
            Compared::Equal { .. } => (Vec::new(), Vec::new()),
            Compared::Paired { unit, pairs, .. } => (unit, changed(pairs, metric.better)),
        }))
    }

    /// The questions of both runs; or why they cannot be compared.
    async fn compared(
        &self,
        metric: &GatedMetric,
        records: [&Artifact; 2],
    ) -> Result<std::result::Result<Compared, String>, NoEvidence> {
        let [first, second] = match inputs(self.sides, records) {
            Ok(inputs) => inputs,
            Err(why) => return Ok(Err(why)),
        };
        let name = first.stage.as_str();
        let pair = TablePair::of(name, self.sides, [first, second], self.store).await?;
        let Some(pair) = pair else { return Ok(Err(format!("`{name}` has no rows"))) };
        let unit = match metric.unit.is_empty() {
            false => metric.unit.clone(),
            true => match pair.key(&[], self.engine).await {
                Ok(key) => key,
                Err(error) => {
                    let why = format!("{}; name them with `unit`", error.message);
                    return Ok(Err(why));
                }
            },
        };
        if let Some(why) = unknown(&unit, &metric.cluster, &pair)? {
            return Ok(Err(why));
        }
        let mut measured = Measured::of(records[1]);
        measured.cluster = metric.cluster.clone().or(measured.cluster);
        let Some(at) = measured.metrics.iter().position(|(name, _)| *name == metric.metric) else {
            let why = format!("`{}` is not counted row by row", metric.metric);
            return Ok(Err(why));
        };
        let group: Key = measured.by.iter().map(|name| metric.group.get(name).cloned()).collect();
        let of = |rows: Vec<Row>| Questions::of(rows, &group, at);
        let ours = of(measured.rows(name, &pair.a, &unit, self.engine).await?);
        if first.digest() == second.digest() {
            let (questions, answered) = ours.counts();
            return Ok(Ok(Compared::Equal { questions, answered }));
        }
        let theirs = of(measured.rows(name, &pair.b, &unit, self.engine).await?);
        let mut failed = [BTreeSet::new(), BTreeSet::new()];
        for (side, table) in [first, second].into_iter().enumerate() {
            failed[side] = self.failed(self.sides[side], table).await?;
        }
        let cluster = measured.cluster;
        let found = paired(ours, theirs, &failed);
        let by_default = metric.unit.is_empty();
        Ok(match found {
            Ok(pairs) => Ok(Compared::Paired { unit, cluster, pairs }),
            Err(why) if by_default => {
                let unit = unit.join("`, `");
                Err(format!("{why}; paired by `{unit}`: name other columns with `unit`"))
            }
            Err(why) => Err(why),
        })
    }

    /// The identities of rows that failed upstream of a table of a run.
    async fn failed(&self, side: &Side, table: &Artifact) -> Result<BTreeSet<String>> {
        let (mut sources, mut next) = (BTreeSet::new(), vec![table]);
        let mut seen = BTreeSet::new();
        while let Some(record) = next.pop() {
            if !seen.insert(record.fingerprint) {
                continue;
            }
            next.extend(
                record
                    .components
                    .iter()
                    .filter(|(name, _)| name.starts_with(proofmill_catalog::lineage::INPUT))
                    .filter_map(|(_, input)| side.stage_of(input)),
            );
            if record.errors.is_empty() {
                continue;
            }
            let tables = tables_of(self.store, &record.stage, record).await?;
            for (name, table) in tables.iter().filter(|(name, _)| *name != record.stage) {
                let query = format!("SELECT source FROM {}", quoted(name.as_str()));
                let rows =
                    TextsAndNumbers::of(&query, name.as_str(), table, 1, self.engine).await?;
                sources.extend((0..rows.rows()).flat_map(|row| rows.text(row, 0..1)).flatten());
            }
        }
        Ok(sources)
    }
}

/// Which of the columns a table does not have, or has with another type; an error if neither table has it.
fn unknown(
    unit: &[String],
    cluster: &Option<String>,
    pair: &TablePair,
) -> Result<Option<String>, NoEvidence> {
    let shared = pair.shared(&[]);
    let mut columns = unit.iter().chain(cluster);
    let Some(unknown) = columns.find(|column| !shared.contains(column)) else { return Ok(None) };
    let has = |table: &StageTable| table.schema().column_with_name(unknown).is_some();
    if has(&pair.a) || has(&pair.b) {
        let kind = |table: &StageTable| match table.schema().field_with_name(unknown) {
            Ok(field) => format!("`{unknown}` of type {}", field.data_type()),
            Err(_) => format!("no `{unknown}`"),
        };
        let (a, b) = (kind(&pair.a), kind(&pair.b));
        return Ok(Some(format!(
            "`{}` has {a} in the baseline, and {b} in the candidate",
            pair.stage
        )));
    }
    let message = format!("`{}`, which is measured, has no column `{unknown}`", pair.stage);
    let help = suggest::help(unknown, shared.iter().map(String::as_str));
    Err(NoEvidence::Unknown(message, help))
}

/// Counts how the questions changed.
fn counted(
    pairs: &[QuestionPair],
    unit: Vec<String>,
    cluster: Option<String>,
    better: Better,
) -> std::result::Result<PairedQuestions, stats::StatsError> {
    let means = || pairs.iter().flat_map(|it| [it.baseline.mean(), it.candidate.mean()]).flatten();
    let binary = means().all(|value| value == 0.0 || value == 1.0);
    let bounded = means().all(|value| (0.0..=1.0).contains(&value));
    // The worst that an answer can be, as far as the runs show it.
    let worst = match better {
        Better::Higher => means().fold(0.0, f64::min),
        Better::Lower => means().fold(1.0, f64::max),
    };
    let lost = |a: f64, b: f64| QuestionPair::lost(a, b, better);
    let mut unanswered = Unanswered::default();
    let (mut answered, mut all) = (Vec::new(), Vec::new());
    for QuestionPair { baseline: ours, candidate: theirs, .. } in pairs {
        match (ours.mean(), theirs.mean()) {
            (Some(a), Some(b)) => {
                answered.push((lost(a, b), ours.cluster.as_deref()));
                all.push((lost(a, theirs.worst(worst)), ours.cluster.as_deref()));
            }
            (Some(a), None) => {
                unanswered.newly += 1;
                all.push((lost(a, worst), ours.cluster.as_deref()));
            }
            (None, Some(_)) => unanswered.no_longer += 1,
            (None, None) => unanswered.both += 1,
        }
    }
    let answered = counts(&answered, cluster.as_deref())?;
    let all_binary = binary && all.iter().all(|(lost, _)| [-1.0, 0.0, 1.0].contains(lost));
    let worst = counts(&all, cluster.as_deref())?;
    Ok(PairedQuestions { unit, binary: all_binary, bounded, answered, worst, unanswered })
}

/// Counts what questions lost, each with its cluster.
fn counts(
    lost: &[(f64, Option<&str>)],
    cluster: Option<&str>,
) -> std::result::Result<Counts, stats::StatsError> {
    let questions = lost.len() as u64;
    if lost.is_empty() {
        return Ok(Counts::default());
    }
    let values: Vec<f64> = lost.iter().map(|(lost, _)| *lost).collect();
    let count = |fits: fn(f64) -> bool| values.iter().filter(|value| fits(**value)).count() as u64;
    // Means of samples are rounded.
    let (worse, better) =
        (count(|lost| lost > stats::ROUNDING), count(|lost| lost < -stats::ROUNDING));
    let Some(column) = cluster else {
        let found = stats::paired_difference(&values, 0.95)?;
        let se = Some(found.se).filter(|se| se.is_finite() && *se > 0.0);
        return Ok(Counts { questions, worse, better, drop: found.diff, se, clusters: None });
    };
    let labels: Vec<Option<&str>> = lost.iter().map(|(_, cluster)| *cluster).collect();
    let found = stats::clustered_se(&values, &labels)?;
    let mut sums: BTreeMap<Option<&str>, (f64, u64)> = BTreeMap::new();
    for (lost, cluster) in lost {
        let sum = sums.entry(*cluster).or_default();
        *sum = (sum.0 + lost, sum.1 + 1);
    }
    let of = |fits: fn(f64) -> bool| sums.values().filter(|(sum, _)| fits(*sum)).count() as u64;
    let clusters = ClusterCounts {
        column: column.to_owned(),
        clusters: sums.len() as u64,
        worse: of(|sum| sum > stats::ROUNDING),
        better: of(|sum| sum < -stats::ROUNDING),
        largest: sums.values().map(|(_, size)| *size).max().unwrap_or(0),
    };
    let se = Some(found.se).filter(|se| se.is_finite() && *se > 0.0);
    Ok(Counts { questions, worse, better, drop: found.mean, se, clusters: Some(clusters) })
}
