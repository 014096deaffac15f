//! Verdicts of gates with their evidence.

use proofmill_base::digest::Digest;
use proofmill_base::secret;
use proofmill_base::styled::printable;
use proofmill_catalog::audit::entry::{Channels, VerdictWord};
use proofmill_pipeline::gate::{Better, GatedMetric};
use proofmill_store::SourceRef;
use serde::Serialize;

use crate::draw::cells::format_float;
use crate::gate::evidence::{
    Difference, MetricEvidence, MetricFound, PairedQuestions, ReportedChange,
};
use crate::gate::judge::{Broken, MetricJudgement, Shortfall};
use crate::gate::verdict::GateVerdict;
use crate::report::units::{count, plural};
use crate::views::section::{Grid, Section, View};

/// Differences that are listed.
const DIFFERENCES_MAX: usize = 20;
/// What is said of a run whose endpoints gave no answer.
pub const NOTHING_SAID: &str = "0 requests were asked: this run says nothing about the models";
/// Characters of a value that a line shows.
const VALUE_CHARS_MAX: usize = 40;

/// A verdict.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictView {
    #[serde(flatten)]
    verdict: GateVerdict,
    /// Digest of the stored verdict; none of one that was derived again.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<Digest>,
    /// All channels of the pipeline after it.
    #[serde(skip_serializing_if = "Channels::is_empty")]
    channels: Channels,
}

impl VerdictView {
    /// Of a verdict, and of where it was entered.
    pub fn of(verdict: GateVerdict, entered: Option<(SourceRef, Channels)>) -> Self {
        let (stored, channels) = entered
            .map_or_else(Default::default, |(stored, channels)| (Some(stored.sha256), channels));
        Self { verdict, sha256: stored, channels }
    }

    /// The verdict in a word.
    pub fn word(&self) -> VerdictWord {
        self.verdict.judgement.word
    }

    /// What keeps the run from a pass, and what was found, one line each.
    pub fn reasons(&self) -> Vec<String> {
        let GateVerdict { gate, evidence, judgement, .. } = &self.verdict;
        let mut lines: Vec<String> =
            judgement.broken.iter().map(|broken| self.condition(broken)).collect();
        let differences = evidence.differences.iter();
        // The first of each is said with the condition that it breaks.
        lines.extend(differences.take(DIFFERENCES_MAX).skip(1).map(difference));
        let is_broken = judgement.broken.iter().any(|it| matches!(it, Broken::Reported { .. }));
        lines.extend(evidence.reported.iter().skip(usize::from(is_broken)).map(reported));
        if evidence.requests == Some(0) {
            lines.push(NOTHING_SAID.to_owned());
        }
        let metrics = gate.metrics.iter().zip(&evidence.metrics).zip(&judgement.metrics);
        for ((metric, found), judged) in metrics {
            let said = reason(gate.confidence, metric, found, judged);
            lines.push(format!("{}: {said}", name(metric)));
        }
        // A text of a model or a question makes no line of its own.
        lines.iter().map(|line| printable(line, true)).collect()
    }

    /// The name of the gate.
    pub fn gate(&self) -> &str {
        self.verdict.gate.name.as_str()
    }

    /// The verdict about each metric, and every condition that does not hold: what CI shows one by one.
    pub fn findings(&self) -> Vec<GateFinding> {
        let GateVerdict { gate, evidence, judgement, .. } = &self.verdict;
        let conditions = judgement.broken.iter().map(|broken| GateFinding {
            metric: broken.metric(),
            name: "condition".to_owned(),
            word: broken.word(),
            text: printable(&self.condition(broken), true),
        });
        let metrics = gate.metrics.iter().zip(&evidence.metrics).zip(&judgement.metrics);
        let metrics = metrics.enumerate().map(|(at, ((metric, found), judged))| GateFinding {
            metric: Some(at),
            name: printable(&name(metric), true),
            word: judged.word,
            text: printable(&reason(gate.confidence, metric, found, judged), true),
        });
        metrics.chain(conditions).collect()
    }

