//! What several texts begin with is computed once: rows are counted, and numbers do not change.

use std::collections::BTreeSet;

use proofmill_engine::checkpoint::Codec;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::Request;

use crate::ask::{self, ask, ask_all, ask_together, folder, open, score, scores, settings};

const SHOTS: &str = "ba ne ko da vi lu ba xe ko zu vi lu ba ne ko da vi wa ba ne mo da vi lu ba ne ko \
                     ti vi lu ba ne po da vi lu";

/// The tokens of a prompt with each of its continuations, for a decoder.
fn texts(codec: &Codec, prompt: &str, continuations: &[&str]) -> Vec<Vec<u32>> {
    let text = |continuation: &&str| {
        let parts = codec.encode_continuation(prompt, continuation).unwrap();
        [codec.leading(), &parts.context, &parts.continuation].concat()
    };
    continuations.iter().map(text).collect()
}

/// Beginnings that must be read to judge the last tokens of `texts`.
fn beginnings(texts: &[Vec<u32>]) -> BTreeSet<&[u32]> {
    texts.iter().flat_map(|text| (1..text.len()).map(|end| &text[..end])).collect()
}

/// Rows that the decoder computes for `requests`, which it finds in the queue together.
fn rows(model: &Model, requests: &[Request]) -> u64 {
    let gate = rows_of_the_gate(model);
    let before = model.counts().decoder_rows;
    for answer in ask_together(model, requests) {
        answer.unwrap();
    }
    model.counts().decoder_rows - before - gate
}

fn rows_of_the_gate(model: &Model) -> u64 {
    let before = model.counts().decoder_rows;
    ask(model, &ask::hidden("ba")).unwrap();
    model.counts().decoder_rows - before
}

/// Asks one after the other, with something else in between, so that nothing is shared.
fn one_by_one(model: &Model, requests: &[Request]) -> Vec<f64> {
    let other = score("xe", &[" ba"]);
    let alone = |request| {
        ask(model, &other).unwrap();
        scores(ask(model, request))[0].logprob
    };
    requests.iter().map(alone).collect()
}

#[test]
fn choices_behind_one_prefix_cost_a_tenth_and_mean_the_same() {
    const CHOICES: [&str; 4] = [" ba", " ko da", " xe", " vi ne lu"];
    let prompts: Vec<String> = ["lu", "ba ne", "ko", "xe wa", "ti", "mo po"]
        .iter()
        .map(|q| format!("{SHOTS} {q}"))
        .collect();
    let together: Vec<Request> = prompts.iter().map(|prompt| score(prompt, &CHOICES)).collect();
    let apart: Vec<Request> =
        prompts.iter().flat_map(|p| CHOICES.map(|choice| score(p, &[choice]))).collect();
    let codec = Codec::read(&folder("llama")).unwrap();
    let all: Vec<Vec<u32>> = prompts.iter().flat_map(|p| texts(&codec, p, &CHOICES)).collect();

    let model = open("llama", &settings());
    let other = rows(&model, &[score("xe", &[" ba"])]);
    let before = model.counts().decoder_rows;
    let expected = one_by_one(&model, &apart);
    let separate = model.counts().decoder_rows - before - other * apart.len() as u64;
    assert_eq!(separate as usize, all.iter().map(|text| text.len() - 1).sum::<usize>());

    // So that nothing is left of the last one.
    ask(&model, &score("xe", &[" ba"])).unwrap();
    let before = model.counts().decoder_rows;
    let answers = ask_together(&model, &together);
    let shared = model.counts().decoder_rows - before - rows_of_the_gate(&model);
    assert_eq!(shared as usize, beginnings(&all).len());
    assert!(shared * 10 <= separate, "{shared} rows instead of {separate}");
    let found = answers.into_iter().flat_map(scores).map(|it| it.logprob.to_bits());
    assert!(found.eq(expected.iter().map(|logprob| logprob.to_bits())));
}

#[test]
fn a_choice_of_one_token_needs_no_row_of_its_own() {
    let codec = Codec::read(&folder("gpt2")).unwrap();
    let model = open("gpt2", &settings());
    let prompt = codec.encode("lu ko", false).unwrap().len() as u64;
    assert_eq!(rows(&model, &[score("lu ko", &[" ba", " ne", " xe", " ba"])]), prompt);
    // Two tokens and three, of which the first is the same.
    let two = [" ba ne", " ba ko xe"];
    assert_eq!(texts(&codec, "lu ko", &two).map_len(), [prompt + 2, prompt + 3]);
    assert_eq!(rows(&model, &[score("lu ko", &two)]), prompt + 1 + 1);
}

