//! Devices with too little memory: models shrink until they fit, passes shrink until they go through,
//! and answers stay what they are.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc;

use proofmill_engine::backend::{DeviceError, Precision};
use proofmill_engine::model::{DeviceFactory, Model, OpenError, Settings};
use proofmill_engine::request::{HiddenRows, Request, RequestError, Strategy};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::ask::{
    Answered, ask, ask_all, blocks, collect, folder, hidden, open, plain, sampled, score, settings,
    submit,
};
use crate::mixes::{self, Kind};
use crate::tight::{Little, Tight};

/// A model with a worker on a device for each of `little`.
fn open_on(name: &str, settings: &Settings, little: &[Little]) -> Result<Model, OpenError> {
    let maker = |(index, &little): (usize, &Little)| -> DeviceFactory<Tight> {
        Box::new(move || Ok(Tight::new(little, 0x9E37_79B9 + index as u64)))
    };
    let makers = little.iter().enumerate().map(maker).collect();
    Model::open_on(&Arc::new(folder(name)), settings, makers)
}

fn is_alone(answer: &Answered) -> bool {
    matches!(answer, Err(RequestError::Failed(why)) if why.contains("even for this request alone"))
}

fn roomy() -> Settings {
    Settings { max_batch_tokens: 512, max_num_seqs: 64, kv_cache_bytes: blocks(4000), ..settings() }
}

/// Random requests, some given up under way, on one or two devices with room for few rows: all that
/// are answered are answered once, as on a device with plenty.
fn disturbed(name: &str, kind: Kind) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let compared = Cell::new((0, 0, 0));
    let undisturbed = open(name, &roomy());
    // Most of what is read in one piece fits.
    let few = if kind == Kind::Decoder { 8usize } else { 40 };
    let rows = prop_oneof![Just(few), few..150];
    let devices = prop::collection::vec((rows, 1u64..60), 1..3);
    let gone = prop::collection::vec(0u8..6, 40);
    let cases = (mixes::mix(kind), devices, gone);
    let run = TestRunner::new(config).run(&cases, |((requests, order), devices, gone)| {
        let little: Vec<Little> = devices
            .iter()
            .map(|&(rows, one_of)| Little { rows, one_of, ..Little::PLENTY })
            .collect();
        let least = little.iter().map(|it| it.rows).min().unwrap_or(0);
        let expected = ask_all(&undisturbed, &requests);
        let model = open_on(name, &roomy(), &little).unwrap();
        let (sender, receiver) = mpsc::channel();
        for &index in &order {
            let cancel = submit(&model, &requests[index], index, &sender);
            if gone[index] == 0 {
                cancel.cancel();
            }
        }
        let answers = collect(&receiver, requests.len());
        drop((model, sender));
        prop_assert!(receiver.recv().is_err(), "somebody was answered twice");
        for ((name, answer), expected) in answers.iter().zip(&expected) {
            let (same, cancelled, alone) = compared.get();
            if *answer == Err(RequestError::Cancelled) {
                prop_assert!(gone[*name] == 0);
                compared.set((same, cancelled + 1, alone));
            } else if is_alone(answer) {
                // Only what is read in one piece can have no room.
                let in_one = match &requests[*name] {
                    Request::Hidden(it) => it.rows != HiddenRows::Last || it.layer != -1,
                    _ => false,
                } || kind != Kind::Decoder;
                let tokens = expected.as_ref().map_or(0, |answer| answer.prompt_tokens as usize);
                prop_assert!(in_one && tokens > least, "{:?}: {answer:?}", requests[*name]);
                compared.set((same, cancelled, alone + 1));
            } else {
                prop_assert_eq!(answer, expected, "{:?}", requests[*name]);
                compared.set((same + 1, cancelled, alone));
            }
        }
        Ok(())
    });
    run.unwrap();
    let (same, cancelled, alone) = compared.get();
    assert!(same > 2 * alone && cancelled > 0, "{name}: {:?}", compared.get());
}

#[test]
fn decoders_answer_the_same_with_little_memory() {
    disturbed("gpt2", Kind::Decoder);
    disturbed("qwen3", Kind::Decoder);
}

#[test]
fn encoder_decoders_answer_the_same_with_little_memory() {
    disturbed("t5", Kind::EncoderDecoder);
}

#[test]
fn encoders_answer_the_same_with_little_memory() {
    disturbed("bert-sentence", Kind::Encoder);
}

