//! How a model is run. Only the precision and the GEMM implementation can change an answer.

use super::open_error::OpenError;
use crate::backend::{BLOCK_SLOTS, Backend, LoadWeights, Precision};
use crate::cuda::GemmBackend;
use crate::network::{Network, Transformer};
use crate::schedule::{Limits, MinLimits};

/// A KV cache of fewer blocks holds not even one text.
const BLOCKS_MIN: usize = 4;
/// Passes are never made smaller than this.
const BATCH_TOKENS_MIN: usize = 64;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How weights are kept and multiplied.
    pub precision: Precision,
    pub gemm: GemmBackend,
    /// Threads, each with its own batch; at least 1.
    pub workers: usize,
    /// Tokens of one pass of one worker; also the longest text that is read in one piece.
    pub max_batch_tokens: usize,
    /// The same for an encoder alone, if that is less.
    pub encoder_batch_tokens: usize,
    /// Sequences that one worker has under way at a time.
    pub max_num_seqs: usize,
    /// KV caches of all workers together, in bytes.
    pub kv_cache_bytes: usize,
    /// Most tokens of a text and its answer, where the model allows more.
    pub context: usize,
}

impl Settings {
    /// One worker per core, and a gibibyte of keys and values.
    pub fn for_cores(cores: usize) -> Self {
        Self {
            precision: Precision::F32,
            gemm: GemmBackend::Builtin,
            workers: cores.max(1),
            max_batch_tokens: 2048,
            // What a pass over so many rows writes stays in a core's own cache.
            encoder_batch_tokens: 512,
            max_num_seqs: 64,
            kv_cache_bytes: 1 << 30,
            context: 32_768,
        }
    }

    /// One worker per GPU, and passes that keep it busy. What it keeps of keys and values is
    /// given when it is opened.
    pub fn for_gpus(gpus: usize) -> Self {
        Self {
            precision: Precision::Bf16,
            gemm: GemmBackend::Builtin,
            workers: gpus,
            max_batch_tokens: 4096,
            encoder_batch_tokens: 4096,
            max_num_seqs: 256,
            kv_cache_bytes: 0,
            context: 32_768,
        }
    }

    /// The limits of each worker; fails if its cache holds not even one text.
    pub(super) fn limits<B: Backend>(&self, network: &Network<B>) -> Result<Limits, OpenError> {
        let block = block_bytes(network);
        let blocks = block.map(|block| self.kv_cache_bytes / self.workers.max(1) / block);
        let limits = Limits {
            max_batch_tokens: self.batch_tokens(network).max(self.whole_text(network)),
            max_num_seqs: self.max_num_seqs,
            blocks: blocks.unwrap_or(0),
            positions: network.positions,
        };
        if blocks.is_some_and(|blocks| blocks < BLOCKS_MIN) {
            let (bytes, needed) = (self.kv_cache_bytes, BLOCKS_MIN * BLOCK_SLOTS);
            return Err(OpenError::SmallCache { bytes, tokens: limits.tokens(), needed });
        }
        Ok(limits)
    }

    /// The smallest limits that a worker is started with.
    pub(super) fn least<B: Backend>(&self, network: &Network<B>) -> MinLimits {
        let max_batch_tokens = BATCH_TOKENS_MIN.max(self.whole_text(network));
        MinLimits { max_batch_tokens, blocks: BLOCKS_MIN }
    }

    /// Tokens of one pass, as far as the settings say.
    fn batch_tokens<B: Backend>(&self, network: &Network<B>) -> usize {
        match network.transformer {
            Transformer::Encoder(_) => self.max_batch_tokens.min(self.encoder_batch_tokens),
            Transformer::Decoder(_) | Transformer::EncoderDecoder { .. } => self.max_batch_tokens,
        }
    }

    /// The longest text that an encoder reads: in one piece, whereas a decoder takes as many as it
    /// needs. 0 where there is no encoder, or no longest text.
    fn whole_text<B: Backend>(&self, network: &Network<B>) -> usize {
        match (&network.transformer, network.positions) {
            (Transformer::Encoder(_) | Transformer::EncoderDecoder { .. }, Some(positions)) => {
                positions.min(self.context)
            }
            (_, _) => 0,
        }
    }
}

/// Bytes of a block of keys and values; `None` for an encoder, which keeps none.
pub(super) fn block_bytes<B: LoadWeights>(network: &Network<B>) -> Option<usize> {
    let (Transformer::Decoder(decoder) | Transformer::EncoderDecoder { decoder, .. }) =
        &network.transformer
    else {
        return None;
    };
    let number = match network.precision {
        Precision::F32 => size_of::<f32>(),
        Precision::Bf16 | Precision::Int8 => size_of::<u16>(),
    };
    let heads = decoder.heads;
    let token = decoder.blocks.len() * heads.kv_heads * heads.head_dim * 2 * number;
    Some((token * BLOCK_SLOTS).max(1))
}
