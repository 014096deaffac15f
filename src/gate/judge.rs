//! What follows from the evidence: pure, so that anybody derives it again.
//!
//! A metric *fails* if the one-sided exact sign test over its units, corrected over all metrics, rejects "no worse" and the
//! measured drop is at least `min_effect`. It *passes* if a drop of `min_effect` is excluded. Else it is open.

use proofmill_catalog::audit::entry::VerdictWord;
use proofmill_pipeline::gate::{Gate, GatedMetric, ReportedRule};
use proofmill_udfs::stats;
use serde::{Deserialize, Serialize};

use crate::gate::evidence::{Counts, Evidence, MetricEvidence, MetricFound, PairedQuestions};

/// Discordant units from which on a mean is taken to be normally distributed.
const DISCORDANT_MIN: u64 = 10;
/// The power at which the smallest drop that is found is given.
const POWER: f64 = 0.8;

/// What follows from the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateJudgement {
    pub word: VerdictWord,
    /// In the order of the gate's metrics.
    pub metrics: Vec<MetricJudgement>,
    /// Conditions that do not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Broken>,
}

/// What follows for a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricJudgement {
    pub word: VerdictWord,
    /// P value of the sign test against "no worse", and the same after Holm's correction over all metrics.
    pub p: Option<f64>,
    pub p_holm: Option<f64>,
    /// P value against a drop of `min_effect` or more.
    pub p_excluded: Option<f64>,
    /// The smallest drop that is excluded.
    pub bound: Option<f64>,
    /// Why there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
    /// The smallest drop that would be found with a power of .8, and the power for the drop that the gate names.
    pub smallest_found: Option<f64>,
    pub power: Option<f64>,
}

/// Why there is neither a fail nor a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shortfall {
    /// The measured drop matters, but so few discordant units reject nothing, whatever they are.
    TooFewDiscordant { discordant: u64, needed: u64 },
    /// The measured drop matters, and may be chance: about so many questions would tell.
    MayBeChance { questions: Option<u64> },
    /// The measured drop does not matter, and one that does is not excluded: about so many questions would exclude it.
    NotExcluded { questions: Option<u64> },
    /// The drop is within the spread of earlier runs.
    WithinNoise { floor: f64 },
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Broken {
    NoBaseline,
    /// The candidate, or the baseline, did not succeed.
    NotFinished {
        is_candidate: bool,
    },
    /// So many things differ that may not.
    Differs {
        count: u64,
    },
    /// So many endpoints call themselves something else than before.
    Reported {
        count: u64,
    },
    /// Of a metric: the share of questions that the candidate answered.
    Answered {
        metric: u64,
        share: f64,
    },
    /// Of a metric: more questions became worse, or better, than may.
    Flips {
        metric: u64,
        is_worse: bool,
        count: u64,
    },
}

impl Broken {
    /// The metric that it is about, by its number.
    pub fn metric(&self) -> Option<usize> {
        match self {
            Self::Answered { metric, .. } | Self::Flips { metric, .. } => {
                usize::try_from(*metric).ok()
            }
            Self::NoBaseline
            | Self::NotFinished { .. }
            | Self::Differs { .. }
            | Self::Reported { .. } => None,
        }
    }

    /// The verdict that it leads to, whatever the metrics say.
    pub fn word(&self) -> VerdictWord {
        match self {
            Self::NotFinished { is_candidate: true } => VerdictWord::NotFinished,
            Self::NoBaseline | Self::NotFinished { .. } | Self::Differs { .. } => {
                VerdictWord::NotComparable
            }
            Self::Reported { .. } | Self::Answered { .. } | Self::Flips { .. } => VerdictWord::Fail,
        }
    }
}

