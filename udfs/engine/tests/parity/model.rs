//! Opening a checkpoint and asking it.

use std::path::Path;
use std::sync::mpsc;

use proofmill_engine::checkpoint::Folder;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{
    Answer, Body, Generate, Generation, Prompt, Request, RequestError, Strategy,
};
use proofmill_engine::schedule::Cancel;

use crate::golden::NEW_TOKENS;

/// The model in `folder`, run in small steps, so that prompts are cut and batches mixed.
pub fn open(folder: &Path) -> Model {
    let folder = Folder::open(folder).unwrap();
    let settings = Settings {
        workers: 1,
        max_batch_tokens: 48,
        max_num_seqs: 8,
        kv_cache_bytes: 64 << 20,
        ..Settings::for_cores(1)
    };
    Model::open(&folder, &settings).unwrap()
}

/// Asks everything at once; the answers in order. The key of request `i` begins with `rows[i]`.
pub fn ask_all(model: &Model, requests: &[(Request, u64)]) -> Vec<Result<Answer, RequestError>> {
    let (sender, receiver) = mpsc::channel();
    for (index, (request, row)) in requests.iter().enumerate() {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&row.to_be_bytes());
        let sender = sender.clone();
        let reply = Box::new(move |answer| sender.send((index, answer)).unwrap());
        model.submit(request, key, reply, Cancel::default());
    }
    drop(sender);
    let mut answers: Vec<_> = receiver.iter().collect();
    assert_eq!(answers.len(), requests.len());
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

pub fn generations(answer: Result<Answer, RequestError>) -> Vec<Generation> {
    match answer.unwrap().body {
        Body::Generations(generations) => generations,
        other => panic!("{other:?}"),
    }
}

pub fn vector(answer: Result<Answer, RequestError>) -> Vec<f32> {
    match answer.unwrap().body {
        Body::Vector(vector) => vector,
        other => panic!("{other:?}"),
    }
}

/// A generation with the goldens' length.
pub fn generate(prompt: Prompt, strategy: Strategy) -> Generate {
    Generate {
        prompt,
        truncate: None,
        prefix: String::new(),
        strategy,
        max_tokens: NEW_TOKENS as u32,
        min_tokens: 0,
        stop: Vec::new(),
        choices: Vec::new(),
        response_format: None,
        logprobs: false,
    }
}
