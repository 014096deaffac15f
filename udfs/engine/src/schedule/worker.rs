//! A thread that answers: it keeps as many answers under way as fit, and refills as they end.

use std::sync::Arc;

use super::batch_size::{AdaptiveBatchSize, PassFailure};
use super::block_pool::{BlockTable, blocks_for};
use super::counters::Counters;
use super::detokenizer::Detokenizer;
use super::job::{GenerateWork, Job};
use super::limits::Limits;
use super::prefix_cache::PrefixCache;
use super::queue::{Ordered, Queue, WaitingJobs};
use super::score::{self, Scorer};
use super::sequence_group::{self, SequenceGroup};
use super::vectors;
use super::workspace::{WorkerWorkspace, stacks};
use crate::backend::{Backend, DeviceError};
use crate::network::{LmHead, Network, Stack};
use crate::request::RequestError;

/// What a worker shares with others.
pub struct Shared<B: Backend> {
    pub network: Arc<Network<B>>,
    pub queue: Arc<Queue>,
    /// The tokenizer and its special tokens.
    pub detokenizer: Arc<Detokenizer>,
    pub counters: Arc<Counters>,
}

/// A worker with its own device memory.
pub struct Worker<B: Backend> {
    shared: Shared<B>,
    backend: B,
    limits: Limits,
    batch_size: AdaptiveBatchSize,
    workspace: WorkerWorkspace<B>,
    groups: Vec<SequenceGroup>,
    prefix_cache: PrefixCache,
}

impl<B: Backend> Worker<B> {
    /// A worker that computes with `backend` within `limits`, for which `workspace` was made.
    pub fn new(
        shared: Shared<B>,
        backend: B,
        limits: Limits,
        workspace: WorkerWorkspace<B>,
    ) -> Self {
        let batch_size = AdaptiveBatchSize::new(limits.max_batch_tokens);
        let (groups, prefix_cache) = (Vec::new(), PrefixCache::default());
        Self { shared, backend, limits, batch_size, workspace, groups, prefix_cache }
    }

    /// Works until the queue is closed. Answers under way then are dropped.
    pub fn run(mut self) {
        while !self.groups.is_empty() || self.shared.queue.wait().is_some() {
            if self.shared.queue.is_closed() {
                return;
            }
            let busy = [self.vectors(), self.score(), self.generate()];
            if !busy.contains(&true)
                && let Some(step) = &mut self.workspace.step
            {
                // The cached prefix holds blocks that a waiting request may need.
                self.prefix_cache.clear(&mut step.blocks);
            }
        }
    }

    /// One batch of vectors.
    fn vectors(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (encoder, decoder) = stacks(&network.transformer);
        let (queue, batch_size) = (&self.shared.queue, self.batch_size.now());
        let admits = |lengths: &[usize], more: usize| {
            batch_size.admits(lengths.len(), lengths.iter().sum::<usize>() + more)
        };
        let mut reserved = 0;
        let jobs = match (&self.workspace.encoder, &mut self.workspace.step) {
            (Some(encoder), _) => vectors::take(queue, |lengths, more| {
                admits(lengths, more) && encoder.fits(lengths, more)
            }),
            (None, Some(step)) => vectors::take(queue, |lengths, more| {
                let fits = lengths.iter().sum::<usize>() + more <= step.capacity();
                let blocks = blocks_for(more);
                let reserve = admits(lengths, more) && fits && step.blocks.reserve(blocks);
                reserved += if reserve { blocks } else { 0 };
                reserve
            }),
            (None, None) => Vec::new(),
        };
        if jobs.is_empty() {
            return false;
        }
        let rows = jobs.iter().map(|job| job.work.tokens.len()).sum();
        let WorkerWorkspace { encoder: encodes, step, vectors, .. } = &mut self.workspace;
        let backend = &mut self.backend;
        let done = match (encoder, decoder, encodes, step) {
            (Some(stack), _, Some(encoder), _) => {
                self.shared.counters.encoded(rows);
                vectors.encode(backend, &network, stack, encoder, &jobs)
            }
            (_, Some(stack), _, Some(step)) => {
                self.shared.counters.decoded(rows);
                let done = vectors.decode(backend, &network, stack, step, &jobs);
                step.blocks.release(reserved);
                done
            }
            _ => Ok(()),
        };
        match done {
            Ok(()) => {
                self.shared.counters.answered(jobs.len());
                self.workspace.vectors.answer(jobs);
            }
            Err(error) => {
                // A text is read in one piece.
                let least = if jobs.len() == 1 { rows } else { 0 };
                let failure = PassFailure { error, requests: jobs.len(), rows, least };
                self.give_back(jobs, &failure, |waiting| &mut waiting.vector);
            }
        }
        true
    }

