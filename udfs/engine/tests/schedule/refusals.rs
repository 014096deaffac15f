//! What makes no sense is refused in words that say what to do.

use proofmill_engine::model::Model;
use proofmill_engine::request::{
    Embed, Generate, Keep, Prompt, Request, RequestError, Score, Strategy, Truncate,
};

use crate::ask::{ask, beams, embed, open, plain, sampled, score, settings};

#[track_caller]
fn refused(model: &Model, request: impl Into<Request>, why: &str) {
    assert_eq!(ask(model, &request.into()), Err(RequestError::Invalid(why.to_owned())));
}

struct Writes(Generate);

impl From<Writes> for Request {
    fn from(Writes(generate): Writes) -> Self {
        Self::Generate(generate)
    }
}

fn greedy(prompt: &str) -> Generate {
    plain(prompt, Strategy::Greedy)
}

fn passages(texts: &[&str]) -> Writes {
    let prompt = Prompt::Passages(texts.iter().map(|&text| text.to_owned()).collect());
    Writes(Generate { prompt, ..greedy("") })
}

#[test]
fn contradictions_are_named() {
    let model = open("gpt2", &settings());
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let among = |strategy| Generate { choices: texts(&[" ba"]), ..plain("lu", strategy) };
    for (generate, why) in [
        (Generate { max_tokens: 0, ..greedy("lu") }, "`max_tokens` is 0; at least 1 is needed"),
        (
            Generate { max_tokens: 3, min_tokens: 4, ..greedy("lu") },
            "`min_tokens` is above `max_tokens`",
        ),
        (plain("lu", sampled(0, 0)), "`samples` is 0; at least 1 is needed"),
        (
            plain("lu", beams(1)),
            "1 answers of 1 beams; at least 2 beams, and as many answers at most",
        ),
        (
            Generate { stop: texts(&["a"]), ..plain("lu", beams(2)) },
            "stop texts cut single answers; leave them out of a beam search",
        ),
        (
            Generate { stop: texts(&["a", ""]), ..greedy("lu") },
            "stop text 1 is empty; remove it, or say where the answer ends",
        ),
        (
            Generate { stop: texts(&["a"]), ..among(Strategy::Greedy) },
            "`choices` says where an answer ends; leave out the stop texts",
        ),
    ] {
        refused(&model, Writes(generate), why);
    }
    let sample = |temperature, top_k, top_p| Strategy::Sample {
        temperature,
        top_k,
        top_p,
        seed: 0,
        samples: 1,
    };
    for (temperature, why) in [
        (0.0, "`temperature` is 0; expected a number above 0"),
        (-1.5, "`temperature` is -1.5; expected a number above 0"),
        (f32::NAN, "`temperature` is NaN; expected a number above 0"),
        (f32::INFINITY, "`temperature` is inf; expected a number above 0"),
    ] {
        refused(&model, Writes(plain("lu", sample(temperature, 0, 1.0))), why);
    }
    for (top_p, why) in [
        (0.0, "`top_p` is 0; expected a number above 0, at most 1"),
        (1.5, "`top_p` is 1.5; expected a number above 0, at most 1"),
        (f32::NAN, "`top_p` is NaN; expected a number above 0, at most 1"),
    ] {
        refused(&model, Writes(plain("lu", sample(1.0, 0, top_p))), why);
    }
    for strategy in [sample(1.0, 5, 1.0), sample(1.0, 0, 0.5)] {
        let why = "`choices` already says what may be chosen; leave out the cuts";
        refused(&model, Writes(among(strategy)), why);
    }
    let search = |beams, answers, length_penalty| Strategy::Beam {
        beams,
        answers,
        length_penalty,
        early_stopping: false,
    };
    for (strategy, why) in [
        (search(3, 4, 1.0), "4 answers of 3 beams; at least 2 beams, and as many answers at most"),
        (search(3, 0, 1.0), "0 answers of 3 beams; at least 2 beams, and as many answers at most"),
        (search(3, 3, f32::INFINITY), "`length_penalty` is not finite"),
    ] {
        refused(&model, Writes(plain("lu", strategy)), why);
    }
}

#[test]
fn a_model_does_what_its_kind_can_do() {
    let encoder = open("bert-sentence", &settings());
    refused(&encoder, Writes(greedy("lu")), "an encoder writes no text");
    let why = "an encoder cannot tell how likely a text is";
    refused(&encoder, score("lu", &["ba"]), why);
    let decoder = open("gpt2", &settings());
    let why = "only an encoder-decoder model reads passages apart; give a decoder one prompt";
    refused(&decoder, passages(&["lu"]), why);
}

#[test]
fn there_must_be_something_to_read() {
    let both = open("bart", &settings());
    let why = "there is nothing to read: a passage has no tokens";
    refused(&both, passages(&[]), why);
    let decoder = open("gpt2", &settings());
    refused(&decoder, embed(""), "there is nothing to read: the text has no tokens");
    // Special tokens are something.
    assert!(ask(&both, &passages(&["lu", ""]).into()).is_ok());
    // A decoder begins with the token that begins a text.
    assert!(ask(&decoder, &Writes(greedy("")).into()).is_ok());
    assert!(ask(&decoder, &score("", &[" ba"])).is_ok());
}

#[test]
fn special_tokens_cannot_be_cut() {
    let truncate = |tokens| Some(Truncate { tokens, keep: Keep::End });
    let bart = open("bart", &settings());
    let why = "`truncate` leaves 1 tokens, and the special tokens alone are 2";
    refused(&bart, Writes(Generate { truncate: truncate(1), ..greedy("lu") }), why);
    let text = "lu".to_owned();
    refused(&bart, Request::Embed(Embed { text, truncate: truncate(1) }), why);
    let judge = |tokens| {
        let (prompt, continuations) = ("lu ko".to_owned(), vec![" ba".to_owned()]);
        let truncate = truncate(tokens);
        Request::Score(Score {
            prompt,
            messages: Vec::new(),
            truncate,
            continuations,
            include_eos: false,
            logprobs: false,
            prompt_logprobs: false,
        })
    };
    refused(&bart, judge(1), why);
    let llama = open("llama", &settings());
    refused(&llama, judge(0), "`truncate` leaves 0 tokens, and the special tokens alone are 1");
    let answer = ask(&llama, &judge(2)).unwrap();
    assert!(answer.prompt_truncated && answer.prompt_tokens == 2);
}
