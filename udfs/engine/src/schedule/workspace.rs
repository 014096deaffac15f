//! A worker's buffers on its device, and how encoder states get into the decoder's KV cache.

use super::batch_size::{BatchSize, PassFailure};
use super::block_pool::{BlockTable, cache_is_full};
use super::counters::Counters;
use super::encode::Encoder;
use super::encoder_cache::Source;
use super::limits::{Limits, Shortage};
use super::step::Step;
use super::vectors::PooledVectors;
use crate::backend::{Backend, CacheShape, DeviceError, Input};
use crate::network::{Network, Stack, Workspace};

/// All buffers of a worker: activations, KV caches, lists of a step.
pub struct WorkerWorkspace<B: Backend> {
    pub(super) encoder: Option<Encoder<B>>,
    pub(super) step: Option<Step<B>>,
    cross_kv: Option<CrossKvWriter<B>>,
    pub(super) vectors: PooledVectors<B>,
}

/// Writes the cross-attention keys and values of encoder states to the decoder's KV cache.
struct CrossKvWriter<B: Backend> {
    kv: B::Tensor,
    rows: Input,
    input: B::Input,
}

impl<B: Backend> WorkerWorkspace<B> {
    /// All that a worker within `limits` needs beside the weights; what is short where that does not
    /// fit. The cache comes last: where it does not fit, the passes do.
    pub fn new(
        backend: &B,
        network: &Network<B>,
        limits: Limits,
    ) -> Result<Self, (Shortage, DeviceError)> {
        let (encoder, decoder) = network.transformer.stacks();
        let rows = limits.max_batch_tokens;
        let short = |error| (Shortage::Activations, error);
        let encodes = encoder.map(|stack| Encoder::new(backend, stack, rows)).transpose();
        let cross_kv =
            encoder.and(decoder).and_then(|decoder| decoder.blocks.first()).map(|block| {
                let kv = backend.tensor(rows, block.cross_kv_width())?;
                Ok(CrossKvWriter { kv, rows: Input::default(), input: B::Input::default() })
            });
        let workspace = Self {
            encoder: encodes.map_err(short)?,
            cross_kv: cross_kv.transpose().map_err(short)?,
            vectors: PooledVectors::new(backend, network, rows).map_err(short)?,
            step: None,
        };
        let Some(decoder) = decoder else { return Ok(workspace) };
        let work = Workspace::new(backend, decoder, rows).map_err(short)?;
        let tokens = backend.tokens(rows).map_err(short)?;
        let shape = CacheShape {
            layers: decoder.blocks.len(),
            blocks: limits.blocks,
            kv_heads: decoder.heads.kv_heads,
            head_dim: decoder.heads.head_dim,
            precision: network.precision,
        };
        let cache = backend.cache(shape).map_err(|error| (Shortage::Cache, error))?;
        Ok(Self { step: Some(Step::new((work, tokens), rows, cache, limits.blocks)), ..workspace })
    }

    /// Encodes `texts`, which `requests` requests read, and writes their cross-attention keys and values to
    /// the decoder's KV cache; a block table per text.
    pub(super) fn encode(
        &mut self,
        backend: &mut B,
        network: &Network<B>,
        (texts, requests): (&[Source], usize),
        batch_size: BatchSize,
        counters: &Counters,
    ) -> Result<Vec<BlockTable>, PassFailure> {
        let mut tables = vec![BlockTable::default(); texts.len()];
        let (Some(stack), Some(decoder)) = network.transformer.stacks() else {
            return Ok(tables);
        };
        let (Some(encoder), Some(step), Some(cross_kv)) =
            (&mut self.encoder, &mut self.step, &mut self.cross_kv)
        else {
            return Ok(tables);
        };
        let mut done = 0;
        while done < texts.len() {
            let mut lengths = Vec::new();
            let mut rows = 0;
            for text in &texts[done..] {
                let fits =
                    rows + text.len() <= batch_size.rows && encoder.fits(&lengths, text.len());
                if !lengths.is_empty() && !fits {
                    break;
                }
                lengths.push(text.len());
                rows += text.len();
            }
            let batch = &texts[done..done + lengths.len()];
            let written = &mut tables[done..done + lengths.len()];
            done += lengths.len();
            counters.encoded(rows);
            let written = cross_kv
                .allocate_slots(step, written, batch)
                .and_then(|()| cross_kv.encode(backend, (stack, decoder), encoder, step, batch));
            if let Err(error) = written {
                for table in &mut tables {
                    step.blocks.free_table(table);
                }
                // A text is encoded in one piece, whatever the batch size.
                let least = if batch.len() == 1 { rows } else { 0 };
                return Err(PassFailure { error, requests, rows, least });
            }
        }
        Ok(tables)
    }
}

impl<B: Backend> CrossKvWriter<B> {
    /// A slot in the decoder's KV cache for each row of `batch`, a table per text.
    fn allocate_slots(
        &mut self,
        step: &mut Step<B>,
        tables: &mut [BlockTable],
        batch: &[Source],
    ) -> Result<(), DeviceError> {
        self.rows.clear();
        for (text, table) in batch.iter().zip(tables) {
            for index in 0..text.len() {
                let slot = step.blocks.append_slot(table);
                let slot = slot.ok_or_else(cache_is_full)?;
                self.rows.push(0, index as u32, slot.slot);
            }
        }
        Ok(())
    }

    /// Encodes `batch` and writes its cross-attention keys and values to the slots.
    fn encode(
        &mut self,
        backend: &mut B,
        (stack, decoder): (&Stack<B>, &Stack<B>),
        encoder: &mut Encoder<B>,
        step: &mut Step<B>,
        batch: &[Source],
    ) -> Result<(), DeviceError> {
        let (rows, _) = encoder.run(backend, stack, batch.iter().map(|text| &**text))?;
        backend.upload_input(&self.rows, None, &mut self.input)?;
        decoder.write_cross_kv(backend, rows, &self.input, step.cache(), &mut self.kv)
    }
}
