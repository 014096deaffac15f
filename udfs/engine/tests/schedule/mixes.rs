//! Random requests of all kinds, and random ways to run a model.

use proofmill_engine::backend::Precision;
use proofmill_engine::model::Settings;
use proofmill_engine::request::{
    Embed, Generate, Hidden, HiddenRows, Keep, Prompt, Request, Score, Strategy as Choice, Truncate,
};
use proptest::prelude::*;

use crate::ask::plain;

/// What can be requested of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Encoder,
    Decoder,
    EncoderDecoder,
}

/// Longer than a beginning must be to be kept, in all tokenizers.
const PREFIXES: [&str; 2] = [
    "ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da",
    "ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba ne ko da vi lu ba xe xe xe",
];

fn words(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "ba", "ne", "koda", "vilu", "xe", "zuwa", "Q:", "7", "ï→", "日", "don't",
    ]);
    prop::collection::vec(word, count).prop_map(|words| words.join(" "))
}

fn choice() -> impl Strategy<Value = Choice> {
    let sample = (0.3f32..2.0, prop::sample::select(vec![0, 5, 40]), 0u64..9, 1u32..5);
    let cut = prop::sample::select(vec![1.0f32, 0.8]);
    let beam = (2u32..5, -1.0f32..2.0, any::<bool>());
    prop_oneof![
        Just(Choice::Greedy),
        (sample, cut).prop_map(|((temperature, top_k, seed, samples), top_p)| {
            Choice::Sample { temperature, top_k, top_p, seed, samples }
        }),
        beam.prop_map(|(beams, length_penalty, early_stopping)| {
            Choice::Beam { beams, answers: beams - 1, length_penalty, early_stopping }
        }),
    ]
}

/// A text that may begin as others do.
fn text(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    (0usize..4, words(count)).prop_map(|(prefix, text)| match PREFIXES.get(prefix) {
        Some(prefix) => format!("{prefix} {text}"),
        None => text,
    })
}

fn generate(kind: Kind) -> impl Strategy<Value = Generate> {
    let text = text(1..25).prop_map(Prompt::Text).boxed();
    let prompt = if kind == Kind::EncoderDecoder {
        let passages = prop::collection::vec(words(1..12), 1..4).prop_map(Prompt::Passages);
        prop_oneof![text, passages].boxed()
    } else {
        text
    };
    let rules = (0u8..5, words(1..3), 1u32..20, 0u32..5);
    (prompt, choice(), rules).prop_map(|(prompt, strategy, (rule, text, max_tokens, least))| {
        let logprobs = least % 2 == 0;
        let all = Generate { prompt, max_tokens, logprobs, ..plain("", strategy) };
        let is_beam = matches!(strategy, Choice::Beam { .. });
        match rule {
            0 => Generate { prefix: format!(" {text}"), ..all },
            1 => Generate { min_tokens: least.min(max_tokens), ..all },
            2 if !is_beam => Generate { stop: vec!["a".to_owned(), text], ..all },
            3 => among(all, text),
            _ => all,
        }
    })
}

fn among(all: Generate, text: String) -> Generate {
    let choices = vec![" ba".to_owned(), " ba ne".to_owned(), text, " vilu".to_owned()];
    let strategy = match all.strategy {
        Choice::Sample { temperature, seed, samples, .. } => {
            Choice::Sample { temperature, top_k: 0, top_p: 1.0, seed, samples }
        }
        other => other,
    };
    Generate { choices, strategy, max_tokens: 20, ..all }
}

fn score(kind: Kind) -> impl Strategy<Value = Score> {
    let prompt = (0usize..3, words(0..6));
    let continuations = prop::collection::vec(words(1..4), 1..6);
    (prompt, continuations, any::<bool>(), any::<bool>()).prop_map(
        move |((prefix, text), continuations, include_eos, logprobs)| {
            let prompt = match PREFIXES.get(prefix) {
                Some(prefix) => format!("{prefix} {text}"),
                None => format!("lu {text}"),
            };
            let continuations = continuations.iter().map(|text| format!(" {text}")).collect();
            Score {
                prompt,
                messages: Vec::new(),
                truncate: None,
                continuations,
                include_eos,
                logprobs,
                // An encoder cannot tell them.
                prompt_logprobs: logprobs && kind == Kind::Decoder,
            }
        },
    )
}

fn embed() -> impl Strategy<Value = Embed> {
    (text(1..30), 0u8..3).prop_map(|(text, cut)| {
        let truncate = Truncate { tokens: 9, keep: Keep::End };
        Embed { text, truncate: (cut == 0).then_some(truncate) }
    })
}

fn hidden() -> impl Strategy<Value = Hidden> {
    let rows = [HiddenRows::Last, HiddenRows::First, HiddenRows::Mean, HiddenRows::All];
    // Every model has a block at least.
    (embed(), -2i32..2, prop::sample::select(rows.to_vec()))
        .prop_map(|(Embed { text, truncate }, layer, rows)| Hidden { text, truncate, layer, rows })
}

fn request(kind: Kind) -> impl Strategy<Value = Request> {
    let vectors =
        prop_oneof![embed().prop_map(Request::Embed), hidden().prop_map(Request::Hidden)].boxed();
    if kind == Kind::Encoder {
        return vectors;
    }
    prop_oneof![
        4 => generate(kind).prop_map(Request::Generate),
        3 => score(kind).prop_map(Request::Score),
        1 => vectors,
    ]
    .boxed()
}

/// Requests that a model of this kind can answer, and the same in another order.
pub fn mix(kind: Kind) -> impl Strategy<Value = (Vec<Request>, Vec<usize>)> {
    prop::collection::vec(request(kind), 1..40).prop_flat_map(|requests| {
        let order: Vec<usize> = (0..requests.len()).collect();
        (Just(requests), Just(order).prop_shuffle())
    })
}

/// From one thread with little room to several with much.
pub fn settings(precision: Precision) -> impl Strategy<Value = Settings> {
    let steps = prop_oneof![16usize..100, 100usize..513];
    (1usize..4, steps, 1usize..65, 8usize..160).prop_map(
        move |(workers, max_batch_tokens, max_num_seqs, blocks)| Settings {
            precision,
            workers,
            max_batch_tokens,
            max_num_seqs,
            kv_cache_bytes: crate::ask::blocks(blocks) * workers,
            ..Settings::for_cores(1)
        },
    )
}