#[test]
fn what_never_fits_fails_alone_and_says_what_to_do() {
    let little = Little { rows: 10, ..Little::PLENTY };
    let model = open_on("gpt2", &roomy(), &[little]).unwrap();
    let long = vec!["ba"; 30].join(" ");
    let fits = [
        score(&long, &[" ko", " ne da"]),
        Request::Generate(plain(&long, Strategy::Greedy)),
        Request::Generate(plain("lu", sampled(3, 9))),
        hidden("ba ne"),
        hidden(&long),
    ];
    let requests: Vec<Request> = (0..5)
        .flat_map(|_| fits.clone())
        .chain([Request::Generate(plain("lu", sampled(3, 11)))])
        .collect();
    let answers = ask_all(&model, &requests);
    let plenty = ask_all(&open("gpt2", &roomy()), &requests);
    for (index, (answer, expected)) in answers.iter().zip(&plenty).enumerate() {
        let never = index + 1 == requests.len();
        assert!(if never { is_alone(answer) } else { answer == expected }, "{index}: {answer:?}");
    }
    // And what it learned of one request is no burden to the next.
    assert_eq!(ask_all(&model, &fits), plenty[..5]);
}

#[test]
fn a_model_that_does_not_fit_is_opened_smaller() {
    let wanted = Settings { max_batch_tokens: 500, kv_cache_bytes: blocks(400), ..settings() };
    let little = Little { tensor_rows: 130, blocks: 60, ..Little::PLENTY };
    let model = open_on("opt", &wanted, &[little]).unwrap();
    let limits = model.limits();
    assert_eq!((limits.max_batch_tokens, limits.blocks), (125, 50));
    let request = Request::Generate(plain("ba ne ko", sampled(1, 3)));
    assert_eq!(ask(&model, &request), ask(&open("opt", &wanted), &request));
    // What one of two devices can do is what is requested of both.
    let larger = Little { tensor_rows: 1000, blocks: 1000, ..Little::PLENTY };
    let both = open_on("opt", &wanted, &[larger, little]).unwrap();
    assert_eq!((both.limits().max_batch_tokens, both.limits().blocks), (125, 50));
}

#[test]
fn an_encoder_is_not_opened_without_room_for_its_longest_text() {
    let wanted = Settings { max_batch_tokens: 500, ..settings() };
    let open = |tensor_rows| {
        open_on("bert-sentence", &wanted, &[Little { tensor_rows, ..Little::PLENTY }])
    };
    assert_eq!(open(100).unwrap().limits().max_batch_tokens, 64);
    let error = open(63).unwrap_err();
    assert!(matches!(error, OpenError::NoRoom { max_batch_tokens: 64, tokens: 0, .. }), "{error}");
}

#[test]
fn what_cannot_be_opened_is_an_error_and_ends() {
    let opened = |little: &[Little]| open_on("gpt2", &settings(), little).unwrap_err();
    let error = opened(&[Little::PLENTY, Little { blocks: 3, ..Little::PLENTY }]);
    assert!(matches!(error, OpenError::NoRoom { max_batch_tokens: 64, tokens: 64, .. }), "{error}");
    let error = opened(&[Little { no_weights: true, ..Little::PLENTY }, Little::PLENTY]);
    assert!(matches!(error, OpenError::Weights(_)), "{error}");
    assert!(matches!(opened(&[]), OpenError::Stopped));
    let broken: DeviceFactory<Tight> =
        Box::new(|| Err(DeviceError::Failed("no such device".to_owned())));
    let good: DeviceFactory<Tight> = Box::new(|| Ok(Tight::new(Little::PLENTY, 1)));
    let folder = Arc::new(folder("gpt2"));
    let error = Model::open_on(&folder, &settings(), vec![good, broken]).unwrap_err();
    assert!(error.to_string().contains("no such device"), "{error}");
    let panics: DeviceFactory<Tight> = Box::new(|| panic!("as it should"));
    let good: DeviceFactory<Tight> = Box::new(|| Ok(Tight::new(Little::PLENTY, 1)));
    let error = Model::open_on(&folder, &settings(), vec![panics, good]).unwrap_err();
    assert!(matches!(error, OpenError::Stopped), "{error}");
}

#[test]
fn the_processor_does_not_compute_in_bf16() {
    let wanted = Settings { precision: Precision::Bf16, ..settings() };
    let error = Model::open(&folder("gpt2"), &wanted).unwrap_err();
    assert!(error.to_string().contains("use f32 or int8"), "{error}");
}
