//! Everybody gets an answer, however little room there is.

use std::sync::mpsc;

use proofmill_engine::model::Settings;
use proofmill_engine::request::{Generate, Request, Strategy};

use crate::ask::{
    ask_all, ask_together, beams, blocks, collect, hidden, open, plain, sampled, score, settings,
    submit,
};

const SHOTS: &str = "ba ne ko da vi lu ba xe ko zu vi lu ba ne ko da vi wa ba ne mo da vi lu ba ne ko \
                     ti vi lu ba ne po da";

/// Requests of all kinds that fit a cache of 12 blocks, each alone.
fn crowd() -> Vec<Request> {
    let judged = |number: usize| {
        let question = ["lu", "ne", "xe", "ko da", "wa"][number % 5];
        score(&format!("{SHOTS} {question}"), &[" ba"])
    };
    let written = |number: usize| {
        let strategy = [Strategy::Greedy, sampled(number as u64, 3), beams(2)][number % 3];
        let prompt = ["ba ko", "vi lu da ne", "xe"][number % 3];
        Request::Generate(Generate { max_tokens: 10, ..plain(prompt, strategy) })
    };
    let long = |_| Request::Generate(Generate { max_tokens: 60, ..plain(SHOTS, Strategy::Greedy) });
    let measured = |number: usize| hidden(&SHOTS[..2 + 3 * (number % 30)]);
    let kinds: [&dyn Fn(usize) -> Request; 4] = [&judged, &written, &long, &measured];
    (0..120).map(|number| kinds[number * 7 % 4](number)).collect()
}

#[test]
fn tiny_caches_answer_long_queues() {
    let crowd = crowd();
    let expected = ask_all(&open("opt", &settings()), &crowd);
    assert!(expected.iter().all(Result::is_ok));
    for (workers, max_batch_tokens, max_num_seqs, room) in
        [(1, 64, 3, 12), (2, 100, 8, 12), (3, 256, 64, 20)]
    {
        let kv_cache_bytes = blocks(room) * workers;
        let model = open(
            "opt",
            &Settings { workers, max_batch_tokens, max_num_seqs, kv_cache_bytes, ..settings() },
        );
        assert_eq!(ask_all(&model, &crowd), expected, "{workers} workers, {room} blocks");
    }
}

/// One that needs all 12 blocks.
fn hungry() -> Request {
    let all = Generate { max_tokens: 64, ..plain(SHOTS, Strategy::Greedy) };
    Request::Generate(Generate { max_tokens: 96 - 36 + 16, ..all })
}

#[test]
fn what_was_kept_gives_way_to_what_waits() {
    let model = open("opt", &Settings { kv_cache_bytes: blocks(12), ..settings() });
    let judged = score(&format!("{SHOTS} lu"), &[" ba", " ne"]);
    // The first leaves a beginning of several blocks behind; the second needs nearly all of them.
    let alternating: Vec<Request> = (0..20).flat_map(|_| [judged.clone(), hungry()]).collect();
    for request in &alternating {
        assert!(ask_all(&model, [request])[0].is_ok());
    }
    // And both at once, whoever comes first.
    let answers = ask_together(&model, &alternating);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(answers.chunks(2).all(|pair| pair == &answers[..2]));
}

#[test]
fn judging_waits_for_writers_that_hold_the_cache() {
    let model = open("opt", &Settings { kv_cache_bytes: blocks(12), ..settings() });
    let (sender, receiver) = mpsc::channel();
    let judged = score(&format!("{SHOTS} lu"), &[" ba", " ne"]);
    for round in 0..10 {
        submit(&model, &hungry(), 2 * round, &sender);
        submit(&model, &judged, 2 * round + 1, &sender);
    }
    assert!(collect(&receiver, 20).iter().all(|(_, answer)| answer.is_ok()));
}

#[test]
fn many_passages_take_turns() {
    use proofmill_engine::request::Prompt;
    let fused = |number: usize| {
        let words = ["ba ne ko", "vi lu", "xe zu wa da ne ko lu vi ba"];
        let passages = (0..4).map(|p| words[(number + p) % 3].to_owned()).collect();
        let prompt = Prompt::Passages(passages);
        Request::Generate(Generate { prompt, ..plain("", sampled(number as u64, 2)) })
    };
    let judged = |number: usize| score(["ba ne", "xe"][number % 2], &["ko", "lu da", "ko vi"]);
    let requests: Vec<Request> = (0..40)
        .map(|number| if number % 3 == 0 { judged(number) } else { fused(number) })
        .collect();
    let expected = ask_all(&open("t5", &settings()), &requests);
    assert!(expected.iter().all(Result::is_ok));
    // t5's heads are narrower than what `blocks` counts, so these are 25.
    let kv_cache_bytes = blocks(20);
    let small = Settings { max_batch_tokens: 16, max_num_seqs: 4, kv_cache_bytes, ..settings() };
    assert_eq!(ask_all(&open("t5", &small), &requests), expected);
}
