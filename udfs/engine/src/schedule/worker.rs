//! A thread that answers: it keeps as many answers under way as fit, and refills as they end.

use std::sync::Arc;

use super::blocks::{Span, blocks_for};
use super::counters::Counters;
use super::encode::Encoder;
use super::group::{self, Group};
use super::job::{GenerateWork, Job};
use super::kept::Kept;
use super::limits::Limits;
use super::queue::Queue;
use super::score::{self, Scorer};
use super::step::Step;
use super::vectors::{self, Vectors};
use super::words::Words;
use crate::backend::{Backend, CacheShape, DeviceError, Input};
use crate::network::{Head, Network, Reader, Stack};
use crate::request::RequestError;

/// What a worker shares with others.
pub struct Shared<B: Backend> {
    /// The weights.
    pub network: Arc<Network<B>>,
    /// What waits.
    pub queue: Arc<Queue>,
    /// Tokens and texts.
    pub words: Arc<Words>,
    /// What was done.
    pub counters: Arc<Counters>,
}

/// A worker with its own device memory.
pub struct Worker<B: Backend> {
    shared: Shared<B>,
    backend: B,
    limits: Limits,
    encoder: Option<Encoder<B>>,
    step: Option<Step<B>>,
    bridge: Option<Bridge<B>>,
    vectors: Vectors<B>,
    groups: Vec<Group>,
    kept: Kept,
}

/// What carries an encoder's rows to the decoder's cache.
struct Bridge<B: Backend> {
    kv: B::Tensor,
    rows: Input,
    input: B::Input,
}

impl<B: Backend> Worker<B> {
    /// A worker that computes with `backend` within `limits`.
    pub fn new(shared: Shared<B>, backend: B, limits: Limits) -> Result<Self, DeviceError> {
        let network = &shared.network;
        let (encoder, decoder) = stacks(&network.reader);
        let rows = limits.step_tokens;
        let step = decoder.map(|decoder| {
            let shape = CacheShape {
                layers: decoder.blocks.len(),
                blocks: limits.blocks,
                kv_heads: decoder.heads.kv_heads,
                head_dim: decoder.heads.head_dim,
                precision: network.precision,
            };
            Step::new(&backend, decoder, rows, shape)
        });
        let bridge = encoder.and(decoder).and_then(|decoder| decoder.blocks.first()).map(|block| {
            let kv = backend.tensor(rows, block.remembered_width())?;
            Ok(Bridge { kv, rows: Input::default(), input: B::Input::default() })
        });
        let width = encoder.or(decoder).map_or(0, Stack::output_width);
        Ok(Self {
            encoder: encoder.map(|encoder| Encoder::new(&backend, encoder, rows)).transpose()?,
            step: step.transpose()?,
            bridge: bridge.transpose()?,
            vectors: Vectors::new(&backend, rows, width)?,
            groups: Vec::new(),
            kept: Kept::default(),
            limits,
            backend,
            shared,
        })
    }

