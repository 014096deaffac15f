//! Opening tiny models and asking them, never for ever.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use proofmill_engine::checkpoint::Folder;
use proofmill_engine::model::{Model, Settings};
use proofmill_engine::request::{
    Answer, Body, Embed, Generate, Generation, Hidden, HiddenRows, Prompt, Request, RequestError,
    Score, Scored, Strategy,
};
use proofmill_engine::schedule::Cancel;
use sha2::{Digest, Sha256};

pub type Answered = Result<Answer, RequestError>;

/// The folder of a tiny checkpoint.
pub fn folder(name: &str) -> Folder {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/data");
    // Where the tests run on another machine than they were built on.
    let data = std::env::var_os("PROOFMILL_PARITY_DATA").map_or_else(here, PathBuf::from);
    Folder::open(&data.join(name)).unwrap()
}

/// One worker with room for most of what tests ask.
pub fn settings() -> Settings {
    Settings {
        max_batch_tokens: 256,
        max_num_seqs: 16,
        kv_cache_bytes: 8 << 20,
        ..Settings::for_cores(1)
    }
}

/// A tiny model, run so.
pub fn open(name: &str, settings: &Settings) -> Model {
    Model::open(&folder(name), settings).unwrap()
}

/// A cache of so many blocks per worker for the models `gpt2` and `opt`.
pub fn blocks(count: usize) -> usize {
    // Two layers, four heads of eight (opt: of ten) numbers, keys and values, sixteen slots.
    count * 2 * 4 * 10 * 2 * 16 * 4
}

/// The digest that names a request.
fn key(request: &Request) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(request).unwrap()).into()
}

/// Asks; the answer goes to `sender` with `name`.
pub fn submit(
    model: &Model,
    request: &Request,
    name: usize,
    sender: &Sender<(usize, Answered)>,
) -> Cancel {
    let (sender, cancel) = (sender.clone(), Cancel::default());
    let reply = Box::new(move |answer| drop(sender.send((name, answer))));
    model.submit(request, key(request), reply, cancel.clone());
    cancel
}

/// `count` answers in order of their names; fails if they do not come.
pub fn collect(receiver: &Receiver<(usize, Answered)>, count: usize) -> Vec<(usize, Answered)> {
    let next = |_| receiver.recv_timeout(Duration::from_secs(60)).expect("no answer in a minute");
    let mut answers: Vec<_> = (0..count).map(next).collect();
    answers.sort_by_key(|(name, _)| *name);
    answers
}

/// Asks everything at once, in this order; the answers in the same.
pub fn ask_all<'r>(
    model: &Model,
    requests: impl IntoIterator<Item = &'r Request>,
) -> Vec<Answered> {
    let (sender, receiver) = mpsc::channel();
    let mut count = 0;
    for request in requests {
        submit(model, request, count, &sender);
        count += 1;
    }
    collect(&receiver, count).into_iter().map(|(_, answer)| answer).collect()
}

/// Asks one thing.
pub fn ask(model: &Model, request: &Request) -> Answered {
    ask_all(model, [request]).remove(0)
}

/// Keeps the only worker of a model from working until it is dropped: what is requested in the meantime
/// is there all at once.
pub struct Gate {
    _closed: Sender<()>,
}

impl Gate {
    /// Occupies the worker.
    pub fn close(model: &Model) -> Self {
        let (entered, wait) = mpsc::channel();
        let (closed, opened) = mpsc::channel::<()>();
        let reply = Box::new(move |_| {
            entered.send(()).unwrap();
            assert!(opened.recv().is_err());
        });
        model.submit(&hidden("ba"), [0; 32], reply, Cancel::default());
        wait.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { _closed: closed }
    }
}

/// Asks everything before the worker looks, so that it sees one queue.
pub fn ask_together(model: &Model, requests: &[Request]) -> Vec<Answered> {
    let gate = Gate::close(model);
    let (sender, receiver) = mpsc::channel();
    for (name, request) in requests.iter().enumerate() {
        submit(model, request, name, &sender);
    }
    drop(gate);
    collect(&receiver, requests.len()).into_iter().map(|(_, answer)| answer).collect()
}

/// A generation of up to 12 tokens with nothing special about it.
pub fn plain(prompt: &str, strategy: Strategy) -> Generate {
    Generate {
        prompt: Prompt::Text(prompt.to_owned()),
        truncate: None,
        prefix: String::new(),
        strategy,
        max_tokens: 12,
        min_tokens: 0,
        stop: Vec::new(),
        choices: Vec::new(),
        response_format: None,
        logprobs: false,
    }
}

/// Samples at temperature 1 without cuts.
pub fn sampled(seed: u64, samples: u32) -> Strategy {
    Strategy::Sample { temperature: 1.0, top_k: 0, top_p: 1.0, seed, samples }
}

/// A beam search that returns everything.
pub fn beams(beams: u32) -> Strategy {
    Strategy::Beam { beams, answers: beams, length_penalty: 1.0, early_stopping: false }
}

/// How likely continuations are.
pub fn score(prompt: &str, continuations: &[&str]) -> Request {
    let continuations = continuations.iter().map(|&text| text.to_owned()).collect();
    Request::Score(Score {
        prompt: prompt.to_owned(),
        truncate: None,
        continuations,
        include_eos: false,
        messages: Vec::new(),
        logprobs: false,
        prompt_logprobs: false,
    })
}

/// The vector of a text.
pub fn embed(text: &str) -> Request {
    Request::Embed(Embed { text: text.to_owned(), truncate: None })
}

/// The last hidden state of a text.
pub fn hidden(text: &str) -> Request {
    let (layer, rows) = (-1, HiddenRows::Last);
    Request::Hidden(Hidden { text: text.to_owned(), truncate: None, layer, rows })
}

/// What a generation's answer holds.
pub fn generations(answer: Answered) -> Vec<Generation> {
    match answer.unwrap().body {
        Body::Generations(generations) => generations,
        other => panic!("{other:?}"),
    }
}

/// What a score's answer holds.
pub fn scores(answer: Answered) -> Vec<Scored> {
    match answer.unwrap().body {
        Body::Scores(scores) => scores,
        other => panic!("{other:?}"),
    }
}

/// The generations that a model gives to one request.
pub fn write(model: &Model, generate: &Generate) -> Vec<Generation> {
    generations(ask(model, &Request::Generate(generate.clone())))
}
