//! What follows from evidence, without runs.

use std::collections::BTreeMap;

use proofmill_catalog::audit::entry::{Ending, VerdictWord};
use proofmill_pipeline::gate::{Gate, GatedMetric, ReportedRule};

use crate::gate::evidence::{
    ClusterCounts, Counts, Evidence, JudgedRun, MetricEvidence, MetricFound, PairedQuestions,
    ReportedChange, Unanswered,
};
use crate::gate::judge::{Broken, GateJudgement, Shortfall, judge};

fn gate(metrics: usize) -> Gate {
    let metric = |at: usize| GatedMetric {
        stage: "m".parse().unwrap(),
        metric: format!("metric{at}"),
        group: BTreeMap::new(),
        unit: Vec::new(),
        cluster: None,
        better: Default::default(),
        min_effect: 0.05,
        detect: Some(0.1),
    };
    Gate {
        name: "g".parse().unwrap(),
        baseline: None,
        channel: None,
        metrics: (0..metrics).map(metric).collect(),
        level: 0.05,
        confidence: 0.95,
        answered: None,
        flips: Default::default(),
        reported_models: Default::default(),
        vary: None,
        same: Vec::new(),
        noise: None,
    }
}

fn counts(questions: u64, worse: u64, better: u64) -> Counts {
    let drop = (worse as f64 - better as f64) / questions as f64;
    let discordant = (worse + better) as f64 / questions as f64;
    let se = ((discordant - drop * drop) / questions as f64).sqrt();
    Counts { questions, worse, better, drop, se: Some(se).filter(|se| *se > 0.0), clusters: None }
}

fn paired(answered: Counts) -> MetricFound {
    MetricFound::Paired(Box::new(PairedQuestions {
        unit: vec!["id".to_owned()],
        binary: true,
        bounded: true,
        worst: answered.clone(),
        answered,
        unanswered: Unanswered::default(),
    }))
}

fn run(how: Option<Ending>) -> JudgedRun {
    JudgedRun { run: "20261121-021500123-k3f9qa".parse().unwrap(), how, manifest: None }
}

fn evidence(found: Vec<MetricFound>) -> Evidence {
    let metric = |found| MetricEvidence { values: [Some(0.5); 2], found, noise: None };
    Evidence {
        baseline: Some(run(Some(Ending::Succeeded))),
        candidate: run(Some(Ending::Succeeded)),
        metrics: found.into_iter().map(metric).collect(),
        differences: Vec::new(),
        requests: None,
        reported: Vec::new(),
        first_difference: None,
    }
}

fn judged(found: Vec<MetricFound>) -> GateJudgement {
    judge(&gate(found.len()), &evidence(found)).unwrap()
}

#[test]
fn several_metrics_are_corrected_and_the_worst_counts() {
    // One of thirty-two alone; not of two.
    let five = || paired(counts(20, 5, 0));
    assert_eq!(judged(vec![five()]).word, VerdictWord::Fail);
    let two = judged(vec![five(), paired(counts(20, 0, 0))]);
    assert_eq!(two.word, VerdictWord::CannotTell);
    assert!((two.metrics[0].p_holm.unwrap() - 2.0 / 32.0).abs() < 1e-9);
    let both = judged(vec![five(), paired(counts(20, 6, 0))]);
    assert_eq!(both.metrics[1].word, VerdictWord::Fail, "1/64 twice is below 1/20");
    let equal = MetricFound::Equal { questions: 20, answered: 20 };
    let other = MetricFound::Incomparable { reason: "another judge".to_owned() };
    assert_eq!(judged(vec![equal.clone(), equal.clone()]).word, VerdictWord::Pass);
    assert_eq!(judged(vec![equal.clone(), five()]).word, VerdictWord::Fail);
    assert_eq!(judged(vec![equal, five(), other]).word, VerdictWord::NotComparable);
}

#[test]
fn runs_that_answered_nothing_are_equal_and_say_nothing() {
    let silent = MetricFound::Equal { questions: 100, answered: 0 };
    assert_eq!(judged(vec![silent]).word, VerdictWord::CannotTell);
}

#[test]
fn more_questions_are_named_only_where_they_would_help() {
    let of = |found: MetricFound| judged(vec![found]).metrics.remove(0).shortfall;
    // A drop of .085 was measured: .05 less than .1 takes more questions than the 200 at hand, and what was lost counts.
    let mut gate = gate(1);
    gate.metrics[0].min_effect = 0.1;
    let judged = judge(&gate, &evidence(vec![paired(counts(200, 17, 0))])).unwrap();
    let Some(Shortfall::NotExcluded { questions }) = judged.metrics[0].shortfall else { panic!() };
    assert!(questions.is_some_and(|questions| questions > 1_000), "{questions:?}");
    // So many are unanswered that no number of questions excludes it.
    let MetricFound::Paired(mut found) = paired(counts(133, 0, 0)) else { panic!() };
    found.worst = counts(200, 67, 0);
    found.unanswered.newly = 67;
    assert_eq!(of(MetricFound::Paired(found)), Some(Shortfall::NotExcluded { questions: None }));
}

