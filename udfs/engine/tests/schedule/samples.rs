//! A sample depends on its seed, its request, its number and its step, and on nothing else.

use std::collections::BTreeSet;

use proofmill_engine::model::Settings;
use proofmill_engine::request::{Finish, Generate, Generation, Request, Strategy};

use crate::ask::{ask_all, generations, open, plain, sampled, settings, write};

/// Long enough for two samples to differ.
fn sample(seed: u64, samples: u32) -> Generate {
    Generate { min_tokens: 8, ..plain("lu ko da", sampled(seed, samples)) }
}

fn texts(generations: &[Generation]) -> BTreeSet<&str> {
    generations.iter().map(|one| &one.text[..]).collect()
}

#[test]
fn samples_differ_from_each_other_and_with_their_seed() {
    for name in ["gpt2", "t5"] {
        let model = open(name, &settings());
        let first = write(&model, &sample(1, 16));
        assert_eq!(texts(&first).len(), 16, "{name}");
        let second = write(&model, &sample(2, 16));
        assert!(texts(&first).is_disjoint(&texts(&second)), "{name}");
        assert_eq!(write(&model, &sample(1, 16)), first);
    }
}

#[test]
fn a_request_has_samples_of_its_own() {
    let model = open("gpt2", &settings());
    let one = sample(1, 4);
    // The same to the model, but another request: its digest makes the noise.
    let other = Generate { stop: vec!["never said".to_owned()], ..one.clone() };
    assert!(texts(&write(&model, &one)).is_disjoint(&texts(&write(&model, &other))));
}

/// The digest names the request, and it says how many samples are wanted; so the key is given here.
#[test]
fn the_first_samples_of_many_are_those_of_few() {
    use proofmill_engine::schedule::Cancel;
    use std::sync::mpsc;

    let model = open("gpt2", &Settings { max_batch_tokens: 20, ..settings() });
    let ask = |samples| {
        let (sender, receiver) = mpsc::channel();
        let reply = Box::new(move |answer| sender.send(answer).unwrap());
        model.submit(&Request::Generate(sample(5, samples)), [7; 32], reply, Cancel::default());
        generations(receiver.recv().unwrap())
    };
    let many = ask(16);
    for few in [1, 2, 7] {
        assert_eq!(ask(few), many[..few as usize]);
    }
}

#[test]
fn a_cold_sample_is_greedy_and_so_is_one_of_a_single_token() {
    let model = open("llama", &settings());
    let greedy = write(&model, &plain("lu ko da", Strategy::Greedy));
    for (temperature, top_k, top_p) in [(1e-4, 0, 1.0), (1.0, 1, 1.0), (1.0, 0, 1e-6)] {
        let strategy = Strategy::Sample { temperature, top_k, top_p, seed: 3, samples: 2 };
        let samples = write(&model, &plain("lu ko da", strategy));
        assert_eq!(samples, [greedy.clone(), greedy.clone()].concat());
    }
}

#[test]
fn each_sample_ends_where_it_ends() {
    let model = open("gpt2", &settings());
    let all = Generate { max_tokens: 30, ..plain("lu", sampled(3, 16)) };
    let samples = write(&model, &all);
    let ended = samples.iter().filter(|one| one.finish == Finish::End).count();
    assert!((1..16).contains(&ended), "{ended} ended");
    for one in &samples {
        assert!(one.finish == Finish::End || one.output_tokens == 30, "{one:?}");
        assert!(one.logprob.unwrap() < 0.0 && one.score.is_none());
    }
    // Requested in a crowd they are the same.
    let crowd = vec![Request::Generate(all); 5];
    for answer in ask_all(&model, &crowd) {
        assert_eq!(generations(answer), samples);
    }
}
