//! Tokenized requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::decode::grammar::Grammar;
use crate::decode::stop::StopMatcher;
use crate::decode::trie::Trie;
use crate::request::{Answer, HiddenRows, RequestError, Strategy};

/// Receives the answer to a request, in a worker's thread. If it panics, its own answer is lost and
/// nothing else.
pub type Reply = Box<dyn FnOnce(Result<Answer, RequestError>) + Send>;

/// A request as tokens, and where its answer goes. Dropped unanswered, it answers with an error.
pub struct Job<W> {
    pub work: W,
    reply: Option<Reply>,
    cancelled: Cancel,
}

/// Cancels a request: its worker drops it before the next step.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Cancels the request.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the request is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<W> Job<W> {
    /// A job that `reply` waits for.
    pub fn new(work: W, reply: Reply, cancelled: Cancel) -> Self {
        Self { work, reply: Some(reply), cancelled }
    }

    /// Whether it is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    pub fn answer(mut self, answer: Result<Answer, RequestError>) {
        self.reply(answer);
    }

    fn reply(&mut self, answer: Result<Answer, RequestError>) {
        if let Some(reply) = self.reply.take() {
            // The reply is gone whatever it did; the panic has been reported, and others wait here.
            let _ = catch_unwind(AssertUnwindSafe(|| reply(answer)));
        }
    }
}

impl<W> Drop for Job<W> {
    fn drop(&mut self) {
        self.reply(Err(RequestError::Failed("the model stopped before it answered".to_owned())));
    }
}

/// A generation.
#[derive(Clone, Debug)]
pub struct GenerateWork {
    /// What the encoder reads, each text alone; empty for a decoder.
    pub passages: Vec<Vec<u32>>,
    /// What the decoder reads before the first new token: the prompt, or the start token; then the forced
    /// prefix of the answer. Never empty.
    pub decoder_prompt: Vec<u32>,
    /// The text of the forced prefix.
    pub prefix: String,
    /// How tokens are chosen.
    pub strategy: Strategy,
    /// Most new tokens; at least 1.
    pub max_tokens: u32,
    /// No end before so many.
    pub min_tokens: u32,
    /// Finds the texts before which the answer ends.
    pub stop: Option<StopMatcher>,
    pub choices: Option<Arc<Choices>>,
    /// The form of the answer, behind its forced prefix.
    pub grammar: Option<Grammar>,
    /// Whether each new token is returned with its log-probability.
    pub logprobs: bool,
    /// Names the request for the random numbers of samples: the first eight bytes of its key.
    pub row: u64,
    pub prompt_tokens: u32,
    /// Whether the prompt was cut.
    pub prompt_truncated: bool,
}

/// The texts of a guided choice: an answer is one of them.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Their tokens, each with `end` behind it.
    pub trie: Trie,
    /// The texts as they were given: their tokens may spell them in another way.
    pub texts: Vec<String>,
    pub end: u32,
}

impl Choices {
    /// The text that `tokens` spell, with the end or without.
    pub fn text(&self, tokens: &[u32]) -> Option<&str> {
        let ended = || self.trie.spelled(&[tokens, &[self.end]].concat());
        let index = self.trie.spelled(tokens).or_else(ended)?;
        self.texts.get(index).map(String::as_str)
    }
}

/// Continuations to be scored.
#[derive(Clone, Debug)]
pub struct ScoreWork {
    /// What the encoder reads; empty for a decoder.
    pub passage: Vec<u32>,
    /// Per continuation: all tokens that the decoder sees, and how many of them stand before the
    /// first that is scored (at least 1).
    pub continuations: Vec<(Vec<u32>, usize)>,
    /// Whether each of their tokens is returned with its log-probability.
    pub logprobs: bool,
    /// Whether each of those before the first continuation is.
    pub prompt_logprobs: bool,
    pub prompt_tokens: u32,
    /// Whether the prompt was cut.
    pub prompt_truncated: bool,
}

/// A text whose vector is wanted.
#[derive(Clone, Debug)]
pub struct VectorWork {
    /// The text; never empty.
    pub tokens: Vec<u32>,
    /// What is added to the positions of its tokens, for their types; empty where nothing is.
    pub type_offsets: Vec<u32>,
    pub output: VectorOutput,
    pub prompt_truncated: bool,
}

/// What is made of the rows of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorOutput {
    /// One vector, as the model's folder says.
    Pooled,
    /// The last hidden state of the last token.
    LastState,
    /// Other hidden states, behind `depth` blocks.
    Hidden { depth: usize, rows: HiddenRows },
    /// What the head says.
    Classes,
}
