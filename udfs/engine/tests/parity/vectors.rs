//! Vectors and states, against transformers.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use proofmill_engine::checkpoint::{Folder, VectorMode, VectorSettings};
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Body, Embed, Hidden, HiddenRows, Request, RequestError};

use crate::golden::{self, Kind, Text};
use crate::model::{ask_all, vector};
use crate::near::relative_error;
use crate::tensors::{Matrix, Tensors};

const TOLERANCE: f64 = 1e-5;

fn embed(text: &Text) -> Embed {
    Embed { text: text.text.clone(), truncate: None }
}

fn hidden(text: &Text, layer: i32, rows: HiddenRows) -> Hidden {
    Hidden { text: text.text.clone(), truncate: None, layer, rows }
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
            Kind::Seq2seq | Kind::Classifier => continue,
            Kind::Causal => {
                let (writer, tensors) = golden::writer(&folder);
                (writer.texts, tensors)
            }
            Kind::Encoder => {
                let (encoder, tensors) = golden::encoder(&folder);
                (encoder.texts, tensors)
            }
        };
        let last = |text| (Request::Hidden(hidden(text, -1, HiddenRows::Last)), 0);
        let requests: Vec<_> = texts.iter().map(last).collect();
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

/// The text whose states are kept of every layer.
const LAYERS_OF: usize = 2;

fn texts(folder: &Path) -> Vec<Text> {
    match golden::kind(folder) {
        Kind::Causal | Kind::Seq2seq => golden::writer(folder).0.texts,
        Kind::Encoder | Kind::Classifier => golden::encoder(folder).0.texts,
    }
}

#[test]
fn states_of_every_layer_are_those_of_transformers() {
    for folder in golden::checkpoints() {
        if golden::kind(&folder) == Kind::Classifier {
            continue;
        }
        let (all, tensors) = (texts(&folder), Tensors::of(&folder));
        let layers: Vec<Matrix> = (0..).map_while(|layer| tensors.layer(layer)).collect();
        let settings = Settings { max_batch_tokens: 256, ..Settings::for_cores(1) };
        let model = Model::open(&Folder::open(&folder).unwrap(), &settings).unwrap();
        let count = layers.len() as i32;
        assert!(count >= 2, "{folder:?}");
        // Every layer by both of its names, beside a longer text.
        let kinds = [HiddenRows::Last, HiddenRows::First, HiddenRows::Mean, HiddenRows::All];
        let requested: Vec<(i32, HiddenRows)> =
            (-count..count).flat_map(|layer| kinds.map(|rows| (layer, rows))).collect();
        let both = |&(layer, rows): &(i32, HiddenRows)| {
            [LAYERS_OF, 3].map(|text| (Request::Hidden(hidden(&all[text], layer, rows)), 0))
        };
        let answers = ask_all(&model, &requested.iter().flat_map(both).collect::<Vec<_>>());
        for ((layer, rows), answer) in requested.iter().zip(answers.into_iter().step_by(2)) {
            let theirs = &layers[layer.rem_euclid(count) as usize];
            let (width, length) = (theirs.width, theirs.rows().len());
            let mean: Vec<f32> = (0..width)
                .map(|i| theirs.rows().map(|row| row[i]).sum::<f32>() / length as f32)
                .collect();
            let ours = match answer.unwrap().body {
                Body::Vector(vector) => vector,
                Body::Vectors(all) => {
                    assert_eq!(all.len(), length);
                    all.concat()
                }
                other => panic!("{other:?}"),
            };
            let expected = match rows {
                HiddenRows::Last => theirs.rows().last().unwrap(),
                HiddenRows::First => theirs.rows().next().unwrap(),
                HiddenRows::Mean => &mean,
                HiddenRows::All => &theirs.values,
            };
            let error = relative_error(&ours, expected);
            assert!(error < 3e-5, "{folder:?} layer {layer} {rows:?}: {error:e}");
        }
        for layer in [count, -count - 1, i32::MAX, i32::MIN] {
            let request = Request::Hidden(hidden(&all[0], layer, HiddenRows::Last));
            let error = ask_all(&model, &[(request, 0)]).remove(0).unwrap_err();
            let last = count - 1;
            let expected = format!(
                "`layer` is {layer}, and the model has 0 (the embedding) to {last}, or -{count} to -1 \
                 from the end"
            );
            assert_eq!(error, RequestError::Invalid(expected));
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
        // Past the test runner's capture: a skipped comparison must be seen.
        let why = "PROOFMILL_MINILM does not name the folder of all-MiniLM-L6-v2";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
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
