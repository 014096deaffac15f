//! Many requests at once on the emulator: the bits of an answer do not depend on who else asks, nor on
//! how large steps are; and in f32 the tokens are the processor's.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use proofmill_engine::backend::Precision;
use proofmill_engine::cuda::Gpu;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Generate, Request, Strategy};

use crate::ask::{self, Answered, beams, embed, hidden, plain, sampled, score};
use crate::emulator::{Emulator, Order};

/// The emulator is slow, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(600);

fn settings(precision: Precision, max_batch_tokens: usize, max_num_seqs: usize) -> Settings {
    let kv_cache_bytes = ask::blocks(96);
    Settings { precision, max_batch_tokens, max_num_seqs, kv_cache_bytes, ..Settings::for_cores(1) }
}

/// A tiny model on an emulated GPU.
fn open(emulator: &Emulator, name: &str, settings: &Settings) -> Model {
    let (emulator, precision) = (emulator.clone(), settings.precision);
    let make = Box::new(move || Ok(Gpu::new(emulator, precision)));
    Model::open_on(&Arc::new(ask::folder(name)), settings, vec![make]).unwrap()
}

/// The answers to all, requested at once.
fn together(model: &Model, requests: &[Request]) -> Vec<Answered> {
    let (sender, receiver) = mpsc::channel();
    for (name, request) in requests.iter().enumerate() {
        ask::submit(model, request, name, &sender);
    }
    let next = |_| receiver.recv_timeout(PATIENCE).expect("no answer");
    let mut answers: Vec<_> = requests.iter().map(next).collect();
    answers.sort_by_key(|(name, _)| *name);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The same, each requested when the one before is answered.
fn alone(model: &Model, requests: &[Request]) -> Vec<Answered> {
    let one = |request| together(model, std::slice::from_ref(request)).remove(0);
    requests.iter().map(one).collect()
}

fn generate(prompt: &str, strategy: Strategy, max_tokens: u32) -> Request {
    Request::Generate(Generate { max_tokens, ..plain(prompt, strategy) })
}

/// A few of each kind; prompts that share beginnings, and one longer than a small step.
fn requests() -> Vec<Request> {
    let long = "ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu xe";
    let cut = Strategy::Sample { temperature: 0.8, top_k: 20, top_p: 0.9, seed: 3, samples: 1 };
    vec![
        generate("ba ne ko", Strategy::Greedy, 6),
        generate("ba ne ko da", beams(3), 4),
        generate("vi lu", sampled(5, 2), 4),
        generate(long, Strategy::Greedy, 3),
        generate("xe ba", cut, 5),
        score("ba ne", &[" ko da", " ko vi lu", " xe"]),
        score(long, &[" ba", " ne ko"]),
        hidden("koda vilu xe"),
        embed("ba ne ko da vi"),
    ]
}

/// All that an answer says, each number so that other bits are another text.
fn bits(answers: &[Answered]) -> Vec<String> {
    answers.iter().map(|answer| format!("{:?}", answer.as_ref().expect("an answer"))).collect()
}

fn answers_are_the_same(name: &str, precision: Precision) {
    let requests = requests();
    let Some(emulator) = Emulator::start() else { return };
    let expected = bits(&alone(&open(&emulator, name, &settings(precision, 256, 16)), &requests));
    assert!(!expected.iter().any(|answer| answer.contains("NaN")), "{expected:?}");
    for (max_batch_tokens, max_num_seqs, order) in
        [(64, 16, Order::Forward), (24, 4, Order::Drawn(29)), (256, 16, Order::Reversed)]
    {
        let Some(emulator) = Emulator::start_in(order) else { return };
        let model = open(&emulator, name, &settings(precision, max_batch_tokens, max_num_seqs));
        let answers = bits(&together(&model, &requests));
        for ((ours, theirs), request) in answers.iter().zip(&expected).zip(&requests) {
            assert_eq!(ours, theirs, "{name}, steps of {max_batch_tokens}: {request:?}");
        }
    }
}

#[test]
fn a_decoder_answers_each_as_if_it_were_alone() {
    answers_are_the_same("llama", Precision::Bf16);
}

#[test]
fn an_encoder_decoder_answers_each_as_if_it_were_alone() {
    answers_are_the_same("t5", Precision::Bf16);
}

#[test]
fn in_f32_the_tokens_are_those_of_the_processor() {
    let Some(emulator) = Emulator::start() else { return };
    let texts = ["ba ne ko", "vi lu ba ne ko da", "xe"];
    let requests = texts.map(|text| generate(text, Strategy::Greedy, 6));
    for name in ["gpt2", "flan-t5"] {
        let settings = settings(Precision::F32, 64, 8);
        let ours = together(&open(&emulator, name, &settings), &requests);
        let theirs = together(&ask::open(name, &settings), &requests);
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let (ours, theirs) = (ask::generations(ours), ask::generations(theirs));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert_eq!(ours.text, theirs.text, "{name}");
                let apart = ours.logprob.unwrap() - theirs.logprob.unwrap();
                assert!(apart.abs() < 1e-3, "{name}: {apart}");
            }
        }
    }
}
