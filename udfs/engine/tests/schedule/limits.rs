//! Too much is refused with a reason, before it costs anything, and neighbours go on.

use proofmill_engine::backend::BLOCK_SLOTS;
use proofmill_engine::model::{Model, OpenError, Settings};
use proofmill_engine::request::{Generate, Prompt, Request, RequestError, Strategy};

use crate::ask::{
    Answered, ask_all, beams, blocks, embed, folder, generations, hidden, open, plain, sampled,
    score, settings,
};

fn words(count: usize) -> String {
    vec!["ba"; count].join(" ")
}

fn too_long(tokens: u32, limit: u32) -> Answered {
    Err(RequestError::TooLong { tokens, limit })
}

fn generate(all: Generate) -> Request {
    Request::Generate(all)
}

/// Asks `refused` between two others, which are answered.
#[track_caller]
fn refuses(model: &Model, refused: &Request, why: &Answered) {
    let other = generate(plain("lu ko", Strategy::Greedy));
    let answers = ask_all(model, [&other, refused, &other]);
    assert_eq!(&answers[1], why);
    assert!(answers[0].is_ok());
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn a_text_has_a_place_for_each_token() {
    let model = open("gpt2", &settings());
    let long = |words_: usize, max_tokens| {
        generate(Generate { max_tokens, ..plain(&words(words_), Strategy::Greedy) })
    };
    // "ba" is two bytes merged, and so is " ba".
    refuses(&model, &long(101, 12), &too_long(113, 112));
    refuses(&model, &long(1, 112), &too_long(113, 112));
    assert!(ask_all(&model, [&long(100, 12)])[0].is_ok());
    refuses(&model, &score(&words(111), &[" ko da"]), &too_long(113, 112));
    assert!(ask_all(&model, [&score(&words(110), &[" ko da"])])[0].is_ok());
    refuses(&model, &hidden(&words(113)), &too_long(113, 112));
}

#[test]
fn an_encoder_reads_a_text_in_one_pass() {
    let small = Settings { max_batch_tokens: 24, ..settings() };
    let model = open("t5", &small);
    // One token is the end.
    refuses(&model, &generate(plain(&words(24), Strategy::Greedy)), &too_long(25, 24));
    refuses(&model, &score(&words(24), &["ko"]), &too_long(25, 24));
    refuses(&model, &hidden(&words(24)), &too_long(25, 24));
    let passages = |texts: &[usize]| {
        let prompt = Prompt::Passages(texts.iter().map(|&count| words(count)).collect());
        generate(Generate { prompt, ..plain("", Strategy::Greedy) })
    };
    refuses(&model, &passages(&[3, 24, 5]), &too_long(25, 24));
    // Each is short enough, and all of them are more than a step.
    assert!(ask_all(&model, [&passages(&[23, 20, 23])])[0].is_ok());
}

#[test]
fn an_encoder_alone_has_places_too() {
    let model = open("bert-sentence", &settings());
    let answers = ask_all(&model, [&embed(&words(300)), &hidden(&words(300)), &embed("ba")]);
    // sentence-transformers cuts what is longer than its folder allows; a hidden state is that of
    // the whole text or of none.
    assert!(answers[0].as_ref().is_ok_and(|it| it.prompt_truncated && it.prompt_tokens == 64));
    assert!(matches!(answers[1], Err(RequestError::TooLong { limit: 64, .. })), "{:?}", answers[1]);
    assert!(answers[2].is_ok());
}

#[test]
fn more_answers_than_lines_are_refused() {
    let model = open("gpt2", &Settings { max_num_seqs: 4, ..settings() });
    let of = |strategy| generate(plain("lu", strategy));
    let many =
        |count| Err(RequestError::Invalid(format!("{count} answers at a time, and 4 is the most")));
    refuses(&model, &of(sampled(0, 5)), &many(5));
    refuses(&model, &of(beams(6)), &many(6));
    refuses(&model, &of(sampled(0, u32::MAX)), &many(u32::MAX));
    assert!(ask_all(&model, [&of(sampled(0, 4)), &of(beams(4))]).iter().all(Result::is_ok));
}

#[test]
fn there_may_be_more_beams_than_tokens() {
    // Two ends: each beam offers 540 of the 500 tokens.
    let model =
        open("llama", &Settings { max_num_seqs: 180, kv_cache_bytes: 64 << 20, ..settings() });
    let answers =
        ask_all(&model, [&generate(Generate { max_tokens: 3, ..plain("lu", beams(180)) })]);
    assert_eq!(generations(answers.into_iter().next().unwrap()).len(), 180);
}

#[test]
fn no_number_is_too_large_to_be_refused() {
    let all = Generate { max_tokens: u32::MAX, ..plain("lu", sampled(0, 16)) };
    let model = open("t5", &settings());
    let answers = ask_all(&model, [&generate(all)]);
    assert!(
        matches!(answers[0], Err(RequestError::TooLong { tokens: u32::MAX, .. })),
        "{answers:?}"
    );
}

#[test]
fn more_continuations_than_a_step_asks_are_refused() {
    let model = open("gpt2", &Settings { max_batch_tokens: 16, ..settings() });
    let of = |count| score("lu", &vec![" ko"; count]);
    let why = "17 continuations of one prompt, and 16 is the most".to_owned();
    refuses(&model, &of(17), &Err(RequestError::Invalid(why)));
    assert!(ask_all(&model, [&of(16), &score("lu", &[])]).iter().all(Result::is_ok));
}

#[test]
fn what_the_cache_cannot_hold_is_refused() {
    let kv_cache_bytes = blocks(6);
    let model = open("opt", &Settings { kv_cache_bytes, ..settings() });
    let room = 6 * BLOCK_SLOTS as u32;
    let long = generate(Generate { max_tokens: 40, ..plain(&words(20), Strategy::Greedy) });
    // 2 blocks of prompt, 3 of answer, and 2 for copies.
    refuses(&model, &long, &too_long(7 * BLOCK_SLOTS as u32, room));
    refuses(&model, &generate(plain("lu", beams(2))), &too_long(7 * BLOCK_SLOTS as u32, room));
    refuses(&model, &score("lu", &[" ba", " ko"]), &too_long(9 * BLOCK_SLOTS as u32, room));
    // A decoder keeps what it reads, whatever is requested.
    refuses(&model, &hidden(&words(100)), &too_long(7 * BLOCK_SLOTS as u32, room));
    refuses(&model, &embed(&words(100)), &too_long(7 * BLOCK_SLOTS as u32, room));
    assert!(ask_all(&model, [&hidden(&words(90))])[0].is_ok());
}

#[test]
fn a_cache_that_holds_no_text_opens_no_model() {
    let settings = Settings { kv_cache_bytes: blocks(3) + 7, ..settings() };
    let error = Model::open(&folder("opt"), &settings).unwrap_err();
    assert!(matches!(error, OpenError::SmallCache { tokens: 48, needed: 64, .. }), "{error}");
}
