//! The index of a segment: where each key is, and the digests of what lies there.
//!
//! It lies in the segment itself, between the last rows and the Parquet footer. A key that the segment
//! does not have is recognised without reading any rows; one that it has costs its block.

use std::ops::Range;

use proofmill_base::digest::Digest;

/// What an index begins with: a mark and the version.
const MAGIC: &[u8; 8] = b"pmledgr\x01";
/// Bytes of one block in the index.
const BLOCK_BYTES: usize = 4 + 8 + 4 + 4 + 32 + 32;
/// Bytes of a key that the index holds: chance matches are no concern, the whole key is compared later.
const PREFIX_BYTES: usize = 8;

/// A row group: first all columns but the requests, then the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub rows: u32,
    /// Where it begins in the object.
    pub at: u64,
    /// Bytes of what a look-up reads.
    pub answer_bytes: u32,
    /// Bytes of the requests, which follow.
    pub request_bytes: u32,
    /// Digest of what a look-up reads.
    pub answer_sha256: Digest,
    pub request_sha256: Digest,
}

impl Block {
    /// Where the object holds what a look-up reads.
    pub fn answers(&self) -> Range<u64> {
        self.at..self.at + u64::from(self.answer_bytes)
    }

    /// Where the object holds the block.
    pub fn whole(&self) -> Range<u64> {
        self.at..self.answers().end + u64::from(self.request_bytes)
    }
}

/// A place that may hold a key: the first bytes agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// Number of the block.
    pub block: usize,
    /// Row within the block.
    pub row: usize,
    /// Number of the key in the requested list.
    pub key: usize,
}

/// The index of a segment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeyIndex {
    blocks: Vec<Block>,
    /// The first bytes of each row's key, in order of the rows.
    prefixes: Vec<u64>,
}

impl KeyIndex {
    /// Takes the next block with the keys of its rows.
    pub fn push(&mut self, block: Block, keys: impl Iterator<Item = Digest>) {
        self.blocks.push(block);
        self.prefixes.extend(keys.map(|key| prefix(&key)));
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Bytes that the index takes in memory, approximately.
    pub fn memory_bytes(&self) -> usize {
        self.prefixes.len() * PREFIX_BYTES + self.blocks.len() * size_of::<Block>()
    }

    /// Where the rows of `keys` may be. The keys must be sorted; the places come in order.
    pub fn find(&self, keys: &[Digest]) -> Vec<Candidate> {
        let mut found = Vec::new();
        let (mut row, mut block, mut block_at) = (0, 0, 0);
        for (number, key) in keys.iter().enumerate() {
            let wanted = prefix(key);
            row += self.prefixes[row..].partition_point(|prefix| *prefix < wanted);
            let equal = self.prefixes[row..].iter().take_while(|prefix| **prefix == wanted).count();
            for row in row..row + equal {
                while let Some(Block { rows, .. }) = self.blocks.get(block)
                    && row >= block_at + *rows as usize
                {
                    block_at += *rows as usize;
                    block += 1;
                }
                found.push(Candidate { block, row: row - block_at, key: number });
            }
            // Keys with equal first bytes look at the same rows.
            if equal > 0 && keys.get(number + 1).is_some_and(|next| prefix(next) == wanted) {
                (block, block_at) = (0, 0);
            }
        }
        found.sort_unstable();
        found
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = MAGIC.len() + 4 + BLOCK_BYTES * self.blocks.len();
        let mut out = Vec::with_capacity(bytes + PREFIX_BYTES * self.prefixes.len());
        out.extend_from_slice(MAGIC);
        // A segment has far fewer blocks than rows, and those are counted in 32 bits by Parquet.
        out.extend_from_slice(&(self.blocks.len() as u32).to_le_bytes());
        for block in &self.blocks {
            out.extend_from_slice(&block.rows.to_le_bytes());
            out.extend_from_slice(&block.at.to_le_bytes());
            out.extend_from_slice(&block.answer_bytes.to_le_bytes());
            out.extend_from_slice(&block.request_bytes.to_le_bytes());
            out.extend_from_slice(block.answer_sha256.as_bytes());
            out.extend_from_slice(block.request_sha256.as_bytes());
        }
        out.extend(self.prefixes.iter().flat_map(|prefix| prefix.to_be_bytes()));
        out
    }

    /// The index that [`Self::encode`] wrote, or why these bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or("its index has another format")?;
        let blocks = u32::from_le_bytes(take(&mut rest)?);
        let mut index = Self::default();
        let (mut rows, mut end) = (0_usize, 0);
        for _ in 0..blocks {
            let block = Block {
                rows: u32::from_le_bytes(take(&mut rest)?),
                at: u64::from_le_bytes(take(&mut rest)?),
                answer_bytes: u32::from_le_bytes(take(&mut rest)?),
                request_bytes: u32::from_le_bytes(take(&mut rest)?),
                answer_sha256: take::<32>(&mut rest)?.into(),
                request_sha256: take::<32>(&mut rest)?.into(),
            };
            if block.at < end || block.at > u64::MAX / 2 {
                return Err("the blocks of its index overlap");
            }
            end = block.whole().end;
            rows = rows.saturating_add(block.rows as usize);
            index.blocks.push(block);
        }
        if rest.len() % PREFIX_BYTES != 0 || rest.len() / PREFIX_BYTES != rows {
            return Err("its index holds another number of keys than of rows");
        }
        while !rest.is_empty() {
            index.prefixes.push(u64::from_be_bytes(take(&mut rest)?));
        }
        if !index.prefixes.is_sorted() {
            return Err("the keys of its index are not sorted");
        }
        Ok(index)
    }
}

