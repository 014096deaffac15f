//! Sentence encoders and two BERTs: the engine agrees about losses, and finds and says what was learnt.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use proofmill_engine::checkpoint::Folder;
use proofmill_engine::model::Model;
use proofmill_engine::request::{Body, Embed, Request};
use proofmill_fit::{Fitted, Pair, Start};
use proofmill_settings::fit::{Activation, DecoderSizes, Keep, Objective, Training};

use crate::answers::{agree, ask, opened, says, text};
use crate::made::{fitted, pairs, run, scratch, settings};

fn data(name: &str) -> PathBuf {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/parity/data");
    PathBuf::from(data).join(name)
}

pub fn start(name: &str) -> Start {
    Start::Checkpoint { folder: data(name), digested: None }
}

pub fn with_decoder(decoder: DecoderSizes) -> Start {
    let folder = data("bert");
    Start::WithDecoder { folder, digested: None, decoder }
}

pub const DECODER: DecoderSizes = DecoderSizes { layers: 1, heads: Some(2), d_ff: Some(50) };

/// Pairs of which some share an output, and weights that differ.
fn meant() -> Vec<Pair> {
    let mut pairs = pairs();
    for (number, pair) in pairs.iter_mut().enumerate() {
        pair.weight = 1.0 + number as f32 / 7.0;
    }
    pairs
}

pub fn vectors(model: &Model, texts: impl Iterator<Item = String>) -> Vec<Vec<f64>> {
    let vector = |text: String| match ask(model, &Request::Embed(Embed { text, truncate: None })) {
        Body::Vector(vector) => {
            let vector: Vec<f64> = vector.iter().map(|&x| f64::from(x)).collect();
            let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector.iter().map(|x| x / length).collect()
        }
        other => panic!("{other:?}"),
    };
    texts.map(vector).collect()
}

