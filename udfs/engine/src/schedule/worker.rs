//! A thread that answers: it keeps as many answers under way as fit, and refills as they end.

use std::sync::Arc;

use super::blocks::{Span, blocks_for};
use super::counters::Counters;
use super::group::{self, Group};
use super::job::{GenerateWork, Job};
use super::kept::Kept;
use super::limits::Limits;
use super::pace::{Failure, Learned};
use super::queue::{Ordered, Queue, Waiting};
use super::room::{Room, stacks};
use super::score::{self, Scorer};
use super::vectors;
use super::words::Words;
use crate::backend::{Backend, DeviceError};
use crate::network::{Head, Network, Stack};
use crate::request::RequestError;

/// What a worker shares with others.
pub struct Shared<B: Backend> {
    pub network: Arc<Network<B>>,
    pub queue: Arc<Queue>,
    /// Tokens and texts.
    pub words: Arc<Words>,
    pub counters: Arc<Counters>,
}

/// A worker with its own device memory.
pub struct Worker<B: Backend> {
    shared: Shared<B>,
    backend: B,
    limits: Limits,
    pace: Learned,
    room: Room<B>,
    groups: Vec<Group>,
    kept: Kept,
}

impl<B: Backend> Worker<B> {
    /// A worker that computes with `backend` within `limits`, for which `room` was made.
    pub fn new(shared: Shared<B>, backend: B, limits: Limits, room: Room<B>) -> Self {
        let pace = Learned::new(limits.step_tokens);
        let (groups, kept) = (Vec::new(), Kept::default());
        Self { shared, backend, limits, pace, room, groups, kept }
    }

    /// Works until the queue is closed. Answers under way then are dropped.
    pub fn run(mut self) {
        while !self.groups.is_empty() || self.shared.queue.wait().is_some() {
            if self.shared.queue.is_closed() {
                return;
            }
            let busy = [self.vectors(), self.score(), self.generate()];
            if !busy.contains(&true)
                && let Some(step) = &mut self.room.step
            {
                // What was kept stands in the way of what waits.
                self.kept.forget(&mut step.blocks);
            }
        }
    }

    /// One batch of vectors.
    fn vectors(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (encoder, decoder) = stacks(&network.reader);
        let (queue, pace) = (&self.shared.queue, self.pace.now());
        let admits = |lengths: &[usize], more: usize| {
            pace.admits(lengths.len(), lengths.iter().sum::<usize>() + more)
        };
        let mut promised = 0;
        let jobs = match (&self.room.encoder, &mut self.room.step) {
            (Some(encoder), _) => vectors::take(queue, |lengths, more| {
                admits(lengths, more) && encoder.fits(lengths, more)
            }),
            (None, Some(step)) => vectors::take(queue, |lengths, more| {
                let fits = lengths.iter().sum::<usize>() + more <= step.capacity();
                let blocks = blocks_for(more);
                let promise = admits(lengths, more) && fits && step.blocks.promise(blocks);
                promised += if promise { blocks } else { 0 };
                promise
            }),
            (None, None) => Vec::new(),
        };
        if jobs.is_empty() {
            return false;
        }
        let rows = jobs.iter().map(|job| job.work.tokens.len()).sum();
        let Room { encoder: encodes, step, vectors, .. } = &mut self.room;
        let backend = &mut self.backend;
        let done = match (encoder, decoder, encodes, step) {
            (Some(stack), _, Some(encoder), _) => {
                self.shared.counters.encoded(rows);
                vectors.encode(backend, &network, stack, encoder, &jobs)
            }
            (_, Some(stack), _, Some(step)) => {
                self.shared.counters.decoded(rows);
                let done = vectors.decode(backend, &network, stack, step, &jobs);
                step.blocks.absolve(promised);
                done
            }
            _ => Ok(()),
        };
        match done {
            Ok(()) => {
                self.shared.counters.answered(jobs.len());
                self.room.vectors.answer(jobs);
            }
            Err(error) => {
                // A text is read in one piece.
                let least = if jobs.len() == 1 { rows } else { 0 };
                let failure = Failure { error, requests: jobs.len(), rows, least };
                self.give_back(jobs, &failure, |waiting| &mut waiting.vector);
            }
        }
        true
    }

