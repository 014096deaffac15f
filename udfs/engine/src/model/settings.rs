//! How a model is run. None of it but the precision can change an answer.

use crate::backend::{BLOCK_SLOTS, Precision};
use crate::network::{Heads, Network, Reader};
use crate::schedule::Limits;

/// How a model is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How weights are kept and multiplied.
    pub precision: Precision,
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
            workers: cores.max(1),
            step_tokens: 2048,
            sequences: 64,
            cache_bytes: 1 << 30,
            context: 32_768,
        }
    }

    /// The limits of each worker.
    pub(super) fn limits<B: crate::backend::Backend>(&self, network: &Network<B>) -> Limits {
        let block = match &network.reader {
            Reader::Encoder(_) => None,
            Reader::Decoder(decoder) | Reader::EncoderDecoder { decoder, .. } => {
                Some(block_bytes(decoder.heads, decoder.blocks.len(), network.precision))
            }
        };
        let step_tokens = match (&network.reader, network.positions) {
            // An encoder reads a text in one piece, a decoder in as many as it takes.
            (Reader::Encoder(_) | Reader::EncoderDecoder { .. }, Some(positions)) => {
                self.step_tokens.max(positions.min(self.context))
            }
            (_, _) => self.step_tokens,
        };
        Limits {
            step_tokens,
            sequences: self.sequences,
            blocks: block.map_or(0, |block| self.cache_bytes / self.workers.max(1) / block),
            positions: network.positions,
        }
    }
}

/// Bytes of a block of keys and values.
fn block_bytes(heads: Heads, layers: usize, precision: Precision) -> usize {
    let number = match precision {
        Precision::F32 => size_of::<f32>(),
        Precision::Int8 => size_of::<u16>(),
    };
    (layers * heads.kv_heads * heads.head_dim * BLOCK_SLOTS * 2 * number).max(1)
}