#[test]
fn power_is_that_of_rates_and_a_large_drop_is_found() {
    let mut gate = gate(1);
    gate.metrics[0].detect = Some(0.2);
    let rates = judge(&gate, &evidence(vec![paired(counts(200, 3, 3))])).unwrap();
    assert!(rates.metrics[0].power.unwrap() > 0.99, "{rates:?}");
    let MetricFound::Paired(mut found) = paired(counts(200, 100, 100)) else { panic!() };
    found.binary = false;
    let values = judge(&gate, &evidence(vec![MetricFound::Paired(found)])).unwrap();
    assert_eq!((values.metrics[0].power, values.metrics[0].smallest_found), (None, None));
}

#[test]
fn runs_without_numbers_have_no_verdict() {
    let mut found = evidence(vec![MetricFound::Equal { questions: 5, answered: 5 }]);
    for how in [None, Some(Ending::Failed), Some(Ending::Stopped)] {
        found.candidate.how = how;
        let judged = judge(&gate(1), &found).unwrap();
        assert_eq!(judged.word, VerdictWord::NotFinished);
    }
    found.candidate.how = Some(Ending::Succeeded);
    found.baseline = None;
    let judged = judge(&gate(1), &found).unwrap();
    assert_eq!(
        (judged.word, judged.broken),
        (VerdictWord::NotComparable, vec![Broken::NoBaseline])
    );
}

#[test]
fn conditions_fail_whatever_the_metric_says() {
    let mut gate = gate(1);
    gate.flips.better = Some(10);
    let found = evidence(vec![paired(counts(500, 0, 11))]);
    assert_eq!(judge(&gate, &found).unwrap().word, VerdictWord::Fail, "too good to be true");
    gate.flips.better = Some(11);
    assert_eq!(judge(&gate, &found).unwrap().word, VerdictWord::Pass);
}

#[test]
fn equal_tables_answer_as_few_questions_as_before() {
    let mut gate = gate(1);
    gate.answered = Some(0.9);
    let of = |answered| evidence(vec![MetricFound::Equal { questions: 20, answered }]);
    assert_eq!(judge(&gate, &of(18)).unwrap().word, VerdictWord::Pass);
    assert_eq!(judge(&gate, &of(17)).unwrap().word, VerdictWord::Fail);
}

#[test]
fn an_endpoint_that_is_another_model_fails_only_where_the_gate_says_so() {
    let (mut gate, mut found) = (gate(1), evidence(vec![paired(counts(500, 0, 0))]));
    found.reported.push(ReportedChange {
        model: "reader".to_owned(),
        before: vec!["a-1".to_owned()],
        now: vec!["a-2".to_owned()],
    });
    assert_eq!(judge(&gate, &found).unwrap().word, VerdictWord::Pass);
    gate.reported_models = ReportedRule::Same;
    assert_eq!(judge(&gate, &found).unwrap().word, VerdictWord::Fail);
}

#[test]
fn few_discordant_units_of_values_are_bounded_by_their_share() {
    let of = |questions, worse, clusters: Option<ClusterCounts>| {
        let counts = Counts { clusters, ..counts(questions, worse, 0) };
        let MetricFound::Paired(mut found) = paired(counts) else { panic!() };
        found.binary = false;
        judged(vec![MetricFound::Paired(found)])
    };
    assert_eq!(of(59, 0, None).word, VerdictWord::Pass);
    assert_eq!(of(58, 0, None).word, VerdictWord::CannotTell);
    assert_eq!(of(200, 3, None).word, VerdictWord::Pass);
    let clusters = |clusters, largest| {
        Some(ClusterCounts { column: "doc".to_owned(), clusters, worse: 0, better: 0, largest })
    };
    // Fifty-nine even clusters; with one of them twice as large as the mean, they do not exclude it.
    assert_eq!(of(590, 0, clusters(59, 10)).word, VerdictWord::Pass);
    assert_eq!(of(590, 0, clusters(59, 20)).word, VerdictWord::CannotTell);
    assert_eq!(of(5900, 0, clusters(10, 590)).word, VerdictWord::CannotTell);
}

#[test]
fn a_shortfall_says_how_many_questions_it_would_take() {
    let of = |worse, better| judged(vec![paired(counts(50, worse, better))]).metrics.remove(0);
    assert_eq!(of(3, 0).shortfall, Some(Shortfall::TooFewDiscordant { discordant: 3, needed: 5 }));
    // Twenty percent discordant, 70 % of them worse: 42 discordant questions of 210.
    assert_eq!(of(7, 3).shortfall, Some(Shortfall::MayBeChance { questions: Some(210) }));
    let power = of(7, 3).power.unwrap();
    assert!((0.3..0.5).contains(&power), "{power}");
}