fn cos(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The loss of pairs in batches of eight, by the definition, from the engine's vectors.
fn loss(model: &Model, before: &Model, objective: Objective, pairs: &[Pair]) -> f64 {
    let x = vectors(model, pairs.iter().map(text));
    let outputs = || pairs.iter().map(|pair| pair.output.clone());
    let (u, given) = (vectors(model, outputs()), vectors(before, outputs()));
    let weight = |i: usize| f64::from(pairs[i].weight);
    let (mut sum, mut count) = (0.0, 0.0);
    let all: Vec<usize> = (0..pairs.len()).collect();
    for batch in all.chunks(8) {
        for &i in batch {
            if objective == Objective::Contrastive {
                let rivals =
                    batch.iter().filter(|&&j| j == i || pairs[j].output != pairs[i].output);
                let all: f64 = rivals.map(|&j| (cos(&x[i], &u[j]) / 0.05).exp()).sum();
                sum += weight(i) * (all.ln() - cos(&x[i], &u[i]) / 0.05);
                count += weight(i);
                continue;
            }
            for &j in batch.iter().filter(|&&j| j < i) {
                let off = cos(&x[i], &x[j]) - cos(&given[i], &given[j]);
                sum += weight(i) * weight(j) * off * off;
                count += weight(i) * weight(j);
            }
        }
    }
    sum / count
}

fn model(name: &str) -> Model {
    let folder = Folder::open(&data(name)).unwrap();
    Model::open(&folder, &crate::answers::small()).unwrap()
}

#[test]
fn losses_of_vectors_are_the_engines() {
    let pairs = meant();
    for name in ["bert", "bert-sentence"] {
        for objective in [Objective::Similarity, Objective::Contrastive] {
            let settings = Training { objective, learning_rate: 1e-3, ..settings(15) };
            let fitted = fitted(&settings, &start(name), &pairs, &pairs);
            let (after, _) = opened(&fitted);
            let (own, engine) =
                (fitted.dev_loss.unwrap(), loss(&after, &model(name), objective, &pairs));
            assert!(
                (own - engine).abs() < 1e-5,
                "{name} {objective:?}: {own} here, {engine} there"
            );
        }
    }
}

#[test]
fn what_belongs_together_is_found() {
    let pairs = pairs();
    let settings = Training {
        objective: Objective::Contrastive,
        learning_rate: 3e-3,
        batch: 20,
        evaluate_every: 500,
        ..settings(80)
    };
    let found = |model: &Model| {
        let x = vectors(model, pairs.iter().map(text));
        let u = vectors(model, pairs.iter().map(|pair| pair.output.clone()));
        let nearest =
            |x: &Vec<f64>| (0..u.len()).max_by(|&i, &j| cos(x, &u[i]).total_cmp(&cos(x, &u[j])));
        let right = |i: &usize| pairs[nearest(&x[*i]).unwrap()].output == pairs[*i].output;
        (0..pairs.len()).filter(right).count()
    };
    let before = found(&model("bert-sentence"));
    let (after, _) = opened(&fitted(&settings, &start("bert-sentence"), &pairs, &[]));
    assert!(before < 10 && found(&after) == 20, "{before} of 20, then {}", found(&after));
}

#[test]
fn vectors_learn_what_outputs_have_in_common() {
    let pairs = pairs();
    let objective = Objective::Similarity;
    let settings = Training { objective, learning_rate: 3e-3, batch: 20, ..settings(60) };
    let mut losses = Vec::new();
    run(&settings, &start("bert-sentence"), (&pairs, &[]), (2, None), &mut |report, _| {
        losses.extend(report.loss);
    })
    .unwrap();
    assert!(losses[59] < losses[0] / 4.0, "{} then {}", losses[0], losses[59]);
}

#[test]
fn stopping_and_threads_change_nothing() {
    let all = meant();
    let pairs = (&all[..12], &all[12..]);
    let starts = [
        (Objective::Similarity, start("bert-sentence")),
        (Objective::Contrastive, start("bert")),
        (Objective::Generation, with_decoder(DECODER)),
    ];
    for (objective, start) in starts {
        let settings = Training { objective, dropout: 0.1, learning_rate: 1e-3, ..settings(8) };
        let once = run(&settings, &start, pairs, (1, None), &mut |_, _| ()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        for stop in [1, 3, 6] {
            let stopped = run(&settings, &start, pairs, (3, Some(&file)), &mut |report, cancel| {
                cancel.store(report.step == stop, Ordering::Relaxed);
            });
            assert!(stopped.is_err());
        }
        let last = run(&settings, &start, pairs, (2, Some(&file)), &mut |_, _| ()).unwrap();
        assert!(last == once, "{objective:?}");
    }
}

#[test]
fn two_berts_are_trained_from_one_and_further() {
    let settings = Training { keep: Keep::Last, learning_rate: 1e-3, ..settings(15) };
    let fitted = agree(&settings, &with_decoder(DECODER), &pairs());
    let folder = tempfile::tempdir().unwrap();
    fitted.write(folder.path()).unwrap();
    let again = Start::Checkpoint { folder: folder.path().to_owned(), digested: None };
    let more = Training { steps: 1, warmup: 0, learning_rate: 1e-9, ..settings };
    let again = agree(&more, &again, &pairs());
    assert_eq!(again.parameters, fitted.parameters);
    assert!((again.dev_loss.unwrap() - fitted.dev_loss.unwrap()).abs() < 1e-5);
    for name in ["bert2bert", "bert2bert-untied"] {
        let settings = Training { label_smoothing: 0.1, dropout: 0.1, ..more.clone() };
        agree(&settings, &start(name), &pairs());
    }
}

#[test]
fn a_new_decoder_begins_with_the_embeddings_of_its_encoder() {
    let settings = Training { learning_rate: 1e-12, weight_decay: 0.0, warmup: 0, ..settings(1) };
    let fitted = fitted(&settings, &with_decoder(DECODER), &pairs(), &[]);
    let folder = tempfile::tempdir().unwrap();
    fitted.write(folder.path()).unwrap();
    let made = Folder::open(folder.path()).unwrap();
    let bert = Folder::open(&data("bert")).unwrap();
    let (words, matrix) =
        ("embeddings.word_embeddings.weight", "encoder.layer.1.intermediate.dense.weight");
    let of =
        |folder: &Folder, name: &str, dims: &[usize]| folder.tensor(name, dims).unwrap().values();
    for (name, from, dims) in [
        (format!("encoder.{words}"), words, [500, 40]),
        (format!("decoder.bert.{words}"), words, [500, 40]),
        (format!("encoder.{matrix}"), matrix, [72, 40]),
    ] {
        let right = of(&bert, &format!("bert.{from}"), &dims);
        let found = of(&made, &name, &dims);
        assert!(found.iter().zip(&right).all(|(a, b)| (a - b).abs() < 1e-9), "{name}");
    }
    // The pooler goes along, though nothing is made with it.
    assert!(made.has("encoder.pooler.dense.weight"));
    assert_eq!(
        made.config().section("decoder").unwrap().unwrap().size("intermediate_size").unwrap(),
        50
    );
}

#[test]
fn what_two_berts_learnt_is_said() {
    let pairs = pairs();
    let settings =
        Training { batch: 20, learning_rate: 3e-3, evaluate_every: 500, ..settings(200) };
    let decoder = DecoderSizes { layers: 2, heads: None, d_ff: None };
    let (model, codec) = opened(&fitted(&settings, &with_decoder(decoder), &pairs, &[]));
    for pair in &pairs {
        // The tokenizer's own spelling: lower case, spaces around marks.
        let ids = codec.encode(&pair.output, false).unwrap();
        assert_eq!(says(&model, &text(pair)), codec.decode(&ids, false).unwrap());
    }
}

#[test]
fn an_encoder_from_nothing_finds_what_it_learnt_and_gets_a_decoder() {
    let objective = Objective::Contrastive;
    let settings = Training { objective, steps: 60, learning_rate: 3e-3, ..settings(60) };
    let start = scratch(Activation::Relu);
    // Ten situations, each with an understanding of its own.
    let pairs: Vec<Pair> = (0..10)
        .map(|n| {
            Pair::new(format!("what happens in case {n}"), format!("the rule of case {n} holds"))
        })
        .collect();
    let made = fitted(&settings, &start, &pairs, &[]);
    assert_eq!(made.files, fitted(&settings, &start, &pairs, &[]).files, "the same bytes");
    let folder = tempfile::tempdir().unwrap();
    made.write(folder.path()).unwrap();
    assert_eq!(Folder::open(folder.path()).unwrap().max_tokens(), Some(512));
    let (model, _) = opened(&made);
    let x = vectors(&model, pairs.iter().map(text));
    let u = vectors(&model, pairs.iter().map(|pair| pair.output.clone()));
    for (i, x) in x.iter().enumerate() {
        let nearest = (0..u.len()).max_by(|a, b| cos(x, &u[*a]).total_cmp(&cos(x, &u[*b])));
        assert_eq!(nearest, Some(i));
    }
    // Its tokenizer puts a token on either side, which begin and end what a decoder behind it writes.
    let behind =
        Start::WithDecoder { folder: folder.path().to_owned(), digested: None, decoder: DECODER };
    let settings = Training { steps: 400, learning_rate: 3e-3, ..crate::made::settings(400) };
    let (writer, _) = opened(&fitted(&settings, &behind, &pairs, &[]));
    for pair in &pairs {
        assert_eq!(says(&writer, &text(pair)), pair.output);
    }
}

#[test]
fn a_fitted_encoder_is_a_folder_of_sentence_transformers() {
    let objective = Objective::Contrastive;
    let settings = Training { objective, learning_rate: 1e-3, ..settings(2) };
    let of = |name: &str| -> Fitted { fitted(&settings, &start(name), &pairs(), &[]) };
    for name in ["bert", "bert-sentence"] {
        let fitted = of(name);
        let folder = tempfile::tempdir().unwrap();
        fitted.write(folder.path()).unwrap();
        let vector = Folder::open(folder.path()).unwrap().vector().unwrap();
        assert!(vector.normalize, "{name}");
        let limit = if name == "bert" { 96 } else { 64 };
        assert_eq!(Folder::open(folder.path()).unwrap().max_tokens(), Some(limit));
    }
}
