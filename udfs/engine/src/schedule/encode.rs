//! One pass of the encoder over whole texts.

use super::block_pool::blocks_for;
use crate::backend::{
    AttentionMetadata, BLOCK_SLOTS, Backend, BlockRef, CacheShape, DeviceError, Input, Pool,
    Precision,
};
use crate::network::{RequestedRows, Stack, Workspace};

/// An encoder's memory.
pub struct Encoder<B: Backend> {
    work: Workspace<B>,
    cache: B::Cache,
    capacity: usize,
    rows: Input,
    texts: AttentionMetadata,
    input: B::Input,
    metadata: B::Metadata,
    /// The one row of each text that is requested, and a segment for each.
    requested: Vec<u32>,
    requested_texts: AttentionMetadata,
    requested_metadata: B::Metadata,
}

impl<B: Backend> Encoder<B> {
    /// Room for batches of `capacity` tokens.
    pub fn new(backend: &B, stack: &Stack<B>, capacity: usize) -> Result<Self, DeviceError> {
        let shape = CacheShape {
            layers: 1,
            // Texts that each leave most of a block unused are a quarter of the rows at most: see
            // `Encoder::fits`.
            blocks: Self::block_limit(capacity),
            kv_heads: stack.heads.kv_heads,
            head_dim: stack.heads.head_dim,
            // Read once, from near: there is nothing to gain by fewer bits.
            precision: Precision::F32,
        };
        Ok(Self {
            work: Workspace::new(backend, stack, capacity)?,
            cache: backend.cache(shape)?,
            capacity,
            rows: Input::default(),
            texts: AttentionMetadata::default(),
            input: B::Input::default(),
            metadata: B::Metadata::default(),
            requested: Vec::new(),
            requested_texts: AttentionMetadata::default(),
            requested_metadata: B::Metadata::default(),
        })
    }

    /// Whether a batch of texts of these lengths can take one more.
    pub fn fits(&self, lengths: &[usize], more: usize) -> bool {
        let tokens: usize = lengths.iter().sum();
        let blocks: usize = lengths.iter().map(|&length| blocks_for(length)).sum();
        tokens + more <= self.capacity
            && blocks + blocks_for(more) <= Self::block_limit(self.capacity)
    }

    fn block_limit(capacity: usize) -> usize {
        blocks_for(capacity) + capacity / 4
    }

    /// Encodes `texts`, which fit; the rows of all, one after the other, and which are whose.
    pub fn run<'a, 't>(
        &'a mut self,
        backend: &mut B,
        stack: &Stack<B>,
        texts: impl IntoIterator<Item = &'t [u32]>,
    ) -> Result<(&'a B::Tensor, &'a B::Metadata), DeviceError> {
        let texts = texts.into_iter().map(|text| (text, &[][..]));
        self.run_through(stack.blocks.len(), backend, stack, texts, Pool::Mean)
    }

    /// The same through the first `depth` blocks; beside each text what is added to the positions of its tokens
    /// (nothing if it is empty). Of each text there are the rows that `pool` takes.
    pub fn run_through<'a, 't>(
        &'a mut self,
        depth: usize,
        backend: &mut B,
        stack: &Stack<B>,
        texts: impl IntoIterator<Item = (&'t [u32], &'t [u32])>,
        pool: Pool,
    ) -> Result<(&'a B::Tensor, &'a B::Metadata), DeviceError> {
        self.rows.clear();
        self.texts.clear();
        let mut next = 0;
        for (tokens, offsets) in texts {
            for (index, &token) in tokens.iter().enumerate() {
                let slot = next * BLOCK_SLOTS + index;
                let position = index as u32 + offsets.get(index).copied().unwrap_or(0);
                self.rows.push(token, position, slot as u32);
            }
            let blocks = tokens.chunks(BLOCK_SLOTS).enumerate().map(|(index, slots)| BlockRef {
                block: (next + index) as u32,
                used: slots.len() as u32,
            });
            self.texts.push(tokens.len(), blocks);
            next += blocks_for(tokens.len());
        }
        backend.upload_input(&self.rows, None, &mut self.input)?;
        backend.upload_metadata(&self.texts, &mut self.metadata)?;
        let Self { work, input, metadata, cache, texts, requested, requested_texts, .. } = self;
        requested.clear();
        requested_texts.clear();
        for text in &texts.segments {
            match pool {
                Pool::Mean => continue,
                Pool::First => requested.push(text.first_row),
                Pool::Last => requested.push(text.first_row + text.rows - 1),
            }
            let block = texts.blocks[text.first_block as usize].block;
            requested_texts.push(1, [BlockRef { block, used: 1 }]);
        }
        let rows = match pool {
            Pool::Mean => RequestedRows::All,
            Pool::First | Pool::Last => {
                RequestedRows::Some { rows: requested, of: self.rows.tokens.len() }
            }
        };
        stack.forward_through(depth, backend, input, metadata, cache, None, rows, work)?;
        let metadata = match pool {
            Pool::Mean => &*metadata,
            Pool::First | Pool::Last => {
                backend.upload_metadata(requested_texts, &mut self.requested_metadata)?;
                &self.requested_metadata
            }
        };
        Ok((stack.states(depth, backend, work)?, metadata))
    }
}
