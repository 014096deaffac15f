//! Cases in which published gates decided wrongly: too few questions, samples counted as questions, a t test over a judge's scale,
//! timeouts counted as losses, thresholds inside the noise.

use serde_json::Value as Json;

use super::{ACCURACY, Answer, Gated, answers};

fn score(values: &[f64]) -> Vec<Answer> {
    let mut all = answers(values.len(), 0);
    all.iter_mut().zip(values).for_each(|(answer, value)| answer.score = Some(*value));
    all
}

fn p(verdict: &Json) -> f64 {
    verdict["judgement"]["metrics"][0]["p"].as_f64().unwrap()
}

/// Byte-identical inputs flipped 3 of 11 verdicts elsewhere, most of them with three questions or fewer.
#[test]
fn equal_runs_are_never_a_change() {
    let gated = Gated::new(ACCURACY);
    let (word, verdict) = gated.judge(&answers(3, 2), &answers(3, 2));
    assert_eq!(word, "pass", "{verdict:#}");
    assert_eq!(verdict["evidence"]["metrics"][0]["found"]["equal"]["questions"], 3);
    assert!(gated.shown().contains("both runs measured the same table, 3 of 3 questions answered"));
    // Asked again, one of three answers came out otherwise, either way.
    for right in [1, 3] {
        let (word, verdict) = gated.judge(&answers(3, 2), &answers(3, right));
        assert_eq!(word, "cannot_tell", "{verdict:#}");
    }
}

/// A t test over three scores passed .4, .4, .4 and failed .4, .4, 1.
#[test]
fn a_better_result_is_never_a_worse_verdict() {
    let gate = "metrics: [{ metric: rated.score, min_effect: 0.05, unit: [id] }]\n";
    let gated = Gated::new(gate);
    let zero = score(&[0.0; 3]);
    let (even, _) = gated.judge(&zero, &score(&[0.4, 0.4, 0.4]));
    let (better, verdict) = gated.judge(&zero, &score(&[0.4, 0.4, 1.0]));
    assert_eq!((even.as_str(), better.as_str()), ("cannot_tell", "cannot_tell"), "{verdict:#}");
    assert!(gated.shown().contains("a drop of 0.0500 is not excluded"), "{}", gated.shown());
}

/// Five trials reject at 5 to 0 only; a record that cannot reject whatever it is has to say so.
#[test]
fn five_discordant_questions_reject_and_four_say_that_they_cannot() {
    let gated = Gated::new(ACCURACY);
    let (word, verdict) = gated.judge(&answers(10, 5), &answers(10, 0));
    assert_eq!(word, "fail", "{verdict:#}");
    assert!((p(&verdict) - 1.0 / 32.0).abs() < 1e-9, "{verdict:#}");
    gated.gate(&[]).expect(1).says("says: fail");
    let (word, verdict) = gated.judge(&answers(10, 4), &answers(10, 0));
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    let shown = gated.shown();
    assert!(shown.contains("4 discordant questions reject nothing; 5 needed"), "{shown}");
    gated.gate(&[]).expect(6).says("says: cannot tell");
    // Four worse and one better.
    let mut after = answers(10, 0);
    after[9].correct = Some(true);
    let (word, verdict) = gated.judge(&answers(10, 4), &after);
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    assert!(gated.shown().contains("may be chance; about"), "{}", gated.shown());
}

/// Four questions of three samples each are four, not twelve: p is 1/16 and not 1/4096.
#[test]
fn samples_of_a_question_are_one_unit() {
    let samples = |correct: bool| -> Vec<Answer> {
        let of = |answer: Answer| {
            (0..3).map(move |sample| Answer { sample, correct: Some(correct), ..answer.clone() })
        };
        answers(4, 0).into_iter().flat_map(of).collect()
    };
    let gated = Gated::new(ACCURACY);
    let (word, verdict) = gated.judge(&samples(true), &samples(false));
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    assert!((p(&verdict) - 0.0625).abs() < 1e-9, "{verdict:#}");
    assert_eq!(verdict["evidence"]["metrics"][0]["found"]["paired"]["answered"]["questions"], 4);
}

/// A timeout of the judge was a loss elsewhere. Here it is counted apart: it finds no drop, and keeps one from being excluded.
#[test]
fn questions_without_an_answer_are_counted_apart() {
    let gated = Gated::new(&format!("{ACCURACY}answered: 0.9\n"));
    let before = answers(200, 150);
    let mut after = before.clone();
    after[..8].iter_mut().for_each(|answer| answer.correct = None);
    let (word, verdict) = gated.judge(&before, &after);
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    let paired = &verdict["evidence"]["metrics"][0]["found"]["paired"];
    assert_eq!(paired["answered"]["worse"], 0, "{paired:#}");
    assert_eq!((&paired["unanswered"]["newly"], &paired["worst"]["worse"]), (&8.into(), &8.into()));
    // Two of them leave a drop of five points excluded, even if both were lost.
    after[..6].iter_mut().for_each(|answer| answer.correct = Some(true));
    let (word, verdict) = gated.judge(&before, &after);
    assert_eq!(word, "pass", "{verdict:#}");
    after[..40].iter_mut().for_each(|answer| answer.correct = None);
    let (word, _) = gated.judge(&before, &after);
    assert_eq!(word, "fail");
    let shown = gated.shown();
    assert!(shown.contains("80 % of the questions were answered, and 90 % have to be"), "{shown}");
}

