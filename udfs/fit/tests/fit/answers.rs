//! The engine reads what was fitted, agrees about losses, and says what was learnt.

use std::path::Path;
use std::sync::mpsc;

use proofmill_engine::checkpoint::{Codec, Folder};
use proofmill_engine::model::{self, Model};
use proofmill_engine::request::{Body, Generate, Prompt, Request, Score, Strategy};
use proofmill_engine::schedule::Cancel;
use proofmill_fit::{Fitted, Pair, Start, Tokens};
use proofmill_settings::fit::{Activation, Keep, Save, Training};

use crate::made::{fitted, pairs, run, scratch, settings, sizes};

/// A model on one core with little memory.
pub fn small() -> model::Settings {
    model::Settings { kv_cache_bytes: 8 << 20, max_num_seqs: 16, ..model::Settings::for_cores(1) }
}

pub fn opened(fitted: &Fitted) -> (Model, Codec) {
    let folder = tempfile::tempdir().unwrap();
    fitted.write(folder.path()).unwrap();
    let opened = Folder::open(folder.path()).unwrap();
    (Model::open(&opened, &small()).unwrap(), Codec::read(&opened).unwrap())
}

pub fn ask(model: &Model, request: &Request) -> Body {
    let (sender, receiver) = mpsc::channel();
    let reply = Box::new(move |answer| sender.send(answer).unwrap());
    model.submit(request, [0; 32], reply, Cancel::default());
    receiver.recv().unwrap().unwrap().body
}

/// What a pair reads.
pub fn text(pair: &Pair) -> String {
    pair.input.texts().concat()
}

/// The log-probability of a pair's output and its end by the engine, and its tokens.
pub fn logprob(model: &Model, pair: &Pair) -> (f64, u32) {
    let request = Request::Score(Score {
        prompt: text(pair),
        truncate: None,
        continuations: vec![pair.output.clone()],
        include_eos: true,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    });
    let Body::Scores(scores) = ask(model, &request) else { panic!("no scores") };
    (scores[0].logprob, scores[0].tokens)
}

/// The loss per token by the engine.
fn loss(model: &Model, pairs: &[Pair]) -> f64 {
    let (mut sum, mut tokens) = (0.0, 0.0);
    for pair in pairs {
        let (logprob, count) = logprob(model, pair);
        let weight = f64::from(pair.weight);
        sum -= logprob * weight;
        tokens += f64::from(count) * weight;
    }
    sum / tokens
}

pub fn says(model: &Model, input: &str) -> String {
    begun(model, input, "")
}

/// The likeliest answer that begins with `prefix`.
fn begun(model: &Model, input: &str, prefix: &str) -> String {
    let request = Request::Generate(Generate {
        prompt: Prompt::Text(input.to_owned()),
        truncate: None,
        prefix: prefix.to_owned(),
        strategy: Strategy::Greedy,
        max_tokens: 32,
        min_tokens: 0,
        stop: Vec::new(),
        choices: Vec::new(),
        response_format: None,
        logprobs: false,
    });
    match ask(model, &request) {
        Body::Generations(answers) => answers[0].text.clone(),
        other => panic!("{other:?}"),
    }
}

fn checkpoint(folder: &Path) -> Start {
    Start::Checkpoint { folder: folder.to_owned(), digested: None }
}

/// The loss that the fit tells of its dev pairs is the engine's.
pub fn agree(settings: &Training, start: &Start, pairs: &[Pair]) -> Fitted {
    let mut pairs = pairs.to_vec();
    pairs[3].weight = 2.5;
    let fitted = fitted(settings, start, &pairs, &pairs);
    let (model, _) = opened(&fitted);
    let (own, engine) = (fitted.dev_loss.unwrap(), loss(&model, &pairs));
    assert!((own - engine).abs() < 1e-5, "{own} here, {engine} by the engine");
    fitted
}

#[test]
fn losses_are_the_engines() {
    for activation in [Activation::Relu, Activation::GatedGelu] {
        let settings = Training { keep: Keep::Last, ..settings(15) };
        let fitted = agree(&settings, &scratch(activation), &pairs());
        // And those of a checkpoint that is trained further.
        let folder = tempfile::tempdir().unwrap();
        fitted.write(folder.path()).unwrap();
        let more = Training { steps: 1, warmup: 0, learning_rate: 1e-9, ..settings };
        let again = agree(&more, &checkpoint(folder.path()), &pairs());
        assert_eq!(again.parameters, fitted.parameters);
        assert!((again.dev_loss.unwrap() - fitted.dev_loss.unwrap()).abs() < 1e-5);
        assert_eq!(again.files["tokenizer.json"], fitted.files["tokenizer.json"]);
    }
}

#[test]
fn checkpoints_of_others_are_trained() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/parity/data/");
    for name in ["t5", "flan-t5", "flan-t5-old"] {
        let start = checkpoint(format!("{data}{name}").as_ref());
        let settings = Training { label_smoothing: 0.1, dropout: 0.1, ..settings(5) };
        agree(&settings, &start, &pairs());
    }
}

#[test]
fn a_tokenizer_can_be_given() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/parity/data/t5/tokenizer.json");
    let json = std::fs::read(file).unwrap();
    let start = Start::Scratch { sizes: sizes(), tokens: Tokens::Json(json.clone()) };
    let fitted = agree(&settings(5), &start, &pairs());
    assert_eq!(fitted.files["tokenizer.json"], json);
}

#[test]
fn what_is_learnt_is_said() {
    let pairs = pairs();
    let settings = Training { batch: 20, evaluate_every: 500, ..settings(200) };
    let mut last = f64::MAX;
    let fitted =
        run(&settings, &scratch(Activation::Relu), (&pairs, &[]), (2, None), &mut |it, _| {
            last = it.loss.unwrap();
        })
        .unwrap();
    assert!(last < 0.02, "{last}");
    let (model, codec) = opened(&fitted);
    for pair in &pairs {
        assert_eq!(says(&model, &text(pair)), pair.output);
        let ids = codec.encode(&pair.output, false).unwrap();
        assert_eq!(codec.decode(&ids, false).unwrap(), pair.output);
    }
}

#[test]
fn halves_of_numbers_say_the_same() {
    let pairs = pairs();
    let base = Training { batch: 20, evaluate_every: 500, ..settings(150) };
    let start = scratch(Activation::Relu);
    let full = fitted(&base, &start, &pairs, &[]);
    let half = fitted(&Training { save: Save::Bf16, ..base }, &start, &pairs, &[]);
    let size = |fitted: &Fitted| fitted.files["model.safetensors"].len();
    assert!(size(&half) < size(&full) * 6 / 10);
    let (model, _) = opened(&half);
    assert!(pairs.iter().all(|pair| says(&model, &text(pair)) == pair.output));
}

/// A word that no pair has is spelled, so that an answer can be made to begin with it.
#[test]
fn any_beginning_can_be_forced() {
    let fitted = fitted(&settings(5), &scratch(Activation::Relu), &pairs(), &[]);
    let (model, _) = opened(&fitted);
    for prefix in [
        "[PREMISE] a zeppelin is made of moonlight.",
        "[PREMISE] chemical  splashing can cause harm to the eyes",
        "\u{6c34} is w\u{e4}ter \u{1f600} \u{7}.",
    ] {
        let text = begun(&model, "$proof$ ; $question$ = What is a hook made of?", prefix);
        assert!(text.starts_with(prefix), "{text:?}");
    }
}
