//! Who holds which blocks of a cache.

use crate::backend::{BLOCK_SLOTS, BlockRef};

/// Blocks that are free, and how many hold each of the others.
#[derive(Debug)]
pub struct Blocks {
    free: Vec<u32>,
    holders: Vec<u32>,
    promised: usize,
}

/// A row of tokens in a cache: its blocks in order. Those who share a beginning share its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// All but the last may be partly used too, where a shared text ended.
    pub refs: Vec<BlockRef>,
}

/// What must happen before a token can be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where the token goes.
    pub slot: u32,
    /// A block to be copied first: `(from, to)`.
    pub copy: Option<(u32, u32)>,
}

/// How many blocks hold `tokens` tokens.
pub fn blocks_for(tokens: usize) -> usize {
    tokens.div_ceil(BLOCK_SLOTS)
}

impl Blocks {
    /// All free.
    pub fn new(count: usize) -> Self {
        Self { free: (0..count as u32).rev().collect(), holders: vec![0; count], promised: 0 }
    }

    /// Promises `count` blocks to somebody who will take them later; false if there are not so many
    /// that nobody else was promised.
    pub fn promise(&mut self, count: usize) -> bool {
        let possible = self.promised + count <= self.holders.len();
        if possible {
            self.promised += count;
        }
        possible
    }

    /// Takes a promise back.
    pub fn absolve(&mut self, count: usize) {
        self.promised -= count;
    }

    /// A place for one more token at the end of `span`. A last block that others hold too is
    /// copied, unless the span ended it. `None` if no block is free, which a promise rules out.
    pub fn append(&mut self, span: &mut Span) -> Option<Slot> {
        let last = span.refs.last_mut().filter(|last| (last.used as usize) < BLOCK_SLOTS);
        let Some(last) = last else {
            let block = self.take()?;
            span.refs.push(BlockRef { block, used: 1 });
            return Some(Slot { slot: slot(block, 0), copy: None });
        };
        let mut copy = None;
        if self.holders[last.block as usize] > 1 {
            let block = self.free.pop()?;
            self.holders[block as usize] = 1;
            self.holders[last.block as usize] -= 1;
            copy = Some((last.block, block));
            last.block = block;
        }
        last.used += 1;
        Some(Slot { slot: slot(last.block, last.used - 1), copy })
    }

    /// A place for one more token, in a new block if `apart`: texts that branch off here leave what
    /// is shared as it is.
    pub fn append_apart(&mut self, span: &mut Span, apart: bool) -> Option<Slot> {
        if !apart {
            return self.append(span);
        }
        let block = self.take()?;
        span.refs.push(BlockRef { block, used: 1 });
        Some(Slot { slot: slot(block, 0), copy: None })
    }

    /// A second holder of all blocks of `span`.
    pub fn share(&mut self, span: &Span) -> Span {
        for part in &span.refs {
            self.holders[part.block as usize] += 1;
        }
        span.clone()
    }

    /// A second holder of the first `tokens` tokens of `span`. The next token must be appended
    /// apart: where these end inside a block, others follow there.
    pub fn share_some(&mut self, span: &Span, tokens: usize) -> Span {
        let mut left = tokens as u32;
        let mut refs = Vec::new();
        for part in &span.refs {
            let used = part.used.min(left);
            left -= used;
            if used > 0 {
                self.holders[part.block as usize] += 1;
                refs.push(BlockRef { used, ..*part });
            }
        }
        Span { refs }
    }

    /// Lets go of `span`.
    pub fn release(&mut self, span: &mut Span) {
        for part in span.refs.drain(..) {
            let holders = &mut self.holders[part.block as usize];
            *holders -= 1;
            if *holders == 0 {
                self.free.push(part.block);
            }
        }
    }

    fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.holders[block as usize] = 1;
        Some(block)
    }
}

fn slot(block: u32, place: u32) -> u32 {
    block * BLOCK_SLOTS as u32 + place
}

impl Span {
    /// Tokens it holds.
    pub fn tokens(&self) -> usize {
        self.refs.iter().map(|part| part.used as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_last_block_is_copied_by_whoever_writes_first() {
        let mut blocks = Blocks::new(4);
        let mut first = Span::default();
        for _ in 0..BLOCK_SLOTS + 2 {
            assert_eq!(blocks.append(&mut first).unwrap().copy, None);
        }
        let mut second = blocks.share(&first);
        let slot = blocks.append(&mut second).unwrap();
        assert_eq!(slot.copy, Some((first.refs[1].block, second.refs[1].block)));
        // The first is alone on its block again and keeps it.
        assert_eq!(blocks.append(&mut first).unwrap().copy, None);
        assert_eq!((first.tokens(), second.tokens()), (19, 19));
        assert_eq!(first.refs[0], second.refs[0]);
        blocks.release(&mut first);
        blocks.release(&mut second);
        assert_eq!(blocks.free.len(), 4);
    }

    #[test]
    fn a_full_block_is_shared_without_a_copy() {
        let mut blocks = Blocks::new(3);
        let mut first = Span::default();
        for _ in 0..BLOCK_SLOTS {
            blocks.append(&mut first).unwrap();
        }
        let mut second = blocks.share(&first);
        assert_eq!(blocks.append(&mut second).unwrap().copy, None);
        assert_eq!(blocks.append(&mut first).unwrap().copy, None);
        assert_eq!(blocks.append(&mut Span::default()), None);
    }

    #[test]
    fn promises_are_kept_within_what_there_is() {
        let mut blocks = Blocks::new(5);
        assert!(blocks.promise(3));
        assert!(!blocks.promise(3));
        assert!(blocks.promise(2));
        blocks.absolve(3);
        assert!(blocks.promise(3));
        assert!(!blocks.promise(1));
    }
}
