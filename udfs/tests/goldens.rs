//! Every golden case of the text metrics and statistics: published or computed by the reference
//! packages, written to `goldens.json` by `tests/parity/make_goldens.py`.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::HashSet;

use proofmill_udfs::stats;
use proofmill_udfs::text::bleu::{BleuOptions, BleuStats, Smoothing, sentence_bleu};
use proofmill_udfs::text::chrf::{ChrfStats, chrf_signature, sentence_chrf};
use proofmill_udfs::text::meteor::{meteor, meteor_of_tokens};
use proofmill_udfs::text::nltk_bleu::{nltk_bleu, parlai_bleu};
use proofmill_udfs::text::normalize::{Normalization, normalize};
use proofmill_udfs::text::overlap::{Aggregate, Prf, kf1, token_f1};
use proofmill_udfs::text::rouge::rouge;
use serde_json::Value;

struct Case<'a> {
    id: &'a str,
    inputs: &'a Value,
    params: &'a Value,
    expected: &'a Value,
    texts: &'a Value,
    tolerance: f64,
}

impl<'a> Case<'a> {
    fn text(&self, value: &'a Value) -> &'a str {
        let text = value.as_str().unwrap_or_else(|| panic!("{}: {value}", self.id));
        match text.strip_prefix('@') {
            Some(name) => self.texts[name].as_str().expect("a text of that name"),
            None => text,
        }
    }

    fn input(&self, name: &str) -> &'a str {
        self.text(&self.inputs[name])
    }

