//! Vectors of texts: embeddings, hidden states, and what a head makes of them.

use super::block_pool::{BlockTable, blocks_for, cache_is_full};
use super::caches::{Held, Reads};
use super::counters::Counters;
use super::encode::Encoder;
use super::job::{Job, VectorOutput, VectorWork};
use super::prefix_cache::{PrefixCache, Scheduled};
use super::queue::Queue;
use super::step::Step;
use crate::backend::{AttentionMetadata, Backend, BlockRef, DeviceError, Pool};
use crate::checkpoint::Labels;
use crate::network::{Network, Stack};
use crate::request::{Answer, Body, ClassScore, HiddenRows};

/// Takes texts of one kind off the queue as long as `fits` says so.
pub fn take(queue: &Queue, mut fits: impl FnMut(&VectorWork) -> bool) -> Vec<Job<VectorWork>> {
    queue.take(|waiting| {
        let mut jobs: Vec<Job<VectorWork>> = Vec::new();
        while let Some(job) = waiting.vector.pop_if(|next| {
            let same = jobs.first().is_none_or(|first| first.work.output == next.output);
            same && fits(next)
        }) {
            jobs.push(job);
        }
        jobs
    })
}

/// What a decoder with a cache of `blocks` blocks reads for `work`, and the blocks for its own tokens.
pub fn reads(work: &VectorWork, blocks: usize) -> Reads<'_> {
    let with = |shared: usize| {
        let own_blocks = blocks_for(work.tokens.len() - shared);
        Reads { passages: &[], prefix: &work.tokens[..shared], own_blocks }
    };
    let shared = PrefixCache::shared_tokens(&work.tokens);
    // A token that is not shared has a block of its own, which may be one too many.
    if blocks_for(shared) + with(shared).own_blocks > blocks { with(0) } else { with(shared) }
}

/// Whether the vectors of `work` come from last tokens alone, so that a decoder need not compute what
/// others began with.
pub fn is_of_last_token<B: Backend>(work: &VectorWork, network: &Network<B>) -> bool {
    match work.output {
        VectorOutput::LastState => true,
        VectorOutput::Pooled => {
            network.pooling.as_ref().is_none_or(|pooling| pooling.pool == Pool::Last)
        }
        VectorOutput::Hidden { .. } | VectorOutput::Classes => false,
    }
}

/// The tensors that vectors pass through.
pub struct PooledVectors<B: Backend> {
    scratch: B::Tensor,
    pooled: B::Tensor,
    /// For states before a projection to another width.
    unprojected: B::Tensor,
    classes: B::Tensor,
    host: Vec<f32>,
    /// Of the vectors in `host`.
    width: usize,
    /// Last tokens, a segment each.
    last: B::Metadata,
}

/// A text that a decoder reads token by token.
struct Reading {
    table: BlockTable,
    /// Tokens in it, or in the prefix cache.
    fed: usize,
    /// Whether what it begins with is computed, or in the step under way.
    begun: bool,
}

impl<B: Backend> PooledVectors<B> {
    /// Room for up to `texts` vectors.
    pub fn new(backend: &B, network: &Network<B>, texts: usize) -> Result<Self, DeviceError> {
        let (encoder, decoder) = network.transformer.stacks();
        let stack = encoder.or(decoder);
        let (width, inner) = stack.map_or((0, 0), |stack| (stack.output_width(), stack.width));
        let classes = network.classifier.as_ref().map_or(0, |it| it.labels.names.len());
        let rows_if = |needed: bool| if needed { texts } else { 0 };
        Ok(Self {
            scratch: backend.tensor(texts, width)?,
            pooled: backend.tensor(texts, width)?,
            unprojected: backend.tensor(rows_if(inner != width), inner)?,
            classes: backend.tensor(rows_if(classes > 0), classes)?,
            host: Vec::new(),
            width,
            last: B::Metadata::default(),
        })
    }

    /// Encodes `jobs` with an encoder.
    pub fn encode(
        &mut self,
        backend: &mut B,
        network: &Network<B>,
        stack: &Stack<B>,
        encoder: &mut Encoder<B>,
        jobs: &[Job<VectorWork>],
    ) -> Result<(), DeviceError> {
        let texts = jobs.iter().map(|job| (&job.work.tokens[..], &job.work.type_offsets[..]));
        let depth = depth(stack, jobs);
        let pool = rows_of(network, jobs);
        let (rows, metadata) = encoder.run_through(depth, backend, stack, texts, pool)?;
        self.pool(backend, network, stack, jobs, rows, metadata)
    }

