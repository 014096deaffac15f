//! Decoder-only models, and encoders that read passages apart: the engine reads what was fitted, agrees about losses, and
//! says what was learnt.

use std::path::Path;

use proofmill_engine::model::Model;
use proofmill_engine::request::{Body, Generate, Prompt, Request, Strategy};
use proofmill_fit::{Fitted, Input, Pair, Start, Tokens};
use proofmill_settings::fit::{Architecture, DecoderSizes, Judge, Objective, Sizes, Training};

use crate::answers::{agree, ask, logprob, opened, says};
use crate::made::{fitted, pairs, run, scratch, settings, sizes};

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/parity/data").join(name)
}

/// A decoder of a few thousand numbers.
pub fn decoder() -> Start {
    let sizes = Sizes { architecture: Some(Architecture::Opt), layers: 2, ..sizes() };
    Start::Scratch { sizes, tokens: Tokens::Words { also: Vec::new() } }
}

/// Pairs whose outputs follow their inputs as words of one text.
pub fn continued() -> Vec<Pair> {
    pairs().into_iter().map(|pair| Pair { output: format!(" {}", pair.output), ..pair }).collect()
}

fn refusal(settings: &Training, start: &Start, train: &[Pair], dev: &[Pair]) -> String {
    run(settings, start, (train, dev), (1, None), &mut |_, _| ()).unwrap_err().to_string()
}

#[test]
fn losses_of_a_decoder_are_the_engines() {
    let settings = Training { label_smoothing: 0.1, dropout: 0.1, ..settings(15) };
    let first = agree(&settings, &decoder(), &continued());
    // And those of checkpoints that are trained further, our own and one of others.
    let folder = tempfile::tempdir().unwrap();
    first.write(folder.path()).unwrap();
    for from in [folder.path(), &data("opt")] {
        let start = Start::Checkpoint { folder: from.to_owned(), digested: None };
        agree(&Training { steps: 3, warmup: 0, ..settings.clone() }, &start, &continued());
    }
}

#[test]
fn outputs_without_an_input_are_learnt_from_their_beginning() {
    let texts: Vec<Pair> = pairs()
        .into_iter()
        .map(|pair| Pair { input: Input::Nothing, ..Pair::new("", pair.output) })
        .collect();
    let settings = settings(15);
    let model = fitted(&settings, &decoder(), &texts, &texts);
    let dev_loss = model.dev_loss.unwrap();
    let (model, _) = opened(&model);
    let (mut sum, mut tokens) = (0.0, 0.0);
    for pair in &texts {
        let (logprob, count) = logprob(&model, &Pair::new("", &pair.output));
        sum -= logprob;
        tokens += f64::from(count);
    }
    assert!((sum / tokens - dev_loss).abs() < 1e-5, "{} by the engine, {dev_loss}", sum / tokens);
    let judged = Training { judge: Judge::ExactMatch, ..settings };
    let message = refusal(&judged, &decoder(), &texts, &texts);
    assert_eq!(message, "`judge` is exact_match, expected loss, where outputs have no input");
}

#[test]
fn a_decoder_says_what_it_learnt() {
    let pairs = continued();
    let settings = Training { batch: 20, evaluate_every: 500, ..settings(250) };
    let (model, _) = opened(&fitted(&settings, &decoder(), &pairs, &[]));
    for pair in &pairs {
        assert_eq!(says(&model, &pair.input.texts()[0]).trim(), pair.output.trim());
    }
}

/// Which of two things is which: what one passage alone does not tell.
pub fn passages() -> Vec<Pair> {
    let (things, materials) = (["hook", "spoon", "rope"], ["steel", "wood", "ice"]);
    let mut pairs = Vec::new();
    for thing in things {
        for material in materials {
            let passages = vec![
                format!("question: what is said of it? context: it is a {thing}."),
                "question: what is said of it? context: nobody knows.".to_owned(),
                format!("it is made of {material}."),
            ];
            let input = Input::Passages(passages);
            pairs.push(Pair { input, ..Pair::new("", format!("{material} {thing}")) });
        }
    }
    pairs
}