    fn texts(&self, name: &str) -> Vec<&'a str> {
        let list = self.inputs[name].as_array().unwrap_or_else(|| panic!("{}: {name}", self.id));
        list.iter().map(|text| self.text(text)).collect()
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        numbers(&self.inputs[name])
    }

    fn number(&self, name: &str) -> f64 {
        self.inputs[name].as_f64().unwrap_or_else(|| panic!("{}: {name}", self.id))
    }

    fn count(&self, name: &str) -> u64 {
        self.inputs[name].as_u64().unwrap_or_else(|| panic!("{}: {name}", self.id))
    }

    /// Compares with the expected number, or with its part `name`.
    fn is(&self, name: &str, actual: f64) {
        let expected = if name.is_empty() { self.expected } else { &self.expected[name] };
        let expected = expected.as_f64().unwrap_or_else(|| panic!("{}: no number {name}", self.id));
        let close = (expected - actual).abs() <= self.tolerance;
        assert!(close, "{} {name}: expected {expected:e}, got {actual:e}", self.id);
    }

    fn prf(&self, actual: Prf) {
        for (name, value) in
            [("precision", actual.precision), ("recall", actual.recall), ("f1", actual.f1)]
        {
            if self.expected.get(name).is_some() {
                self.is(name, value);
            }
        }
        self.is("f1", actual.f1);
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[test]
fn every_golden_case_holds() {
    let file: Value = serde_json::from_str(include_str!("goldens.json")).expect("JSON");
    let cases = file["cases"].as_array().expect("cases");
    let mut seen = HashSet::new();
    for case in cases {
        let id = case["id"].as_str().expect("an id");
        assert!(seen.insert(id), "{id} twice");
        check(&Case {
            id,
            inputs: &case["inputs"],
            params: &case["params"],
            expected: &case["expected"],
            texts: &file["texts"],
            tolerance: case["tolerance"].as_f64().expect("a tolerance"),
        });
    }
    assert_eq!(seen.len(), 74, "cases were added or lost");
}

fn check(case: &Case) {
    match case.id.split('.').collect::<Vec<_>>()[..] {
        ["kf1", "parlai", aggregate, _] => {
            let aggregate = if aggregate == "max" { Aggregate::Max } else { Aggregate::Concat };
            case.prf(kf1(case.input("response"), case.texts("snippets"), aggregate));
        }
        ["normalise", _] => {
            for (name, kind) in [("squad", Normalization::Squad), ("parlai", Normalization::Parlai)]
            {
                let normalized = normalize(case.input("text"), kind);
                assert_eq!(Some(normalized.as_str()), case.expected[name].as_str(), "{}", case.id);
            }
        }
        ["f1", .., kind] => {
            let kind = kind.parse().expect("a normalisation");
            let golds = case.texts("golds");
            let scores = golds.iter().map(|gold| token_f1(case.input("prediction"), gold, kind));
            case.prf(scores.reduce(|a, b| if b.f1 > a.f1 { b } else { a }).expect("a gold"));
        }
        ["bleu", "corpus", ref rest @ ..] => corpus_bleu(case, rest),
        ["bleu", "sentence", ..] => {
            let method = case.params["smooth_method"].as_str().unwrap_or("exp");
            let smoothing = Smoothing::new(method, case.params["smooth_value"].as_f64());
            let smoothing = smoothing.expect("a smoothing");
            let options = BleuOptions { smoothing, ..BleuOptions::SENTENCE };
            pair(case, |hypothesis, reference| sentence_bleu(hypothesis, &[reference], &options));
        }
        ["bleu", "parlai", _] => pair(case, |h, r| parlai_bleu(h, &[r])),
        ["bleu", "nltk", "method1", _] => pair(case, |h, r| nltk_bleu(h, &[r], Some(0.1))),
        ["bleu", "nltk", "nosmooth", _] => {
            pair(case, |h, r| nltk_bleu(h, &[r], None));
            // The absolute tolerance says nothing about 1e-232.
            let actual = nltk_bleu(case.input("hypothesis"), &[case.input("reference")], None);
            let ratio = actual.expect("a score") / case.expected.as_f64().expect("a number");
            assert!((ratio - 1.0).abs() < 1e-9, "{}: {actual:?}", case.id);
        }
        ["chrf", "corpus", "two"] => {
            let mut sum = ChrfStats::empty(0);
            for (hypothesis, reference) in segments(case) {
                sum.add(&ChrfStats::of_segment(hypothesis, &[reference], 0).expect("a reference"));
            }
            case.is("", sum.score());
            let signature = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0";
            assert_eq!(chrf_signature(0, Some(1)), signature);
        }
        ["chrf", _] => pair(case, |h, r| sentence_chrf(h, &[r], 0)),
        ["chrfpp", _] => pair(case, |h, r| sentence_chrf(h, &[r], 2)),
        ["rouge", kind, stem, _] => {
            let score = rouge(case.input("hypothesis"), case.input("reference"), stem == "stem1");
            case.prf(match kind {
                "rouge1" => score.rouge1,
                "rouge2" => score.rouge2,
                "rougeL" => score.rouge_l,
                "rougeLsum" => score.rouge_lsum,
                other => panic!("{other}"),
            });
        }
        ["meteor", "nltk", ..] => pair(case, |h, r| meteor(h, &[r])),
        ["meteor", "cat", _] => {
            let (hypothesis, reference) =
                (case.texts("hypothesis_tokens"), case.texts("reference_tokens"));
            case.is("", meteor_of_tokens(&hypothesis, &reference));
        }
        _ => statistic(case),
    }
}

/// A score of one hypothesis and one reference.
fn pair(case: &Case, score: impl Fn(&str, &str) -> Option<f64>) {
    case.is("", score(case.input("hypothesis"), case.input("reference")).expect("a score"));
}

fn segments<'a>(case: &Case<'a>) -> Vec<(&'a str, &'a str)> {
    let references = match &case.inputs["references"] {
        Value::Array(list) if list[0].is_array() => {
            let list = list[0].as_array().expect("a list");
            list.iter().map(|text| case.text(text)).collect()
        }
        _ => case.texts("references"),
    };
    case.texts("hypotheses").into_iter().zip(references).collect()
}

fn corpus_bleu(case: &Case, rest: &[&str]) {
    let lowercase = rest.contains(&"lower");
    let options = BleuOptions { lowercase, ..BleuOptions::CORPUS };
    let of = |h: &str, r: &str| BleuStats::of_segment(h, &[r], lowercase).expect("a reference");
    if rest[0] == "single" {
        return pair(case, |hypothesis, reference| Some(of(hypothesis, reference).score(&options)));
    }
    let mut sum = BleuStats::default();
    segments(case).into_iter().for_each(|(h, r)| sum.add(&of(h, r)));
    case.is("", sum.score(&options));
    if !lowercase {
        let signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0";
        assert_eq!(options.signature(Some(1)), signature);
    }
}