trait MapLen {
    fn map_len(&self) -> Vec<u64>;
}

impl MapLen for Vec<Vec<u32>> {
    fn map_len(&self) -> Vec<u64> {
        self.iter().map(|text| text.len() as u64).collect()
    }
}

#[test]
fn the_next_batch_begins_with_what_the_last_one_kept() {
    let codec = Codec::read(&folder("gpt2")).unwrap();
    let model = open("gpt2", &settings());
    let tokens = |text: &str| codec.encode(text, false).unwrap().len() as u64;
    let shots = tokens(SHOTS);
    assert!(shots > 32);
    assert_eq!(rows(&model, &[score(SHOTS, &[" ba"])]), shots);
    // The row that is asked about is computed again, the others are there.
    assert_eq!(rows(&model, &[score(SHOTS, &[" ne"])]), 1);
    // Two questions behind them: all but themselves is there.
    let both = [format!("{SHOTS} lu ko"), format!("{SHOTS} xe")].map(|it| score(&it, &[" ba"]));
    assert_eq!(rows(&model, &both), tokens(" lu ko") + tokens(" xe"));
    // Only a part of them.
    let parts: Vec<&str> = SHOTS.split(' ').collect();
    let part = parts[..33].join(" ");
    assert_eq!(rows(&model, &[score(&format!("{part} xe xe"), &[" ba"])]), tokens(" xe xe"));
    // Too short a part to be worth it, which ends what was kept.
    let short = format!("{} xe xe", parts[..20].join(" "));
    assert_eq!(rows(&model, &[score(&short, &[" ba"])]), tokens(&short));
    assert_eq!(rows(&model, &[score(SHOTS, &[" ba"])]), shots);
}

#[test]
fn what_was_kept_answers_as_if_it_were_computed() {
    let prompts = ["lu", "lu ko", "xe", "", "ba", "lu ko ti"].map(|it| format!("{SHOTS} {it}"));
    let requests = prompts.map(|it| score(&it, &[" ba ne", " ko", " wa lu mo"]));
    let with = open("gpt2", &settings());
    for request in &requests {
        let kept = scores(ask(&with, request));
        let fresh = scores(ask(&open("gpt2", &settings()), request));
        assert_eq!(kept, fresh);
    }
}

#[test]
fn a_decoder_that_reads_another_text_shares_only_within_it() {
    let model = open("t5", &settings());
    let codec = Codec::read(&folder("t5")).unwrap();
    let before = model.counts();
    let requests = ["ba ne", "ko da vi"].map(|it| score(it, &["ba ne", "ba ko"]));
    for answer in ask_all(&model, &requests) {
        answer.unwrap();
    }
    let counts = model.counts();
    let read: usize =
        ["ba ne", "ko da vi"].map(|it| codec.encode(it, true).unwrap().len()).iter().sum();
    assert_eq!((counts.encoder_rows - before.encoder_rows) as usize, read);
    // Per prompt: the start token and "ba".
    assert_eq!(counts.decoder_rows - before.decoder_rows, 2 * 2);
    assert_eq!(counts.answers - before.answers, 2);
}

#[test]
fn samples_share_their_prompt() {
    let model = open("gpt2", &settings());
    let prompt = Codec::read(&folder("gpt2")).unwrap().encode(SHOTS, false).unwrap().len() as u64;
    let one = ask::plain(SHOTS, ask::sampled(3, 8));
    let before = model.counts().decoder_rows;
    let written: u32 = ask::write(&model, &one).iter().map(|it| it.output_tokens).sum();
    // The last token of an answer is never read.
    assert_eq!(model.counts().decoder_rows - before, prompt + u64::from(written) - 8);
}

#[test]
fn a_prompt_may_be_longer_than_a_step() {
    let small = Settings { max_batch_tokens: 16, ..settings() };
    let requests = [" ba", " ne ko"].map(|it| score(SHOTS, &[it]));
    let answers = ask_all(&open("gpt2", &small), &requests);
    assert_eq!(answers, ask_all(&open("gpt2", &settings()), &requests));
}