/// The answer to passages, or the one that is among `choices`, and its log-probability.
pub fn read(model: &Model, pair: &Pair, choices: Vec<String>) -> (String, f64) {
    let request = Request::Generate(Generate {
        prompt: Prompt::Passages(pair.input.texts().to_vec()),
        truncate: None,
        prefix: String::new(),
        strategy: Strategy::Greedy,
        max_tokens: 32,
        min_tokens: 0,
        stop: Vec::new(),
        choices,
        response_format: None,
        logprobs: false,
    });
    let Body::Generations(answers) = ask(model, &request) else { panic!("no answers") };
    (answers[0].text.clone(), answers[0].logprob.unwrap())
}

#[test]
fn passages_are_fused_as_the_engine_fuses_them() {
    let pairs = passages();
    let two = DecoderSizes { layers: 1, heads: None, d_ff: None };
    let starts = [
        ("T5", scratch(proofmill_settings::fit::Activation::Relu)),
        ("two BERTs", Start::WithDecoder { folder: data("bert"), digested: None, decoder: two }),
    ];
    for (name, start) in starts {
        let settings = Training { batch: 9, learning_rate: 5e-3, ..settings(30) };
        let fitted = fitted(&settings, &start, &pairs, &pairs);
        let dev_loss = fitted.dev_loss.unwrap();
        let (model, codec) = opened(&fitted);
        let (mut sum, mut tokens) = (0.0, 0);
        for pair in &pairs {
            sum -= read(&model, pair, vec![pair.output.clone()]).1;
            tokens += 1 + codec.encode(&pair.output, false).unwrap().len();
        }
        let loss = sum / tokens as f64;
        assert!((loss - dev_loss).abs() < 1e-5, "{name}: {dev_loss}, {loss} by the engine");
    }
    let settings = Training { batch: 9, evaluate_every: 500, ..settings(250) };
    let start = scratch(proofmill_settings::fit::Activation::Relu);
    let (model, _) = opened(&fitted(&settings, &start, &pairs, &[]));
    for pair in &pairs {
        assert_eq!(read(&model, pair, Vec::new()).0, pair.output);
    }
}

#[test]
fn what_a_model_does_not_read_is_refused() {
    let (base, t5) = (settings(1), scratch(proofmill_settings::fit::Activation::Relu));
    let with = |input| vec![Pair { input, ..Pair::new("", "b") }];
    let expected = "training pair 0 has 0 texts as its input; an encoder reads one or, where a decoder stands behind it, \
                    several, and only a decoder-only model learns outputs without an input";
    assert_eq!(refusal(&base, &t5, &with(Input::Nothing), &[]), expected);
    assert_eq!(refusal(&base, &t5, &with(Input::Passages(Vec::new())), &[]), expected);
    let two = with(Input::Passages(vec!["a".to_owned(), "b".to_owned()]));
    assert!(refusal(&base, &decoder(), &two, &[]).contains("has 2 texts as its input"));
    let vectors = Training { objective: Objective::Contrastive, ..base.clone() };
    assert!(refusal(&vectors, &t5, &two, &[]).contains("has 2 texts as its input"));
    let empty = with(Input::Passages(vec!["a".to_owned(), " ".to_owned()]));
    assert!(refusal(&base, &t5, &empty, &[]).contains("pair 0 has an empty input"));
    let long = Pair::new("a ".repeat(500), " b".repeat(600));
    let message =
        refusal(&Training { output_tokens: 2000, ..base.clone() }, &decoder(), &[long], &[]);
    assert!(message.contains("has 1102 tokens, and the model reads at most 1024"), "{message}");
    let policy = Training { objective: Objective::Policy, ..base };
    let message = refusal(&policy, &decoder(), &pairs(), &[]);
    assert!(message.contains("finite reward"), "{message}");
}

#[test]
fn a_decoder_is_the_same_for_any_number_of_threads() {
    let settings = Training { dropout: 0.1, batch: 20, ..settings(6) };
    let of = |threads| -> Fitted {
        run(&settings, &decoder(), (&continued(), &[]), (threads, None), &mut |_, _| ()).unwrap()
    };
    assert!(of(1) == of(3));
}
