//! Attention metadata: the rows of a step, and the KV cache blocks that each segment of rows reads.

/// Tokens in a block of a KV cache.
pub const BLOCK_SLOTS: usize = 16;

/// The rows of one step. All three lists are as long as there are rows, but `tokens` may be empty
/// where nothing is embedded and `slots` where no keys are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Token ids; 0 in rows that `sampled` lists.
    pub tokens: Vec<u32>,
    /// Place of each token in its own text, from 0.
    pub positions: Vec<u32>,
    /// Where its key and value go: `block * BLOCK_SLOTS + place in the block`.
    pub slots: Vec<u32>,
    /// Rows that go on with what the step before sampled, known to the host or not.
    pub sampled: Vec<SampledRow>,
}

/// A row of a step whose token an earlier step sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledRow {
    /// The row of this step.
    pub row: u32,
    /// The place of its token in [`super::Backend::Tokens`].
    pub from: u32,
}

/// Segments of rows and the KV cache blocks they attend to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttentionMetadata {
    /// In order of their rows; together they cover all rows.
    pub segments: Vec<Segment>,
    /// The blocks of all segments, in order of the tokens they hold.
    pub blocks: Vec<BlockRef>,
}

/// Neighbouring rows that read the same keys. Where attention is causal, the rows are the last
/// `rows` of the `keys` tokens, and row `i` reads the first `keys - rows + i + 1` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub first_row: u32,
    /// Rows; at least 1.
    pub rows: u32,
    /// First of its blocks in [`AttentionMetadata::blocks`].
    pub first_block: u32,
    /// Number of its blocks.
    pub blocks: u32,
    /// Keys: the sum of `used` over its blocks.
    pub keys: u32,
}

/// A block, of which the first `used` slots are read. A block that is not the last of its segment
/// may be partly used: texts that share a beginning share its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// Number of the block in the cache.
    pub block: u32,
    /// From 1 to [`BLOCK_SLOTS`].
    pub used: u32,
}

impl AttentionMetadata {
    /// Empties the lists, keeps their memory.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.blocks.clear();
    }

    /// Adds the next `rows` rows, which read `blocks`.
    pub fn push(&mut self, rows: usize, blocks: impl IntoIterator<Item = BlockRef>) {
        let first_row = self.segments.last().map_or(0, |last| last.first_row + last.rows);
        let first_block = self.blocks.len();
        self.blocks.extend(blocks);
        let own = &self.blocks[first_block..];
        self.segments.push(Segment {
            first_row,
            rows: rows as u32,
            first_block: first_block as u32,
            blocks: own.len() as u32,
            keys: own.iter().map(|block| block.used).sum(),
        });
    }
}

impl Input {
    /// Empties the lists, keeps their memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.slots.clear();
        self.sampled.clear();
    }

    /// Adds a token.
    pub fn push(&mut self, token: u32, position: u32, slot: u32) {
        self.tokens.push(token);
        self.positions.push(position);
        self.slots.push(slot);
    }

    /// Adds the token at place `from` of those that the step before sampled.
    pub fn push_sampled(&mut self, from: u32, position: u32, slot: u32) {
        self.sampled.push(SampledRow { row: self.tokens.len() as u32, from });
        self.push(0, position, slot);
    }
}