    /// One batch of continuations to be scored.
    fn score(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = stacks(&network.transformer) else { return false };
        let Some(head) = &network.head else { return false };
        let Some(step) = &mut self.workspace.step else { return false };
        let batch_size = self.batch_size.now();
        let batch = score::take(&self.shared.queue, step, batch_size);
        if batch.jobs.is_empty() {
            return false;
        }
        let texts: Vec<Vec<&[u32]>> = batch
            .jobs
            .iter()
            .map(|job| job.work.passage.chunks(job.work.passage.len().max(1)).collect())
            .collect();
        let encoder_states = self.encode(&texts);
        let Some(step) = &mut self.workspace.step else { return false };
        let (backend, prefix_cache) = (&mut self.backend, &mut self.prefix_cache);
        let counters = &*self.shared.counters;
        let scored = encoder_states.and_then(|encoder_states| {
            let mut scorer = Scorer { backend, stack, head, step, prefix_cache, counters };
            scorer.run(&batch, encoder_states, batch_size)
        });
        step.blocks.release(batch.reserved);
        match scored {
            Ok(sums) => {
                // Who has an answer sees it counted.
                counters.answered(batch.jobs.len());
                for (job, sums) in batch.jobs.into_iter().zip(sums) {
                    let answer = score::answer(&job.work, &sums);
                    job.answer(answer);
                }
            }
            Err(failure) => self.give_back(batch.jobs, &failure, |waiting| &mut waiting.score),
        }
        true
    }

    /// One step of all answers under way, after new ones were begun.
    fn generate(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = stacks(&network.transformer) else { return false };
        let Some(head) = &network.head else { return false };
        self.begin();
        if self.groups.is_empty() {
            return false;
        }
        let detokenizer = Arc::clone(&self.shared.detokenizer);
        let advanced = self.advance(stack, head, &detokenizer);
        let Some(step) = &mut self.workspace.step else { return false };
        match advanced {
            Ok(failures) => {
                for (group, failure) in extract_done(&mut self.groups, failures) {
                    self.shared.counters.answered(1);
                    group.finish(&mut step.blocks, &detokenizer, failure);
                }
            }
            Err(failure) => {
                // Their answers are generated again: the same, as nothing but a request decides them.
                let groups = self.groups.drain(..);
                let jobs = groups.map(|group| group.give_up(&mut step.blocks)).collect();
                self.give_back(jobs, &failure, |waiting| &mut waiting.generate);
            }
        }
        true
    }

    /// Takes generations off the queue while there is room, and encodes what they read.
    fn begin(&mut self) {
        let Some(step) = &mut self.workspace.step else { return };
        let batch_size = self.batch_size.now();
        let mut sequences: usize = self
            .groups
            .iter()
            .map(|group| sequence_group::sequences(group.job.work.strategy))
            .sum();
        let mut tokens = 0;
        let mut jobs: Vec<(Job<GenerateWork>, usize)> = Vec::new();
        self.shared.queue.take(|waiting| {
            while tokens < self.limits.max_batch_tokens {
                let mut reserved = 0;
                let under_way = self.groups.len() + jobs.len();
                let Some(job) = waiting.generate.pop_if(|next| {
                    let needed = sequence_group::blocks_needed(next);
                    let fits = under_way < batch_size.requests
                        && sequences + sequence_group::sequences(next.strategy)
                            <= self.limits.max_num_seqs
                        && step.blocks.reserve(needed);
                    reserved = needed;
                    fits
                }) else {
                    break;
                };
                sequences += sequence_group::sequences(job.work.strategy);
                tokens += job.work.decoder_prompt.len();
                tokens += job.work.passages.iter().map(Vec::len).sum::<usize>();
                jobs.push((job, reserved));
            }
        });
        let texts: Vec<Vec<&[u32]>> = jobs
            .iter()
            .map(|(job, _)| job.work.passages.iter().map(Vec::as_slice).collect())
            .collect();
        match self.encode(&texts) {
            Ok(encoder_states) => {
                let ends = &self.shared.detokenizer.special.ends;
                let begun = jobs.into_iter().zip(encoder_states);
                self.groups.extend(begun.map(|((job, reserved), encoder_states)| {
                    SequenceGroup::new(job, encoder_states, reserved, ends)
                }));
            }
            Err(failure) => {
                let mut given_back = Vec::with_capacity(jobs.len());
                for (job, reserved) in jobs {
                    if let Some(step) = &mut self.workspace.step {
                        step.blocks.release(reserved);
                    }
                    given_back.push(job);
                }
                self.give_back(given_back, &failure, |waiting| &mut waiting.generate);
            }
        }
    }