/// Judges.
///
/// # Errors
///
/// If the evidence contradicts itself: more questions changed than there are.
pub fn judge(gate: &Gate, evidence: &Evidence) -> Result<GateJudgement, stats::StatsError> {
    let broken = broken(gate, evidence);
    let signs = |metric: &MetricEvidence| match &metric.found {
        MetricFound::Paired(paired) => {
            let (_, worse, better) = paired.answered.units();
            Some(stats::sign_drop_p(worse, better))
        }
        MetricFound::Equal { .. } | MetricFound::Incomparable { .. } => None,
    };
    let p: Vec<Option<f64>> = evidence.metrics.iter().map(signs).collect();
    let corrected = stats::holm(&p.iter().copied().flatten().collect::<Vec<_>>())?;
    let mut corrected = corrected.into_iter();
    let mut metrics = Vec::new();
    for ((metric, found), p) in gate.metrics.iter().zip(&evidence.metrics).zip(p) {
        let p_holm = p.and_then(|_| corrected.next());
        metrics.push(match &found.found {
            MetricFound::Incomparable { .. } => {
                MetricJudgement { word: VerdictWord::NotComparable, ..open() }
            }
            // Two nights that answered nothing are equal, and say nothing.
            MetricFound::Equal { answered: 0, .. } => open(),
            MetricFound::Equal { .. } => MetricJudgement { word: VerdictWord::Pass, ..open() },
            MetricFound::Paired(paired) => {
                let judged = MetricJudgement { p, p_holm, ..open() };
                of_paired(gate, metric, found, paired, judged)?
            }
        });
    }
    let words = metrics.iter().map(|metric| metric.word).chain(broken.iter().map(Broken::word));
    let word = words.max_by_key(|word| severity(*word)).unwrap_or(VerdictWord::NotComparable);
    Ok(GateJudgement { word, metrics, broken })
}

/// Which verdict counts among several: the one that says more against a pass.
fn severity(word: VerdictWord) -> u8 {
    match word {
        VerdictWord::Pass => 0,
        VerdictWord::CannotTell => 1,
        VerdictWord::Fail => 2,
        VerdictWord::NotComparable => 3,
        VerdictWord::NotFinished => 4,
    }
}

/// A judgement that tells nothing yet.
fn open() -> MetricJudgement {
    MetricJudgement {
        word: VerdictWord::CannotTell,
        p: None,
        p_holm: None,
        p_excluded: None,
        bound: None,
        shortfall: None,
        smallest_found: None,
        power: None,
    }
}

fn broken(gate: &Gate, evidence: &Evidence) -> Vec<Broken> {
    let mut broken = Vec::new();
    if !evidence.candidate.is_finished() {
        broken.push(Broken::NotFinished { is_candidate: true });
    }
    match &evidence.baseline {
        None => broken.push(Broken::NoBaseline),
        Some(baseline) if !baseline.is_finished() => {
            broken.push(Broken::NotFinished { is_candidate: false });
        }
        Some(_) => {}
    }
    if !evidence.differences.is_empty() {
        broken.push(Broken::Differs { count: evidence.differences.len() as u64 });
    }
    if gate.reported_models == ReportedRule::Same && !evidence.reported.is_empty() {
        broken.push(Broken::Reported { count: evidence.reported.len() as u64 });
    }
    for (metric, found) in evidence.metrics.iter().enumerate() {
        let (metric, share) = (metric as u64, found.found.answered_share());
        if let Some((wanted, share)) = gate.answered.zip(share)
            && share < wanted
        {
            broken.push(Broken::Answered { metric, share });
        }
        let MetricFound::Paired(paired) = &found.found else { continue };
        let counts = &paired.answered;
        let sides =
            [(true, gate.flips.worse, counts.worse), (false, gate.flips.better, counts.better)];
        for (is_worse, most, count) in sides {
            if most.is_some_and(|most| count > most) {
                broken.push(Broken::Flips { metric, is_worse, count });
            }
        }
    }
    broken
}

fn of_paired(
    gate: &Gate,
    metric: &GatedMetric,
    found: &MetricEvidence,
    paired: &PairedQuestions,
    mut judged: MetricJudgement,
) -> Result<MetricJudgement, stats::StatsError> {
    let alpha = 1.0 - gate.confidence;
    let counts = &paired.answered;
    let (units, worse, better) = counts.units();
    if paired.worst.questions == 0 {
        return Ok(judged);
    }
    let excluded = Excluded::of(paired, metric.min_effect, alpha)?;
    (judged.p_excluded, judged.bound) = (excluded.p, excluded.bound);
    let discordant = worse + better;
    let rate = if units == 0 { 0.0 } else { discordant as f64 / units as f64 };
    // The level that each metric has at least after Holm's correction.
    let level = gate.level / gate.metrics.len() as f64;
    // Of other values, and of clusters, how much a discordant one loses is not known.
    if paired.binary && counts.clusters.is_none() && rate > 0.0 {
        let effect = metric.min_effect;
        judged.smallest_found = stats::smallest_found(units, rate, level, effect, POWER);
        let power = |drop| stats::drop_power(units, rate, drop, level, effect);
        judged.power = metric.detect.map(power);
    }
    // Means of values such as .1 are not exact.
    let matters = counts.drop >= metric.min_effect * (1.0 - stats::ROUNDING);
    let is_noise = found.noise.is_some_and(|noise| noise.runs >= 2 && counts.drop <= noise.floor);
    if matters && judged.p_holm.is_some_and(|p| p <= gate.level) {
        match found.noise.filter(|_| is_noise) {
            Some(noise) => judged.shortfall = Some(Shortfall::WithinNoise { floor: noise.floor }),
            None => judged.word = VerdictWord::Fail,
        }
    } else if excluded.is_excluded {
        judged.word = VerdictWord::Pass;
    } else if matters {
        let needed = stats::fewest_discordant(level);
        judged.shortfall = Some(match discordant < needed {
            true => Shortfall::TooFewDiscordant { discordant, needed },
            false => Shortfall::MayBeChance { questions: to_find(counts, rate, level) },
        });
    } else {
        let questions = to_exclude(paired, metric.min_effect, alpha);
        judged.shortfall = Some(Shortfall::NotExcluded { questions });
    }
    Ok(judged)
}

