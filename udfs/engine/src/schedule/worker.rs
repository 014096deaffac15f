//! A thread that answers: it keeps as many answers under way as fit, and refills as they end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch_size::{AdaptiveBatchSize, PassFailure};
use super::block_pool::blocks_for;
use super::caches::{Caches, Held};
use super::counters::Counters;
use super::detokenizer::Detokenizer;
use super::encoder_cache::Source;
use super::job::{GenerateWork, Job, VectorWork};
use super::limits::Limits;
use super::queue::{Ordered, Queue, WaitingJobs};
use super::score;
use super::scorer::Scorer;
use super::sequence_group::{self, SequenceGroup};
use super::vectors;
use super::workspace::WorkerWorkspace;
use crate::backend::{Backend, DeviceError, SamplerOutput};
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
    /// Of the groups: the step that was launched last, if its tokens were not read.
    in_flight: Option<InFlight<B>>,
    output: SamplerOutput,
    /// Generations whose texts are encoded, and for which there is no place yet.
    encoded: VecDeque<(Job<GenerateWork>, Held)>,
    caches: Caches,
}

/// A step that was launched.
struct InFlight<B: Backend> {
    /// What is to be read; `None` if it samples nothing.
    sampled: Option<B::Sampled>,
    /// As in [`PassFailure`], if it fails.
    requests: usize,
    rows: usize,
    least: usize,
}

