//! A model that repeats what it reads, and a ledger in memory: what model functions run on in tests.

#![allow(dead_code, reason = "not every binary uses all of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use proofmill_base::waits::Waits;
use proofmill_engine::request::{
    Answer, Body, ClassScore, Classify, Embed, Finish, Generate, Generation, Hidden, HiddenRows,
    Prompt, Request, RequestError, Scored, Strategy, TokenLogprob,
};
use proofmill_udfs::model::Watch;
use proofmill_udfs::model::split::SplitModelCalls;
use proofmill_udfs::model::{
    AskError, Counters, Key, LanguageModel, Ledger, LedgerError, Models, New, OpenError, Opener,
    Recording,
};
use tokio::sync::Semaphore;

/// The model `echo`. What a prompt begins with decides how it fails: see [`Echo::fault`].
#[derive(Debug)]
pub struct Echo {
    /// A permit is used up by each answer.
    pub gate: Semaphore,
    pub requests: AtomicUsize,
    /// Requests that are being answered.
    pub running: AtomicUsize,
    /// Most of them at once.
    pub running_max: AtomicUsize,
    pub opened: AtomicUsize,
    concurrency: usize,
}

impl Echo {
    pub fn new(concurrency: usize) -> Self {
        Self {
            gate: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            requests: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            running_max: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            concurrency,
        }
    }

    /// Lets nothing through until permits are added to the gate.
    pub fn closed(concurrency: usize) -> Self {
        Self { gate: Semaphore::new(0), ..Self::new(concurrency) }
    }

    fn fault(text: &str) -> Result<(), RequestError> {
        match text.split(' ').next() {
            Some("!long") => Err(RequestError::TooLong { tokens: 9, limit: 4 }),
            Some("!invalid") => Err(RequestError::Invalid("makes no sense".into())),
            Some("!fail") => Err(RequestError::Failed("out of paper".into())),
            Some("!cancel") => Err(RequestError::Cancelled),
            Some("!panic") => panic!("paper jam"),
            _ => Ok(()),
        }
    }

    fn generate(request: &Generate) -> Result<(u32, Body), RequestError> {
        let prompt = match &request.prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Passages(passages) => passages.join(" | "),
            Prompt::Messages(messages) => {
                messages.iter().map(|it| format!("{}: {} ", it.role, it.content)).collect()
            }
        };
        Self::fault(&prompt)?;
        let words: Vec<&str> = prompt.split_whitespace().collect();
        let kept = words.len().min(request.max_tokens as usize);
        let finish = if kept < words.len() { Finish::Length } else { Finish::End };
        let text = format!("{}{}", request.prefix, words[..kept].join(" "));
        let one = |text: String, rank: u32, score: Option<f64>| Generation {
            text,
            finish,
            logprob: Some(-(f64::from(rank) + 0.5)),
            score,
            output_tokens: kept as u32,
            logprobs: request.logprobs.then(|| Self::token_logprobs(&words[..kept].join(" "))),
        };
        let all = match request.strategy {
            Strategy::Greedy if prompt == "!none" => vec![],
            Strategy::Greedy => vec![one(text, 0, None)],
            Strategy::Sample { samples, .. } => {
                (0..samples).map(|k| one(format!("{text} #{k}"), k, None)).collect()
            }
            Strategy::Beam { answers, .. } => {
                (0..answers).map(|k| one(format!("{text} ~{k}"), k, Some(-f64::from(k)))).collect()
            }
        };
        Ok((words.len() as u32, Body::Generations(all)))
    }

    /// A token for each word with the space before it, and its bytes as its log-probability.
    fn token_logprobs(text: &str) -> Vec<TokenLogprob> {
        let words = text.split_inclusive(' ').enumerate();
        let token = |(at, word): (usize, &str)| TokenLogprob {
            id: at as u32,
            text: word.to_owned(),
            logprob: (at > 0).then_some(-(word.len() as f32)),
        };
        words.map(token).collect()
    }

    fn vector(text: &str, hidden: bool) -> Result<(u32, Body), RequestError> {
        Self::fault(text)?;
        let (words, bytes) = (text.split_whitespace().count(), text.len() as f32);
        let first = if text == "!nan" { f32::NAN } else { bytes };
        let vector = if hidden { vec![words as f32, first] } else { vec![first, words as f32] };
        Ok((words as u32, Body::Vector(vector)))
    }

    fn answer(request: &Request) -> Result<Answer, RequestError> {
        let (prompt_tokens, body) = match request {
            Request::Generate(generate) => Self::generate(generate)?,
            Request::Score(score) => {
                Self::fault(&score.prompt)?;
                let scored = |(at, text): (usize, &String)| Scored {
                    logprob: -(text.len() as f64),
                    tokens: text.split_whitespace().count() as u32 + u32::from(score.include_eos),
                    is_greedy: at == 0,
                    logprobs: score.logprobs.then(|| Self::token_logprobs(text)),
                    prompt_logprobs: score
                        .prompt_logprobs
                        .then(|| Self::token_logprobs(&score.prompt)),
                };
                let scores = score.continuations.iter().enumerate().map(scored).collect();
                (score.prompt.split_whitespace().count() as u32, Body::Scores(scores))
            }
            Request::Embed(Embed { text, .. }) => Self::vector(text, false)?,
            Request::Hidden(Hidden { text, rows: HiddenRows::All, .. }) => {
                let words: Vec<&str> = text.split_whitespace().collect();
                let vectors = words.iter().map(|word| vec![word.len() as f32]).collect();
                (words.len() as u32, Body::Vectors(vectors))
            }
            Request::Hidden(Hidden { text, layer, .. }) => {
                let (tokens, body) = Self::vector(text, true)?;
                match body {
                    Body::Vector(mut vector) if *layer != -1 => {
                        vector.push(*layer as f32);
                        (tokens, Body::Vector(vector))
                    }
                    body => (tokens, body),
                }
            }
            Request::Classify(Classify { text, pair, .. }) => {
                Self::fault(text)?;
                let pair = pair.as_deref().unwrap_or_default();
                let bytes = (text.len() + pair.len()) as f32;
                let class = |label: &str, logit: f32| ClassScore {
                    label: label.to_owned(),
                    logit,
                    probability: Some(if logit > 10.0 { 0.75 } else { 0.25 }),
                };
                let words = text.split_whitespace().chain(pair.split_whitespace()).count();
                (words as u32, Body::Classes(vec![class("short", 10.0), class("long", bytes)]))
            }
        };
        Ok(Answer { prompt_tokens, prompt_truncated: false, body })
    }
}

