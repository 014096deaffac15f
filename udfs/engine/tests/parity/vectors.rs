//! Vectors and states, against transformers.

use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::{Folder, VectorMode, VectorSettings};
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Embed, Request};

use crate::golden::{self, Kind, Text};
use crate::model::{ask_all, vector};
use crate::near::relative_error;
use crate::tensors::Matrix;

const TOLERANCE: f64 = 1e-5;

fn embed(text: &Text) -> Embed {
    Embed { text: text.text.clone(), truncate: None }
}

/// The vectors of `texts`, made as `settings` says.
fn vectors(folder: &Path, settings: VectorSettings, texts: &[Text]) -> Vec<Vec<f32>> {
    let folder = Folder::open(folder).unwrap().with_vector(settings);
    let model = Model::open(&folder, &Settings::for_cores(2)).unwrap();
    let requests: Vec<_> = texts.iter().map(|text| (Request::Embed(embed(text)), 0)).collect();
    ask_all(&model, &requests).into_iter().map(vector).collect()
}

#[track_caller]
fn check(folder: &Path, what: &str, ours: &[Vec<f32>], theirs: &Matrix) {
    assert_eq!(ours.len(), theirs.rows().len());
    for (ours, theirs) in ours.iter().zip(theirs.rows()) {
        let error = relative_error(ours, theirs);
        assert!(error < TOLERANCE, "{folder:?} {what}: {error:e}");
    }
}

#[test]
fn encoders_give_the_vectors_of_transformers() {
    for folder in golden::checkpoints() {
        if golden::kind(&folder) != Kind::Encoder {
            continue;
        }
        let (encoder, tensors) = golden::encoder(&folder);
        let of =
            |mode, normalize| vectors(&folder, VectorSettings { mode, normalize }, &encoder.texts);
        check(&folder, "mean", &of(VectorMode::Mean, true), &tensors.mean());
        check(&folder, "cls", &of(VectorMode::First, false), &tensors.cls());
        check(&folder, "pooler", &of(VectorMode::Pooler, false), &tensors.pooler());
    }
}

#[test]
fn the_last_state_is_that_of_transformers() {
    for folder in golden::checkpoints() {
        let (texts, tensors) = match golden::kind(&folder) {
            Kind::Seq2seq => continue,
            Kind::Causal => {
                let (writer, tensors) = golden::writer(&folder);
                (writer.texts, tensors)
            }
            Kind::Encoder => {
                let (encoder, tensors) = golden::encoder(&folder);
                (encoder.texts, tensors)
            }
        };
        let requests: Vec<_> = texts.iter().map(|text| (Request::Hidden(embed(text)), 0)).collect();
        // Every text must fit one pass.
        let settings = Settings { max_batch_tokens: 256, ..Settings::for_cores(1) };
        let model = Model::open(&Folder::open(&folder).unwrap(), &settings).unwrap();
        for (number, answer) in ask_all(&model, &requests).into_iter().enumerate() {
            let states = tensors.hidden(number);
            let theirs = states.rows().last().unwrap();
            let error = relative_error(&vector(answer), theirs);
            assert!(error < TOLERANCE, "{folder:?} text {number}: {error:e}");
        }
    }
}

/// The folder of the sentence encoder that a Python package carries, if it is named.
fn minilm() -> Option<PathBuf> {
    std::env::var_os("PROOFMILL_MINILM").map(PathBuf::from)
}

#[test]
fn a_real_sentence_encoder_gives_its_own_vectors() {
    let Some(folder) = minilm() else {
        eprintln!("skipped: PROOFMILL_MINILM does not name the folder of all-MiniLM-L6-v2");
        return;
    };
    let (encoder, tensors) = golden::encoder(&golden::kept().join("minilm"));
    let requests: Vec<_> =
        encoder.texts.iter().map(|text| (Request::Embed(embed(text)), 0)).collect();
    let settings = Settings::for_cores(2);
    let model = Model::open(&Folder::open(&folder).unwrap(), &settings).unwrap();
    let ours: Vec<_> = ask_all(&model, &requests).into_iter().map(vector).collect();
    check(&folder, "mean", &ours, &tensors.mean());
}
