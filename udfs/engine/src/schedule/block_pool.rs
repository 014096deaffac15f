//! The blocks of a KV cache: which are free, and which sequences read the others.

use crate::backend::{BLOCK_SLOTS, BlockRef, DeviceError};

/// Free blocks, and for each block how many block tables list it.
#[derive(Debug)]
pub struct BlockPool {
    free: Vec<u32>,
    ref_counts: Vec<u32>,
    reserved: usize,
}

/// Where the tokens of a sequence lie in the KV cache: its blocks in order. Sequences with the same
/// prefix share its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockTable {
    /// A block that is not the last may be partly used too, where a shared prefix ended.
    pub refs: Vec<BlockRef>,
}

/// The slot of a new token, and what must be copied before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `block * BLOCK_SLOTS + place in the block`.
    pub slot: u32,
    /// A block to be copied first: `(from, to)`.
    pub copy: Option<(u32, u32)>,
}

/// How many blocks hold `tokens` tokens.
pub fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_SLOTS)
}

impl BlockPool {
    /// A pool of `count` free blocks.
    pub fn new(count: usize) -> Self {
        Self { free: (0..count as u32).rev().collect(), ref_counts: vec![0; count], reserved: 0 }
    }

    /// Reserves `count` blocks, to be taken later; false if that many are not unreserved.
    pub fn reserve(&mut self, count: usize) -> bool {
        let possible = self.reserved + count <= self.ref_counts.len();
        if possible {
            self.reserved += count;
        }
        possible
    }

    /// Gives a reservation of `count` blocks back.
    pub fn release(&mut self, count: usize) {
        self.reserved -= count;
    }

    /// A slot for one more token at the end of `table`. A last block that other tables list too is
    /// copied on write, unless it is full. `None` if no block is free, which a reservation rules out.
    pub fn append_slot(&mut self, table: &mut BlockTable) -> Option<Slot> {
        let last = table.refs.last_mut().filter(|last| (last.used as usize) < BLOCK_SLOTS);
        let Some(last) = last else {
            let block = self.take()?;
            table.refs.push(BlockRef { block, used: 1 });
            return Some(Slot { slot: slot(block, 0), copy: None });
        };
        let mut copy = None;
        if self.ref_counts[last.block as usize] > 1 {
            let block = self.free.pop()?;
            self.ref_counts[block as usize] = 1;
            self.ref_counts[last.block as usize] -= 1;
            copy = Some((last.block, block));
            last.block = block;
        }
        last.used += 1;
        Some(Slot { slot: slot(last.block, last.used - 1), copy })
    }

    /// A slot for one more token, in a block of its own if `new_block`: sequences that branch off here
    /// leave the shared block as it is.
    pub fn append_slot_in(&mut self, table: &mut BlockTable, new_block: bool) -> Option<Slot> {
        if !new_block {
            return self.append_slot(table);
        }
        let block = self.take()?;
        table.refs.push(BlockRef { block, used: 1 });
        Some(Slot { slot: slot(block, 0), copy: None })
    }

    /// Takes the last token out of `table`, as if it had not been added.
    pub fn drop_last(&mut self, table: &mut BlockTable) {
        let Some(last) = table.refs.last_mut() else { return };
        last.used -= 1;
        if last.used == 0 {
            let last = table.refs.drain(table.refs.len() - 1..).collect();
            self.free_table(&mut BlockTable { refs: last });
        }
    }

    /// A table with the same blocks, each counted once more.
    pub fn fork(&mut self, table: &BlockTable) -> BlockTable {
        for part in &table.refs {
            self.ref_counts[part.block as usize] += 1;
        }
        table.clone()
    }

    /// A table with the first `tokens` tokens of `table`. The next token must go to a new block: where
    /// these end inside a block, others follow there.
    pub fn fork_prefix(&mut self, table: &BlockTable, tokens: usize) -> BlockTable {
        let mut left = tokens as u32;
        let mut refs = Vec::new();
        for part in &table.refs {
            let used = part.used.min(left);
            left -= used;
            if used > 0 {
                self.ref_counts[part.block as usize] += 1;
                refs.push(BlockRef { used, ..*part });
            }
        }
        BlockTable { refs }
    }