/// The first bytes of a key, as a number that sorts as they do.
fn prefix(key: &Digest) -> u64 {
    key.as_bytes()[..PREFIX_BYTES].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or("its index ends early")?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(rows: u32, at: u64) -> Block {
        let (answer_sha256, request_sha256) = (Digest::of(b"a"), Digest::of(&at.to_le_bytes()));
        Block { rows, at, answer_bytes: 7, request_bytes: 3, answer_sha256, request_sha256 }
    }

    /// A key of few values in its first bytes, so that first bytes agree often.
    fn key(first: u8, last: u8) -> Digest {
        let mut bytes = [0; 32];
        (bytes[7], bytes[31]) = (first, last);
        bytes.into()
    }

    fn index_of(keys: &[Digest], block_rows: usize) -> KeyIndex {
        let mut index = KeyIndex::default();
        for (n, keys) in keys.chunks(block_rows).enumerate() {
            index.push(block(keys.len() as u32, 4 + 10 * n as u64), keys.iter().copied());
        }
        index
    }

    fn keys() -> impl Strategy<Value = Vec<Digest>> {
        prop::collection::btree_set((0u8..40, 0u8..4), 0..80)
            .prop_map(|keys| keys.into_iter().map(|(first, last)| key(first, last)).collect())
    }

    proptest! {
        #[test]
        fn finds_every_row_that_may_match(
            rows in keys(),
            wanted in keys(),
            block_rows in 1usize..12,
        ) {
            let index = index_of(&rows, block_rows);
            let mut expected: Vec<Candidate> = Vec::new();
            for (key, digest) in wanted.iter().enumerate() {
                for (row, held) in rows.iter().enumerate() {
                    if held.as_bytes()[7] == digest.as_bytes()[7] {
                        let (block, row) = (row / block_rows, row % block_rows);
                        expected.push(Candidate { block, row, key });
                    }
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(index.find(&wanted), expected);
        }

        #[test]
        fn the_stored_form_reads_back(rows in keys(), block_rows in 1usize..12) {
            let index = index_of(&rows, block_rows);
            prop_assert_eq!(KeyIndex::decode(&index.encode()).unwrap(), index);
        }

        #[test]
        fn other_bytes_are_refused_without_a_panic(
            rows in keys(),
            cut in any::<prop::sample::Index>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let bytes = index_of(&rows, 5).encode();
            prop_assert!(KeyIndex::decode(&bytes[..cut.index(bytes.len())]).is_err());
            let mut flipped = bytes.clone();
            flipped[flip.index(bytes.len())] ^= 0x80;
            // Digests find what is wrong here; decoding must only stay within bounds.
            let _ = KeyIndex::decode(&flipped);
        }
    }
}