#[async_trait]
impl LanguageModel for Echo {
    fn identity(&self) -> &str {
        "echo 1"
    }

    async fn ask(&self, request: Request, _: Key, _: &Waits) -> Result<Answer, AskError> {
        /// Counts down even if the request is given up.
        struct Running<'a>(&'a AtomicUsize);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        self.requests.fetch_add(1, SeqCst);
        let running = self.running.fetch_add(1, SeqCst) + 1;
        let _running = Running(&self.running);
        self.running_max.fetch_max(running, SeqCst);
        self.gate.acquire().await.expect("a gate that stays").forget();
        tokio::task::yield_now().await;
        match &request {
            Request::Generate(Generate { prompt: Prompt::Text(text), .. }) => match text.as_str() {
                "!broken" => Err(AskError::Model(OpenError::new("the paper tray is gone"))),
                "!spent" => Err(AskError::Spent(OpenError::new("the paper is used up"))),
                text if text.starts_with("!busy") => {
                    Err(AskError::Passing(RequestError::Failed("somebody else prints".into())))
                }
                _ => Ok(Self::answer(&request)?),
            },
            _ => Ok(Self::answer(&request)?),
        }
    }

    fn concurrency(&self) -> usize {
        self.concurrency
    }
}

/// Opens an echo, or nothing.
#[derive(Debug)]
pub struct Door(pub Arc<Echo>, pub bool);

#[async_trait]
impl Opener for Door {
    async fn open(&self) -> Result<Arc<dyn LanguageModel>, OpenError> {
        self.0.opened.fetch_add(1, SeqCst);
        match self.1 {
            true => Ok(Arc::clone(&self.0) as Arc<dyn LanguageModel>),
            false => Err(OpenError::new("`weights.bin` is missing; download it")),
        }
    }
}

#[derive(Debug, Default)]
pub struct MemoryLedger {
    pub answers: Mutex<HashMap<Key, New>>,
    /// How many answers each call recorded.
    pub chunks: Mutex<Vec<usize>>,
    /// An answer that another process records just before this one does.
    pub rival: Mutex<Option<String>>,
    /// Whether nothing can be recorded.
    pub full: std::sync::atomic::AtomicBool,
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn look_up(&self, keys: &[Key]) -> Result<Vec<Option<String>>, LedgerError> {
        let answers = self.answers.lock().unwrap();
        Ok(keys.iter().map(|key| answers.get(key).map(|new| new.answer.clone())).collect())
    }

    async fn record(&self, new: Vec<New>) -> Result<Vec<String>, LedgerError> {
        if self.full.load(SeqCst) {
            return Err(LedgerError::new("the disk is full"));
        }
        self.chunks.lock().unwrap().push(new.len());
        let rival = self.rival.lock().unwrap().clone();
        let mut answers = self.answers.lock().unwrap();
        let mut counted = Vec::new();
        for mut one in new {
            if let Some(rival) = &rival {
                one.answer = rival.clone();
            }
            counted.push(answers.entry(one.key).or_insert(one).answer.clone());
        }
        Ok(counted)
    }
}

/// A session's models, with everything to look at.
pub struct Fixture {
    pub echo: Arc<Echo>,
    pub ledger: Arc<MemoryLedger>,
    pub counters: Arc<Counters>,
    pub models: Arc<Models>,
}

impl Fixture {
    /// The models `echo`, and `broken`, which cannot be opened.
    pub fn new(echo: Echo, recording: Recording) -> Self {
        let echo = Arc::new(echo);
        let ledger = Arc::new(MemoryLedger::default());
        let counters = Arc::new(Counters::default());
        let door = |opens| Arc::new(Door(Arc::clone(&echo), opens)) as Arc<dyn Opener>;
        let openers = [("echo".to_owned(), door(true)), ("broken".to_owned(), door(false))];
        let kept = Arc::clone(&ledger) as Arc<dyn Ledger>;
        let models = Arc::new(Models::new(openers, kept, recording));
        Self { echo, ledger, counters, models }
    }

    /// Adds the functions to a session.
    pub fn register(&self, context: &SessionContext) {
        for function in proofmill_udfs::model_functions(&self.models) {
            context.register_udf(function.as_ref().clone());
        }
        context.add_optimizer_rule(Arc::new(SplitModelCalls));
        let state = context.state_ref();
        let watch = Watch(Arc::clone(&self.counters));
        state.write().config_mut().options_mut().extensions.insert(watch);
    }
}

/// Adds the functions over a fresh `echo` to a session.
pub fn register(context: &SessionContext) {
    Fixture::new(Echo::new(64), Recording::default()).register(context);
}
