//! One answer under way: what it has said, what is asked next, and when it ends.

use super::blocks::Span;
use super::job::GenerateWork;
use super::step::{Ask, Wanted};
use super::words::Words;
use crate::backend::{How, Token};
use crate::checkpoint::Special;
use crate::decode::stop::StopMatcher;
use crate::decode::trie::Node;
use crate::noise::Noise;
use crate::request::{Finish, RequestError, Strategy};

/// One answer under way.
pub struct Sequence {
    /// Its tokens in the cache.
    pub span: Span,
    /// New tokens.
    pub new: Vec<u32>,
    /// How many of opening and new tokens were fed.
    pub fed: usize,
    /// Sum of the log-probabilities of the new tokens.
    pub logprob: f64,
    /// Its number among the answers.
    pub sample: u32,
    /// Where it stands among the texts that it may be.
    pub node: Option<Node>,
    /// What was heard of stop texts.
    pub stop: Option<Heard>,
    /// Why it ended, and where its text ends if a stop text came.
    pub end: Option<(Finish, Option<usize>)>,
    /// The place of its question in the present step.
    pub asked: Option<usize>,
}

/// What the matcher of stop texts has heard.
#[derive(Clone)]
pub struct Heard {
    matcher: StopMatcher,
    /// Bytes of new text.
    bytes: usize,
}

impl Sequence {
    /// The first answer to `work`, with nothing said.
    pub fn new(work: &GenerateWork) -> Self {
        Self {
            span: Span::default(),
            new: Vec::new(),
            fed: 0,
            logprob: 0.0,
            sample: 0,
            node: work.among.as_ref().map(|among| among.trie.root()),
            stop: work.stop.clone().map(|matcher| Heard { matcher, bytes: 0 }),
            end: None,
            asked: None,
        }
    }

    /// A copy that holds `span`.
    pub fn like(&self, span: Span, sample: u32) -> Self {
        Self {
            span,
            new: self.new.clone(),
            fed: self.fed,
            logprob: self.logprob,
            sample,
            node: self.node,
            stop: self.stop.clone(),
            end: self.end,
            asked: None,
        }
    }

    /// Takes its next token.
    pub fn push(&mut self, work: &GenerateWork, token: Token, words: &Words) {
        self.new.push(token.id);
        self.logprob += f64::from(token.logprob);
        if let (Some(among), Some(node)) = (&work.among, self.node) {
            self.node = among.trie.next(node, token.id);
            if self.node.is_none_or(|node| among.trie.is_leaf(node)) {
                self.end = Some((Finish::End, None));
                return;
            }
        } else if words.special.ends.contains(&token.id) {
            // An end that was forced is a cut.
            let forced = forced(work, self.new.len() as u32 - 1, &words.special).is_some();
            self.end = Some((if forced { Finish::Length } else { Finish::End }, None));
            return;
        }
        if let Some(end) = self.stop.as_mut().and_then(|heard| heard.listen(work, &self.new, words))
        {
            self.end = Some((Finish::Stop, Some(end)));
            return;
        }
        if self.new.len() >= work.max_tokens as usize {
            self.end = Some((Finish::Length, None));
        }
    }
}

impl Heard {
    /// Hears the text that the last of `new` adds. If a stop text came, where the answer ends.
    fn listen(&mut self, work: &GenerateWork, new: &[u32], words: &Words) -> Option<usize> {
        // A text that cannot be decoded yet has no stop text yet either.
        let text = words.added(work, new).ok()?;
        // Half a character may still become another one.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let added = whole.get(self.bytes..)?;
        self.bytes += added.len();
        Some(self.matcher.push(added)?.text_end)
    }
}

/// What is asked about the token after a sequence's last.
pub fn ask<'a>(
    work: &'a GenerateWork,
    sequence: &Sequence,
    sample: u32,
    width: Option<u32>,
    special: &'a Special,
) -> Ask<'a> {
    let step = sequence.new.len() as u32;
    if let (Some(among), Some(node)) = (&work.among, sequence.node) {
        let among = among.trie.allowed(node);
        let count = match work.strategy {
            Strategy::Greedy => 1,
            Strategy::Beam { .. } => width.unwrap_or(1),
            // The choice among few tokens is made by the caller.
            Strategy::Sample { .. } => among.len() as u32,
        };
        return Ask { how: Wanted::Among { among, count }, banned: &[] };
    }
    if let Some(token) = forced(work, step, special) {
        return Ask { how: Wanted::Among { among: token, count: 1 }, banned: &[] };
    }
    let banned = if step < work.min_tokens { &special.ends[..] } else { &[] };
    let how = match work.strategy {
        Strategy::Greedy => How::Greedy,
        Strategy::Beam { .. } => How::Top { count: width.unwrap_or(1) },
        Strategy::Sample { temperature, top_k, top_p, seed, .. } => {
            let noise = Noise::new(seed, work.row, sample, step);
            How::Sample { temperature, top_k, top_p, noise }
        }
    };
    Ask { how: Wanted::How(how), banned }
}

/// The token that must come at `step`, as BART's settings may have it. What an answer may be goes
/// before it.
pub fn forced<'a>(work: &GenerateWork, step: u32, special: &'a Special) -> Option<&'a [u32; 1]> {
    if work.among.is_some() {
        None
    } else if step + 1 == work.max_tokens && special.forced_eos.is_some() {
        special.forced_eos.as_ref().map(std::array::from_ref)
    } else if step == 0 && work.prefix.is_empty() {
        special.forced_bos.as_ref().map(std::array::from_ref)
    } else {
        None
    }
}

/// The token that a question's answer means.
pub fn choose(
    work: &GenerateWork,
    sequence: &Sequence,
    tokens: &[Token],
) -> Result<Token, RequestError> {
    if tokens.iter().any(|token| token.logprob.is_nan()) {
        return Err(super::not_a_number());
    }
    let first = tokens.first().copied();
    let chosen = match work.strategy {
        Strategy::Sample { temperature, seed, .. } if work.among.is_some() => {
            let noise = Noise::new(seed, work.row, sequence.sample, sequence.new.len() as u32);
            let worth = |token: &Token| {
                f64::from(token.logprob) / f64::from(temperature) + noise.gumbel(token.id)
            };
            let best = tokens
                .iter()
                .max_by(|a, b| worth(a).total_cmp(&worth(b)).then_with(|| b.id.cmp(&a.id)));
            best.copied()
        }
        _ => first,
    };
    chosen.ok_or_else(|| RequestError::Failed("no token may follow".to_owned()))
}
