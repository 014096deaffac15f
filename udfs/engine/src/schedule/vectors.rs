//! PooledVectors of texts: embeddings and hidden states.

use super::block_pool::BlockTable;
use super::encode::Encoder;
use super::job::{Job, VectorWork};
use super::queue::Queue;
use super::step::Step;
use crate::backend::{Backend, DeviceError, Pool};
use crate::network::{Network, Pooling, Stack};
use crate::request::{Answer, Body};

/// Takes texts of one kind (pooled or hidden) off the queue as long as `fits` says so.
pub fn take(queue: &Queue, mut fits: impl FnMut(&[usize], usize) -> bool) -> Vec<Job<VectorWork>> {
    queue.take(|waiting| {
        let mut jobs: Vec<Job<VectorWork>> = Vec::new();
        let mut lengths = Vec::new();
        while let Some(job) = waiting.vector.pop_if(|next| {
            let same = jobs.first().is_none_or(|first| first.work.hidden == next.hidden);
            same && fits(&lengths, next.tokens.len())
        }) {
            lengths.push(job.work.tokens.len());
            jobs.push(job);
        }
        jobs
    })
}

/// The tensors that pooled vectors pass through.
pub struct PooledVectors<B: Backend> {
    scratch: B::Tensor,
    pooled: B::Tensor,
    host: Vec<f32>,
    width: usize,
}

impl<B: Backend> PooledVectors<B> {
    /// Room for up to `texts` vectors of `width`.
    pub fn new(backend: &B, texts: usize, width: usize) -> Result<Self, DeviceError> {
        let scratch = backend.tensor(texts, width)?;
        let pooled = backend.tensor(texts, width)?;
        Ok(Self { scratch, pooled, host: Vec::new(), width })
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
