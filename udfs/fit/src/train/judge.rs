//! How often a model answers dev inputs with just their outputs: where the loss is the wrong judge of what is best.

use std::path::Path;
use std::sync::mpsc;

use proofmill_engine::checkpoint::{Codec, Folder, TextError};
use proofmill_engine::model::{self, Model};
use proofmill_engine::request::{Body, Generate, Prompt, Request, Strategy};
use proofmill_engine::schedule::Cancel;

use crate::data::batch::{Input, Pair};
use crate::error::FitError;
use crate::model::fitted::Fitted;

/// Keys and values of all threads; an answer that is as long as an output needs no more.
const KV_CACHE_BYTES: usize = 256 << 20;

/// The part of `pairs` that the model, greedy, answers with their outputs as its tokenizer spells them; case and white
/// space do not count. The model lies in `scratch` meanwhile. No output has more than `tokens`.
pub fn exact_match(
    fitted: &Fitted,
    pairs: &[Pair],
    tokens: u32,
    scratch: &Path,
    threads: usize,
) -> Result<f64, FitError> {
    fitted.write(scratch)?;
    let settings =
        model::Settings { kv_cache_bytes: KV_CACHE_BYTES, ..model::Settings::for_cores(threads) };
    let failed = |error: String| FitError::Judge(error);
    let folder = Folder::open(scratch)?;
    let codec = Codec::read(&folder)?;
    let model = Model::open(&folder, &settings).map_err(|error| failed(error.to_string()))?;
    let (sender, receiver) = mpsc::channel();
    for (number, pair) in pairs.iter().enumerate() {
        let request = Request::Generate(Generate {
            prompt: match &pair.input {
                Input::Nothing => Prompt::Text(String::new()),
                Input::Text(text) => Prompt::Text(text.clone()),
                Input::Passages(passages) => Prompt::Passages(passages.clone()),
            },
            truncate: None,
            prefix: String::new(),
            strategy: Strategy::Greedy,
            max_tokens: tokens,
            min_tokens: 0,
            stop: Vec::new(),
            choices: Vec::new(),
            response_format: None,
            logprobs: false,
        });
        let sender = sender.clone();
        // The receiver is still there: it waits for all answers.
        let reply = Box::new(move |answer| drop(sender.send((number, answer))));
        model.submit(&request, [0; 32], reply, Cancel::default());
    }
    drop(sender);
    let mut right = 0_u32;
    for (number, answer) in receiver {
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        if let Body::Generations(answers) = answer.body {
            let spelled = |error: TextError| failed(error.to_string());
            let ids = codec.encode(&pairs[number].output, false).map_err(spelled)?;
            let expected = plain(&codec.decode(&ids, false).map_err(spelled)?);
            right += u32::from(answers.first().is_some_and(|it| plain(&it.text) == expected));
        }
    }
    Ok(f64::from(right) / pairs.len() as f64)
}

/// A text in lower case with single spaces.
fn plain(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
