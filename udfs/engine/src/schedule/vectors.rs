//! PooledVectors of texts: embeddings and hidden states.

use super::block_pool::{BlockTable, blocks_for};
use super::caches::{Held, Reads};
use super::counters::Counters;
use super::encode::Encoder;
use super::job::{Job, VectorWork};
use super::prefix_cache::{PrefixCache, Scheduled};
use super::queue::Queue;
use super::step::Step;
use super::workspace::cache_is_full;
use crate::backend::{AttentionMetadata, Backend, BlockRef, DeviceError, Pool};
use crate::network::{Network, Pooling, Stack};
use crate::request::{Answer, Body};

/// Takes texts of one kind (pooled or hidden) off the queue as long as `fits` says so.
pub fn take(queue: &Queue, mut fits: impl FnMut(&VectorWork) -> bool) -> Vec<Job<VectorWork>> {
    queue.take(|waiting| {
        let mut jobs: Vec<Job<VectorWork>> = Vec::new();
        while let Some(job) = waiting.vector.pop_if(|next| {
            let same = jobs.first().is_none_or(|first| first.work.hidden == next.hidden);
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
    work.hidden || network.pooling.as_ref().is_none_or(|pooling| pooling.pool == Pool::Last)
}

/// The tensors that pooled vectors pass through.
pub struct PooledVectors<B: Backend> {
    scratch: B::Tensor,
    pooled: B::Tensor,
    host: Vec<f32>,
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
    /// Room for up to `texts` vectors of `width`.
    pub fn new(backend: &B, texts: usize, width: usize) -> Result<Self, DeviceError> {
        let scratch = backend.tensor(texts, width)?;
        let pooled = backend.tensor(texts, width)?;
        Ok(Self { scratch, pooled, host: Vec::new(), width, last: B::Metadata::default() })
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
        let texts = jobs.iter().map(|job| &job.work.tokens[..]);
        let (rows, metadata) = encoder.run(backend, stack, texts)?;
        self.pool(backend, network, jobs, rows, metadata)
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
            .run_all(backend, stack)
            .and_then(|(rows, metadata)| self.pool(backend, network, jobs, rows, metadata));
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
                    self.pool(backend, network, jobs, last, &metadata)?;
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
        jobs: &[Job<VectorWork>],
        rows: &B::Tensor,
        metadata: &B::Metadata,
    ) -> Result<(), DeviceError> {
        let Self { scratch, pooled, host, .. } = self;
        let hidden = jobs.first().is_some_and(|job| job.work.hidden);
        let last = Pooling { pool: Pool::Last, pooler: None, normalize: false };
        let pooling = network.pooling.as_ref().filter(|_| !hidden).unwrap_or(&last);
        pooling.pool(backend, rows, metadata, scratch, pooled)?;
        backend.download(pooled, host)
    }

    /// Answers `jobs` with the vectors of the last pass.
    pub fn answer(&self, jobs: Vec<Job<VectorWork>>) {
        for (job, vector) in jobs.into_iter().zip(self.host.chunks(self.width)) {
            let answer = Answer {
                prompt_tokens: job.work.tokens.len() as u32,
                prompt_truncated: job.work.prompt_truncated,
                body: Body::Vector(vector.to_vec()),
            };
            let finite = vector.iter().all(|number| number.is_finite());
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
