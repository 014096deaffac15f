//! What several texts begin with is computed once: rows are counted, and numbers do not change.

use std::collections::BTreeSet;

use proofmill_engine::checkpoint::Codec;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{Generate, Prompt, Request, Strategy};

use crate::ask::{
    self, Answered, ask, ask_all, ask_together, folder, open, score, scores, settings,
};

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

/// Asks each of a model of its own, so that nothing is shared: the answers, and the rows of all.
fn one_by_one(name: &str, requests: &[Request]) -> (Vec<Answered>, u64) {
    let alone = |request| {
        let model = open(name, &settings());
        (ask(&model, request), model.counts().decoder_rows)
    };
    let (answers, rows): (Vec<Answered>, Vec<u64>) = requests.iter().map(alone).unzip();
    (answers, rows.iter().sum())
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
    let (expected, separate) = one_by_one("llama", &apart);
    assert_eq!(separate as usize, all.iter().map(|text| text.len() - 1).sum::<usize>());

    let before = model.counts();
    let answers = ask_together(&model, &together);
    let counts = model.counts();
    let gate = rows_of_the_gate(&model);
    let shared = counts.decoder_rows - before.decoder_rows - gate;
    assert_eq!(counts.requested_tokens - before.requested_tokens - gate, separate);
    assert_eq!(shared as usize, beginnings(&all).len());
    assert!(shared * 10 <= separate, "{shared} rows instead of {separate}");
    let bits = |answers: Vec<Answered>| -> Vec<u64> {
        answers.into_iter().flat_map(scores).map(|it| it.logprob.to_bits()).collect()
    };
    assert_eq!(bits(answers), bits(expected));
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
    // The row that is requested is computed again, the others are there.
    assert_eq!(rows(&model, &[score(SHOTS, &[" ne"])]), 1);
    // Two questions behind them: all but themselves is there.
    let both = [format!("{SHOTS} lu ko"), format!("{SHOTS} xe")].map(|it| score(&it, &[" ba"]));
    assert_eq!(rows(&model, &both), tokens(" lu ko") + tokens(" xe"));
    // Only a part of them.
    let parts: Vec<&str> = SHOTS.split(' ').collect();
    let part = parts[..33].join(" ");
    assert_eq!(rows(&model, &[score(&format!("{part} xe xe"), &[" ba"])]), tokens(" xe xe"));
    // Too short a part to be worth it; the rest stays.
    let short = format!("{} xe xe", parts[..10].join(" "));
    assert_eq!(rows(&model, &[score(&short, &[" ba"])]), tokens(&short));
    assert_eq!(rows(&model, &[score(SHOTS, &[" ba"])]), 1);
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

const QUESTIONS: [&str; 6] = ["lu", "ba ne", "ko", "xe wa", "ti", "mo po"];

/// Prompts of some length behind the same demonstrations, each with its own question.
fn few_shot(count: usize) -> Vec<String> {
    let question =
        |at: usize| [QUESTIONS[at % 6], QUESTIONS[at / 6 % 6], QUESTIONS[at / 36 % 6]].join(" ");
    (0..count).map(|at| format!("{SHOTS} {SHOTS} {SHOTS} {}", question(at))).collect()
}

/// Tokens that all of `prompts` begin with, and those that each has of its own.
fn shared_and_own(name: &str, prompts: &[String]) -> (u64, u64) {
    let codec = Codec::read(&folder(name)).unwrap();
    let texts: Vec<Vec<u32>> = prompts.iter().map(|it| codec.encode(it, true).unwrap()).collect();
    let alike = |end: &usize| texts.iter().all(|text| text[..*end] == texts[0][..*end]);
    let shared = (0..=texts.iter().map(Vec::len).min().unwrap()).take_while(alike).last().unwrap();
    (shared as u64, texts.iter().map(|text| (text.len() - shared) as u64).sum())
}

fn written(answers: &[Answered]) -> u64 {
    let all = answers.iter().cloned().flat_map(ask::generations);
    // The last token of an answer is never read.
    all.map(|one| u64::from(one.output_tokens) - 1).sum()
}

/// At most 5 % more than what is shared, once, and what everybody has of its own.
fn about(rows: u64, (shared, own): (u64, u64)) -> bool {
    rows >= shared && rows * 20 <= (shared + own) * 21
}

#[test]
fn generations_behind_the_same_demonstrations_read_them_once() {
    for name in ["llama", "qwen2"] {
        let prompts = few_shot(120);
        let greedy =
            |text: &String| Generate { max_tokens: 4, ..ask::plain(text, Strategy::Greedy) };
        let requests: Vec<Request> = prompts.iter().map(greedy).map(Request::Generate).collect();
        let model = open(name, &settings());
        let gate = rows_of_the_gate(&model);
        let before = model.counts();
        let answers = ask_together(&model, &requests);
        let counts = model.counts();
        let rows = counts.decoder_rows - before.decoder_rows - gate;
        let (shared, own) = shared_and_own(name, &prompts);
        assert!(shared > 100);
        let own = own + written(&answers);
        assert!(about(rows, (shared, own)), "{name}: {rows} rows, {shared} + {own} tokens");
        let (alone, separate) = one_by_one(name, &requests);
        assert_eq!(answers, alone);
        assert_eq!(counts.requested_tokens - before.requested_tokens - gate, separate);
        assert!(rows * 5 < separate, "{name}: {rows} rows instead of {separate}");
        // The next batch finds what the last one left.
        let next = format!("{SHOTS} {SHOTS} {SHOTS} wa wa");
        let next = Request::Generate(greedy(&next));
        let before = model.counts().decoder_rows;
        assert_eq!(ask(&model, &next), one_by_one(name, &[next]).0[0]);
        assert!(model.counts().decoder_rows - before < 10);
    }
}

#[test]
fn hidden_states_behind_the_same_demonstrations_read_them_once() {
    let prompts = few_shot(150);
    for (name, vector) in [("llama", ask::hidden as fn(&str) -> Request), ("qwen3", ask::embed)] {
        let requests: Vec<Request> = prompts.iter().map(|it| vector(it)).collect();
        let model = open(name, &settings());
        let (rows, tokens) = (rows(&model, &requests), shared_and_own(name, &prompts));
        assert!(about(rows, tokens), "{name}: {rows} rows, {tokens:?} tokens");
        // In steps of a part of the shared beginning.
        let max_batch_tokens = if name == "llama" { 40 } else { 128 };
        let model = open(name, &Settings { max_batch_tokens, ..settings() });
        let (found, alone) = (ask_together(&model, &requests), one_by_one(name, &requests).0);
        assert!(found == alone, "{name}: in steps of {max_batch_tokens} tokens");
    }
}

#[test]
fn the_next_turn_of_a_chat_begins_with_the_last_one() {
    let model = open("llama", &settings());
    let mut chat = format!("{SHOTS} lu");
    for turn in 0..4 {
        let (before, old) = (model.counts().decoder_rows, chat.clone());
        let generate = Generate { max_tokens: 20, ..ask::plain(&chat, ask::sampled(turn, 1)) };
        let answer = ask(&model, &Request::Generate(generate.clone()));
        assert_eq!(answer, ask(&open("llama", &settings()), &Request::Generate(generate)));
        let new = u64::from(ask::generations(answer.clone())[0].output_tokens);
        let rows = model.counts().decoder_rows - before;
        // But for where a tokenizer reads an answer otherwise than it was written.
        assert!(
            turn == 0 || rows < new + shared_and_own("llama", &[old]).0 / 2,
            "{turn}: {rows} rows"
        );
        chat = format!("{chat}{} ba ne", ask::generations(answer)[0].text);
    }
}

#[test]
fn what_was_shared_is_evicted_where_others_need_its_blocks() {
    let prompts: Vec<String> = (0..60)
        .map(|at| format!("{} {SHOTS} {}", QUESTIONS[at % 6], QUESTIONS[at / 6 % 6]))
        .collect();
    let requests: Vec<Request> = prompts
        .iter()
        .enumerate()
        .map(|(at, text)| match at % 3 {
            0 => ask::hidden(text),
            1 => score(text, &[" ba", " ko da"]),
            _ => Request::Generate(ask::plain(text, ask::sampled(at as u64, 2))),
        })
        .collect();
    let expected = one_by_one("llama", &requests).0;
    for blocks in [13, 20, 33] {
        // Two layers, two heads of eight numbers for keys and as many for values.
        let model = open("llama", &Settings { kv_cache_bytes: ask::blocks(blocks), ..settings() });
        for _ in 0..3 {
            assert_eq!(ask_together(&model, &requests), expected, "{blocks} blocks");
        }
    }
}

#[test]
fn a_text_is_encoded_once_for_all_who_read_it() {
    let model = open("t5", &settings());
    let codec = Codec::read(&folder("t5")).unwrap();
    let read = |text: &str| codec.encode(text, true).unwrap().len() as u64;
    let encoded = |requests: &[Request]| {
        let before = model.counts().encoder_rows;
        let answers = ask_together(&model, requests);
        let gate = model.counts().encoder_rows - before;
        let alone: Vec<Answered> =
            requests.iter().map(|one| ask(&open("t5", &settings()), one)).collect();
        assert_eq!(answers, alone);
        gate - read("ba")
    };
    let same: Vec<Request> = (0..9)
        .map(|seed| Request::Generate(ask::plain("ko da vi lu", ask::sampled(seed, 2))))
        .chain([score("ko da vi lu", &["ba", "ne ko"])])
        .collect();
    assert_eq!(encoded(&same), read("ko da vi lu"));
    // Passages that several read, in another order and in another batch.
    let fused = |passages: &[&str]| {
        let prompt = Prompt::Passages(passages.iter().map(|&it| it.to_owned()).collect());
        Request::Generate(Generate { prompt, ..ask::plain("", Strategy::Greedy) })
    };
    let both = [fused(&["ko da vi lu", "xe zu"]), fused(&["xe zu", "ba ne", "xe zu"])];
    assert_eq!(encoded(&both), read("xe zu") + read("ba ne"));
    assert_eq!(encoded(&both), 0);
}