    /// Reads `jobs`, whose blocks are reserved, with a decoder.
    pub fn decode(
        &mut self,
        backend: &mut B,
        network: &Network<B>,
        stack: &Stack<B>,
        step: &mut Step<B>,
        jobs: &[Job<VectorWork>],
    ) -> Result<(), DeviceError> {
        step.clear();
        let mut tables = vec![BlockTable::default(); jobs.len()];
        for (job, table) in jobs.iter().zip(&mut tables) {
            step.add_tokens(table, &job.work.tokens, &BlockTable::default(), false);
        }
        let done = step
            .run_all(depth(stack, jobs), backend, stack)
            .and_then(|(rows, metadata)| self.pool(backend, network, stack, jobs, rows, metadata));
        for table in &mut tables {
            step.blocks.free_table(table);
        }
        done
    }

    /// Reads `jobs`, each with what it holds, with a decoder, in steps of up to `rows` rows; what they begin
    /// with is computed once. The vectors are those of their last tokens.
    pub fn decode_last(
        &mut self,
        (backend, network, stack): (&mut B, &Network<B>, &Stack<B>),
        (step, prefix_cache): (&mut Step<B>, &mut PrefixCache),
        (jobs, held): (&[Job<VectorWork>], &[Held]),
        rows: usize,
        counters: &Counters,
    ) -> Result<(), DeviceError> {
        let new =
            |held: &Held| Reading { table: BlockTable::default(), fed: held.shared, begun: false };
        let mut readings: Vec<Reading> = held.iter().map(new).collect();
        self.width = stack.output_width();
        let mut vectors = vec![0.0; jobs.len() * self.width];
        let mut left = jobs.len();
        step.allow(rows);
        let mut done = Ok(());
        while left > 0 && done.is_ok() {
            step.clear();
            done = schedule_last(step, prefix_cache, jobs, held, &mut readings).and_then(|ended| {
                left -= ended.len();
                counters.decoded(step.rows());
                let selected: Vec<u32> = ended.iter().map(|&(_, row)| row).collect();
                if let Some(last) = step.run_selected(backend, stack, &selected)? {
                    let mut segments = AttentionMetadata::default();
                    // Pooling reads no keys.
                    selected
                        .iter()
                        .for_each(|_| segments.push(1, [BlockRef { block: 0, used: 1 }]));
                    backend.upload_metadata(&segments, &mut self.last)?;
                    let metadata = std::mem::take(&mut self.last);
                    self.pool(backend, network, stack, jobs, last, &metadata)?;
                    self.last = metadata;
                }
                for (vector, (job, _)) in self.host.chunks(self.width).zip(ended) {
                    vectors[job * self.width..][..self.width].copy_from_slice(vector);
                    step.blocks.free_table(&mut readings[job].table);
                }
                prefix_cache.commit();
                Ok(())
            });
        }
        for reading in &mut readings {
            step.blocks.free_table(&mut reading.table);
        }
        prefix_cache.rollback(&mut step.blocks);
        self.host = vectors;
        done
    }

    fn pool(
        &mut self,
        backend: &mut B,
        network: &Network<B>,
        stack: &Stack<B>,
        jobs: &[Job<VectorWork>],
        rows: &B::Tensor,
        metadata: &B::Metadata,
    ) -> Result<(), DeviceError> {
        let Self { scratch, pooled, unprojected, classes, host, width, .. } = self;
        *width = stack.output_width();
        let pool = match (output(jobs), &network.pooling, &network.classifier) {
            (VectorOutput::Pooled, Some(pooling), _) => {
                pooling.pool(backend, rows, metadata, scratch, pooled)?;
                return backend.download(pooled, host);
            }
            (VectorOutput::Classes, _, Some(classifier)) => {
                classifier.classify(backend, rows, metadata, (scratch, pooled), classes)?;
                *width = classifier.labels.names.len();
                return backend.download(classes, host);
            }
            (VectorOutput::Hidden { depth, rows: HiddenRows::All }, ..) => {
                *width = state_width(stack, depth);
                return backend.download(rows, host);
            }
            (VectorOutput::Hidden { rows: HiddenRows::First, .. }, ..) => Pool::First,
            (VectorOutput::Hidden { rows: HiddenRows::Mean, .. }, ..) => Pool::Mean,
            (VectorOutput::Hidden { rows: HiddenRows::Last, .. } | VectorOutput::LastState, ..)
            | (VectorOutput::Pooled, None, _)
            | (VectorOutput::Classes, _, None) => Pool::Last,
        };
        *width = state_width(stack, depth(stack, jobs));
        let out = if *width == stack.output_width() { pooled } else { unprojected };
        backend.pool(rows, metadata, pool, false, out)?;
        backend.download(out, host)
    }

