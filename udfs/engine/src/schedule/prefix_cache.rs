//! Keys and values of a prefix that one batch of scores leaves for the next.

use super::block_pool::{BlockPool, BlockTable};

/// A shorter prefix is not worth its blocks.
const PREFIX_TOKENS_MIN: usize = 32;

/// The prefix that all texts of the last batch shared: most often the few-shot examples, with which
/// the next batch begins too.
#[derive(Default)]
pub struct PrefixCache {
    tokens: Vec<u32>,
    table: BlockTable,
}

impl PrefixCache {
    /// Frees its blocks, reservation included.
    pub fn clear(&mut self, blocks: &mut BlockPool) {
        blocks.release(self.table.refs.len());
        blocks.free_table(&mut self.table);
        self.tokens.clear();
    }

    /// The blocks of the longest cached prefix of `tokens`; empty, and the cache cleared, if that is
    /// shorter than [`PREFIX_TOKENS_MIN`].
    pub fn lookup(&mut self, tokens: &[u32], blocks: &mut BlockPool) -> BlockTable {
        let shared = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        if shared < PREFIX_TOKENS_MIN {
            self.clear(blocks);
            return BlockTable::default();
        }
        blocks.fork_prefix(&self.table, shared)
    }

    /// Caches `tokens`, which lie in `table`, instead of the prefix so far, if they are enough and
    /// their blocks can be reserved.
    pub fn store(&mut self, tokens: &[u32], table: &BlockTable, blocks: &mut BlockPool) {
        self.clear(blocks);
        if tokens.len() >= PREFIX_TOKENS_MIN && blocks.reserve(table.refs.len()) {
            self.table = blocks.fork(table);
            self.tokens = tokens.to_vec();
        }
    }
}