    /// One step. What it says about each group that failed.
    fn advance(
        &mut self,
        stack: &Stack<B>,
        head: &LmHead<B>,
        detokenizer: &Detokenizer,
    ) -> Result<Vec<Option<RequestError>>, PassFailure> {
        let Some(step) = &mut self.workspace.step else { return Ok(Vec::new()) };
        step.clear();
        // All beams take a step together, and the first tokens of all samples come from one row.
        let together =
            self.groups.iter().map(|group| sequence_group::sequences(group.job.work.strategy));
        let least = together.max().unwrap_or(1);
        step.allow(self.batch_size.now().rows.max(least));
        let mut failures: Vec<Option<RequestError>> = self
            .groups
            .iter_mut()
            .map(|group| {
                if group.job.is_cancelled() {
                    return Some(RequestError::Cancelled);
                }
                let fits = group.schedule(step, detokenizer);
                (!fits).then(|| RequestError::Failed("the KV cache is full".to_owned()))
            })
            .collect();
        let (requests, rows) = (self.groups.len(), step.rows());
        self.shared.counters.decoded(rows);
        let output = step.run(&mut self.backend, stack, head);
        let output = output.map_err(|error| PassFailure { error, requests, rows, least })?.clone();
        for (group, failure) in self.groups.iter_mut().zip(&mut failures) {
            if failure.is_none() {
                let taken = group.take(&mut step.blocks, |place| output.of(place), detokenizer);
                *failure = taken.err();
            }
        }
        Ok(failures)
    }

    /// See [`WorkerWorkspace::encode`].
    fn encode(&mut self, jobs: &[Vec<&[u32]>]) -> Result<Vec<BlockTable>, PassFailure> {
        let Self { shared, backend, batch_size, workspace, .. } = self;
        workspace.encode(backend, &shared.network, jobs, batch_size.now(), &shared.counters)
    }

    /// After a pass over `jobs` failed: they are queued again if the device ran out of memory and smaller
    /// passes may fit, or else fail.
    fn give_back<K: Ord, W>(
        &mut self,
        jobs: Vec<Job<W>>,
        failure: &PassFailure,
        kind: impl FnOnce(&mut WaitingJobs) -> &mut Ordered<K, W>,
    ) {
        if self.batch_size.shrink(failure) {
            self.shared.queue.give_back(jobs, kind);
            return;
        }
        self.shared.counters.answered(jobs.len());
        let why = match &failure.error {
            DeviceError::OutOfMemory { .. } => format!(
                "{}, even for this request alone; shorten it, ask for fewer answers at a time, or \
                 lower the model's `kv_cache_mib`",
                failure.error
            ),
            DeviceError::Failed(_) => failure.error.to_string(),
        };
        for job in jobs {
            job.answer(Err(RequestError::Failed(why.clone())));
        }
    }
}

/// Removes the groups that are done or failed; the others keep their order.
fn extract_done(
    groups: &mut Vec<SequenceGroup>,
    failures: Vec<Option<RequestError>>,
) -> Vec<(SequenceGroup, Option<RequestError>)> {
    let mut done = Vec::new();
    let mut going = Vec::with_capacity(groups.len());
    for (group, failure) in groups.drain(..).zip(failures) {
        if failure.is_some() || group.is_done() {
            done.push((group, failure));
        } else {
            going.push(group);
        }
    }
    *groups = going;
    done
}
