//! One step ahead: on a device that computes while the host goes on, the next step is launched before the
//! tokens of the last are read. The device is the processor, which says that it is such a one.

use std::cell::Cell;
use std::sync::{Arc, mpsc};

use proofmill_engine::backend::Precision;
use proofmill_engine::model::{DeviceFactory, Model, Settings};
use proofmill_engine::request::{
    Finish, Generate, Generation, Request, RequestError, ResponseFormat, Strategy,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::ask::{
    Answered, ask, ask_all, ask_together, beams, blocks, collect, folder, generations, open, plain,
    sampled, settings, submit, write,
};
use crate::mixes::{self, Kind};
use crate::tight::{Event, Little, Log, Tight};

const AHEAD: Little = Little { runs_ahead: true, ..Little::PLENTY };

/// A model on a device that computes while the host goes on, and what is done there.
fn ahead(name: &str, settings: &Settings, little: Little) -> (Model, Log) {
    let log = Log::default();
    let noted = Arc::clone(&log);
    let make: DeviceFactory<Tight> =
        Box::new(move || Ok(Tight::new(little, 0x9E37_79B9).noting(noted)));
    (Model::open_on(&Arc::new(folder(name)), settings, vec![make]).unwrap(), log)
}

/// So many tokens, not fewer.
fn exactly(tokens: u32, generate: Generate) -> Generate {
    Generate { max_tokens: tokens, min_tokens: tokens, ..generate }
}

/// What is noted when `steps` steps are launched each before the last is read.
fn one_ahead(steps: u64) -> Vec<Event> {
    let behind = |step| [Event::Launched(step), Event::Read(step - 1)];
    let first = [Event::Launched(0)].into_iter();
    first.chain((1..steps).flat_map(behind)).chain([Event::Read(steps - 1)]).collect()
}

/// What is noted when each of them is read before the next is launched.
fn one_by_one(steps: u64) -> Vec<Event> {
    (0..steps).flat_map(|step| [Event::Launched(step), Event::Read(step)]).collect()
}

fn noted(log: &Log) -> Vec<Event> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn the_next_step_is_launched_before_the_last_is_read() {
    for (name, strategy) in
        [("gpt2", Strategy::Greedy), ("llama", sampled(3, 4)), ("t5", sampled(5, 1))]
    {
        let (model, log) = ahead(name, &settings(), AHEAD);
        let generate = Generate { logprobs: true, ..exactly(9, plain("ba ne", strategy)) };
        let expected = write(&open(name, &settings()), &generate);
        assert_eq!(write(&model, &generate), expected, "{name}");
        assert_eq!(noted(&log), one_ahead(9), "{name}");
    }
}

#[test]
fn where_the_device_computes_at_once_no_step_is_ahead() {
    let (model, log) = ahead("gpt2", &settings(), Little::PLENTY);
    write(&model, &exactly(5, plain("ba ne", Strategy::Greedy)));
    assert_eq!(noted(&log), one_by_one(5));
}

/// Beams, choices and forms say only when a token is known what may come next.
#[test]
fn who_needs_its_tokens_gets_them_before_the_next_step() {
    let choices = vec![" ba ne ko".to_owned(), " ba ne da vi".to_owned()];
    let form = ResponseFormat::Regex("(ba|ne){6,9}".to_owned());
    let greedy = || plain("vi lu", Strategy::Greedy);
    let needing = [
        exactly(6, plain("vi lu", beams(3))),
        Generate { choices, max_tokens: 20, ..greedy() },
        Generate { response_format: Some(form), ..greedy() },
    ];
    for generate in needing {
        let (model, log) = ahead("gpt2", &settings(), AHEAD);
        let expected = write(&open("gpt2", &settings()), &generate);
        assert_eq!(write(&model, &generate), expected, "{generate:?}");
        let steps = noted(&log);
        assert!(steps.len() > 4, "{generate:?}");
        assert_eq!(steps, one_by_one(steps.len() as u64 / 2), "{generate:?}");
        // As long as it is there, no other goes ahead.
        let other = exactly(20, plain("ko", Strategy::Greedy));
        let both = [generate.clone(), other.clone()].map(Request::Generate);
        ask_together(&model, &both);
        let steps = noted(&log);
        let after = |at: usize| matches!(steps[at..], [Event::Launched(_), Event::Read(_), ..]);
        assert!(after(0) && after(2) && after(4), "{steps:?}");
        let last = &steps[steps.len() - 3..];
        assert!(matches!(last, [Event::Launched(_), Event::Read(_), Event::Read(_)]), "{steps:?}");
    }
}

/// Rows that decoders computed and tokens that were requested, and the answer.
fn counted(model: &Model, generate: &Generate) -> (u64, u64, Vec<Generation>) {
    let before = model.counts();
    let answer = write(model, generate);
    let after = model.counts();
    let rows = after.decoder_rows - before.decoder_rows;
    (rows, after.requested_tokens - before.requested_tokens, answer)
}

#[test]
fn an_answer_that_ends_leaves_a_row_that_counts_as_computed_and_not_as_requested() {
    let stop = |stop: &str| vec![stop.to_owned()];
    let mut early = 0;
    for (name, generate) in [
        ("t5", Generate { stop: stop("u d"), ..plain("si", Strategy::Greedy) }),
        ("t5", Generate { stop: stop("usu da d"), ..plain("si", Strategy::Greedy) }),
        // With the last of all tokens.
        ("t5", Generate { stop: stop("u d"), max_tokens: 4, ..plain("si", Strategy::Greedy) }),
        ("llama", Generate { stop: stop("u d"), ..plain("si", Strategy::Greedy) }),
        ("gpt2", Generate { max_tokens: 40, ..plain("ba ne", sampled(7, 4)) }),
        ("llama", Generate { max_tokens: 60, ..plain("ko", sampled(1, 6)) }),
        ("t5", Generate { max_tokens: 60, ..plain("vi lu", sampled(2, 5)) }),
    ] {
        let (rows, requested, expected) = counted(&open(name, &settings()), &generate);
        let (all_rows, all_requested, answer) =
            counted(&ahead(name, &settings(), AHEAD).0, &generate);
        assert_eq!(answer, expected);
        assert_eq!(all_requested, requested, "{name}: {generate:?}");
        // That the last of all tokens is the last is known before it is read.
        let ended = |it: &&Generation| {
            it.finish != Finish::Length && it.output_tokens < generate.max_tokens
        };
        let ended = answer.iter().filter(ended).count() as u64;
        assert_eq!(all_rows, rows + ended, "{name}: {generate:?}");
        early += ended;
    }
    assert!(early >= 5, "{early} ended early");
}

/// What is kept of an answer is found again, without the row behind its end.
#[test]
fn an_answer_that_ends_is_kept_for_the_next_turn() {
    let mut found = 0;
    // 16 tokens: kept with the answer, or not at all.
    let prompt = ["ba"; 15].join(" ");
    let next = exactly(4, plain(&format!("{prompt} xe"), Strategy::Greedy));
    for seed in 0..40 {
        let first = Generate { max_tokens: 50, ..plain(&prompt, sampled(seed, 1)) };
        let turns = |model: &Model| {
            let (_, requested, answer) = counted(model, &first);
            (requested, answer, counted(model, &next))
        };
        let expected = turns(&open("llama", &settings()));
        assert_eq!(turns(&ahead("llama", &settings(), AHEAD).0), expected, "{first:?}");
        let (rows, requested, _) = expected.2;
        found += u32::from(rows < requested && expected.1[0].finish != Finish::Length);
    }
    assert!(found > 5, "{found} turns began with the one before");
}

#[test]
fn what_is_cancelled_under_way_frees_its_room() {
    let long = |seed| {
        let all = exactly(90, plain("lu ko", sampled(seed, 2)));
        Request::Generate(all)
    };
    // Room for one at a time.
    let little = Settings { max_num_seqs: 2, kv_cache_bytes: blocks(30), ..settings() };
    let (model, _) = ahead("gpt2", &little, AHEAD);
    let (sender, receiver) = mpsc::channel();
    for round in 0..20 {
        let before = model.counts().steps;
        let cancel = submit(&model, &long(round), 0, &sender);
        while model.counts().steps < before + 3 && receiver.try_recv().is_err() {
            std::thread::yield_now();
        }
        cancel.cancel();
    }
    drop(sender);
    let cancelled = receiver.iter().filter(|(_, it)| *it == Err(RequestError::Cancelled)).count();
    assert!(cancelled > 0);
    assert_eq!(ask(&model, &long(7)), ask(&open("gpt2", &settings()), &long(7)));
}

/// Each row behind an end may have begun a block.
#[test]
fn answers_that_end_leave_no_block_behind() {
    let request = |seed: u64| {
        let prompt = vec!["ba"; 1 + seed as usize % 15].join(" ");
        let stop = vec!["a".to_owned()];
        let all = plain(&prompt, sampled(seed, 4));
        Request::Generate(Generate { max_tokens: 64, stop, ..all })
    };
    let requests: Vec<Request> = (0..150).map(request).collect();
    let little = Settings { kv_cache_bytes: blocks(26), ..settings() };
    let answers = ask_all(&ahead("opt", &little, AHEAD).0, &requests);
    let ended = answers.iter().cloned().flat_map(generations);
    let ended = ended.filter(|it| it.finish != Finish::Length && it.output_tokens < 64).count();
    assert!(ended > 26 * 16, "{ended} of {} ended", 4 * requests.len());
    assert_eq!(answers, ask_all(&open("opt", &settings()), &requests));
}

/// One that takes all of `blocks` blocks, or all but very few.
fn hungry(kind: Kind, blocks: usize, sequences: usize) -> Request {
    // The prompt and what an encoder reads have a block each; an answer has two more than its tokens need.
    let read = if kind == Kind::EncoderDecoder { 2 } else { 1 };
    let of = |(count, tokens): &(usize, usize)| read + count * (tokens / 16 + 2);
    let sizes = (1..=sequences).flat_map(|count| (1..=5).map(move |all| (count, 16 * all)));
    let (count, tokens) = sizes.filter(|size| of(size) <= blocks).max_by_key(of).unwrap();
    let all = plain("ba", sampled(3, count as u32));
    Request::Generate(Generate { max_tokens: tokens as u32, ..all })
}

fn is_refused(answer: &Answered) -> bool {
    match answer {
        Err(RequestError::TooLong { .. }) => true,
        Err(RequestError::Invalid(why)) => why.ends_with("is the most"),
        _ => false,
    }
}

/// Random requests in a small cache, some of them cancelled, on a device that computes while the host goes on and
/// fails now and then: all that are answered are answered as by the processor, and all blocks are free in the end.
fn mixed(name: &str, kind: Kind) {
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let compared = Cell::new((0, 0));
    let roomy = Settings {
        max_batch_tokens: 512,
        max_num_seqs: 64,
        kv_cache_bytes: blocks(4000),
        ..settings()
    };
    let plenty = open(name, &roomy);
    let fails = prop_oneof![Just(u64::MAX), 3u64..40];
    let gone = prop::collection::vec(0u8..8, 40);
    let cases = (mixes::mix(kind), mixes::settings(Precision::F32), gone, fails, any::<bool>());
    let run = TestRunner::new(config).run(&cases, |((requests, order), wanted, gone, one_of, late)| {
        let expected = ask_all(&plenty, &requests);
        let wanted = Settings { workers: 1, kv_cache_bytes: wanted.kv_cache_bytes / wanted.workers, ..wanted };
        // Passes that cannot be smaller never fail: an encoder reads a text in one piece.
        let rows = if kind == Kind::Decoder { 8 } else { 100 };
        let (model, log) = ahead(name, &wanted, Little { rows, one_of, late, ..AHEAD });
        let (sender, receiver) = mpsc::channel();
        for &index in &order {
            let cancel = submit(&model, &requests[index], index, &sender);
            if gone[index] == 0 {
                cancel.cancel();
            }
        }
        for (index, answer) in collect(&receiver, requests.len()) {
            let alone = matches!(&answer, Err(RequestError::Failed(why)) if why.contains("request alone"));
            if is_refused(&answer) || answer == Err(RequestError::Cancelled) || alone {
                let fine = !alone || one_of < u64::MAX;
                prop_assert!(fine, "{:?}: {answer:?}", requests[index]);
            } else {
                compared.set((compared.get().0 + 1, compared.get().1));
                prop_assert_eq!(&answer, &expected[index], "{:?}", requests[index]);
            }
        }
        let limits = model.limits();
        let last = hungry(kind, limits.blocks, limits.max_num_seqs.min(limits.max_batch_tokens).min(8));
        prop_assert_eq!(ask(&model, &last), ask(&plenty, &last));
        let log = noted(&log);
        let ahead = log.windows(2).filter(|it| matches!(it, [Event::Launched(_), Event::Launched(_)]));
        compared.set((compared.get().0, compared.get().1 + ahead.count()));
        Ok(())
    });
    run.unwrap();
    let (same, ahead) = compared.get();
    assert!(same > 150 && ahead > 30, "{name}: {same} compared, {ahead} times ahead");
}

#[test]
fn decoders_answer_the_same_one_step_ahead() {
    for name in ["opt", "llama", "qwen3"] {
        mixed(name, Kind::Decoder);
    }
}

#[test]
fn encoder_decoders_answer_the_same_one_step_ahead() {
    for name in ["t5", "bart-forced"] {
        mixed(name, Kind::EncoderDecoder);
    }
}

/// Prompts that share a beginning, when the step that reads it turns out to have failed.
#[test]
fn nothing_is_kept_of_a_step_that_fails_late() {
    let prompt = |at: usize| {
        let end = ["ba", "lu", "xe", "ko da", "wa"][at % 5];
        format!("ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu {end}")
    };
    let requests: Vec<Request> =
        (0..40).map(|at| Request::Generate(plain(&prompt(at), Strategy::Greedy))).collect();
    let expected = ask_all(&open("llama", &settings()), &requests);
    for one_of in 2..6 {
        let (model, _) =
            ahead("llama", &settings(), Little { rows: 4, one_of, late: true, ..AHEAD });
        let answers = ask_together(&model, &requests);
        for (answer, expected) in answers.into_iter().zip(&expected) {
            assert_eq!(generations(answer), generations(expected.clone()), "one of {one_of}");
        }
    }
}
