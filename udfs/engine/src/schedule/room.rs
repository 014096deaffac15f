//! A worker's memory on its device, and the way of an encoder's rows into the decoder's cache.

use super::blocks::Span;
use super::counters::Counters;
use super::encode::Encoder;
use super::limits::{Limits, Short};
use super::pace::{Failure, Pace};
use super::step::Step;
use super::vectors::Vectors;
use crate::backend::{Backend, CacheShape, DeviceError, Input};
use crate::network::{Network, Reader, Stack, Workspace};

/// A worker's memory on its device.
pub struct Room<B: Backend> {
    pub(super) encoder: Option<Encoder<B>>,
    pub(super) step: Option<Step<B>>,
    bridge: Option<Bridge<B>>,
    pub(super) vectors: Vectors<B>,
}

/// What carries an encoder's rows to the decoder's cache.
struct Bridge<B: Backend> {
    kv: B::Tensor,
    rows: Input,
    input: B::Input,
}

impl<B: Backend> Room<B> {
    /// All that a worker within `limits` needs beside the weights; what is short where that does not
    /// fit. The cache comes last: where it does not fit, the passes do.
    pub fn new(
        backend: &B,
        network: &Network<B>,
        limits: Limits,
    ) -> Result<Self, (Short, DeviceError)> {
        let (encoder, decoder) = stacks(&network.reader);
        let rows = limits.step_tokens;
        let passes = |error| (Short::Passes, error);
        let encodes = encoder.map(|stack| Encoder::new(backend, stack, rows)).transpose();
        let bridge = encoder.and(decoder).and_then(|decoder| decoder.blocks.first()).map(|block| {
            let kv = backend.tensor(rows, block.remembered_width())?;
            Ok(Bridge { kv, rows: Input::default(), input: B::Input::default() })
        });
        let width = encoder.or(decoder).map_or(0, Stack::output_width);
        let room = Self {
            encoder: encodes.map_err(passes)?,
            bridge: bridge.transpose().map_err(passes)?,
            vectors: Vectors::new(backend, rows, width).map_err(passes)?,
            step: None,
        };
        let Some(decoder) = decoder else { return Ok(room) };
        let work = Workspace::new(backend, decoder, rows).map_err(passes)?;
        let shape = CacheShape {
            layers: decoder.blocks.len(),
            blocks: limits.blocks,
            kv_heads: decoder.heads.kv_heads,
            head_dim: decoder.heads.head_dim,
            precision: network.precision,
        };
        let cache = backend.cache(shape).map_err(|error| (Short::Cache, error))?;
        Ok(Self { step: Some(Step::new(work, rows, cache, limits.blocks)), ..room })
    }

    /// Encodes the texts of each job, and leaves what the decoder reads of them in its cache.
    pub(super) fn encode(
        &mut self,
        backend: &mut B,
        network: &Network<B>,
        jobs: &[Vec<&[u32]>],
        pace: Pace,
        counters: &Counters,
    ) -> Result<Vec<Span>, Failure> {
        let mut sources = vec![Span::default(); jobs.len()];
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
        while done < texts.len() {
            let mut lengths = Vec::new();
            let mut rows = 0;
            for (_, text) in &texts[done..] {
                let fits = rows + text.len() <= pace.rows && encoder.fits(&lengths, text.len());
                if !lengths.is_empty() && !fits {
                    break;
                }
                lengths.push(text.len());
                rows += text.len();
            }
            let batch = &texts[done..done + lengths.len()];
            done += lengths.len();
            counters.encoded(rows);
            let carried = bridge
                .place(step, &mut sources, batch)
                .and_then(|()| bridge.carry(backend, (stack, decoder), encoder, step, batch));
            if let Err(error) = carried {
                for source in &mut sources {
                    step.blocks.release(source);
                }
                // A text is read in one piece, whatever there is room for.
                let least = if batch.len() == 1 { rows } else { 0 };
                return Err(Failure { error, requests: jobs.len(), rows, least });
            }
        }
        Ok(sources)
    }
}

impl<B: Backend> Bridge<B> {
    /// Finds a place in the decoder's cache for each row of `batch`: texts and whose they are.
    fn place(
        &mut self,
        step: &mut Step<B>,
        sources: &mut [Span],
        batch: &[(usize, &[u32])],
    ) -> Result<(), DeviceError> {
        self.rows.clear();
        for &(job, text) in batch {
            for index in 0..text.len() {
                let slot = step.blocks.append_apart(&mut sources[job], index == 0);
                let slot = slot.ok_or_else(cache_is_full)?;
                self.rows.push(0, index as u32, slot.slot);
            }
        }
        Ok(())
    }

    /// Encodes `batch` and writes what the decoder reads of it to the places in its cache.
    fn carry(
        &mut self,
        backend: &mut B,
        (stack, decoder): (&Stack<B>, &Stack<B>),
        encoder: &mut Encoder<B>,
        step: &mut Step<B>,
        batch: &[(usize, &[u32])],
    ) -> Result<(), DeviceError> {
        let (rows, _) = encoder.run(backend, stack, batch.iter().map(|(_, text)| *text))?;
        backend.input(&self.rows, &mut self.input)?;
        decoder.remember(backend, rows, &self.input, step.cache(), &mut self.kv)
    }
}

/// A promise of blocks rules it out.
pub(super) fn cache_is_full() -> DeviceError {
    DeviceError::Failed("the cache is full".to_owned())
}

/// The encoder and the decoder of a network, as far as it has them.
pub(super) fn stacks<B: Backend>(reader: &Reader<B>) -> (Option<&Stack<B>>, Option<&Stack<B>>) {
    match reader {
        Reader::Encoder(encoder) => (Some(encoder), None),
        Reader::Decoder(decoder) => (None, Some(decoder)),
        Reader::EncoderDecoder { encoder, decoder } => (Some(encoder), Some(decoder)),
    }
}