    /// One batch of texts to be judged.
    fn score(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = stacks(&network.reader) else { return false };
        let Some(head) = &network.head else { return false };
        let Some(step) = &mut self.room.step else { return false };
        let pace = self.pace.now();
        let batch = score::take(&self.shared.queue, step, pace);
        if batch.jobs.is_empty() {
            return false;
        }
        let texts: Vec<Vec<&[u32]>> = batch
            .jobs
            .iter()
            .map(|job| job.work.passage.chunks(job.work.passage.len().max(1)).collect())
            .collect();
        let sources = self.encode(&texts);
        let Some(step) = &mut self.room.step else { return false };
        let (backend, kept) = (&mut self.backend, &mut self.kept);
        let counters = &*self.shared.counters;
        let judged = sources.and_then(|sources| {
            let mut scorer = Scorer { backend, stack, head, step, kept, counters };
            scorer.run(&batch, sources, pace)
        });
        step.blocks.absolve(batch.promised);
        match judged {
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
        let (_, Some(stack)) = stacks(&network.reader) else { return false };
        let Some(head) = &network.head else { return false };
        self.begin();
        if self.groups.is_empty() {
            return false;
        }
        let words = Arc::clone(&self.shared.words);
        let advanced = self.advance(stack, head, &words);
        let Some(step) = &mut self.room.step else { return false };
        match advanced {
            Ok(failures) => {
                for (group, failure) in extract_done(&mut self.groups, failures) {
                    self.shared.counters.answered(1);
                    group.finish(&mut step.blocks, &words, failure);
                }
            }
            Err(failure) => {
                // What they said so far is said again: the same, as nothing but a request decides.
                let groups = self.groups.drain(..);
                let jobs = groups.map(|group| group.give_up(&mut step.blocks)).collect();
                self.give_back(jobs, &failure, |waiting| &mut waiting.generate);
            }
        }
        true
    }

    /// Takes generations off the queue while there is room, and encodes what they read.
    fn begin(&mut self) {
        let Some(step) = &mut self.room.step else { return };
        let pace = self.pace.now();
        let mut sequences: usize =
            self.groups.iter().map(|group| group::sequences(group.job.work.strategy)).sum();
        let mut tokens = 0;
        let mut jobs: Vec<(Job<GenerateWork>, usize)> = Vec::new();
        self.shared.queue.take(|waiting| {
            while tokens < self.limits.step_tokens {
                let mut promised = 0;
                let under_way = self.groups.len() + jobs.len();
                let Some(job) = waiting.generate.pop_if(|next| {
                    let needed = group::blocks_needed(next);
                    let fits = under_way < pace.requests
                        && sequences + group::sequences(next.strategy) <= self.limits.sequences
                        && step.blocks.promise(needed);
                    promised = needed;
                    fits
                }) else {
                    break;
                };
                sequences += group::sequences(job.work.strategy);
                tokens += job.work.opening.len();
                tokens += job.work.passages.iter().map(Vec::len).sum::<usize>();
                jobs.push((job, promised));
            }
        });
        let texts: Vec<Vec<&[u32]>> = jobs
            .iter()
            .map(|(job, _)| job.work.passages.iter().map(Vec::as_slice).collect())
            .collect();
        match self.encode(&texts) {
            Ok(sources) => {
                let ends = &self.shared.words.special.ends;
                let begun = jobs.into_iter().zip(sources);
                self.groups.extend(
                    begun.map(|((job, promised), source)| Group::new(job, source, promised, ends)),
                );
            }
            Err(failure) => {
                let mut given_back = Vec::with_capacity(jobs.len());
                for (job, promised) in jobs {
                    if let Some(step) = &mut self.room.step {
                        step.blocks.absolve(promised);
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
        head: &Head<B>,
        words: &Words,
    ) -> Result<Vec<Option<RequestError>>, Failure> {
        let Some(step) = &mut self.room.step else { return Ok(Vec::new()) };
        step.clear();
        // All beams take a step together, and the first tokens of all samples are asked of one row.
        let together = self.groups.iter().map(|group| group::sequences(group.job.work.strategy));
        let least = together.max().unwrap_or(1);
        step.allow(self.pace.now().rows.max(least));
        let mut failures: Vec<Option<RequestError>> = self
            .groups
            .iter_mut()
            .map(|group| {
                if group.job.is_cancelled() {
                    return Some(RequestError::Cancelled);
                }
                let fed = group.feed(step, words);
                (!fed).then(|| RequestError::Failed("the cache is full".to_owned()))
            })
            .collect();
        let (requests, rows) = (self.groups.len(), step.rows());
        self.shared.counters.decoded(rows);
        let picked = step.run(&mut self.backend, stack, head);
        let picked = picked.map_err(|error| Failure { error, requests, rows, least })?.clone();
        for (group, failure) in self.groups.iter_mut().zip(&mut failures) {
            if failure.is_none() {
                let taken = group.take(&mut step.blocks, |place| picked.of(place), words);
                *failure = taken.err();
            }
        }
        Ok(failures)
    }

    /// Encodes the texts of each job, and leaves what the decoder reads of them in its cache.
    fn encode(&mut self, jobs: &[Vec<&[u32]>]) -> Result<Vec<Span>, Failure> {
        let Self { shared, backend, pace, room, .. } = self;
        room.encode(backend, &shared.network, jobs, pace.now(), &shared.counters)
    }

    /// After a pass over `jobs` failed: they wait again if the device had no room and smaller passes
    /// may have, or else fail.
    fn give_back<K: Ord, W>(
        &mut self,
        jobs: Vec<Job<W>>,
        failure: &Failure,
        kind: impl FnOnce(&mut Waiting) -> &mut Ordered<K, W>,
    ) {
        if self.pace.slow_down(failure) {
            self.shared.queue.give_back(jobs, kind);
            return;
        }
        self.shared.counters.answered(jobs.len());
        let why = match &failure.error {
            DeviceError::OutOfMemory { .. } => format!(
                "{}, even for this request alone; shorten it, ask for fewer answers at a time, or \
                 lower the model's `cache_mib`",
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
    groups: &mut Vec<Group>,
    failures: Vec<Option<RequestError>>,
) -> Vec<(Group, Option<RequestError>)> {
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
