//! The bits of an answer depend on the request, the model and the precision alone.

use std::cell::Cell;

use proofmill_engine::backend::Precision;
use proofmill_engine::model::Settings;
use proofmill_engine::request::{Body, RequestError};
use proptest::test_runner::{Config, TestRunner};

use crate::ask::{self, Answered, ask_all};
use crate::mixes::{self, Kind};

/// Every number of an answer, to the bit.
fn bits(answer: &Answered) -> Vec<u64> {
    match answer.as_ref().map(|answer| &answer.body) {
        Ok(Body::Generations(all)) => {
            let numbers = all.iter().flat_map(|one| [one.logprob, one.score]);
            numbers.map(|number| number.map_or(0, f64::to_bits)).collect()
        }
        Ok(Body::Scores(all)) => all.iter().map(|one| one.logprob.to_bits()).collect(),
        Ok(Body::Vector(all)) => all.iter().map(|one| one.to_bits().into()).collect(),
        Ok(Body::Vectors(all)) => all.concat().iter().map(|one| one.to_bits().into()).collect(),
        Ok(Body::Classes(all)) => all.iter().map(|one| one.logit.to_bits().into()).collect(),
        Err(_) => Vec::new(),
    }
}

/// A worker with little room may refuse what one with more does not.
fn is_refused(answer: &Answered) -> bool {
    match answer {
        Err(RequestError::TooLong { .. }) => true,
        Err(RequestError::Invalid(why)) => why.ends_with("is the most"),
        _ => false,
    }
}

/// A tokenizer may have no tokens for the prefix, whatever is requested beside it.
fn cannot_begin(answer: &Answered) -> bool {
    matches!(answer, Err(RequestError::Invalid(why)) if why.ends_with("the answer cannot begin with it"))
}

fn alone_and_together(name: &str, kind: Kind, precision: Precision) {
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    let compared = Cell::new((0, 0));
    let alone = ask::open(name, &Settings { precision, ..ask::settings() });
    let cases = (mixes::mix(kind), mixes::settings(precision));
    let run = TestRunner::new(config).run(&cases, |((requests, order), settings)| {
        let expected: Vec<Answered> = requests.iter().map(|one| ask::ask(&alone, one)).collect();
        let together = ask::open(name, &settings);
        let answers = ask_all(&together, order.iter().map(|&index| &requests[index]));
        for (answer, &index) in answers.iter().zip(&order) {
            let (same, other) = compared.get();
            if cannot_begin(answer) {
                assert_eq!(answer, &expected[index], "{name}: {:?}", requests[index]);
                continue;
            }
            if is_refused(answer) {
                compared.set((same, other + 1));
                continue;
            }
            compared.set((same + 1, other));
            assert!(expected[index].is_ok(), "{:?}: {:?}", requests[index], expected[index]);
            assert_eq!(answer, &expected[index], "{name}: {:?}", requests[index]);
            assert_eq!(bits(answer), bits(&expected[index]), "{name}: {:?}", requests[index]);
        }
        Ok(())
    });
    run.unwrap();
    let (same, refused) = compared.get();
    assert!(same > refused, "{name}: {same} compared, {refused} refused");
}

#[test]
fn decoders_answer_each_request_as_if_it_were_alone() {
    for name in ["gpt2", "llama", "opt", "qwen3"] {
        alone_and_together(name, Kind::Decoder, Precision::F32);
    }
}

#[test]
fn encoder_decoders_answer_each_request_as_if_it_were_alone() {
    for name in ["t5", "flan-t5", "bart", "bart-forced", "bert2bert"] {
        alone_and_together(name, Kind::EncoderDecoder, Precision::F32);
    }
}

#[test]
fn encoders_answer_each_request_as_if_it_were_alone() {
    alone_and_together("bert-sentence", Kind::Encoder, Precision::F32);
}

#[test]
fn small_weights_change_nothing_about_that() {
    alone_and_together("llama", Kind::Decoder, Precision::Int8);
    alone_and_together("t5", Kind::EncoderDecoder, Precision::Int8);
    alone_and_together("bert-sentence", Kind::Encoder, Precision::Int8);
}