    /// Works until the queue is closed. Answers under way then are dropped.
    pub fn run(mut self) {
        while !self.groups.is_empty() || self.shared.queue.wait().is_some() {
            if self.shared.queue.is_closed() {
                return;
            }
            let busy = [self.vectors(), self.score(), self.generate()];
            if !busy.contains(&true)
                && let Some(step) = &mut self.step
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
        let queue = &self.shared.queue;
        let mut promised = 0;
        let jobs = match (&self.encoder, &mut self.step) {
            (Some(encoder), _) => vectors::take(queue, |lengths, more| encoder.fits(lengths, more)),
            (None, Some(step)) => vectors::take(queue, |lengths, more| {
                let fits = lengths.iter().sum::<usize>() + more <= step.capacity();
                let blocks = blocks_for(more);
                let promise = fits && step.blocks.promise(blocks);
                promised += if promise { blocks } else { 0 };
                promise
            }),
            (None, None) => Vec::new(),
        };
        if jobs.is_empty() {
            return false;
        }
        let rows = jobs.iter().map(|job| job.work.tokens.len()).sum();
        let (backend, vectors) = (&mut self.backend, &mut self.vectors);
        let done = match (encoder, decoder, &mut self.encoder, &mut self.step) {
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
        self.shared.counters.answered(jobs.len());
        match done {
            Ok(()) => vectors.answer(jobs),
            Err(error) => {
                for job in jobs {
                    job.answer(Err(failed(&error)));
                }
            }
        }
        true
    }

    /// One batch of texts to be judged.
    fn score(&mut self) -> bool {
        let network = Arc::clone(&self.shared.network);
        let (_, Some(stack)) = stacks(&network.reader) else { return false };
        let Some(head) = &network.head else { return false };
        let Some(step) = &mut self.step else { return false };
        let batch = score::take(&self.shared.queue, step);
        if batch.jobs.is_empty() {
            return false;
        }
        let texts: Vec<Vec<&[u32]>> = batch
            .jobs
            .iter()
            .map(|job| job.work.passage.chunks(job.work.passage.len().max(1)).collect())
            .collect();
        let (sources, failure) = match self.encode(&texts) {
            Ok(sources) => (sources, None),
            Err(error) => (vec![Span::default(); batch.jobs.len()], Some(error)),
        };
        let Some(step) = &mut self.step else { return false };
        let (backend, kept) = (&mut self.backend, &mut self.kept);
        let counters = &*self.shared.counters;
        Scorer { backend, stack, head, step, kept, counters }.run(batch, sources, failure);
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
        let failure = self.advance(stack, head, &words);
        let Some(step) = &mut self.step else { return false };
        for (group, failure) in extract_done(&mut self.groups, failure) {
            self.shared.counters.answered(1);
            group.finish(&mut step.blocks, &words, failure);
        }
        true
    }

    /// Takes generations off the queue while there is room, and encodes what they read.
    fn begin(&mut self) {
        let Some(step) = &mut self.step else { return };
        let mut sequences: usize =
            self.groups.iter().map(|group| group::sequences(group.job.work.strategy)).sum();
        let mut tokens = 0;
        let mut jobs: Vec<(Job<GenerateWork>, usize)> = Vec::new();
        self.shared.queue.take(|waiting| {
            while tokens < self.limits.step_tokens {
                let mut promised = 0;
                let Some(job) = waiting.generate.pop_if(|next| {
                    let needed = group::blocks_needed(next);
                    let fits = sequences + group::sequences(next.strategy) <= self.limits.sequences
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
            Err(error) => {
                for (job, promised) in jobs {
                    if let Some(step) = &mut self.step {
                        step.blocks.absolve(promised);
                    }
                    self.shared.counters.answered(1);
                    job.answer(Err(failed(&error)));
                }
            }
        }
    }

    /// One step. What it says about each group that failed.
    fn advance(
        &mut self,
        stack: &Stack<B>,
        head: &Head<B>,
        words: &Words,
    ) -> Vec<Option<RequestError>> {
        let Some(step) = &mut self.step else { return Vec::new() };
        step.clear();
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
        self.shared.counters.decoded(step.rows());
        match step.run(&mut self.backend, stack, head) {
            Ok(picked) => {
                let picked = picked.clone();
                for (group, failure) in self.groups.iter_mut().zip(&mut failures) {
                    if failure.is_none() {
                        let taken = group.take(&mut step.blocks, |place| picked.of(place), words);
                        *failure = taken.err();
                    }
                }
            }
            Err(error) => failures = vec![Some(failed(&error)); self.groups.len()],
        }
        failures
    }

    /// Encodes the texts of each job, and leaves what the decoder reads of them in its cache.
    fn encode(&mut self, jobs: &[Vec<&[u32]>]) -> Result<Vec<Span>, DeviceError> {
        let mut sources = vec![Span::default(); jobs.len()];
        let network = Arc::clone(&self.shared.network);
        let (Some(stack), Some(decoder)) = stacks(&network.reader) else { return Ok(sources) };
        let (Some(encoder), Some(step), Some(bridge)) =
            (&mut self.encoder, &mut self.step, &mut self.bridge)
        else {
            return Ok(sources);
        };
        let texts: Vec<(usize, &[u32])> = jobs
            .iter()
            .enumerate()
            .flat_map(|(job, texts)| texts.iter().map(move |&text| (job, text)))
            .collect();
        let mut done = 0;
        let mut result = Ok(());
        while done < texts.len() && result.is_ok() {
            let mut lengths = Vec::new();
            bridge.rows.clear();
            for &(job, text) in &texts[done..] {
                if !lengths.is_empty() && !encoder.fits(&lengths, text.len()) {
                    break;
                }
                lengths.push(text.len());
                for index in 0..text.len() {
                    let slot = step.blocks.append_apart(&mut sources[job], index == 0);
                    let slot = slot.ok_or(DeviceError::OutOfMemory { bytes: 0 })?;
                    bridge.rows.push(0, index as u32, slot.slot);
                }
            }
            let batch = texts[done..done + lengths.len()].iter().map(|(_, text)| *text);
            done += lengths.len();
            self.shared.counters.encoded(bridge.rows.slots.len());
            result = carry(&mut self.backend, (stack, decoder), encoder, step, bridge, batch);
        }
        match result {
            Ok(()) => Ok(sources),
            Err(error) => {
                for source in &mut sources {
                    step.blocks.release(source);
                }
                Err(error)
            }
        }
    }
}

/// Encodes one batch and writes what the decoder reads of it to its cache.
fn carry<'t, B: Backend>(
    backend: &mut B,
    (stack, decoder): (&Stack<B>, &Stack<B>),
    encoder: &mut Encoder<B>,
    step: &mut Step<B>,
    bridge: &mut Bridge<B>,
    batch: impl IntoIterator<Item = &'t [u32]>,
) -> Result<(), DeviceError> {
    let (rows, _) = encoder.run(backend, stack, batch)?;
    backend.input(&bridge.rows, &mut bridge.input)?;
    decoder.remember(backend, rows, &bridge.input, step.cache(), &mut bridge.kv)
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

fn stacks<B: Backend>(reader: &Reader<B>) -> (Option<&Stack<B>>, Option<&Stack<B>>) {
    match reader {
        Reader::Encoder(encoder) => (Some(encoder), None),
        Reader::Decoder(decoder) => (None, Some(decoder)),
        Reader::EncoderDecoder { encoder, decoder } => (Some(encoder), Some(decoder)),
    }
}

fn failed(error: &DeviceError) -> RequestError {
    RequestError::Failed(error.to_string())
}
