//! Our scores against the Python packages, on 200 random pairs of texts and about 3,300 word forms.
//!
//! The packages are those of `tests/parity/requirements.txt`. Set `PROOFMILL_PYTHON` to the
//! interpreter that has them; without them the test says that it was skipped. `PROOFMILL_SEED` makes other pairs.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use proofmill_udfs::text::bleu::{BleuOptions, BleuStats, Smoothing, sentence_bleu};
use proofmill_udfs::text::chrf::{ChrfStats, sentence_chrf};
use proofmill_udfs::text::levenshtein::levenshtein;
use proofmill_udfs::text::meteor::meteor;
use proofmill_udfs::text::nltk_bleu::{nltk_bleu, parlai_bleu};
use proofmill_udfs::text::normalize::{Normalization, normalize};
use proofmill_udfs::text::overlap::{Prf, exact_match, token_f1};
use proofmill_udfs::text::porter::stem;
use proofmill_udfs::text::rouge::rouge_multi;
use serde_json::{Value, json};

#[test]
fn text_metrics_agree_with_the_reference_packages() {
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let imports = "import sacrebleu, rouge_score, nltk, rapidfuzz";
    let available = Command::new(&python).args(["-c", imports]).output();
    if !available.is_ok_and(|output| output.status.success()) {
        // Past the test runner's capture: a skipped comparison must be seen.
        let mut shown = std::io::stderr();
        writeln!(
            shown,
            "SKIPPED: `{python} -c '{imports}'` failed; see tests/parity/requirements.txt"
        )
        .unwrap();
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/parity/text_metrics.py");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (pairs, ours) = (folder.join("parity_pairs.json"), folder.join("parity_ours.json"));
    let run = |arguments: &[&Path], what: &str| {
        let output = Command::new(&python).arg(&script).arg(what).args(arguments).output();
        let output = output.expect("python runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let seed = std::env::var("PROOFMILL_SEED").unwrap_or_else(|_| "20240229".to_owned());
    run(&[&pairs, Path::new(&seed)], "pairs");
    let data: Value = serde_json::from_slice(&std::fs::read(&pairs).expect("pairs")).expect("JSON");
    std::fs::write(&ours, scores(&data).to_string()).expect("scores are written");
    print!("{}", run(&[&pairs, &ours], "compare"));
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn scores(data: &Value) -> Value {
    let pairs: Vec<(&str, Vec<&str>)> = data["pairs"]
        .as_array()
        .expect("pairs")
        .iter()
        .map(|pair| {
            let references = pair["references"].as_array().expect("references");
            (text(&pair["hypothesis"]), references.iter().map(text).collect())
        })
        .collect();
    let (mut bleu, mut chrf, mut chrf_pp) =
        (BleuStats::default(), ChrfStats::empty(0), ChrfStats::empty(2));
    for (hypothesis, references) in &pairs {
        let first = &references[..1];
        bleu.add(&BleuStats::of_segment(hypothesis, first, false).expect("a reference"));
        chrf.add(&ChrfStats::of_segment(hypothesis, first, 0).expect("a reference"));
        chrf_pp.add(&ChrfStats::of_segment(hypothesis, first, 2).expect("a reference"));
    }
    let stems = data["words"].as_array().expect("words").iter().map(|word| {
        let mut word = text(word).to_owned();
        stem(&mut word);
        word
    });
    json!({
        "pairs": pairs.iter().map(|(h, refs)| row(h, refs)).collect::<Vec<_>>(),
        "corpus": {
            "bleu": bleu.score(&BleuOptions::CORPUS),
            "chrf": chrf.score(),
            "chrf_pp": chrf_pp.score(),
        },
        "stems": stems.collect::<Vec<_>>(),
    })
}

fn row(hypothesis: &str, references: &[&str]) -> Value {
    let bleu = |smoothing, lowercase| {
        let options = BleuOptions { smoothing, lowercase, ..BleuOptions::SENTENCE };
        sentence_bleu(hypothesis, references, &options)
    };
    let rouge = |stemmed| {
        let score = rouge_multi(hypothesis, references, stemmed).expect("a reference");
        [score.rouge1, score.rouge2, score.rouge_l, score.rouge_lsum]
            .iter()
            .flat_map(|Prf { precision, recall, f1 }| [*precision, *recall, *f1])
            .collect::<Vec<f64>>()
    };
    let normalized = [Normalization::Squad, Normalization::Parlai, Normalization::Plain]
        .map(|kind| normalize(hypothesis, kind));
    json!({
        "bleu": bleu(Smoothing::Exp, false),
        "bleu_floor": bleu(Smoothing::Floor(0.1), false),
        "bleu_add_k": bleu(Smoothing::AddK(1.0), false),
        "bleu_none": bleu(Smoothing::None, false),
        "bleu_lower": bleu(Smoothing::Exp, true),
        "chrf": sentence_chrf(hypothesis, references, 0),
        "chrf_pp": sentence_chrf(hypothesis, references, 2),
        "nltk_bleu": nltk_bleu(hypothesis, references, None),
        "nltk_bleu_1": nltk_bleu(hypothesis, references, Some(0.1)),
        "parlai_bleu": parlai_bleu(hypothesis, references),
        "meteor": meteor(hypothesis, references),
        "rouge": rouge(false),
        "rouge_stem": rouge(true),
        "normalized": normalized,
        "squad_f1": token_f1(hypothesis, references[0], Normalization::Squad).f1,
        "parlai_f1": token_f1(hypothesis, references[0], Normalization::Parlai).f1,
        "exact_match": references.iter().any(|r| exact_match(hypothesis, r, Normalization::Squad)),
        "levenshtein": levenshtein(hypothesis, references[0]),
    })
}