    fn condition(&self, broken: &Broken) -> String {
        let GateVerdict { gate, evidence, .. } = &self.verdict;
        let of = |at: &u64| {
            let metric = usize::try_from(*at).ok().and_then(|at| gate.metrics.get(at));
            metric.map(name).unwrap_or_default()
        };
        match broken {
            Broken::NoBaseline => "there is no run to compare with".to_owned(),
            Broken::NotFinished { is_candidate: true } => {
                format!("run {} did not succeed", evidence.candidate.run)
            }
            Broken::NotFinished { is_candidate: false } => {
                let run = evidence.baseline.as_ref().map(|baseline| baseline.run.to_string());
                format!("the baseline, run {}, did not succeed", run.unwrap_or_default())
            }
            Broken::Differs { count } => {
                let first = evidence.differences.first().map(difference).unwrap_or_default();
                format!("{} that may not be: {first}", plural_of(*count, "difference"))
            }
            Broken::Reported { count } => {
                let first = evidence.reported.first().map(reported).unwrap_or_default();
                format!("{} behind endpoints changed: {first}", plural_of(*count, "model"))
            }
            Broken::Answered { metric, share } => format!(
                "{}: {} of the questions were answered, and {} have to be",
                of(metric),
                percent(*share),
                percent(gate.answered.unwrap_or_default())
            ),
            Broken::Flips { metric, is_worse, count } => {
                let (how, most) = match is_worse {
                    true => ("worse", gate.flips.worse),
                    false => ("better", gate.flips.better),
                };
                let most = most.unwrap_or_default();
                format!("{}: {count} questions became {how}, and {most} may", of(metric))
            }
        }
    }
}

/// `a.yaml:3:5: `stage` differs in `part`: old, now new`.
pub fn difference(it: &Difference) -> String {
    let place = it.place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default();
    format!("{place}`{}` differs in `{}`{}", it.stage, it.component, change(it))
}

fn reported(ReportedChange { model, before, now }: &ReportedChange) -> String {
    format!("model `{model}` calls itself {}, and was {}", now.join(", "), before.join(", "))
}

/// A part of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateFinding {
    /// The metric that it is about, by its number.
    pub metric: Option<usize>,
    pub name: String,
    pub word: VerdictWord,
    pub text: String,
}

impl View for VerdictView {
    fn sections(&self) -> Vec<Section> {
        let GateVerdict { gate, evidence, judgement, .. } = &self.verdict;
        let baseline = evidence.baseline.as_ref().map(|run| run.run.to_string());
        let mut head = format!(
            "{}: run {} against {}, gate `{}`\n",
            judgement.word.word().to_uppercase(),
            evidence.candidate.run,
            baseline.as_deref().unwrap_or("nothing"),
            gate.name
        );
        let moved = self.channels.iter().filter(|(_, run)| **run == evidence.candidate.run);
        for (channel, _) in moved {
            head += &format!("channel `{channel}` is this run\n");
        }
        let metrics = gate.metrics.iter().zip(&evidence.metrics).zip(&judgement.metrics);
        let rows = metrics.map(|((metric, found), judged)| row(metric, found, judged)).collect();
        let header = [
            "metric",
            "baseline",
            "candidate",
            "questions",
            "worse",
            "better",
            "p",
            "drop below",
            "finds from",
            "verdict",
        ];
        let mut grid = Grid::new(&header, &header[1..9], rows);
        let level = format_float(gate.level);
        grid.note = Some(format!(
            "chance of a false alarm {level}; drops are excluded at {}; `finds from`: the smallest drop found with power .8",
            percent(gate.confidence)
        ));
        let mut sections = vec![Section::Text(head), Section::Table(grid)];
        let mut lines: String = self.reasons().iter().map(|line| format!("{line}\n")).collect();
        if let Some(stage) = &evidence.first_difference {
            lines += &format!("first stage with another table: `{stage}`\n");
        }
        if let Some(sha256) = &self.sha256 {
            lines += &format!("verdict {sha256}\n");
        }
        sections.push(Section::Text(lines));
        sections
    }
}

fn row(metric: &GatedMetric, found: &MetricEvidence, judged: &MetricJudgement) -> Vec<String> {
    let float = |value: Option<f64>| value.map(format_float).unwrap_or_default();
    let paired = match &found.found {
        MetricFound::Paired(paired) => Some(paired),
        MetricFound::Equal { .. } | MetricFound::Incomparable { .. } => None,
    };
    let counted =
        |of: fn(&PairedQuestions) -> u64| paired.map(|it| count(of(it))).unwrap_or_default();
    let questions = match &found.found {
        MetricFound::Equal { questions, .. } => count(*questions),
        _ => counted(|it| it.answered.questions),
    };
    vec![
        name(metric),
        float(found.values[0]),
        float(found.values[1]),
        questions,
        counted(|it| it.answered.worse),
        counted(|it| it.answered.better),
        float(judged.p_holm),
        float(judged.bound),
        float(judged.smallest_found),
        judged.word.word().to_owned(),
    ]
}

