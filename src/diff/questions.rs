//! The questions of two runs, side by side: which there are, the value of each, and which of them changed.

use std::collections::{BTreeMap, BTreeSet};

use proofmill_base::suggest::some_names;
use proofmill_pipeline::gate::Better;
use proofmill_udfs::stats;
use serde::Serialize;

use crate::diff::measured::Row;
use crate::stages::tables::values::Key;

/// The samples of a question.
#[derive(Default)]
pub struct QuestionSamples {
    pub cluster: Option<String>,
    samples: usize,
    /// Identities of the samples, as far as they have some.
    row_ids: Vec<String>,
    values: Vec<f64>,
}

impl QuestionSamples {
    /// The mean of the samples that were answered.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    /// The mean of all samples, where one without an answer counts as `worst`.
    pub fn worst(&self, worst: f64) -> f64 {
        let missing = (self.samples - self.values.len()) as f64;
        (self.values.iter().sum::<f64>() + missing * worst) / self.samples as f64
    }
}

/// The questions of a run.
pub struct Questions(BTreeMap<Key, QuestionSamples>);

impl Questions {
    /// Of the rows of a group, with the values of one metric.
    pub(super) fn of(rows: Vec<Row>, group: &Key, metric: usize) -> Self {
        let mut all: BTreeMap<Key, QuestionSamples> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| row.group == *group) {
            let question = all.entry(row.key).or_default();
            question.samples += 1;
            question.cluster = row.cluster;
            question.row_ids.extend(row.row_id);
            let value = row.values[metric].filter(|value| !row.is_excluded && value.is_finite());
            question.values.extend(value);
        }
        Self(all)
    }

    /// How many there are, and how many of them have a value.
    pub fn counts(&self) -> (u64, u64) {
        let answered = self.0.values().filter(|question| question.mean().is_some());
        (self.0.len() as u64, answered.count() as u64)
    }
}

/// A question in both runs.
pub struct QuestionPair {
    /// The values of its columns.
    pub key: Key,
    pub baseline: QuestionSamples,
    pub candidate: QuestionSamples,
}

impl QuestionPair {
    /// What the candidate lost; negative for a gain.
    pub fn lost(before: f64, now: f64, better: Better) -> f64 {
        match better {
            Better::Higher => before - now,
            Better::Lower => now - before,
        }
    }
}

/// A question that changed from one run to the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedQuestion {
    /// The values of the columns that tell questions apart.
    pub key: Key,
    /// Its value in the baseline and in the candidate; none where it has no answer.
    pub values: [Option<f64>; 2],
    /// Whether the candidate is worse.
    pub is_worse: bool,
}

/// The questions that changed: those that became worse first, each in the order of their keys.
pub fn changed(pairs: Vec<QuestionPair>, better: Better) -> Vec<ChangedQuestion> {
    let change = |QuestionPair { key, baseline, candidate }: QuestionPair| {
        let values = [baseline.mean(), candidate.mean()];
        let is_worse = match values {
            [Some(before), Some(now)] => {
                let lost = QuestionPair::lost(before, now, better);
                // Means of samples are rounded.
                (lost.abs() > stats::ROUNDING).then_some(lost > 0.0)?
            }
            [Some(_), None] => true,
            [None, Some(_)] => false,
            [None, None] => return None,
        };
        Some(ChangedQuestion { key, values, is_worse })
    };
    let mut all: Vec<ChangedQuestion> = pairs.into_iter().filter_map(change).collect();
    all.sort_by(|a, b| (!a.is_worse, &a.key).cmp(&(!b.is_worse, &b.key)));
    all
}

/// The questions of both runs, side by side; or why they are not the same. Those whose rows `failed` in a run have no answer
/// there.
pub fn paired(
    ours: Questions,
    mut theirs: Questions,
    failed: &[BTreeSet<String>; 2],
) -> Result<Vec<QuestionPair>, String> {
    let (mut pairs, mut missing, mut uneven) = (Vec::new(), Vec::new(), Vec::new());
    // What the other run has of a question says how its rows are called; where they have no identity, they are called as the question.
    let lost = |side: usize, key: &Key, other: &QuestionSamples| {
        let is_lost = |id: &&String| failed[side].contains(*id);
        match (other.row_ids.as_slice(), key.as_slice()) {
            ([], [Some(only)]) if failed[side].contains(only) => other.samples,
            (ids, _) => ids.iter().filter(is_lost).count(),
        }
    };
    let unanswered = |question: &QuestionSamples| QuestionSamples {
        samples: question.samples,
        cluster: question.cluster.clone(),
        ..QuestionSamples::default()
    };
    for (key, baseline) in ours.0 {
        match theirs.0.remove(&key) {
            Some(candidate) => {
                let samples = baseline.samples.max(candidate.samples);
                let are_lost = |side: usize, own: &QuestionSamples, other: &QuestionSamples| {
                    samples - own.samples <= lost(side, &key, other)
                };
                match are_lost(0, &baseline, &candidate) && are_lost(1, &candidate, &baseline) {
                    true => pairs.push(QuestionPair {
                        key,
                        baseline: QuestionSamples { samples, ..baseline },
                        candidate: QuestionSamples { samples, ..candidate },
                    }),
                    false => uneven.push(key),
                }
            }
            None if lost(1, &key, &baseline) >= baseline.samples => {
                let candidate = unanswered(&baseline);
                pairs.push(QuestionPair { key, baseline, candidate });
            }
            None => missing.push(key),
        }
    }
    let said = |keys: &[Key], what: &str| {
        let named: Vec<String> = keys.iter().map(shown).collect();
        let questions = if keys.len() == 1 { "question" } else { "questions" };
        format!(
            "{} {questions} {what}: {}",
            keys.len(),
            some_names(named.iter().map(String::as_str))
        )
    };
    let (failed_before, extra): (Vec<_>, Vec<_>) =
        theirs.0.into_iter().partition(|(key, it)| lost(0, key, it) >= it.samples);
    pairs.extend(failed_before.into_iter().map(|(key, candidate)| {
        let baseline = unanswered(&candidate);
        QuestionPair { key, baseline, candidate }
    }));
    let extra: Vec<Key> = extra.into_iter().map(|(key, _)| key).collect();
    if !missing.is_empty() {
        return Err(said(&missing, "of the baseline missing in the candidate"));
    }
    if !extra.is_empty() {
        return Err(said(&extra, "of the candidate missing in the baseline"));
    }
    if !uneven.is_empty() {
        return Err(said(&uneven, "with other numbers of samples"));
    }
    if pairs.is_empty() {
        return Err("the runs have no question".to_owned());
    }
    let is_moved = |it: &&QuestionPair| it.baseline.cluster != it.candidate.cluster;
    let moved: Vec<Key> = pairs.iter().filter(is_moved).map(|it| it.key.clone()).collect();
    if !moved.is_empty() {
        return Err(said(&moved, "in another cluster than before"));
    }
    Ok(pairs)
}

/// The values of a key in a line.
pub fn shown(key: &Key) -> String {
    let parts = key.iter().map(|part| part.as_deref().unwrap_or("NULL"));
    parts.collect::<Vec<_>>().join("/")
}
