//! Cross-attention keys and values of texts that an encoder read: a text that several requests read is
//! encoded once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::block_pool::{BlockPool, BlockTable, blocks_for};

/// The tokens of a text; as long as it is pinned, it is in the cache.
pub type Source = Arc<[u32]>;

/// The encoded texts of a worker. What has no reader stays until its blocks are needed, and the
/// least recently used goes first.
#[derive(Default)]
pub struct EncoderCache {
    texts: BTreeMap<Source, Text>,
    uses: u64,
}

struct Text {
    /// Empty until it is encoded.
    table: BlockTable,
    pins: usize,
    last_use: u64,
}

impl EncoderCache {
    /// Admits a request that reads `passages` and takes up to `own_blocks` of its own: pins what it reads.
    /// `None` if so many blocks are not to be had while others read what is cached.
    pub fn admit(
        &mut self,
        passages: &[Vec<u32>],
        own_blocks: usize,
        blocks: &mut BlockPool,
    ) -> Option<Vec<Source>> {
        self.uses += 1;
        let (mut sources, mut needed) = (Vec::with_capacity(passages.len()), own_blocks);
        for passage in passages {
            let source = match self.texts.get_key_value(&passage[..]) {
                Some((source, _)) => Arc::clone(source),
                None => {
                    needed += blocks_for(passage.len());
                    Source::from(&passage[..])
                }
            };
            let text = self.texts.entry(Arc::clone(&source)).or_insert_with(|| Text {
                table: BlockTable::default(),
                pins: 0,
                last_use: 0,
            });
            text.pins += 1;
            text.last_use = self.uses;
            sources.push(source);
        }
        if self.reserve(needed, blocks) {
            return Some(sources);
        }
        // What is not encoded was never reserved.
        for source in &sources {
            let reserved = self.release(source);
            debug_assert!(reserved.is_none_or(|text| text.table.refs.is_empty()));
        }
        None
    }

    /// Ends a request's hold on a text. One that was never encoded is gone with its last reader.
    pub fn unpin(&mut self, source: &Source, blocks: &mut BlockPool) {
        if self.release(source).is_some() {
            blocks.release(blocks_for(source.len()));
        }
    }

    /// The text, if it was not encoded and has no other reader.
    fn release(&mut self, source: &Source) -> Option<Text> {
        let text = self.texts.get_mut(source)?;
        text.pins -= 1;
        let gone = text.pins == 0 && text.table.refs.is_empty();
        if gone { self.texts.remove(source) } else { None }
    }

    /// Those of `sources` that are not encoded, each once, in the order in which they come first.
    pub fn missing<'a>(&self, sources: impl IntoIterator<Item = &'a Source>) -> Vec<Source> {
        let mut seen = BTreeSet::new();
        let encoded =
            |source| self.texts.get(source).is_some_and(|text| !text.table.refs.is_empty());
        let missing = sources.into_iter().filter(|&source| !encoded(source) && seen.insert(source));
        missing.map(Arc::clone).collect()
    }

    /// A text was encoded to `table`, whose blocks become the cache's.
    pub fn insert(&mut self, source: &Source, table: BlockTable) {
        if let Some(text) = self.texts.get_mut(source) {
            text.table = table;
        }
    }

    /// The blocks of `sources`, which are encoded, one after the other.
    pub fn table(&self, sources: &[Source], blocks: &mut BlockPool) -> BlockTable {
        let mut all = BlockTable::default();
        for text in sources.iter().filter_map(|source| self.texts.get(source)) {
            all.refs.extend(blocks.fork(&text.table).refs);
        }
        all
    }

    /// Frees all blocks. None may have a reader.
    pub fn clear(&mut self, blocks: &mut BlockPool) {
        for (source, mut text) in std::mem::take(&mut self.texts) {
            blocks.free_table(&mut text.table);
            blocks.release(blocks_for(source.len()));
        }
    }

    /// Reserves `count` blocks; what has no reader gives way, the least recently used first.
    pub fn reserve(&mut self, count: usize, blocks: &mut BlockPool) -> bool {
        while !blocks.reserve(count) {
            let idle = self.texts.iter().filter(|(_, text)| text.pins == 0);
            let oldest = idle.min_by_key(|(_, text)| text.last_use).map(|(source, _)| source);
            let Some(oldest) = oldest.map(Arc::clone) else { return false };
            if let Some(mut text) = self.texts.remove(&oldest) {
                blocks.free_table(&mut text.table);
                blocks.release(blocks_for(oldest.len()));
            }
        }
        true
    }
}
