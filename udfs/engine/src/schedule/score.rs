//! Log-probabilities of continuations; whatever several texts begin with is computed once.

use super::batch_size::BatchSize;
use super::block_pool::blocks_for;
use super::caches::Caches;
use super::detokenizer::Detokenizer;
use super::encoder_cache::Source;
use super::job::{Job, ScoreWork};
use super::queue::Queue;
use super::step::Step;
use crate::backend::Backend;
use crate::request::{Answer, Body, RequestError, Scored};

/// Steps that a batch fills, roughly: more share more, fewer answer sooner.
const STEPS_PER_BATCH: usize = 4;

/// A batch and what it holds.
pub struct Batch {
    pub jobs: Vec<Job<ScoreWork>>,
    /// What the encoder reads for each job.
    pub sources: Vec<Vec<Source>>,
    /// Blocks reserved for what decoders read.
    pub reserved: usize,
    /// All their continuations, each of which samples some rows.
    pub samples: usize,
}

/// Takes neighbours off the queue until they fill some steps or the cache.
pub fn take<B: Backend>(
    queue: &Queue,
    step: &mut Step<B>,
    caches: &mut Caches,
    batch_size: BatchSize,
) -> Batch {
    let mut batch = Batch { jobs: Vec::new(), sources: Vec::new(), reserved: 0, samples: 0 };
    let most = step.capacity().min(batch_size.rows);
    let budget = most * STEPS_PER_BATCH;
    let mut rows = 0;
    queue.take(|waiting| {
        while rows < budget {
            let (mut reserved, mut sources) = (0, Vec::new());
            let last = batch.jobs.last().map(|job| &job.work);
            let Some(job) = waiting.score.pop_if(|next| {
                let (new_rows, new_blocks) = cost(last, next);
                // All targets might be of one row, and a row's targets are sampled in one step.
                let together = batch.samples + next.continuations.len() <= most
                    && batch.jobs.len() < batch_size.requests
                    && rows + new_rows <= budget;
                if last.is_some() && !together {
                    return false;
                }
                let own = new_blocks - blocks_for(next.passage.len());
                if next.passage.is_empty() {
                    if !caches.prefix.reserve(own, &mut step.blocks) {
                        return false;
                    }
                } else {
                    let passages = std::slice::from_ref(&next.passage);
                    let Some(held) = caches.encoder.admit(passages, own, &mut step.blocks) else {
                        return false;
                    };
                    sources = held;
                }
                rows += new_rows;
                reserved = own;
                true
            }) else {
                break;
            };
            batch.sources.push(sources);
            batch.reserved += reserved;
            batch.samples += job.work.continuations.len();
            batch.jobs.push(job);
        }
    });
    batch
}

/// The most blocks that scoring `work` alone takes.
pub fn blocks_needed(work: &ScoreWork) -> usize {
    cost(None, work).1
}

/// Rows and blocks that `next` adds to a batch that ends with `last`, at most.
fn cost(last: Option<&ScoreWork>, next: &ScoreWork) -> (usize, usize) {
    let prompt = prompt(next);
    let known = last.filter(|_| next.passage.is_empty()).map_or(&[][..], self::prompt);
    let shared = common(known, prompt);
    let own: usize = next.continuations.iter().map(|(all, before)| all.len() - before).sum();
    let rows = next.passage.len() + prompt.len() - shared + own;
    // A node may leave a block partly used, and each continuation may add two nodes.
    let blocks = blocks_for(next.passage.len())
        + blocks_for(prompt.len() - shared)
        + 2
        + next
            .continuations
            .iter()
            .map(|(all, before)| blocks_for(all.len() - before) + 2)
            .sum::<usize>();
    (rows, blocks)
}

/// Tokens of its continuations, each with all that stands before it, as far as they are read.
pub fn requested_tokens(work: &ScoreWork) -> usize {
    let texts = work.continuations.iter().filter(|(all, before)| all.len() > *before);
    work.passage.len() + texts.map(|(all, _)| all.len() - 1).sum::<usize>()
}