/// When a step failed.
enum StepFailure {
    /// Before it was launched as a whole: what earlier steps compute is not touched.
    Launching(PassFailure),
    /// After that, and the steps behind it with it.
    Computing(PassFailure),
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
        Self {
            shared,
            backend,
            limits,
            batch_size,
            workspace,
            groups: Vec::new(),
            in_flight: None,
            output: SamplerOutput::default(),
            encoded: VecDeque::new(),
            caches: Caches::default(),
        }
    }

    /// Works until the queue is closed. Answers under way then are dropped.
    pub fn run(mut self) {
        loop {
            let queue = &self.shared.queue;
            let is_idle = self.groups.is_empty() && self.encoded.is_empty();
            if is_idle && self.backend.resting(|| queue.wait()).is_none() {
                return;
            }
            if self.shared.queue.is_closed() {
                return;
            }
            self.vectors();
            self.score();
            self.generate();
        }
    }

    /// One batch of vectors.
    fn vectors(&mut self) {
        let network = Arc::clone(&self.shared.network);
        let (encoder, decoder) = network.transformer.stacks();
        match (encoder, decoder) {
            (Some(stack), _) => self.encoded_vectors(&network, stack),
            (None, Some(stack)) => {
                self.last_token_vectors(&network, stack);
                self.whole_text_vectors(&network, stack);
            }
            (None, None) => {}
        }
    }

    /// One batch of vectors of an encoder.
    fn encoded_vectors(&mut self, network: &Network<B>, stack: &Stack<B>) {
        let WorkerWorkspace { encoder: Some(encoder), vectors, .. } = &mut self.workspace else {
            return;
        };
        let batch_size = self.batch_size.now();
        let mut lengths: Vec<usize> = Vec::new();
        let jobs = vectors::take(&self.shared.queue, |next| {
            let (rows, more) = (lengths.iter().sum::<usize>(), next.tokens.len());
            let fits =
                batch_size.admits(lengths.len(), rows + more) && encoder.fits(&lengths, more);
            lengths.push(more);
            fits
        });
        if jobs.is_empty() {
            return;
        }
        self.shared.counters.encoded(rows_of(&jobs));
        let done = vectors.encode(&mut self.backend, network, stack, encoder, &jobs);
        let pass = whole_texts(&jobs);
        self.answer_vectors(jobs, done, pass);
    }

    /// One batch of vectors for which a decoder reads whole texts.
    fn whole_text_vectors(&mut self, network: &Network<B>, stack: &Stack<B>) {
        let WorkerWorkspace { step: Some(step), vectors, .. } = &mut self.workspace else { return };
        let batch_size = self.batch_size.now();
        let (mut rows, mut requests, mut reserved) = (0, 0, 0);
        let caches = &mut self.caches;
        let jobs = vectors::take(&self.shared.queue, |next| {
            let (more, blocks) = (next.tokens.len(), blocks_for(next.tokens.len()));
            let fits = !vectors::is_of_last_token(next, network)
                && batch_size.admits(requests, rows + more)
                && rows + more <= step.capacity()
                && caches.prefix.reserve(blocks, &mut step.blocks);
            if fits {
                (rows, requests, reserved) = (rows + more, requests + 1, reserved + blocks);
            }
            fits
        });
        if jobs.is_empty() {
            return;
        }
        self.shared.counters.decoded(rows);
        let done = vectors.decode(&mut self.backend, network, stack, step, &jobs);
        step.blocks.release(reserved);
        let pass = whole_texts(&jobs);
        self.answer_vectors(jobs, done, pass);
    }

    /// One batch of vectors of the last tokens of texts, whose beginnings a decoder reads once.
    fn last_token_vectors(&mut self, network: &Network<B>, stack: &Stack<B>) {
        let WorkerWorkspace { step: Some(step), vectors, .. } = &mut self.workspace else { return };
        let batch_size = self.batch_size.now();
        let (mut rows, mut held): (usize, Vec<Held>) = (0, Vec::new());
        let (caches, limits) = (&mut self.caches, self.limits);
        let jobs = vectors::take(&self.shared.queue, |next| {
            // The last of them may take a step of its own.
            let fits = vectors::is_of_last_token(next, network)
                && batch_size.admits(held.len(), rows)
                && rows < step.capacity();
            let admitted = if fits {
                caches.admit(vectors::reads(next, limits.blocks), &mut step.blocks)
            } else {
                None
            };
            let Some(one) = admitted else { return false };
            rows += one.new_tokens + 1;
            held.push(one);
            true
        });
        if jobs.is_empty() {
            return;
        }
        let done = vectors.decode_last(
            (&mut self.backend, network, stack),
            (step, &mut caches.prefix),
            (&jobs, &held),
            batch_size.rows,
            &self.shared.counters,
        );
        for one in held {
            caches.release(one, &mut step.blocks);
        }
        let pass = (step.rows(), 1);
        self.answer_vectors(jobs, done, pass);
    }

    /// Answers `jobs` after their last pass, which had so many rows and needs at least so many.
    fn answer_vectors(
        &mut self,
        jobs: Vec<Job<VectorWork>>,
        done: Result<(), DeviceError>,
        (rows, least): (usize, usize),
    ) {
        match done {
            Ok(()) => {
                self.shared.counters.requested(rows_of(&jobs));
                self.shared.counters.answered(jobs.len());
                let network = Arc::clone(&self.shared.network);
                self.workspace.vectors.answer(&network, jobs);
            }
            Err(error) => {
                let failure = PassFailure { error, requests: jobs.len(), rows, least };
                self.give_back(jobs, &failure, |waiting| &mut waiting.vector);
            }
        }
    }

    /// One batch of continuations to be scored.
    fn score(&mut self) {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = network.transformer.stacks() else { return };
        let Some(head) = &network.head else { return };
        let Some(step) = &mut self.workspace.step else { return };
        let batch_size = self.batch_size.now();
        let mut batch = score::take(&self.shared.queue, step, &mut self.caches, batch_size);
        if batch.jobs.is_empty() {
            return;
        }
        let encoded = self.encode(batch.sources.iter().map(Vec::as_slice));
        let Some(step) = &mut self.workspace.step else { return };
        let (backend, Caches { prefix: prefix_cache, encoder }) =
            (&mut self.backend, &mut self.caches);
        let counters = &*self.shared.counters;
        let scored = encoded.and_then(|()| {
            let table = |sources: &Vec<Source>| encoder.table(sources, &mut step.blocks);
            let encoder_states = batch.sources.iter().map(table).collect();
            let mut scorer = Scorer { backend, stack, head, step, prefix_cache, counters };
            scorer.run(&mut batch, encoder_states, batch_size)
        });
        step.blocks.release(batch.reserved);
        for source in batch.sources.iter().flatten() {
            self.caches.encoder.unpin(source, &mut step.blocks);
        }
        match scored {
            Ok(sums) => {
                let requested = batch.jobs.iter().map(|job| score::requested_tokens(&job.work));
                counters.requested(requested.sum());
                // Who has an answer sees it counted.
                counters.answered(batch.jobs.len());
                for (job, sums) in batch.jobs.into_iter().zip(sums) {
                    let answer = score::answer(&job.work, &sums, &self.shared.detokenizer);
                    job.answer(answer);
                }
            }
            Err(failure) => self.give_back(batch.jobs, &failure, |waiting| &mut waiting.score),
        }
    }

    /// One step of all answers under way, after new ones were begun.
    fn generate(&mut self) {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = network.transformer.stacks() else { return };
        let Some(head) = &network.head else { return };
        let detokenizer = Arc::clone(&self.shared.detokenizer);
        match self.advance(stack, head, &detokenizer) {
            Ok(()) => self.finish_done(&detokenizer),
            Err(failure) => self.give_up(failure),
        }
    }

    /// Answers those that are done.
    fn finish_done(&mut self, detokenizer: &Detokenizer) {
        let Some(step) = &mut self.workspace.step else { return };
        for group in self.groups.extract_if(.., |group| group.is_done()) {
            self.shared.counters.requested(group.requested_tokens());
            self.shared.counters.answered(1);
            group.finish(&mut step.blocks, &mut self.caches, detokenizer);
        }
        if self.groups.is_empty() {
            // No group goes on with what it samples.
            self.in_flight = None;
        }
    }

    /// Gives up all steps in flight. Their answers are generated again: the same, as nothing but a request decides
    /// them.
    fn give_up(&mut self, failure: StepFailure) {
        self.in_flight = None;
        let Some(step) = &mut self.workspace.step else { return };
        let caches = &mut self.caches;
        let groups = self.groups.drain(..);
        let jobs = groups.map(|group| group.give_up(&mut step.blocks, caches)).collect();
        let failure = match failure {
            StepFailure::Launching(failure) => {
                caches.prefix.rollback(&mut step.blocks);
                failure
            }
            StepFailure::Computing(failure) => {
                // Whatever was launched before may not be there.
                let waiting = self.encoded.drain(..).map(|(job, held)| {
                    caches.release(held, &mut step.blocks);
                    job
                });
                let waiting = waiting.collect();
                caches.clear(&mut step.blocks);
                self.shared.queue.give_back(waiting, |waiting| &mut waiting.generate);
                failure
            }
        };
        self.give_back(jobs, &failure, |waiting| &mut waiting.generate);
    }

    /// Begins generations while there is room for their sequences.
    fn begin(&mut self) {
        self.begin_encoded();
        // Texts are encoded in full passes, ahead of the sequences that read them: a place that becomes
        // free would give the encoder a text at a time.
        if self.encoded.is_empty() {
            self.take_and_encode();
            self.begin_encoded();
        }
    }

    fn begin_encoded(&mut self) {
        let Some(step) = &mut self.workspace.step else { return };
        let (most, ends) = (self.batch_size.now().requests, &self.shared.detokenizer.special.ends);
        let of = |job: &Job<GenerateWork>| sequence_group::sequences(job.work.strategy);
        let mut sequences: usize = self.groups.iter().map(|group| of(&group.job)).sum();
        while self.groups.len() < most
            && let Some((job, held)) = self.encoded.pop_front_if(|(job, _)| {
                sequences += of(job);
                sequences <= self.limits.max_num_seqs
            })
        {
            let states = self.caches.encoder.table(&held.sources, &mut step.blocks);
            self.groups.push(SequenceGroup::new(job, states, held, ends));
        }
    }

    /// Takes generations off the queue, as many as there is room for or as an encoder reads in one pass, and
    /// encodes what they read.
    fn take_and_encode(&mut self) {
        let Some(step) = &mut self.workspace.step else { return };
        let batch_size = self.batch_size.now();
        let of = |work: &GenerateWork| sequence_group::sequences(work.strategy);
        let mut sequences: usize = self.groups.iter().map(|group| of(&group.job.work)).sum();
        let (mut tokens, mut under_way) = (0, self.groups.len());
        let mut jobs: Vec<(Job<GenerateWork>, Held)> = Vec::new();
        let caches = &mut self.caches;
        self.shared.queue.take(|waiting| {
            while tokens < self.limits.max_batch_tokens {
                let mut held = None;
                // What waits is also for other workers.
                let many = waiting.generate.len() > self.limits.max_num_seqs;
                let job = waiting.generate.pop_if(|next| {
                    let ahead = many && !next.passages.is_empty() && tokens < batch_size.rows;
                    let place = sequences + of(next) <= self.limits.max_num_seqs;
                    if (place || ahead) && under_way < batch_size.requests {
                        held = caches.admit(sequence_group::reads(next), &mut step.blocks);
                    }
                    held.is_some()
                });
                let (Some(job), Some(held)) = (job, held) else { break };
                sequences += of(&job.work);
                under_way += 1;
                tokens += held.new_tokens + 1;
                jobs.push((job, held));
            }
        });
        match self.encode(jobs.iter().map(|(_, held)| &held.sources[..])) {
            Ok(()) => self.encoded.extend(jobs),
            Err(failure) => {
                let mut given_back = Vec::with_capacity(jobs.len());
                for (job, held) in jobs {
                    if let Some(step) = &mut self.workspace.step {
                        self.caches.release(held, &mut step.blocks);
                    }
                    given_back.push(job);
                }
                self.give_back(given_back, &failure, |waiting| &mut waiting.generate);
            }
        }
    }

    /// Reads the tokens of a step. Where the device computes meanwhile and no answer under way needs these tokens to go
    /// on, the next step is launched before.
    fn advance(
        &mut self,
        stack: &Stack<B>,
        head: &LmHead<B>,
        detokenizer: &Detokenizer,
    ) -> Result<(), StepFailure> {
        if self.in_flight.is_none() {
            let first = self.launch(stack, head, detokenizer);
            self.in_flight = first.map_err(StepFailure::Launching)?;
            self.groups.iter_mut().for_each(SequenceGroup::step_on);
        }
        let goes_on = self.backend.runs_ahead()
            && self.in_flight.is_some()
            && self.groups.iter().all(SequenceGroup::goes_on_unread);
        let next = if goes_on { self.launch(stack, head, detokenizer) } else { Ok(None) };
        let next = next.map_err(StepFailure::Launching)?;
        if let Some(step) = std::mem::replace(&mut self.in_flight, next) {
            self.read(step, detokenizer).map_err(StepFailure::Computing)?;
        }
        self.groups.iter_mut().for_each(SequenceGroup::step_on);
        Ok(())
    }

    /// Launches a step of all answers under way, after new ones were begun; `None` if none of them has anything to
    /// compute.
    fn launch(
        &mut self,
        stack: &Stack<B>,
        head: &LmHead<B>,
        detokenizer: &Detokenizer,
    ) -> Result<Option<InFlight<B>>, PassFailure> {
        self.begin();
        let Some(step) = &mut self.workspace.step else { return Ok(None) };
        step.clear();
        // All beams take a step together, and the first tokens of all samples come from one row.
        let together =
            self.groups.iter().map(|group| sequence_group::sequences(group.job.work.strategy));
        let least = together.max().unwrap_or(1);
        step.allow(self.batch_size.now().rows.max(least));
        let caches = &mut self.caches;
        let groups = self.groups.iter_mut().filter(|group| group.failure.is_none());
        groups.for_each(|group| group.schedule(step, caches, detokenizer));
        let (requests, rows) = (self.groups.len(), step.rows());
        if rows == 0 {
            return Ok(None);
        }
        self.shared.counters.decoded(rows);
        let failed = |error| PassFailure { error, requests, rows, least };
        let sampled = step.launch(&mut self.backend, stack, head).map_err(failed)?;
        caches.prefix.commit();
        Ok(Some(InFlight { sampled, requests, rows, least }))
    }

    /// Waits for what a step sampled, and hands it to the groups.
    fn read(&mut self, step: InFlight<B>, detokenizer: &Detokenizer) -> Result<(), PassFailure> {
        let InFlight { sampled, requests, rows, least } = step;
        let Some(sampled) = sampled else { return Ok(()) };
        let failed = |error| PassFailure { error, requests, rows, least };
        self.backend.read_sampled(sampled, &mut self.output).map_err(failed)?;
        let Some(step) = &mut self.workspace.step else { return Ok(()) };
        for group in self.groups.iter_mut().filter(|group| group.failure.is_none()) {
            let sampled = |place| self.output.of(place);
            let taken = group.take(&mut step.blocks, &mut self.caches, sampled, detokenizer);
            group.failure = taken.err();
        }
        Ok(())
    }

    /// Encodes what is not in the cache of the texts that some requests read.
    fn encode<'a>(
        &mut self,
        sources: impl ExactSizeIterator<Item = &'a [Source]>,
    ) -> Result<(), PassFailure> {
        let Self { shared, backend, batch_size, workspace, caches, .. } = self;
        let requests = sources.len();
        let missing = caches.encoder.missing(sources.flatten());
        let (texts, counters) = ((&missing[..], requests), &shared.counters);
        let tables =
            workspace.encode(backend, &shared.network, texts, batch_size.now(), counters)?;
        for (source, table) in missing.iter().zip(tables) {
            caches.encoder.insert(source, table);
        }
        Ok(())
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

fn rows_of(jobs: &[Job<VectorWork>]) -> usize {
    jobs.iter().map(|job| job.work.tokens.len()).sum()
}

/// Rows of a pass over whole texts, and the fewest of one: a text is read in one piece.
fn whole_texts(jobs: &[Job<VectorWork>]) -> (usize, usize) {
    let rows = rows_of(jobs);
    (rows, if jobs.len() == 1 { rows } else { 0 })
}
