//! transformers and sentence-transformers load what was fitted, and answer as the engine does. Needs a Python that has
//! them (`udfs/engine/tests/parity/requirements.txt`), which `PROOFMILL_PYTHON` names.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use proofmill_fit::Fitted;
use proofmill_settings::fit::{Activation, Objective, Training};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answers::{opened, says, text};
use crate::decoders::{continued, decoder, passages, read};
use crate::encoders::{DECODER, start, vectors, with_decoder};
use crate::made::{fitted, pairs, scratch, settings};

/// What Python makes of the texts; `None` where none is named that has the packages.
fn theirs<T: DeserializeOwned>(fitted: &Fitted, texts: &impl Serialize) -> Option<T> {
    let has_packages = |python: &OsString| {
        let import = ["-c", "import transformers, sentence_transformers"];
        Command::new(python).args(import).output().is_ok_and(|output| output.status.success())
    };
    let Some(python) = std::env::var_os("PROOFMILL_PYTHON").filter(has_packages) else {
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
    let settings = Training { objective, learning_rate: 1e-3, ..settings(10) };
    let texts: Vec<String> = pairs().iter().map(text).collect();
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
    let settings = Training { batch: 20, learning_rate: 3e-3, evaluate_every: 500, ..settings(60) };
    let texts: Vec<String> = pairs().iter().map(text).collect();
    let starts = [
        ("two BERTs", with_decoder(DECODER)),
        ("tied", start("bert2bert")),
        ("untied", start("bert2bert-untied")),
        ("T5", scratch(Activation::GatedGelu)),
        ("OPT", decoder()),
    ];
    for (name, start) in starts {
        let pairs = if name == "OPT" { continued() } else { pairs() };
        let fitted = fitted(&settings, &start, &pairs, &[]);
        let Some(theirs) = theirs::<Vec<String>>(&fitted, &texts) else { return };
        let (model, _) = opened(&fitted);
        let says = |text: &String| says(&model, text).trim().to_owned();
        let ours: Vec<String> = texts.iter().map(says).collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

/// transformers reads passages apart where it is given the states of all of them as one.
#[test]
fn fused_answers_are_theirs() {
    let settings = Training { batch: 9, learning_rate: 3e-3, evaluate_every: 500, ..settings(60) };
    let pairs = passages();
    for start in [scratch(Activation::Relu), with_decoder(DECODER)] {
        let fitted = fitted(&settings, &start, &pairs, &[]);
        let lists: Vec<&[String]> = pairs.iter().map(|pair| pair.input.texts()).collect();
        let Some(theirs) = theirs::<Vec<String>>(&fitted, &lists) else { return };
        let (model, _) = opened(&fitted);
        let ours: Vec<String> = pairs.iter().map(|it| read(&model, it, Vec::new()).0).collect();
        assert_eq!(ours, theirs);
    }
}