    /// Frees the blocks of `table` that no other table lists, and empties it.
    pub fn free_table(&mut self, table: &mut BlockTable) {
        for part in table.refs.drain(..) {
            let count = &mut self.ref_counts[part.block as usize];
            *count -= 1;
            if *count == 0 {
                self.free.push(part.block);
            }
        }
    }

    /// Blocks that some table lists.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        self.ref_counts.len() - self.free.len()
    }

    #[cfg(test)]
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.ref_counts[block as usize] = 1;
        Some(block)
    }
}

fn slot(block: u32, place: u32) -> u32 {
    block * BLOCK_SLOTS as u32 + place
}

impl BlockTable {
    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.refs.iter().map(|part| part.used as usize).sum()
    }
}

/// Cannot happen where blocks were reserved.
pub(super) fn cache_is_full() -> DeviceError {
    DeviceError::Failed("the KV cache is full".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_last_block_is_copied_by_the_first_to_write() {
        let mut blocks = BlockPool::new(4);
        let mut first = BlockTable::default();
        for _ in 0..BLOCK_SLOTS + 2 {
            assert_eq!(blocks.append_slot(&mut first).unwrap().copy, None);
        }
        let mut second = blocks.fork(&first);
        let slot = blocks.append_slot(&mut second).unwrap();
        assert_eq!(slot.copy, Some((first.refs[1].block, second.refs[1].block)));
        // The first is alone on its block again and keeps it.
        assert_eq!(blocks.append_slot(&mut first).unwrap().copy, None);
        assert_eq!((first.tokens(), second.tokens()), (19, 19));
        assert_eq!(first.refs[0], second.refs[0]);
        blocks.free_table(&mut first);
        blocks.free_table(&mut second);
        assert_eq!(blocks.free.len(), 4);
    }

    #[test]
    fn a_full_block_is_shared_without_a_copy() {
        let mut blocks = BlockPool::new(3);
        let mut first = BlockTable::default();
        for _ in 0..BLOCK_SLOTS {
            blocks.append_slot(&mut first).unwrap();
        }
        let mut second = blocks.fork(&first);
        assert_eq!(blocks.append_slot(&mut second).unwrap().copy, None);
        assert_eq!(blocks.append_slot(&mut first).unwrap().copy, None);
        assert_eq!(blocks.append_slot(&mut BlockTable::default()), None);
    }

    #[test]
    fn a_token_that_is_dropped_leaves_nothing_behind() {
        let mut blocks = BlockPool::new(4);
        let mut table = BlockTable::default();
        for tokens in 0..2 * BLOCK_SLOTS {
            let (before, free) = (table.clone(), blocks.free.len());
            blocks.append_slot(&mut table).unwrap();
            blocks.drop_last(&mut table);
            assert_eq!((&table, blocks.free.len()), (&before, free), "{tokens} tokens");
            blocks.append_slot(&mut table).unwrap();
        }
        // What others read stays theirs.
        let mut other = blocks.fork(&table);
        blocks.drop_last(&mut other);
        blocks.append_slot(&mut other).unwrap();
        blocks.drop_last(&mut other);
        assert_eq!((table.tokens(), other.tokens()), (2 * BLOCK_SLOTS, 2 * BLOCK_SLOTS - 1));
        blocks.free_table(&mut other);
        blocks.free_table(&mut table);
        assert_eq!(blocks.free.len(), 4);
    }

    #[test]
    fn no_more_blocks_are_reserved_than_there_are() {
        let mut blocks = BlockPool::new(5);
        assert!(blocks.reserve(3));
        assert!(!blocks.reserve(3));
        assert!(blocks.reserve(2));
        blocks.release(3);
        assert!(blocks.reserve(3));
        assert!(!blocks.reserve(1));
    }
}
