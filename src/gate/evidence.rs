//! What a gate finds in two runs: counts and means, from which the verdict follows.

use proofmill_base::digest::Digest;
use proofmill_base::ids::{RunId, StageName};
use proofmill_catalog::audit::entry::Ending;
use proofmill_udfs::stats;
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

impl Evidence {
    /// In what it contradicts itself, if it does: no runs give such numbers.
    pub fn contradiction(&self) -> Option<String> {
        let of = |(at, metric): (usize, &MetricEvidence)| {
            Some(format!("metric {}: {}", at + 1, metric.contradiction()?))
        };
        self.metrics.iter().enumerate().find_map(of)
    }
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
    fn contradiction(&self) -> Option<String> {
        if self.values.iter().flatten().any(|value| !value.is_finite()) {
            return Some("a value is no number".to_owned());
        }
        if self.noise.is_some_and(|noise| !(noise.floor >= 0.0 && noise.floor.is_finite())) {
            return Some("the spread of earlier runs is no number".to_owned());
        }
        match &self.found {
            MetricFound::Incomparable { .. } => None,
            MetricFound::Equal { questions, answered } => (answered > questions)
                .then(|| format!("{answered} of {questions} questions were answered")),
            MetricFound::Paired(paired) => paired.contradiction(),
        }
    }

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

impl PairedQuestions {
    fn contradiction(&self) -> Option<String> {
        for counts in [&self.answered, &self.worst] {
            if let Some(why) = counts.contradiction(self.binary) {
                return Some(why);
            }
        }
        let (answered, worst) = (&self.answered, &self.worst);
        let Unanswered { newly, no_longer, both } = self.unanswered;
        let all =
            [newly, no_longer, both].into_iter().try_fold(answered.questions, u64::checked_add);
        if all.is_none() {
            return Some("more questions than can be counted".to_owned());
        }
        if worst.questions != answered.questions.saturating_add(newly) {
            return Some(format!(
                "{} questions count if what is unanswered is lost: {} were answered, and {newly} no longer",
                worst.questions, answered.questions
            ));
        }
        (worst.clusters.is_none() && worst.worse < answered.worse)
            .then(|| "fewer questions are worse if what is unanswered is lost".to_owned())
    }
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
    fn contradiction(&self, is_binary: bool) -> Option<String> {
        let (units, worse, better) = self.units();
        let fits = |all: u64, worse: u64, better: u64| {
            worse.checked_add(better).is_some_and(|discordant| discordant <= all)
        };
        let changed = |all, worse, better| format!("{worse} worse and {better} better of {all}");
        if !fits(self.questions, self.worse, self.better) {
            return Some(changed(self.questions, self.worse, self.better));
        }
        if !fits(units, worse, better) || units > self.questions {
            return Some(changed(units, worse, better));
        }
        if let Some(clusters) = &self.clusters
            && (clusters.largest > self.questions
                || (clusters.largest == 0) != (self.questions == 0))
        {
            return Some(format!("a cluster of {}", clusters.largest));
        }
        if !self.drop.is_finite() || self.se.is_some_and(|se| !(se > 0.0 && se.is_finite())) {
            return Some("a drop or its error is no number".to_owned());
        }
        let share = (self.worse as f64 - self.better as f64) / self.questions.max(1) as f64;
        (is_binary && (self.drop - share).abs() > stats::ROUNDING).then(|| {
            format!(
                "{} of a drop of {}",
                changed(self.questions, self.worse, self.better),
                self.drop
            )
        })
    }

    /// The independent units, with those that are worse and better: questions, or clusters of them.
    pub fn units(&self) -> (u64, u64, u64) {
        match &self.clusters {
            Some(clusters) => (clusters.clusters, clusters.worse, clusters.better),
            None => (self.questions, self.worse, self.better),
        }
    }
}
