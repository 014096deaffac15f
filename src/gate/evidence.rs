//! What a gate finds in two runs: counts and means, from which the verdict follows.

use proofmill_base::digest::Digest;
use proofmill_base::ids::{RunId, StageName};
use proofmill_catalog::audit::entry::Ending;
use serde::{Deserialize, Serialize};

/// What was found in two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The run that the candidate is compared with; `None` if there is none.
    pub baseline: Option<JudgedRun>,
    pub candidate: JudgedRun,
    /// In the order of the gate's metrics.
    pub metrics: Vec<MetricEvidence>,
    /// What the runs were made of that differs and may not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Requests that endpoints answered in the candidate, where it has any: with none, the run says nothing about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Endpoints that call themselves something else than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<ReportedChange>,
    /// The first stage of the candidate, in its order, whose table is another; `None` if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<StageName>,
}

/// A run that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgedRun {
    pub run: RunId,
    /// How it ended; `None` while it runs, or if it was killed.
    pub how: Option<Ending>,
    /// Digest of the stored bytes of its manifest; none unless it is published.
    pub manifest: Option<Digest>,
}

impl JudgedRun {
    /// Whether it has numbers.
    pub fn is_finished(&self) -> bool {
        self.how == Some(Ending::Succeeded)
    }
}

/// Something that the runs were made of and that differs, though it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    pub stage: StageName,
    /// The part of its fingerprint, such as `settings.text`.
    pub component: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The place in the candidate's pipeline: file, line and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// An endpoint that calls itself something else than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedChange {
    /// The name of the model in the pipeline.
    pub model: String,
    /// What it called itself: the model that answered, and the fingerprint of the system.
    pub before: Vec<String>,
    pub now: Vec<String>,
}

/// What was found of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricEvidence {
    /// Its value in each run, over all rows of the run.
    pub values: [Option<f64>; 2],
    pub found: MetricFound,
    /// How far the metric of earlier runs lies apart, if the gate counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

impl MetricEvidence {
    /// Of runs that are not compared.
    pub fn none() -> Self {
        let reason = "one of the runs has no numbers".to_owned();
        Self { values: [None; 2], found: MetricFound::Incomparable { reason }, noise: None }
    }
}

/// How far the values of earlier runs lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    pub runs: u64,
    /// The largest of their values less the smallest.
    pub floor: f64,
}

/// What was found of a metric, question by question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MetricFound {
    /// The two runs do not measure the same.
    Incomparable {
        reason: String,
    },
    /// They measured the same table.
    Equal {
        questions: u64,
        /// Those of them with a value.
        answered: u64,
    },
    Paired(Box<PairedQuestions>),
}

impl MetricFound {
    /// The share of questions that the candidate answered; `None` where the runs are not compared.
    pub fn answered_share(&self) -> Option<f64> {
        let (answered, all) = match self {
            Self::Incomparable { .. } => return None,
            Self::Equal { questions, answered } => (*answered, *questions),
            Self::Paired(paired) => {
                let Unanswered { newly, no_longer, both } = paired.unanswered;
                let answered = paired.answered.questions + no_longer;
                (answered, answered + newly + both)
            }
        };
        Some(if all == 0 { 0.0 } else { answered as f64 / all as f64 })
    }
}

/// Questions of both runs, each with one value in each: the mean of its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairedQuestions {
    /// The columns that tell questions apart.
    pub unit: Vec<String>,
    /// Whether each value is 0 or 1.
    pub binary: bool,
    /// Whether each value is one of 0 to 1.
    pub bounded: bool,
    /// Questions that both runs answered.
    pub answered: Counts,
    /// The same, and those that only the baseline answered, as if the candidate had answered them with 0.
    pub worst: Counts,
    pub unanswered: Unanswered,
}

/// Questions without a value: excluded ones, and those whose rows failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unanswered {
    /// In the candidate only.
    pub newly: u64,
    /// In the baseline only.
    pub no_longer: u64,
    /// In both.
    pub both: u64,
}

/// How the values of some questions changed from the baseline to the candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub questions: u64,
    pub worse: u64,
    pub better: u64,
    /// Mean of what was lost; negative for a gain.
    pub drop: f64,
    /// Its standard error, over clusters if there are any; `None` where values do not vary.
    pub se: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<ClusterCounts>,
}

/// Clusters of questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterCounts {
    pub column: String,
    pub clusters: u64,
    /// Clusters that lost on the whole, and that gained.
    pub worse: u64,
    pub better: u64,
    /// Questions of the largest.
    pub largest: u64,
}

impl Counts {
    /// The independent units, with those that are worse and better: questions, or clusters of them.
    pub fn units(&self) -> (u64, u64, u64) {
        match &self.clusters {
            Some(clusters) => (clusters.clusters, clusters.worse, clusters.better),
            None => (self.questions, self.worse, self.better),
        }
    }
}
