//! Log-probabilities of continuations; whatever several texts begin with is computed once.

use super::blocks::{Span, blocks_for};
use super::counters::Counters;
use super::forest::{Forest, run_steps};
use super::job::{Job, ScoreWork};
use super::kept::Kept;
use super::pace::{Failure, Pace};
use super::queue::Queue;
use super::step::Step;
use crate::backend::{Backend, DeviceError};
use crate::network::{Head, Stack};
use crate::request::{Answer, Body, RequestError, Scored};

/// Steps that a batch fills, roughly: more share more, fewer answer sooner.
const STEPS_PER_BATCH: usize = 4;

/// A batch and the blocks it was promised.
pub struct Batch {
    pub jobs: Vec<Job<ScoreWork>>,
    pub promised: usize,
    /// All their continuations, each of which asks about some rows.
    pub questions: usize,
}

/// Takes neighbours off the queue until they fill some steps or the cache.
pub fn take<B: Backend>(queue: &Queue, step: &mut Step<B>, pace: Pace) -> Batch {
    let mut batch = Batch { jobs: Vec::new(), promised: 0, questions: 0 };
    let most = step.capacity().min(pace.rows);
    let budget = most * STEPS_PER_BATCH;
    let mut rows = 0;
    queue.take(|waiting| {
        while rows < budget {
            let mut promised = 0;
            let last = batch.jobs.last().map(|job| &job.work);
            let Some(job) = waiting.score.pop_if(|next| {
                let (new_rows, new_blocks) = cost(last, next);
                // All questions might be about one row, and a row's questions are asked in one step.
                let together = batch.questions + next.continuations.len() <= most
                    && batch.jobs.len() < pace.requests
                    && rows + new_rows <= budget;
                let fits = last.is_none() || together;
                let promise = fits && step.blocks.promise(new_blocks);
                if promise {
                    rows += new_rows;
                    promised = new_blocks;
                }
                promise
            }) else {
                break;
            };
            batch.promised += promised;
            batch.questions += job.work.continuations.len();
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

/// What stands before the continuations.
fn prompt(work: &ScoreWork) -> &[u32] {
    work.continuations.first().map_or(&[], |(tokens, before)| &tokens[..*before])
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A continuation's sum so far.
#[derive(Clone, Copy)]
pub struct Sum {
    pub logprob: f64,
    /// Whether all its tokens were the likeliest.
    pub is_greedy: bool,
}

/// Judges one batch.
pub struct Scorer<'a, B: Backend> {
    pub backend: &'a mut B,
    pub stack: &'a Stack<B>,
    pub head: &'a Head<B>,
    pub step: &'a mut Step<B>,
    pub kept: &'a mut Kept,
    pub counters: &'a Counters,
}

impl<B: Backend> Scorer<'_, B> {
    /// Judges `batch`; `sources[i]` is what the encoder left of job `i`, empty for a decoder alone.
    /// The sums of each job's continuations.
    pub fn run(
        &mut self,
        batch: &Batch,
        mut sources: Vec<Span>,
        pace: Pace,
    ) -> Result<Vec<Vec<Sum>>, Failure> {
        let jobs = &batch.jobs;
        let mut sums: Vec<Vec<Sum>> = jobs
            .iter()
            .map(|job| vec![Sum { logprob: 0.0, is_greedy: true }; job.work.continuations.len()])
            .collect();
        // All questions might be about one row, and a row's questions are asked in one step.
        self.step.allow(pace.rows.max(batch.questions));
        let judged = self.compute(jobs, &sources, &mut sums);
        for source in &mut sources {
            self.step.blocks.release(source);
        }
        let (requests, rows, least) = (jobs.len(), self.step.rows(), batch.questions);
        let rows = judged.map_err(|error| Failure { error, requests, rows, least })?;
        self.counters.decoded(rows);
        Ok(sums)
    }

    fn compute(
        &mut self,
        jobs: &[Job<ScoreWork>],
        sources: &[Span],
        sums: &mut [Vec<Sum>],
    ) -> Result<usize, DeviceError> {
        let nothing = Span::default();
        // What two texts read may differ even where they write the same: a tree each, but one batch
        // of rows.
        let apart = sources.iter().any(|source| !source.refs.is_empty());
        let mut forests: Vec<Forest<'_>> = if apart {
            let each = sources.iter().enumerate();
            each.map(|(index, source)| Forest::new(jobs, index..index + 1, source)).collect()
        } else {
            vec![Forest::new(jobs, 0..jobs.len(), &nothing)]
        };
        let whole = forests.first_mut().filter(|_| !apart);
        let reused = whole.map_or(0, |forest| forest.reuse(self.kept, &mut self.step.blocks));
        let done = run_steps(self, &mut forests, sums, reused);
        if let (Some(forest), Ok(_)) = (forests.first().filter(|_| !apart), &done) {
            forest.keep(self.kept, &mut self.step.blocks);
        }
        for forest in &mut forests {
            forest.release(&mut self.step.blocks);
        }
        done
    }
}

/// The answer to `work`, whose sums are `sums`.
pub fn answer(work: &ScoreWork, sums: &[Sum]) -> Result<Answer, RequestError> {
    if sums.iter().any(|sum| sum.logprob.is_nan()) {
        return Err(super::not_a_number());
    }
    let scored = |((tokens, before), sum): (&(Vec<u32>, usize), &Sum)| Scored {
        logprob: sum.logprob,
        tokens: (tokens.len() - before) as u32,
        is_greedy: sum.is_greedy,
    };
    Ok(Answer {
        prompt_tokens: work.prompt_tokens,
        prompt_truncated: work.prompt_truncated,
        body: Body::Scores(work.continuations.iter().zip(sums).map(scored).collect()),
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