/// `scores.accuracy`, with the group if there is one.
fn name(metric: &GatedMetric) -> String {
    let group = metric.group.iter().map(|(column, value)| format!(" {column}={value}"));
    format!("{}.{}{}", metric.stage, metric.metric, group.collect::<String>())
}

/// What is said of a metric.
fn reason(
    confidence: f64,
    metric: &GatedMetric,
    found: &MetricEvidence,
    judged: &MetricJudgement,
) -> String {
    let paired = match &found.found {
        MetricFound::Incomparable { reason } => return reason.clone(),
        MetricFound::Equal { answered: 0, .. } => {
            return "cannot tell: both runs measured the same table, in which no question was answered"
                .to_owned();
        }
        MetricFound::Equal { questions, answered } => {
            let (answered, all) = (count(*answered), plural_of(*questions, "question"));
            return format!("both runs measured the same table, {answered} of {all} answered");
        }
        MetricFound::Paired(paired) => paired,
    };
    let effect = format_float(metric.min_effect);
    let drop = match metric.better {
        Better::Higher => "drop",
        Better::Lower => "rise",
    };
    let mut said = match (judged.word, &judged.shortfall) {
        (VerdictWord::Fail, _) => {
            format!("a {drop} of {}, more than chance", format_float(paired.answered.drop))
        }
        (VerdictWord::Pass, _) => {
            format!("a {drop} of {effect} is excluded at {}", percent(confidence))
        }
        (_, Some(shortfall)) => shortfall.said(drop, &effect, paired),
        (_, None) => "no question was answered in both runs".to_owned(),
    };
    if let Some(power) = judged.power {
        let detect = format_float(metric.detect.unwrap_or_default());
        said += &format!("; a {drop} of {detect} is found with power {}", format_float(power));
    }
    let unanswered = &paired.unanswered;
    if unanswered.newly > 0 {
        said += &format!("; {} answered no longer", plural_of(unanswered.newly, "question"));
    }
    if unanswered.no_longer > 0 {
        said += &format!("; {} answered now", plural_of(unanswered.no_longer, "question"));
    }
    said
}

impl Shortfall {
    /// Why it is open, and what would tell.
    fn said(&self, drop: &str, effect: &str, paired: &PairedQuestions) -> String {
        let measured = format_float(paired.answered.drop);
        let about = |questions: Option<u64>| match questions {
            Some(questions) => format!("; about {} would tell", plural_of(questions, "question")),
            None => String::new(),
        };
        let discordant = |units| match &paired.answered.clusters {
            Some(clusters) => {
                let verb = if units == 1 { "rejects" } else { "reject" };
                let clusters_of = plural_of(units, "discordant cluster");
                format!("{clusters_of} of `{}` {verb}", clusters.column)
            }
            None if units == 1 => "1 discordant question rejects".to_owned(),
            None => format!("{} reject", plural_of(units, "discordant question")),
        };
        match self {
            Self::TooFewDiscordant { discordant: found, needed } => format!(
                "cannot tell: a {drop} of {measured}, and {} nothing; {needed} needed",
                discordant(*found)
            ),
            Self::MayBeChance { questions } => {
                let about = about(*questions);
                format!("cannot tell: a {drop} of {measured} may be chance{about}")
            }
            Self::NotExcluded { questions } => {
                let about = about(*questions);
                format!("cannot tell: a {drop} of {effect} is not excluded{about}")
            }
            Self::WithinNoise { floor } => format!(
                "cannot tell: a {drop} of {measured} is within the spread of earlier runs, {}",
                format_float(*floor)
            ),
        }
    }
}

fn plural_of(n: u64, noun: &str) -> String {
    plural(usize::try_from(n).unwrap_or(usize::MAX), noun)
}

fn percent(share: f64) -> String {
    format!("{} %", format_float(share * 100.0))
}

/// `: old, now new`, without secrets.
fn change(difference: &Difference) -> String {
    let shown = |value: &Option<String>| {
        value.as_deref().map_or("nothing".to_owned(), |value| {
            let value = secret::covered(value);
            let cut: String = value.chars().take(VALUE_CHARS_MAX).collect();
            if cut.len() < value.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
        })
    };
    format!(": {}, now {}", shown(&difference.old), shown(&difference.new))
}
