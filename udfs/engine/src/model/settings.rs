//! How a model is run. None of it but the precision and who multiplies can change an answer.

use super::open::OpenError;
use crate::backend::{BLOCK_SLOTS, Backend, Precision};
use crate::cuda::Products;
use crate::network::{Network, Reader};
use crate::schedule::{Least, Limits};

/// A cache of fewer blocks holds not even one text.
const BLOCKS_MIN: usize = 4;
/// No device is so small that its passes have fewer tokens.
const STEP_TOKENS_MIN: usize = 64;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How weights are kept and multiplied.
    pub precision: Precision,
    pub products: Products,
    /// Threads, each with its own batch; at least 1.
    pub workers: usize,
    /// Tokens of one pass of one worker; also the longest text that is read in one piece.
    pub step_tokens: usize,
    /// Answers that one worker has under way at a time.
    pub sequences: usize,
    /// Keys and values of all workers, in bytes.
    pub cache_bytes: usize,
    /// Most tokens of a text and its answer, where the model allows more.
    pub context: usize,
}

impl Settings {
    /// One worker per core, and a gibibyte of keys and values.
    pub fn for_cores(cores: usize) -> Self {
        Self {
            precision: Precision::F32,
            products: Products::Own,
            workers: cores.max(1),
            step_tokens: 2048,
            sequences: 64,
            cache_bytes: 1 << 30,
            context: 32_768,
        }
    }

    /// One worker per GPU, and passes that keep it busy. What it keeps of keys and values is told
    /// when it is opened.
    pub fn for_gpus(gpus: usize) -> Self {
        Self {
            precision: Precision::Bf16,
            products: Products::Own,
            workers: gpus,
            step_tokens: 4096,
            sequences: 256,
            cache_bytes: 0,
            context: 32_768,
        }
    }

    /// The limits of each worker; fails if its cache holds not even one text.
    pub(super) fn limits<B: Backend>(&self, network: &Network<B>) -> Result<Limits, OpenError> {
        let block = block_bytes(network);
        let blocks = block.map(|block| self.cache_bytes / self.workers.max(1) / block);
        let limits = Limits {
            step_tokens: self.step_tokens.max(self.whole_text(network)),
            sequences: self.sequences,
            blocks: blocks.unwrap_or(0),
            positions: network.positions,
        };
        if blocks.is_some_and(|blocks| blocks < BLOCKS_MIN) {
            let (bytes, needed) = (self.cache_bytes, BLOCKS_MIN * BLOCK_SLOTS);
            return Err(OpenError::SmallCache { bytes, tokens: limits.tokens(), needed });
        }
        Ok(limits)
    }

    /// What a worker is left with, whatever room its device has.
    pub(super) fn least<B: Backend>(&self, network: &Network<B>) -> Least {
        let step_tokens = STEP_TOKENS_MIN.max(self.whole_text(network));
        Least { step_tokens, blocks: BLOCKS_MIN }
    }

    /// The longest text that an encoder reads: in one piece, whereas a decoder takes as many as it
    /// needs. 0 where there is no encoder, or no longest text.
    fn whole_text<B: Backend>(&self, network: &Network<B>) -> usize {
        match (&network.reader, network.positions) {
            (Reader::Encoder(_) | Reader::EncoderDecoder { .. }, Some(positions)) => {
                positions.min(self.context)
            }
            (_, _) => 0,
        }
    }
}

/// Bytes of a block of keys and values; `None` for an encoder, which keeps none.
pub(super) fn block_bytes<B: Backend>(network: &Network<B>) -> Option<usize> {
    let (Reader::Decoder(decoder) | Reader::EncoderDecoder { decoder, .. }) = &network.reader
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
