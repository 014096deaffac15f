//! One answer under way: its tokens, how the next one is sampled, and when it ends.

use super::block_pool::BlockTable;
use super::detokenizer::{Detokenizer, StopChecker};
use super::job::GenerateWork;
use super::step::{RequestedMethod, SamplingRequest};
use crate::backend::{SamplingMethod, Token};
use crate::checkpoint::Special;
use crate::decode::grammar::Grammar;
use crate::decode::trie::TrieNode;
use crate::request::{Finish, RequestError, Strategy};
use crate::rng::CounterRng;

/// One answer under way.
pub struct Sequence {
    /// Its tokens in the cache.
    pub table: BlockTable,
    /// New tokens.
    pub new: Vec<u32>,
    /// How many of decoder prompt and new tokens were fed.
    pub fed: usize,
    /// Sum of the log-probabilities of the new tokens.
    pub logprob: f64,
    /// Each of them, if they were requested; the search keeps those of beams.
    pub logprobs: Vec<f32>,
    /// Its number among the answers.
    pub sample: u32,
    /// The choices that are left, as a node of their trie.
    pub node: Option<TrieNode>,
    /// The form that the answer must have, as far as it has come.
    pub grammar: Option<Grammar>,
    /// Which tokens may come next by the form; empty where there is none.
    pub mask: Vec<u32>,
    /// Looks for stop texts.
    pub stop: Option<StopChecker>,
    /// Why it ended, and where its text ends if a stop text came.
    pub end: Option<(Finish, Option<usize>)>,
    /// The index of its result in the step whose tokens are read next, until they are.
    pub sampled: Option<usize>,
    /// The same, in the step behind that.
    pub sampled_next: Option<usize>,
}

impl Sequence {
    /// The first answer to `work`, without new tokens; `fed` of its prompt are fed by others.
    pub fn new(work: &GenerateWork, fed: usize) -> Self {
        Self {
            table: BlockTable::default(),
            new: Vec::new(),
            fed,
            logprob: 0.0,
            logprobs: Vec::new(),
            sample: 0,
            node: work.choices.as_ref().map(|choices| choices.trie.root()),
            grammar: work.grammar.clone(),
            mask: Vec::new(),
            stop: work.stop.clone().map(StopChecker::new),
            end: None,
            sampled: None,
            sampled_next: None,
        }
    }

    /// A copy that holds `table`.
    pub fn like(&self, table: BlockTable, sample: u32) -> Self {
        Self {
            table,
            new: self.new.clone(),
            fed: self.fed,
            logprob: self.logprob,
            logprobs: self.logprobs.clone(),
            sample,
            node: self.node,
            grammar: self.grammar.clone(),
            mask: Vec::new(),
            stop: self.stop.clone(),
            end: self.end,
            sampled: None,
            sampled_next: None,
        }
    }

    /// How many new tokens it has, with one that was sampled and not read.
    pub fn written(&self) -> usize {
        self.new.len() + usize::from(self.sampled.is_some())
    }

    /// Takes its next token.
    pub fn push(&mut self, work: &GenerateWork, token: Token, detokenizer: &Detokenizer) {
        self.new.push(token.id);
        self.logprob += f64::from(token.logprob);
        if work.logprobs {
            self.logprobs.push(token.logprob);
        }
        if let (Some(choices), Some(node)) = (&work.choices, self.node) {
            self.node = choices.trie.next(node, token.id);
            if self.node.is_none_or(|node| choices.trie.is_leaf(node)) {
                self.end = Some((Finish::End, None));
                return;
            }
        } else if detokenizer.special.ends.contains(&token.id) {
            // An end that was forced is a cut.
            let forced = forced(work, self.new.len() as u32 - 1, &detokenizer.special).is_some();
            self.end = Some((if forced { Finish::Length } else { Finish::End }, None));
            return;
        }
        if let Some(grammar) = &mut self.grammar {
            // It was chosen among those that fit; a failure shows when the next one is requested.
            grammar.push(&[token.id]);
        }
        if let Some(end) = self
            .stop
            .as_mut()
            .and_then(|checker| checker.check(&work.decoder_prompt, &self.new, detokenizer))
        {
            self.end = Some((Finish::Stop, Some(end)));
            return;
        }
        if self.new.len() >= work.max_tokens as usize {
            self.end = Some((Finish::Length, None));
        }
    }
}