/// The tokens before the continuations.
fn prompt(work: &ScoreWork) -> &[u32] {
    work.continuations.first().map_or(&[], |(tokens, before)| &tokens[..*before])
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A continuation's sum so far.
#[derive(Clone)]
pub struct LogprobSum {
    pub logprob: f64,
    /// Whether all its tokens were the likeliest.
    pub is_greedy: bool,
    /// The log-probability of each of its tokens, if they are requested.
    pub each: Option<Vec<f32>>,
    /// Of each token before it but the first, if they are requested.
    pub prompt: Option<Vec<f32>>,
}

impl LogprobSum {
    /// Of continuation `index` of `work`, before any of its tokens.
    pub fn new(work: &ScoreWork, index: usize) -> Self {
        Self {
            logprob: 0.0,
            is_greedy: true,
            each: work.logprobs.then(Vec::new),
            prompt: (work.prompt_logprobs && index == 0).then(Vec::new),
        }
    }

    /// Adds what the model says of token `place` of a text whose continuation begins with token `before`.
    pub fn add(&mut self, place: usize, before: usize, logprob: f32, is_likeliest: bool) {
        if place < before {
            self.prompt.iter_mut().for_each(|all| all.push(logprob));
            return;
        }
        self.logprob += f64::from(logprob);
        self.is_greedy &= is_likeliest;
        self.each.iter_mut().for_each(|all| all.push(logprob));
    }

    fn is_nan(&self) -> bool {
        let mut prompt = self.prompt.iter().flatten();
        self.logprob.is_nan() || prompt.any(|logprob| logprob.is_nan())
    }
}

impl ScoreWork {
    /// The first token of continuation `index` that is scored, those before it included.
    pub fn first_scored(&self, index: usize) -> usize {
        let before = self.continuations[index].1;
        if self.prompt_logprobs && index == 0 { before.min(1) } else { before }
    }
}

/// The answer to `work`, whose sums are `sums`.
pub fn answer(
    work: &ScoreWork,
    sums: &[LogprobSum],
    detokenizer: &Detokenizer,
) -> Result<Answer, RequestError> {
    if sums.iter().any(LogprobSum::is_nan) {
        return Err(super::not_a_number());
    }
    let token_logprobs = |before: &[u32], tokens: &[u32], logprobs: &[f32]| {
        let text = detokenizer.added(before, tokens)?;
        Ok(detokenizer.token_logprobs(before, tokens, &text, logprobs.iter().copied()))
    };
    let scored = |((tokens, before), sum): (&(Vec<u32>, usize), &LogprobSum)| {
        let (prompt, own) = tokens.split_at(*before);
        let prompt_token_logprobs = |logprobs: &Vec<f32>| -> Result<_, RequestError> {
            // Nothing stands before the first, so its probability is unknown.
            let all: Vec<f32> = [0.0].iter().chain(logprobs).copied().collect();
            let mut all = token_logprobs(&[], prompt, &all)?;
            all.iter_mut().take(1).for_each(|first| first.logprob = None);
            Ok(all)
        };
        Ok(Scored {
            logprob: sum.logprob,
            tokens: own.len() as u32,
            is_greedy: sum.is_greedy,
            logprobs: sum
                .each
                .as_ref()
                .map(|each| token_logprobs(prompt, own, each))
                .transpose()?,
            prompt_logprobs: sum.prompt.as_ref().map(prompt_token_logprobs).transpose()?,
        })
    };
    let scores = work.continuations.iter().zip(sums).map(scored);
    Ok(Answer {
        prompt_tokens: work.prompt_tokens,
        prompt_truncated: work.prompt_truncated,
        body: Body::Scores(scores.collect::<Result<_, RequestError>>()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(passage: usize, prompt: &[u32], continuations: &[&[u32]]) -> ScoreWork {
        let text = |new: &&[u32]| ([prompt, new].concat(), prompt.len());
        ScoreWork {
            passage: vec![1; passage],
            continuations: continuations.iter().map(text).collect(),
            logprobs: false,
            prompt_logprobs: false,
            prompt_tokens: 0,
            prompt_truncated: false,
        }
    }

    #[test]
    fn a_prompt_costs_its_tokens_and_a_continuation_its_own() {
        let work = work(0, &[7; 17], &[&[1, 2], &[3; 16], &[]]);
        // Blocks: 2 and 2 more, where nodes part; 1 + 2, 1 + 2, 0 + 2.
        assert_eq!(cost(None, &work), (17 + 18, 4 + 8));
        assert_eq!(blocks_needed(&work), 12);
    }

    #[test]
    fn what_the_neighbour_began_with_costs_nothing() {
        let last = work(0, &[7; 40], &[&[1]]);
        let mut prompt = [7; 50];
        prompt[39] = 8;
        assert_eq!(cost(Some(&last), &work(0, &prompt, &[&[1]])), (11 + 1, 1 + 2 + 3));
        assert_eq!(cost(Some(&last), &work(0, &[7; 20], &[&[1]])), (1, 2 + 3));
        // A decoder that reads an encoder's rows shares nothing with neighbours.
        assert_eq!(cost(Some(&last), &work(33, &[7], &[&[1]])), (33 + 2, 3 + 1 + 2 + 3));
    }

    #[test]
    fn what_is_read_costs_even_if_nothing_is_judged() {
        assert_eq!(cost(None, &work(33, &[], &[])), (33, 3 + 2));
        let none = work(0, &[7; 40], &[]);
        assert_eq!(cost(Some(&none), &work(0, &[7; 16], &[&[1]])), (17, 1 + 2 + 3));
    }
}