    /// Answers `jobs` with the vectors of the last pass.
    pub fn answer(&self, network: &Network<B>, jobs: Vec<Job<VectorWork>>) {
        let mut vectors = self.host.chunks(self.width);
        for job in jobs {
            let all = job.work.output.vectors(job.work.tokens.len());
            let rows: Vec<&[f32]> = vectors.by_ref().take(all).collect();
            let finite = rows.iter().all(|row| row.iter().all(|number| number.is_finite()));
            let labels = network.classifier.as_ref().map(|classifier| &classifier.labels);
            let answer = Answer {
                prompt_tokens: job.work.tokens.len() as u32,
                prompt_truncated: job.work.prompt_truncated,
                body: body(job.work.output, &rows, labels),
            };
            job.answer(if finite { Ok(answer) } else { Err(super::not_a_number()) });
        }
    }
}

/// Adds what fits of all texts that are not read to the end; those that end with this step, and their last
/// rows.
fn schedule_last<B: Backend>(
    step: &mut Step<B>,
    prefix_cache: &mut PrefixCache,
    jobs: &[Job<VectorWork>],
    held: &[Held],
    readings: &mut [Reading],
) -> Result<Vec<(usize, u32)>, DeviceError> {
    let mut ended = Vec::new();
    for (index, reading) in readings.iter_mut().enumerate() {
        let tokens = &jobs[index].work.tokens;
        if let Some(node) = held[index].prefix.filter(|_| !reading.begun) {
            match prefix_cache.schedule(node, step).ok_or_else(cache_is_full)? {
                Scheduled::Later => continue,
                Scheduled::Whole(table) => (reading.table, reading.begun) = (table, true),
            }
        }
        let chunk = step.room().min(tokens.len() - reading.fed);
        if chunk == 0 {
            continue;
        }
        let new_block = reading.fed == held[index].shared;
        let next = &tokens[reading.fed..reading.fed + chunk];
        let row = step.add_tokens(&mut reading.table, next, &BlockTable::default(), new_block);
        reading.fed += chunk;
        let row = row.ok_or_else(cache_is_full)?;
        if reading.fed == tokens.len() {
            ended.push((index, row));
        }
    }
    Ok(ended)
}

impl VectorOutput {
    /// How many vectors a text of so many tokens has.
    fn vectors(self, tokens: usize) -> usize {
        match self {
            Self::Hidden { rows: HiddenRows::All, .. } => tokens,
            Self::Hidden { .. } | Self::LastState | Self::Pooled | Self::Classes => 1,
        }
    }
}

/// What all of `jobs`, which are of one kind, want.
fn output(jobs: &[Job<VectorWork>]) -> VectorOutput {
    jobs.first().map_or(VectorOutput::Pooled, |job| job.work.output)
}

/// Which rows the vectors of `jobs` are made of; all are requested where it is the mean.
fn rows_of<B: Backend>(network: &Network<B>, jobs: &[Job<VectorWork>]) -> Pool {
    match output(jobs) {
        VectorOutput::Pooled => network.pooling.as_ref().map_or(Pool::Last, |pooling| pooling.pool),
        VectorOutput::Classes if network.classifier.is_some() => Pool::First,
        VectorOutput::Hidden { rows: HiddenRows::First, .. } => Pool::First,
        VectorOutput::Hidden { rows: HiddenRows::All | HiddenRows::Mean, .. } => Pool::Mean,
        VectorOutput::Hidden { rows: HiddenRows::Last, .. }
        | VectorOutput::LastState
        | VectorOutput::Classes => Pool::Last,
    }
}

/// How many blocks `jobs` pass through.
fn depth<B: Backend>(stack: &Stack<B>, jobs: &[Job<VectorWork>]) -> usize {
    match output(jobs) {
        VectorOutput::Hidden { depth, .. } => depth,
        VectorOutput::LastState | VectorOutput::Pooled | VectorOutput::Classes => {
            stack.blocks.len()
        }
    }
}

/// Width of the states behind so many blocks.
fn state_width<B: Backend>(stack: &Stack<B>, depth: usize) -> usize {
    if depth < stack.blocks.len() { stack.width } else { stack.output_width() }
}

fn body(output: VectorOutput, rows: &[&[f32]], labels: Option<&Labels>) -> Body {
    let first = rows.first().copied().unwrap_or_default();
    match (output, labels) {
        (VectorOutput::Hidden { rows: HiddenRows::All, .. }, _) => {
            Body::Vectors(rows.iter().map(|row| row.to_vec()).collect())
        }
        (VectorOutput::Classes, Some(labels)) => {
            let probabilities = labels.probabilities(first);
            let class = |(at, (label, &logit)): (usize, (&String, &f32))| ClassScore {
                label: label.clone(),
                logit,
                probability: probabilities.as_ref().map(|all| all[at]),
            };
            Body::Classes(labels.names.iter().zip(first).enumerate().map(class).collect())
        }
        (
            VectorOutput::Hidden { .. }
            | VectorOutput::LastState
            | VectorOutput::Pooled
            | VectorOutput::Classes,
            _,
        ) => Body::Vector(first.to_vec()),
    }
}