/// What is beyond chance and does not matter is no failure.
#[test]
fn a_drop_that_does_not_matter_does_not_fail() {
    let gated = Gated::new(ACCURACY);
    let (word, verdict) = gated.judge(&answers(400, 200), &answers(400, 190));
    assert!(p(&verdict) < 0.001, "{verdict:#}");
    assert_eq!(word, "pass", "{verdict:#}");
}

/// One question can never pass: the verdict says how many would.
#[test]
fn a_verdict_that_cannot_tell_says_how_many_questions_it_would_take() {
    let gated = Gated::new(ACCURACY);
    let mut changed = answers(58, 58);
    changed[0].score = Some(1.0);
    let (word, verdict) = gated.judge(&answers(58, 58), &changed);
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    assert!(gated.shown().contains("about 59 questions would tell"), "{}", gated.shown());
    let mut changed = answers(59, 59);
    changed[0].score = Some(1.0);
    let (word, verdict) = gated.judge(&answers(59, 59), &changed);
    assert_eq!(word, "pass", "{verdict:#}");
    let (word, _) = gated.judge(&answers(1, 1), &answers(1, 0));
    assert_eq!(word, "cannot_tell");
}

/// Seven repeats of one system spanned 2.81 points, and both thresholds lay inside.
#[test]
fn a_drop_within_the_spread_of_earlier_runs_is_none() {
    let gate = "metrics: [{ metric: judged.accuracy, min_effect: 0.01, unit: [id] }]\nnoise: 30\n";
    let gated = Gated::new(gate);
    for right in [500, 528, 510, 520] {
        gated.run(&answers(1000, right), &[]);
    }
    gated.run(&answers(1000, 500), &[]);
    let verdict = gated.verdict();
    assert_eq!(verdict["judgement"]["word"], "cannot_tell", "{verdict:#}");
    assert_eq!(verdict["evidence"]["metrics"][0]["noise"]["runs"], 4);
    assert!(
        gated.shown().contains("within the spread of earlier runs, 0.028"),
        "{}",
        gated.shown()
    );
    gated.run(&answers(1000, 528), &[]);
    gated.run(&answers(1000, 460), &[]);
    assert_eq!(gated.verdict()["judgement"]["word"], "fail");
}

#[test]
fn clusters_of_questions_are_the_units_where_they_are_named() {
    let plain = "metrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id] }]\n";
    let clustered =
        "metrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id], cluster: doc }]\n";
    let gated = Gated::new(plain);
    // Ten questions of two documents are worse.
    gated.run(&answers(60, 60), &[]);
    gated.run(&answers(60, 50), &[]);
    assert_eq!(gated.verdict()["judgement"]["word"], "fail");
    gated.0.write("gate.yaml", format!("kind: gate\nname: answers\n{clustered}"));
    let verdict = gated.verdict();
    assert_eq!(verdict["judgement"]["word"], "cannot_tell", "{verdict:#}");
    let shown = gated.shown();
    assert!(shown.contains("2 discordant clusters of `doc` reject nothing; 5 needed"), "{shown}");
}

#[test]
fn lower_is_better_where_the_gate_says_so() {
    let of = |better: &str| {
        format!(
            "metrics: [{{ metric: rated.score, min_effect: 0.05, unit: [id], better: {better} }}]\n"
        )
    };
    let gated = Gated::new(&of("lower"));
    let (low, high) = (score(&[0.2; 12]), score(&[0.6; 12]));
    let (word, verdict) = gated.judge(&low, &high);
    assert_eq!(word, "fail", "{verdict:#}");
    assert!(gated.shown().contains("a rise of 0.4000, more than chance"), "{}", gated.shown());
    // The other way round it is a gain, and what has no answer counts as the worst that was seen.
    let mut missing = low.clone();
    missing[0].score = None;
    let (word, verdict) = gated.judge(&high, &missing);
    assert_eq!(word, "pass", "{verdict:#}");
    let worst = &verdict["evidence"]["metrics"][0]["found"]["paired"]["worst"];
    assert_eq!((&worst["worse"], &worst["better"]), (&1.into(), &11.into()), "{worst:#}");
    gated.0.write("gate.yaml", format!("kind: gate\nname: answers\n{}", of("higher")));
    gated.run(&high, &[]);
    gated.run(&low, &[]);
    assert_eq!(gated.verdict()["judgement"]["word"], "fail");
}

#[test]
fn a_group_is_judged_alone_and_what_is_excluded_has_no_answer() {
    let gate = "metrics: [{ metric: judged.accuracy, where: { doc: d1 }, min_effect: 0.05, unit: [id] }]\n";
    let gated = Gated::new(gate);
    gated.0.edit(
        "p.yaml",
        "correct: correct }",
        "correct: correct, by: [doc], exclude: score > 0 }",
    );
    // Ten questions, five of each document; the second document is lost.
    let (before, mut after) = (answers(10, 10), answers(10, 5));
    let (word, verdict) = gated.judge(&before, &after);
    assert_eq!(word, "fail", "{verdict:#}");
    assert_eq!(verdict["evidence"]["metrics"][0]["found"]["paired"]["answered"]["questions"], 5);
    after[9].score = Some(1.0);
    let (_, verdict) = gated.judge(&before, &after);
    let paired = &verdict["evidence"]["metrics"][0]["found"]["paired"];
    assert_eq!(
        (&paired["answered"]["worse"], &paired["unanswered"]["newly"]),
        (&4.into(), &1.into())
    );
    gated.0.edit("gate.yaml", "doc: d1", "doc: d7");
    gated
        .0
        .proofmill(&["gate", "--file", "gate.yaml"])
        .expect(3)
        .says("of this `where`")
        .says("doc: d1");
}