/// How the token after a sequence's last is sampled.
pub fn sampling_request<'a>(
    work: &'a GenerateWork,
    sequence: &'a Sequence,
    sample: u32,
    width: Option<u32>,
    special: &'a Special,
) -> SamplingRequest<'a> {
    let step = sequence.written() as u32;
    if let (Some(choices), Some(node)) = (&work.choices, sequence.node) {
        let allowed = choices.trie.allowed(node);
        let count = match work.strategy {
            Strategy::Greedy => 1,
            Strategy::Beam { .. } => width.unwrap_or(1),
            // The choice among few tokens is made by the caller.
            Strategy::Sample { .. } => allowed.len() as u32,
        };
        return SamplingRequest {
            method: RequestedMethod::Choices { tokens: allowed, count },
            banned: &[],
            mask: &[],
        };
    }
    if let Some(token) = forced(work, step, special) {
        return SamplingRequest {
            method: RequestedMethod::Choices { tokens: token, count: 1 },
            banned: &[],
            mask: &[],
        };
    }
    let banned = if step < work.min_tokens { &special.ends[..] } else { &[] };
    let method = match work.strategy {
        Strategy::Greedy => SamplingMethod::Greedy,
        Strategy::Beam { .. } => SamplingMethod::TopK { count: width.unwrap_or(1) },
        Strategy::Sample { temperature, top_k, top_p, seed, .. } => {
            let rng = CounterRng::new(seed, work.row, sample, step);
            SamplingMethod::Sample { temperature, top_k, top_p, rng }
        }
    };
    SamplingRequest { method: RequestedMethod::Method(method), banned, mask: &sequence.mask }
}

/// The token that is forced at `step` (BART's `forced_bos_token_id` and `forced_eos_token_id`).
/// Choices override it.
pub fn forced<'a>(work: &GenerateWork, step: u32, special: &'a Special) -> Option<&'a [u32; 1]> {
    if work.choices.is_some() {
        None
    } else if step + 1 == work.max_tokens && special.forced_eos.is_some() {
        special.forced_eos.as_ref().map(std::array::from_ref)
    } else if step == 0 && work.prefix.is_empty() {
        special.forced_bos.as_ref().map(std::array::from_ref)
    } else {
        None
    }
}

/// The token that a sampler result means; a sample from few choices is drawn here.
pub fn chosen_token(
    work: &GenerateWork,
    sequence: &Sequence,
    tokens: &[Token],
) -> Result<Token, RequestError> {
    if let Some(why) = sequence.grammar.as_ref().and_then(Grammar::error) {
        return Err(RequestError::Failed(format!("`response_format` cannot be followed: {why}")));
    }
    if tokens.iter().any(|token| token.logprob.is_nan()) {
        if !sequence.mask.is_empty() && sequence.mask.iter().all(|word| *word == 0) {
            let why = "the tokenizer has no token with which the answer could go on in its form";
            return Err(RequestError::Failed(why.to_owned()));
        }
        return Err(super::not_a_number());
    }
    let first = tokens.first().copied();
    let chosen = match work.strategy {
        Strategy::Sample { temperature, seed, .. } if work.choices.is_some() => {
            let rng = CounterRng::new(seed, work.row, sequence.sample, sequence.new.len() as u32);
            let score = |token: &Token| {
                f64::from(token.logprob) / f64::from(temperature) + rng.gumbel(token.id)
            };
            let best = tokens
                .iter()
                .max_by(|a, b| score(a).total_cmp(&score(b)).then_with(|| b.id.cmp(&a.id)));
            best.copied()
        }
        _ => first,
    };
    chosen.ok_or_else(|| RequestError::Failed("no token is allowed to follow".to_owned()))
}
