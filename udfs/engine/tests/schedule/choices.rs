//! Answers that are held to some texts.

use proofmill_engine::request::{Finish, Generate, Request, RequestError, Score, Strategy};

use crate::ask::{ask, ask_all, beams, generations, open, plain, sampled, scores, settings, write};

const TEXTS: [&str; 6] = [" ba", " ba ne", " koda vilu", " xe", " xezu", " dodo lu"];

fn among(texts: &[&str], prompt: &str, strategy: Strategy) -> Generate {
    let choices = texts.iter().map(|&text| text.to_owned()).collect();
    Generate { choices, ..plain(prompt, strategy) }
}

/// The log-probabilities of texts with their ends.
fn judged(model: &proofmill_engine::model::Model, prompt: &str, texts: &[&str]) -> Vec<f64> {
    let request = Request::Score(Score {
        prompt: prompt.to_owned(),
        truncate: None,
        continuations: texts.iter().map(|&text| text.to_owned()).collect(),
        include_eos: true,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    });
    scores(ask(model, &request)).iter().map(|one| one.logprob).collect()
}

#[test]
fn an_answer_is_one_of_the_texts() {
    for name in
        ["gpt2", "llama", "opt", "qwen3", "t5", "flan-t5", "bart", "bart-forced", "bert2bert"]
    {
        let model = open(name, &settings());
        let strategies = [Strategy::Greedy, sampled(1, 16), beams(2), beams(6)];
        for (strategy, prefix) in strategies.into_iter().flat_map(|it| [(it, ""), (it, "mo")]) {
            let all = among(&TEXTS, "lu ko da", strategy);
            for answer in write(&model, &Generate { prefix: prefix.to_owned(), ..all }) {
                let text = answer.text.strip_prefix(prefix).unwrap();
                assert!(TEXTS.contains(&text), "{name} {strategy:?}: {answer:?}");
                assert_eq!(answer.finish, Finish::End, "{name} {strategy:?}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_text_is_answered_as_it_was_given() {
    // To this tokenizer all but the letters of these is nothing.
    let model = open("t5", &settings());
    for text in ["  ba  ne", "ba\u{fb01}", "ba ne  ko"] {
        assert_eq!(write(&model, &among(&[text], "lu", Strategy::Greedy))[0].text, text);
    }
}

#[test]
fn enough_beams_find_the_likeliest_text() {
    for name in ["gpt2", "opt", "t5", "bart"] {
        let model = open(name, &settings());
        let strategy =
            Strategy::Beam { beams: 6, answers: 6, length_penalty: 0.0, early_stopping: false };
        for prompt in ["lu ko da", "xe", "mo po ti wa"] {
            let logprobs = judged(&model, prompt, &TEXTS);
            let mut order: Vec<usize> = (0..TEXTS.len()).collect();
            order.sort_by(|&a, &b| logprobs[b].total_cmp(&logprobs[a]));
            let answers = write(&model, &among(&TEXTS, prompt, strategy));
            assert!(!answers.is_empty());
            for (answer, &index) in answers.iter().zip(&order) {
                assert_eq!(answer.text, TEXTS[index], "{name} {prompt}");
                assert!((answer.logprob.unwrap() - logprobs[index]).abs() < 1e-4);
            }
        }
    }
}

#[test]
fn greedily_the_likeliest_of_single_tokens_is_taken() {
    const SINGLE: [&str; 5] = [" ba", " ko", " xe", " du", " ne"];
    for name in ["gpt2", "llama"] {
        let model = open(name, &settings());
        let one = among(&SINGLE, "lu ko da", Strategy::Greedy);
        let answer = write(&model, &one).remove(0);
        let logprobs = judged(&model, "lu ko da", &SINGLE);
        let request = crate::ask::score("lu ko da", &SINGLE);
        let first = scores(ask(&model, &request));
        let best = (0..5).max_by(|&a, &b| first[a].logprob.total_cmp(&first[b].logprob)).unwrap();
        assert_eq!(answer.text, SINGLE[best]);
        // To the bit: the same tokens under the same distribution.
        if name == "gpt2" {
            assert_eq!(answer.logprob, Some(logprobs[best]));
        }
        // Only the end may be cut.
        let cut = write(&model, &Generate { max_tokens: 1, ..one }).remove(0);
        assert_eq!((&cut.text[..], cut.finish), (SINGLE[best], Finish::Length));
        assert_eq!(cut.logprob, Some(first[best].logprob));
    }
}

#[test]
fn samples_among_texts_follow_the_model() {
    const SINGLE: [&str; 3] = [" ba", " ko", " xe"];
    let model = open("gpt2", &settings());
    let first = scores(ask(&model, &crate::ask::score("lu", &SINGLE)));
    let weights: Vec<f64> = first.iter().map(|one| one.logprob.exp()).collect();
    let total: f64 = weights.iter().sum();
    let requests: Vec<Request> =
        (0..125).map(|seed| Request::Generate(among(&SINGLE, "lu", sampled(seed, 16)))).collect();
    let mut counts = [0.0; 3];
    for answer in ask_all(&model, &requests) {
        for one in generations(answer) {
            counts[SINGLE.iter().position(|&text| text == one.text).unwrap()] += 1.0;
        }
    }
    for (count, weight) in counts.iter().zip(&weights) {
        // Four standard deviations of 2000 draws.
        assert!((count / 2000.0 - weight / total).abs() < 0.045, "{counts:?} {weights:?}");
    }
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let model = open("gpt2", &settings());
    let all = Generate { max_tokens: 2, ..among(&TEXTS, "lu", Strategy::Greedy) };
    let why =
        "\" koda vilu\" of `choices` has 4 tokens, and `max_tokens` is 2; raise it".to_owned();
    assert_eq!(ask(&model, &Request::Generate(all)), Err(RequestError::Invalid(why)));
}
