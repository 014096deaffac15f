//! Merkle trees as in RFC 6962, section 2.1: the root of a list of leaves, and proofs that a leaf is among them.
//!
//! A leaf hash is SHA-256(0x00 ‖ bytes), an inner node SHA-256(0x01 ‖ left ‖ right).
//! The left subtree of every node is the largest perfect one that leaves something for the right.

use crate::digest::{Digest, Hasher};

const LEAF: &[u8] = &[0];
const NODE: &[u8] = &[1];

/// The hash of a leaf with these bytes.
pub fn leaf_hash(bytes: &[u8]) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(LEAF);
    hasher.update(bytes);
    hasher.finish()
}

fn node_hash(left: Digest, right: Digest) -> Digest {
    let mut hasher = Hasher::default();
    hasher.update(NODE);
    hasher.update(left.as_bytes());
    hasher.update(right.as_bytes());
    hasher.finish()
}

/// A tree that grows leaf by leaf. It keeps only the roots of its perfect subtrees, one for each bit of its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// Largest subtree first.
    peaks: Vec<Digest>,
}

impl Tree {
    /// The tree of `size` leaves with these subtrees, largest first; `None` if their number does not fit the size.
    pub fn of_peaks(size: u64, peaks: Vec<Digest>) -> Option<Self> {
        // One more leaf must have a number.
        let fits = size < u64::MAX && peaks.len() == size.count_ones() as usize;
        fits.then_some(Self { size, peaks })
    }

    /// Number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The roots of the perfect subtrees, largest first.
    pub fn peaks(&self) -> &[Digest] {
        &self.peaks
    }

    /// Appends a leaf by its hash.
    pub fn push(&mut self, leaf: Digest) {
        let merged = self.size.trailing_ones() as usize;
        let lefts = self.peaks.split_off(self.peaks.len() - merged);
        self.peaks.push(lefts.into_iter().rfold(leaf, |right, left| node_hash(left, right)));
        self.size += 1;
    }

    /// The root; of no leaves, the digest of no bytes.
    pub fn root(&self) -> Digest {
        let joined = self.peaks.iter().rev().copied().reduce(|right, left| node_hash(left, right));
        joined.unwrap_or_else(|| Digest::of(b""))
    }
}

impl Extend<Digest> for Tree {
    fn extend<T: IntoIterator<Item = Digest>>(&mut self, leaves: T) {
        leaves.into_iter().for_each(|leaf| self.push(leaf));
    }
}

impl FromIterator<Digest> for Tree {
    fn from_iter<T: IntoIterator<Item = Digest>>(leaves: T) -> Self {
        let mut tree = Self::default();
        tree.extend(leaves);
        tree
    }
}

/// A tree with all its nodes, for the paths of many leaves.
#[derive(Clone, Debug)]
pub struct FullTree {
    /// The leaves, and above each level the next one; a node without a right sibling moves up as it is.
    levels: Vec<Vec<Digest>>,
}

impl FullTree {
    pub fn of(leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|last| last.len() > 1) {
            let above = last.chunks(2).map(|pair| match pair {
                [left, right] => node_hash(*left, *right),
                alone => alone[0],
            });
            levels.push(above.collect());
        }
        Self { levels }
    }

    pub fn leaf(&self, index: usize) -> Digest {
        self.levels[0][index]
    }

    /// The audit path of a leaf (section 2.1.1): the nodes that lead from it to the root, the nearest first.
    ///
    /// # Panics
    ///
    /// If there is no such leaf.
    pub fn inclusion(&self, index: usize) -> Vec<Digest> {
        let leaves = self.levels[0].len();
        assert!(index < leaves, "leaf {index} of {leaves}");
        let sibling =
            |(height, level): (usize, &Vec<Digest>)| level.get((index >> height) ^ 1).copied();
        self.levels.iter().enumerate().filter_map(sibling).collect()
    }
}

/// The root of the tree of `size` leaves in which leaf `index` has this hash and this audit path; `None` if the path
/// has another length than in such a tree.
pub fn root_by_inclusion(size: u64, index: u64, leaf: Digest, path: &[Digest]) -> Option<Digest> {
    if index >= size {
        return None;
    }
    let (mut hash, mut rest) = (leaf, path.iter());
    let (mut at, mut last) = (index, size - 1);
    while last > 0 {
        // A node without a right sibling moves up as it is.
        if at & 1 == 1 {
            hash = node_hash(*rest.next()?, hash);
        } else if at < last {
            hash = node_hash(hash, *rest.next()?);
        }
        at >>= 1;
        last >>= 1;
    }
    rest.next().is_none().then_some(hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Section 2.1 of the RFC, word for word.
    fn definition(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [leaf] => *leaf,
            _ => {
                let mut k = 1;
                while k * 2 < leaves.len() {
                    k *= 2;
                }
                node_hash(definition(&leaves[..k]), definition(&leaves[k..]))
            }
        }
    }

    fn leaves(n: usize) -> Vec<Digest> {
        (0..n).map(|i| leaf_hash(&i.to_le_bytes())).collect()
    }

    /// The inputs and roots of the tests that Certificate Transparency implementations share.
    #[test]
    fn the_published_roots_come_out() {
        let inputs: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let roots = [
            (0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
            (2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
            (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
            (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
        ];
        for (size, root) in roots {
            let tree: Tree = inputs[..size].iter().map(|bytes| leaf_hash(bytes)).collect();
            assert_eq!(tree.root().to_string(), root, "{size} leaves");
        }
    }

    #[test]
    fn a_grown_tree_has_the_root_of_the_definition() {
        let leaves = leaves(70);
        let mut tree = Tree::default();
        for size in 0..=70 {
            assert_eq!(tree.root(), definition(&leaves[..size]), "{size} leaves");
            let peaks = tree.peaks().to_vec();
            assert_eq!(Tree::of_peaks(size as u64, peaks), Some(tree.clone()));
            leaves.get(size).into_iter().for_each(|leaf| tree.push(*leaf));
        }
        assert_eq!(Tree::of_peaks(3, vec![leaves[0]]), None);
        assert_eq!(Tree::of_peaks(u64::MAX, vec![leaves[0]; 64]), None);
    }

    proptest! {
        #[test]
        fn a_leaf_is_proved_and_no_other(size in 1usize..80, at in 0usize..80, other in 0usize..80) {
            let (leaves, at, other) = (leaves(size), at % size, other % size);
            let (path, n) = (FullTree::of(leaves.clone()).inclusion(at), size as u64);
            let prove = |index, leaf, path: &[Digest]| root_by_inclusion(n, index, leaf, path);
            let root = Some(definition(&leaves));
            prop_assert_eq!(prove(at as u64, leaves[at], &path), root);
            if other != at {
                prop_assert_ne!(prove(at as u64, leaves[other], &path), root);
                prop_assert_ne!(prove(other as u64, leaves[at], &path), root);
            }
            prop_assert_eq!(prove(n, leaves[at], &path), None);
            let longer: Vec<Digest> = path.iter().copied().chain([leaves[0]]).collect();
            prop_assert_eq!(prove(at as u64, leaves[at], &longer), None);
            if let Some((_, shorter)) = path.split_last() {
                prop_assert_eq!(prove(at as u64, leaves[at], shorter), None);
            }
        }
    }
}
