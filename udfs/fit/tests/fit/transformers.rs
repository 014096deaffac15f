//! transformers and sentence-transformers load what was fitted, and answer as the engine does. Needs a Python that has
//! them (`udfs/engine/tests/parity/requirements.txt`), which `PROOFMILL_PYTHON` names.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proofmill_fit::{Activation, Fitted, Objective, Settings};
use serde::de::DeserializeOwned;

use crate::answers::{opened, says};
use crate::encoders::{DECODER, start, vectors, with_decoder};
use crate::made::{fitted, pairs, scratch, settings};

/// What Python makes of the texts; `None` where no Python is named.
fn theirs<T: DeserializeOwned>(fitted: &Fitted, texts: &[String]) -> Option<T> {
    let Some(python) = std::env::var_os("PROOFMILL_PYTHON") else {
        // Past the test runner's capture: a skipped comparison must be seen.
        let why = "PROOFMILL_PYTHON does not name a Python with transformers";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    fitted.write(folder.path()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fit/loads.py");
    let mut child = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .env("HF_HUB_OFFLINE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&serde_json::to_vec(texts).unwrap()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn vectors_are_theirs() {
    let objective = Objective::Contrastive;
    let settings = Settings { objective, learning_rate: 1e-3, ..settings(10) };
    let texts: Vec<String> = pairs().into_iter().map(|pair| pair.input).collect();
    let starts = [
        ("bert", start("bert")),
        ("bert-sentence", start("bert-sentence")),
        ("new", scratch(Activation::Relu)),
    ];
    for (name, start) in starts {
        let fitted = fitted(&settings, &start, &pairs(), &[]);
        let Some(theirs) = theirs::<Vec<Vec<f64>>>(&fitted, &texts) else { return };
        let (model, _) = opened(&fitted);
        for (ours, theirs) in vectors(&model, texts.iter().cloned()).iter().zip(&theirs) {
            assert!(ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-5), "{name}");
        }
    }
}

#[test]
fn answers_are_theirs() {
    let settings = Settings { batch: 20, learning_rate: 3e-3, evaluate_every: 500, ..settings(60) };
    let texts: Vec<String> = pairs().into_iter().map(|pair| pair.input).collect();
    let starts = [
        ("two BERTs", with_decoder(DECODER)),
        ("tied", start("bert2bert")),
        ("untied", start("bert2bert-untied")),
        ("T5", scratch(proofmill_fit::Activation::GatedGelu)),
    ];
    for (name, start) in starts {
        let fitted = fitted(&settings, &start, &pairs(), &[]);
        let Some(theirs) = theirs::<Vec<String>>(&fitted, &texts) else { return };
        let (model, _) = opened(&fitted);
        let ours: Vec<String> = texts.iter().map(|text| says(&model, text)).collect();
        assert_eq!(ours, theirs, "{name}");
    }
}
