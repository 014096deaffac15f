//! A set of token sequences as a trie: what may follow a beginning if the whole must be one of
//! them.
//!
//! Nodes are numbered breadth first, so that the edges of a node lie together, sorted by token,
//! and edge `e` leads to node `e + 1`.

/// What a decoder may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trie {
    /// Tokens of all edges.
    tokens: Vec<u32>,
    /// Where the edges of each node end; they begin where those of the node before end.
    ends: Vec<usize>,
    /// Leaves, ascending, each with the index of the sequence that it ends.
    leaves: Vec<(usize, usize)>,
}

/// A beginning of at least one of the sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrieNode(usize);

/// Why some sequences make no [`Trie`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrieError {
    /// There are none.
    #[error("no texts to choose from; give at least one")]
    Empty,
    /// A sequence ends inside another, so that nothing tells the two apart.
    #[error("text {shorter} is the beginning of text {longer}; append an end token to each text")]
    Prefix {
        /// Index of the sequence that ends.
        shorter: usize,
        /// Index of one that goes on.
        longer: usize,
    },
}

impl Trie {
    /// The trie of `sequences`. Equal ones count as one, the first.
    ///
    /// # Errors
    /// [`TrieError`]: there are none, or one is the beginning of another (with an end token at each
    /// end, none is).
    pub fn new(sequences: &[Vec<u32>]) -> Result<Self, TrieError> {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|&index| &sequences[index]);
        order.dedup_by_key(|index| &sequences[*index]);
        if order.is_empty() {
            return Err(TrieError::Empty);
        }
        let mut trie = Self { tokens: Vec::new(), ends: Vec::new(), leaves: Vec::new() };
        // Of each node: the sorted sequences that pass through it, and how deep it lies.
        let mut nodes = vec![(order.as_slice(), 0)];
        let mut node = 0;
        while let Some(&(through, depth)) = nodes.get(node) {
            match *through {
                [only] if sequences[only].len() == depth => trie.leaves.push((node, only)),
                // The shortest comes first.
                [shorter, longer, ..] if sequences[shorter].len() == depth => {
                    return Err(TrieError::Prefix { shorter, longer });
                }
                _ => {
                    let token = |index: usize| sequences[index][depth];
                    for branch in through.chunk_by(|&a, &b| token(a) == token(b)) {
                        trie.tokens.push(token(branch[0]));
                        nodes.push((branch, depth + 1));
                    }
                }
            }
            trie.ends.push(trie.tokens.len());
            node += 1;
        }
        Ok(trie)
    }

    /// The empty beginning.
    pub fn root(&self) -> TrieNode {
        TrieNode(0)
    }

    /// The tokens that may follow, ascending; none after a leaf.
    pub fn allowed(&self, node: TrieNode) -> &[u32] {
        &self.tokens[self.first_edge(node)..self.ends[node.0]]
    }

    /// The beginning with one token more, if that is one.
    pub fn next(&self, node: TrieNode, token: u32) -> Option<TrieNode> {
        let edge = self.allowed(node).binary_search(&token).ok()?;
        Some(TrieNode(self.first_edge(node) + edge + 1))
    }

    /// Whether a sequence is complete, so that nothing may follow.
    pub fn is_leaf(&self, node: TrieNode) -> bool {
        self.allowed(node).is_empty()
    }

    /// Index of the sequence that ends here, if one does.
    pub fn sequence(&self, node: TrieNode) -> Option<usize> {
        let leaf = self.leaves.binary_search_by_key(&node.0, |&(leaf, _)| leaf).ok()?;
        Some(self.leaves[leaf].1)
    }

    /// Index of the sequence that is `path`, if one is.
    pub fn spelled(&self, path: &[u32]) -> Option<usize> {
        let node = path.iter().try_fold(self.root(), |node, &token| self.next(node, token))?;
        self.sequence(node)
    }

    fn first_edge(&self, node: TrieNode) -> usize {
        node.0.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const END: u32 = 1;

    #[test]
    fn a_beginning_goes_on_as_the_sequences_do() {
        let trie = Trie::new(&[vec![7, 5, END], vec![7, END], vec![3, END], vec![7, 5, END]]);
        let trie = trie.unwrap();
        assert_eq!(trie.allowed(trie.root()), [3, 7]);
        let seven = trie.next(trie.root(), 7).unwrap();
        assert_eq!(trie.allowed(seven), [END, 5]);
        assert_eq!(trie.next(seven, 3), None);
        assert!(!trie.is_leaf(seven));
        assert!(trie.is_leaf(trie.next(seven, END).unwrap()));
        assert_eq!(trie.spelled(&[7, 5, END]), Some(0));
        assert_eq!(trie.spelled(&[7, END]), Some(1));
        assert_eq!(trie.spelled(&[7]), None);
        assert_eq!(trie.spelled(&[7, END, END]), None);
    }

    #[test]
    fn what_cannot_be_distinguished_is_refused() {
        assert_eq!(Trie::new(&[]), Err(TrieError::Empty));
        let error = TrieError::Prefix { shorter: 1, longer: 0 };
        assert_eq!(Trie::new(&[vec![7, 5], vec![7], vec![7]]), Err(error));
    }

    proptest! {
        #[test]
        fn it_says_its_sequences_and_no_others(
            mut sequences in prop::collection::vec(prop::collection::vec(2u32..5, 0..5), 1..40),
            other in prop::collection::vec(1u32..5, 0..6),
        ) {
            sequences.iter_mut().for_each(|sequence| sequence.push(END));
            let trie = Trie::new(&sequences).unwrap();
            for path in sequences.iter().chain([&other]) {
                let first = sequences.iter().position(|sequence| sequence == path);
                prop_assert_eq!(trie.spelled(path), first);
                for depth in 0..=path.len() {
                    let (begin, _) = path.split_at(depth);
                    let node = begin.iter().try_fold(trie.root(), |node, &t| trie.next(node, t));
                    let through = sequences.iter().filter(|sequence| sequence.starts_with(begin));
                    prop_assert_eq!(node.is_some(), through.clone().next().is_some());
                    let Some(node) = node else { break };
                    let next: BTreeSet<u32> = through.filter_map(|s| s.get(depth).copied()).collect();
                    prop_assert!(trie.allowed(node).iter().eq(&next));
                    prop_assert_eq!(trie.is_leaf(node), trie.sequence(node).is_some());
                }
            }
        }
    }
}