fn statistic(case: &Case) {
    match case.id.split('.').next().expect("a name") {
        "mcc" => {
            let labels =
                |name| case.numbers(name).into_iter().map(|v| v as i64).collect::<Vec<_>>();
            case.is("", stats::mcc(&labels("y_true"), &labels("y_pred")).expect("rows"));
        }
        "mcnemar" => mcnemar(case),
        "unpaired_z" => {
            let (n1, n2) = (case.count("n1"), case.count("n2"));
            let test = stats::two_proportion_z(case.number("p1"), n1, case.number("p2"), n2);
            let test = test.expect("a test");
            case.is("z", test.z);
            case.is("p", test.p);
        }
        "paired_diff" => {
            let d = [("plus", 1.0), ("minus", -1.0), ("zero", 0.0)]
                .map(|(name, value)| vec![value; case.count(name) as usize]);
            // The published interval rounds the multiplier to 1.96.
            let paired = stats::paired_difference_with_multiplier(&d.concat(), 1.96).expect("rows");
            case.is("diff", paired.diff);
            case.is("se", paired.se);
            case.is("z", paired.z);
            for (expected, actual) in
                numbers(&case.expected["ci95"]).into_iter().zip([paired.low, paired.high])
            {
                assert!((expected - actual).abs() <= case.tolerance, "{}", case.id);
            }
        }
        "bootstrap" => bootstrap(case),
        "clustered_se" => {
            let clusters: Vec<u64> =
                case.numbers("cluster").into_iter().map(|c| c as u64).collect();
            let clustered = stats::clustered_se(&case.numbers("x"), &clusters).expect("rows");
            case.is("clustered", clustered.se);
            case.is("without_correction", clustered.se_uncorrected);
            case.is("naive", clustered.se_naive);
        }
        "power" => {
            let number = |name| case.number(name);
            let line = stats::power_paired_proportions(
                number("d"),
                number("pd"),
                number("alpha"),
                number("power"),
            );
            let line = line.expect("a number of items");
            case.is("n", line.n);
            assert_eq!(line.n_rounded_up, case.expected["n_rounded_up"].as_u64());
        }
        "multiplicity" => {
            let p = case.numbers("p");
            let adjusted = if case.id.ends_with("holm") {
                stats::holm(&p)
            } else {
                stats::benjamini_hochberg(&p)
            };
            let alpha = case.number("alpha");
            let rejected = case.expected["reject"].as_array().expect("flags");
            let expected = numbers(&case.expected["adjusted_p"]);
            for ((adjusted, expected), rejected) in
                adjusted.expect("p values").into_iter().zip(expected).zip(rejected)
            {
                assert!((adjusted - expected).abs() <= case.tolerance, "{}", case.id);
                assert_eq!(Some(adjusted <= alpha), rejected.as_bool(), "{}", case.id);
            }
        }
        other => panic!("no check for the golden case `{}` ({other})", case.id),
    }
}

fn mcnemar(case: &Case) {
    let test = stats::mcnemar(case.count("b"), case.count("c"));
    for (name, actual) in [
        ("exact_p", Some(test.p_exact)),
        ("mid_p", Some(test.p_mid)),
        ("chi2_corrected", test.chi2.map(|chi2| chi2.statistic)),
        ("chi2_corrected_p", test.chi2.map(|chi2| chi2.p)),
        ("chi2_uncorrected", test.chi2_uncorrected.map(|chi2| chi2.statistic)),
        ("chi2_uncorrected_p", test.chi2_uncorrected.map(|chi2| chi2.p)),
    ] {
        if case.expected.get(name).is_some_and(|value| !value.is_null()) {
            case.is(name, actual.expect("defined"));
        }
    }
}

/// The random numbers are ours and not numpy's: the interval may move by a step of its grid, the
/// standard error by its own Monte Carlo error (about 0.0002 at 9,999 resamples).
fn bootstrap(case: &Case) {
    let runs = case.inputs["x_run_length"].as_array().expect("runs");
    let values: Vec<f64> = runs
        .iter()
        .flat_map(|run| {
            let run = numbers(run);
            vec![run[0]; run[1] as usize]
        })
        .collect();
    let method = case.params["method"].as_str().expect("a method").to_lowercase();
    let resamples = case.params["n_resamples"].as_u64().expect("a number") as u32;
    let method = method.parse().expect("a method");
    let interval = stats::bootstrap_mean(&values, resamples, 0, 0.95, method).expect("rows");
    let step = 1.0 / values.len() as f64;
    for (name, actual, tolerance) in [
        ("low", interval.low, step + 1e-9),
        ("high", interval.high, step + 1e-9),
        ("standard_error", interval.se, 5e-4),
    ] {
        let expected = case.expected[name].as_f64().expect("a number");
        assert!((expected - actual).abs() <= tolerance, "{} {name}: {actual}", case.id);
    }
}
