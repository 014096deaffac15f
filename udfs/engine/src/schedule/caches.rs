//! What requests hold in the caches of a worker, beside the blocks of their own.

use super::block_pool::BlockPool;
use super::encoder_cache::{EncoderCache, Source};
use super::prefix_cache::{NodeId, PrefixCache};

/// What a worker has computed that requests may have in common: a decoder's prompts, or what an encoder
/// read for a decoder.
#[derive(Default)]
pub struct Caches {
    pub prefix: PrefixCache,
    pub encoder: EncoderCache,
}

/// What a request holds; given back to [`Caches::release`].
#[derive(Debug)]
pub struct Held {
    /// The end of the tokens of its prompt that others may share; `None` where nothing is shared.
    pub prefix: Option<NodeId>,
    /// How many those are.
    pub shared: usize,
    /// The texts that it reads through an encoder.
    pub sources: Vec<Source>,
    /// Blocks reserved for its own tokens.
    pub reserved: usize,
    /// Tokens that it is the first to read.
    pub new_tokens: usize,
}

/// What a request reads before its own tokens.
#[derive(Clone, Copy, Debug)]
pub struct Reads<'a> {
    /// Texts that the encoder reads; empty for a decoder.
    pub passages: &'a [Vec<u32>],
    /// What the prompt begins with; empty where nothing is to be shared.
    pub prefix: &'a [u32],
    /// Most blocks for tokens of its own.
    pub own_blocks: usize,
}

impl Caches {
    /// Admits a request; `None` if there are not enough blocks while others are under way.
    pub fn admit(&mut self, reads: Reads<'_>, blocks: &mut BlockPool) -> Option<Held> {
        let Reads { passages, prefix, own_blocks: reserved } = reads;
        if !passages.is_empty() {
            let sources = self.encoder.admit(passages, reserved, blocks)?;
            let new_tokens = self.encoder.missing(&sources).iter().map(|text| text.len()).sum();
            return Some(Held { prefix: None, shared: 0, sources, reserved, new_tokens });
        }
        let admitted = self.prefix.admit(prefix, reserved, blocks)?;
        let (node, new_tokens) = (Some(admitted.node), admitted.new_tokens);
        let (shared, sources) = (prefix.len(), Vec::new());
        Some(Held { prefix: node, shared, sources, reserved, new_tokens })
    }

    /// Forgets everything. No request may hold anything.
    pub fn clear(&mut self, blocks: &mut BlockPool) {
        self.prefix.clear(blocks);
        self.encoder.clear(blocks);
    }

    /// Gives back what a request holds. Its own blocks must be free.
    pub fn release(&mut self, held: Held, blocks: &mut BlockPool) {
        blocks.release(held.reserved);
        if let Some(node) = held.prefix {
            self.prefix.unpin(node);
        }
        for source in &held.sources {
            self.encoder.unpin(source, blocks);
        }
    }
}