/// About how many questions would tell a drop as it was measured from chance; `None` if as many are worse as better.
fn to_find(counts: &Counts, rate: f64, level: f64) -> Option<u64> {
    let (_, worse, better) = counts.units();
    let share = worse as f64 / (worse + better) as f64;
    let needed = stats::discordant_needed(share, level, POWER).filter(|_| share > 0.5)?;
    let size = counts.questions as f64 / counts.units().0 as f64;
    Some((needed.from_which_on as f64 / rate * size).ceil() as u64)
}

/// About how many questions would exclude a drop, if the true one is what was measured; `None` if that is not known, or more questions
/// would not help.
fn to_exclude(paired: &PairedQuestions, effect: f64, alpha: f64) -> Option<u64> {
    let counts = &paired.worst;
    let (units, worse, better) = counts.units();
    let rate = (worse + better) as f64 / units as f64;
    // What is to be excluded beyond what was measured, where what has no answer counts as lost.
    let effect = effect - counts.drop.max(0.0);
    if effect <= 0.0 {
        return None;
    }
    let needed = match counts.se.filter(|_| !paired.binary || counts.clusters.is_some()) {
        Some(se) => Some(stats::questions_to_exclude_of_mean(effect, se, counts.questions, alpha)),
        None if paired.bounded && effect < 1.0 => {
            Some(stats::questions_to_exclude(effect, rate, alpha))
        }
        None => None,
    };
    needed.filter(|needed| *needed > counts.questions)
}

/// Whether a drop of `min_effect` is excluded, even if every question that only the baseline answered was lost.
struct Excluded {
    is_excluded: bool,
    p: Option<f64>,
    bound: Option<f64>,
}

impl Excluded {
    fn of(
        paired: &PairedQuestions,
        min_effect: f64,
        alpha: f64,
    ) -> Result<Self, stats::StatsError> {
        let counts = &paired.worst;
        let (units, worse, better) = counts.units();
        if paired.binary && counts.clusters.is_none() {
            if min_effect >= 1.0 {
                return Ok(Self { is_excluded: false, p: None, bound: None });
            }
            let p = stats::drop_excluded_p(worse, better, units, min_effect)?;
            let bound = stats::drop_bound(worse, better, units, alpha)?;
            return Ok(Self { is_excluded: p <= alpha, p: Some(p), bound: Some(bound) });
        }
        match counts.se.filter(|_| worse + better >= DISCORDANT_MIN) {
            Some(se) => {
                let df = units as f64 - 1.0;
                let multiplier = stats::t_multiplier(1.0 - 2.0 * alpha, df)?;
                let bound = counts.drop + multiplier * se;
                Ok(Self { is_excluded: bound < min_effect, p: None, bound: Some(bound) })
            }
            // So few say nothing of how far values vary. A question loses 1 at most, so that the mean drop is no larger than the
            // chance to lose; of clusters, by as much more as the largest is larger than the mean.
            None if paired.bounded => {
                let size = counts.clusters.as_ref().map_or(1.0, |clusters| {
                    clusters.largest as f64 * units as f64 / counts.questions as f64
                });
                let effect = min_effect / size;
                if effect >= 1.0 {
                    return Ok(Self { is_excluded: false, p: None, bound: None });
                }
                let p = stats::drop_excluded_p(worse, 0, units, effect)?;
                let bound = stats::drop_bound(worse, 0, units, alpha)? * size;
                Ok(Self { is_excluded: p <= alpha, p: Some(p), bound: Some(bound) })
            }
            None => Ok(Self { is_excluded: false, p: None, bound: None }),
        }
    }
}
