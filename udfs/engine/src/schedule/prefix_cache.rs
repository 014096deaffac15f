//! Keys and values of the prompts of a decoder, as a radix tree: whatever requests begin with alike is
//! computed once, whether they wait together or follow each other.
//!
//! A node is planned when a request is admitted and computed when its first reader is scheduled; readers
//! pin the node that they end at. What has no reader stays until its blocks are needed, and the
//! least recently used goes first.

use std::collections::BTreeSet;

use super::block_pool::{BlockPool, BlockTable, blocks_for};
use super::step::Step;
use crate::backend::{BLOCK_SLOTS, Backend};

/// A shorter beginning is not shared: each branch leaves a block partly unused.
pub const SHARED_TOKENS_MIN: usize = BLOCK_SLOTS;

/// A node, as long as it is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(usize);

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Where what it begins with ends; pinned until [`PrefixCache::unpin`].
    pub node: NodeId,
    /// Tokens that no earlier request began with.
    pub new_tokens: usize,
}

/// What a step could do for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// Everything it begins with is computed, or will be with this step: its blocks. The next token must
    /// go to a new one.
    Whole(BlockTable),
    /// The step has no room for the rest.
    Later,
}

/// The tree of a worker.
pub struct PrefixCache {
    nodes: Vec<Node>,
    /// Places in `nodes` that are free.
    unused: Vec<usize>,
    /// Nodes without readers and children, the least recently used first.
    idle: BTreeSet<(u64, usize)>,
    uses: u64,
    /// Nodes that the step under way computes, and how many of their tokens were computed before.
    advanced: Vec<(usize, usize)>,
}

/// Tokens that the same requests begin with.
#[derive(Default)]
struct Node {
    parent: usize,
    /// In order of their tokens.
    children: Vec<usize>,
    /// The tokens after those of the parent.
    tokens: Vec<u32>,
    /// How many of them are computed, or in the step under way.
    computed: usize,
    /// The blocks of everything up to here; empty until the first of its tokens is computed.
    table: BlockTable,
    /// Reserved blocks that the parent's table does not list.
    blocks: usize,
    pins: usize,
    last_use: u64,
}

/// Where some tokens leave the tree.
struct Place {
    /// The last node of which all tokens are among them.
    node: usize,
    /// A child of it, and how many of its first tokens are.
    inside: Option<(usize, usize)>,
    /// How many of the tokens are in the tree.
    tokens: usize,
}

const ROOT: usize = 0;

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            unused: Vec::new(),
            idle: BTreeSet::new(),
            uses: 0,
            advanced: Vec::new(),
        }
    }
}

impl PrefixCache {
    /// How many of a prompt's tokens the tree holds: all but the last, whose row is computed for each
    /// request; none if they are too few.
    pub fn shared_tokens(prompt: &[u32]) -> usize {
        Some(prompt.len().saturating_sub(1)).filter(|&all| all >= SHARED_TOKENS_MIN).unwrap_or(0)
    }

    /// Admits a request that begins with `tokens` and takes up to `own_blocks` of its own. `None` if so
    /// many blocks are not to be had while others read what is cached.
    pub fn admit(
        &mut self,
        tokens: &[u32],
        own_blocks: usize,
        blocks: &mut BlockPool,
    ) -> Option<Admitted> {
        self.try_admit(tokens, own_blocks, blocks).or_else(|| {
            // Many short nodes may take more blocks than their tokens in one piece.
            if self.nodes.iter().any(|node| node.pins > 0) {
                return None;
            }
            self.clear(blocks);
            self.try_admit(tokens, own_blocks, blocks)
        })
    }

    fn try_admit(
        &mut self,
        tokens: &[u32],
        own_blocks: usize,
        blocks: &mut BlockPool,
    ) -> Option<Admitted> {
        let place = self.place(tokens);
        let new_tokens = tokens.len() - place.tokens;
        let split = place.inside.map_or(0, |(child, at)| self.blocks_of_a_split(child, at));
        // What is found must not be evicted for the rest.
        let end = place.inside.map_or(place.node, |(child, _)| child);
        self.update(end, |node| node.pins += 1);
        let reserved = self.reserve(blocks_for(new_tokens) + split + own_blocks, blocks);
        self.update(end, |node| node.pins -= 1);
        if !reserved {
            return None;
        }
        let mut node = self.end_of(&place, blocks);
        if new_tokens > 0 {
            node = self.add(Node {
                parent: node,
                tokens: tokens[place.tokens..].to_vec(),
                blocks: blocks_for(new_tokens),
                ..Node::default()
            });
        }
        self.update(node, |node| node.pins += 1);
        self.touch(node);
        Some(Admitted { node: NodeId(node), new_tokens })
    }

    /// Ends a request's hold on what it begins with.
    pub fn unpin(&mut self, node: NodeId) {
        self.update(node.0, |node| node.pins -= 1);
    }

    /// Adds what is not computed of everything up to `node` to the step, as far as it has room. `None` if
    /// the KV cache is full, which reservations rule out.
    pub fn schedule<B: Backend>(&mut self, node: NodeId, step: &mut Step<B>) -> Option<Scheduled> {
        let mut path = vec![node.0];
        while let Some(&first) = path.last().filter(|&&first| first != ROOT) {
            path.push(self.nodes[first].parent);
        }
        for &id in path.iter().rev() {
            let Node { parent, computed, .. } = self.nodes[id];
            let chunk = step.room().min(self.nodes[id].tokens.len() - computed);
            if chunk > 0 {
                if computed == 0 {
                    self.nodes[id].table = step.blocks.fork(&self.nodes[parent].table);
                }
                let Node { table, tokens, .. } = &mut self.nodes[id];
                let tokens = &tokens[computed..computed + chunk];
                self.advanced.push((id, computed));
                step.add_tokens(table, tokens, &BlockTable::default(), computed == 0)?;
                self.nodes[id].computed += chunk;
            }
            if self.nodes[id].computed < self.nodes[id].tokens.len() {
                return Some(Scheduled::Later);
            }
        }
        Some(Scheduled::Whole(step.blocks.fork(&self.nodes[node.0].table)))
    }

    /// The step was computed, or launched: it is done before whatever is launched later.
    pub fn commit(&mut self) {
        self.advanced.clear();
    }

    /// The step was not computed: what it added will be.
    pub fn rollback(&mut self, blocks: &mut BlockPool) {
        for (id, computed) in std::mem::take(&mut self.advanced).into_iter().rev() {
            let before = if computed == 0 { 0 } else { self.depth(id) + computed };
            let node = &mut self.nodes[id];
            let kept = blocks.fork_prefix(&node.table, before);
            blocks.free_table(&mut node.table);
            (node.table, node.computed) = (kept, computed);
        }
    }

    /// The blocks of the longest computed beginning of `tokens`; the next token must go to a new one.
    pub fn lookup(&mut self, tokens: &[u32], blocks: &mut BlockPool) -> BlockTable {
        let place = self.place(tokens);
        let mut id = place.inside.map_or(place.node, |(child, _)| child);
        self.touch(id);
        let computed = |id: usize| self.depth(id) + self.nodes[id].computed;
        let mut found = place.tokens.min(computed(id));
        // A node may be waiting for its readers to be scheduled.
        while id != ROOT && self.nodes[id].computed == 0 {
            id = self.nodes[id].parent;
            found = found.min(computed(id));
        }
        if found < SHARED_TOKENS_MIN {
            return BlockTable::default();
        }
        blocks.fork_prefix(&self.nodes[id].table, found)
    }

    /// Keeps `tokens`, which lie in `table`, as far as they are new. Their blocks are taken out of
    /// `reserved`, the reservation of the request that computed them.
    pub fn insert(
        &mut self,
        tokens: &[u32],
        table: &BlockTable,
        reserved: &mut usize,
        blocks: &mut BlockPool,
    ) {
        let place = self.place(tokens);
        let new_tokens = tokens.len() - place.tokens;
        let split = place.inside.map_or(0, |(child, at)| self.blocks_of_a_split(child, at));
        // A split that needs blocks is left to those who wait for them.
        if new_tokens < SHARED_TOKENS_MIN || split > 0 || table.tokens() != tokens.len() {
            return;
        }
        let parent = self.end_of(&place, blocks);
        let own = new_blocks(table, &self.nodes[parent].table);
        let Some(left) = reserved.checked_sub(own) else { return };
        *reserved = left;
        let id = self.add(Node {
            parent,
            tokens: tokens[place.tokens..].to_vec(),
            computed: new_tokens,
            table: blocks.fork(table),
            blocks: own,
            ..Node::default()
        });
        self.touch(id);
    }

    /// Reserves `count` blocks; what has no reader gives way, the least recently used first.
    pub fn reserve(&mut self, count: usize, blocks: &mut BlockPool) -> bool {
        while !blocks.reserve(count) {
            let Some((_, oldest)) = self.idle.pop_first() else { return false };
            self.leave(oldest, self.nodes[oldest].parent);
            let mut node = std::mem::take(&mut self.nodes[oldest]);
            blocks.free_table(&mut node.table);
            blocks.release(node.blocks);
            self.unused.push(oldest);
        }
        true
    }

    /// Frees all blocks. None may have a reader.
    pub fn clear(&mut self, blocks: &mut BlockPool) {
        for mut node in std::mem::take(self).nodes {
            blocks.free_table(&mut node.table);
            blocks.release(node.blocks);
        }
    }

    /// Where `tokens` leave the tree.
    fn place(&self, tokens: &[u32]) -> Place {
        let mut place = Place { node: ROOT, inside: None, tokens: 0 };
        loop {
            let left = &tokens[place.tokens..];
            match self.best_child(place.node, left) {
                Some((same, child)) if same == self.nodes[child].tokens.len() => {
                    place.node = child;
                    place.tokens += same;
                }
                Some((same, child)) if same >= SHARED_TOKENS_MIN => {
                    place.inside = Some((child, same));
                    place.tokens += same;
                    return place;
                }
                _ => return place,
            }
        }
    }

    /// The child that has most of the first of `tokens`, and how many.
    fn best_child(&self, id: usize, tokens: &[u32]) -> Option<(usize, usize)> {
        let children = &self.nodes[id].children;
        let of = |child: usize| &self.nodes[child].tokens[..];
        // Texts that begin alike are neighbours.
        let after = children.partition_point(|&child| of(child) <= tokens);
        let near = children[after.saturating_sub(1)..children.len().min(after + 1)].iter();
        let best = near.map(|&child| (common(of(child), tokens), child)).max()?;
        if best.0 >= SHARED_TOKENS_MIN || best.0 == of(best.1).len() {
            return Some(best);
        }
        // But for a short child, beyond which a neighbour goes.
        (1..SHARED_TOKENS_MIN.min(tokens.len())).rev().find_map(|short| {
            let found = children.binary_search_by(|&child| of(child).cmp(&tokens[..short]));
            Some((short, children[found.ok()?]))
        })
    }

    /// Takes a node out of the children of its parent.
    fn leave(&mut self, id: usize, parent: usize) {
        let tokens = &self.nodes[id].tokens;
        let children = &self.nodes[parent].children;
        let first = children.partition_point(|&child| self.nodes[child].tokens < *tokens);
        // Another that is equal may stand beside it.
        if let Some(at) = children[first..].iter().position(|&child| child == id) {
            self.update(parent, |parent| {
                parent.children.remove(first + at);
            });
        }
    }

    /// Puts a node among the children of its parent.
    fn join(&mut self, id: usize, parent: usize) {
        let tokens = &self.nodes[id].tokens;
        let children = &self.nodes[parent].children;
        let at = children.partition_point(|&child| self.nodes[child].tokens < *tokens);
        self.update(parent, |parent| parent.children.insert(at, id));
    }

    /// The node that ends at `place`; one that goes on is split.
    fn end_of(&mut self, place: &Place, blocks: &mut BlockPool) -> usize {
        let Some((id, at)) = place.inside else { return place.node };
        let Node { computed, .. } = self.nodes[id];
        // Each part is either computed or not, but for one that its readers are at.
        if computed == 0 || computed == at || computed == self.nodes[id].tokens.len() {
            return self.split(id, at, blocks);
        }
        let upper = self.split(id, computed, blocks);
        if at < computed {
            self.split(upper, at, blocks)
        } else {
            self.split(id, at - computed, blocks)
        }
    }

    /// Blocks that must be reserved before `id` is split: a part that is not computed begins a block.
    fn blocks_of_a_split(&self, id: usize, at: usize) -> usize {
        let Node { computed, ref tokens, .. } = self.nodes[id];
        if computed == tokens.len() {
            0
        } else if computed == 0 || at <= computed {
            1
        } else {
            2
        }
    }

    /// Splits a node of which nothing, the first `at` tokens or everything is computed; the first part.
    fn split(&mut self, id: usize, at: usize, blocks: &mut BlockPool) -> usize {
        let tokens_before = self.depth(id);
        self.leave(id, self.nodes[id].parent);
        let lower = &mut self.nodes[id];
        let whole = lower.computed == lower.tokens.len();
        let (parent, last_use, all) = (lower.parent, lower.last_use, lower.blocks);
        let tokens: Vec<u32> = lower.tokens.drain(..at).collect();
        let computed = lower.computed.min(at);
        lower.computed -= computed;
        let table = if whole {
            blocks.fork_prefix(&lower.table, tokens_before + at)
        } else {
            std::mem::take(&mut lower.table)
        };
        let own = if computed == 0 {
            blocks_for(at)
        } else {
            new_blocks(&table, &self.nodes[parent].table)
        };
        self.nodes[id].blocks = all + usize::from(!whole) - own;
        let upper =
            Node { parent, tokens, computed, table, blocks: own, last_use, ..Node::default() };
        let upper = self.add(upper);
        self.nodes[id].parent = upper;
        self.join(id, upper);
        upper
    }

    fn add(&mut self, node: Node) -> usize {
        let (parent, last_use) = (node.parent, node.last_use);
        let id = self.unused.pop().unwrap_or(self.nodes.len());
        if id == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[id] = node;
        }
        self.idle.insert((last_use, id));
        self.join(id, parent);
        id
    }

    /// Changes a node, and keeps count of who is idle.
    fn update(&mut self, id: usize, change: impl FnOnce(&mut Node)) {
        let node = &mut self.nodes[id];
        self.idle.remove(&(node.last_use, id));
        change(node);
        if id != ROOT && node.pins == 0 && node.children.is_empty() {
            self.idle.insert((node.last_use, id));
        }
    }

    /// Tokens before those of a node.
    fn depth(&self, id: usize) -> usize {
        let (mut depth, mut at) = (0, id);
        while at != ROOT {
            at = self.nodes[at].parent;
            depth += self.nodes[at].tokens.len();
        }
        depth
    }

    fn touch(&mut self, id: usize) {
        self.uses += 1;
        let (now, mut at) = (self.uses, id);
        while at != ROOT {
            self.update(at, |node| node.last_use = now);
            at = self.nodes[at].parent;
        }
    }
}

/// How many tokens `a` and `b` begin with alike.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Blocks of `table` that do not begin it in `before` too.
fn new_blocks(table: &BlockTable, before: &BlockTable) -> usize {
    let same = table.refs.iter().zip(&before.refs).take_while(|(a, b)| a.block == b.block);
    table.refs.len() - same.count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Computes up to `count` tokens of what `node` needs, as a step does; the blocks of all of it.
    fn compute(
        cache: &mut PrefixCache,
        node: NodeId,
        mut count: usize,
        blocks: &mut BlockPool,
    ) -> Option<BlockTable> {
        let mut path = vec![node.0];
        while path[0] != ROOT {
            path.insert(0, cache.nodes[path[0]].parent);
        }
        for id in path {
            while count > 0 && cache.nodes[id].computed < cache.nodes[id].tokens.len() {
                let Node { parent, computed, .. } = cache.nodes[id];
                if computed == 0 {
                    cache.nodes[id].table = blocks.fork(&cache.nodes[parent].table);
                }
                let table = &mut cache.nodes[id].table;
                let slot = blocks.append_slot_in(table, computed == 0).unwrap();
                assert_eq!(slot.copy, None, "a shared block was written to");
                cache.nodes[id].computed += 1;
                count -= 1;
            }
            if cache.nodes[id].computed < cache.nodes[id].tokens.len() {
                return None;
            }
        }
        Some(blocks.fork(&cache.nodes[node.0].table))
    }

    fn admitted(cache: &mut PrefixCache, tokens: &[u32], blocks: &mut BlockPool) -> Admitted {
        cache.admit(tokens, 0, blocks).unwrap()
    }

    #[test]
    fn a_beginning_is_planned_once_and_found_when_it_is_computed() {
        let (mut cache, mut blocks) = (PrefixCache::default(), BlockPool::new(20));
        let first: Vec<u32> = (0..40).collect();
        let second: Vec<u32> = (0..30).chain(100..120).collect();
        let one = admitted(&mut cache, &first, &mut blocks);
        let two = admitted(&mut cache, &second, &mut blocks);
        assert_eq!((one.new_tokens, two.new_tokens), (40, 20));
        // Nothing is computed, so nothing is found.
        assert_eq!(cache.lookup(&second, &mut blocks).tokens(), 0);
        let mut table = compute(&mut cache, two.node, 99, &mut blocks).unwrap();
        assert_eq!(table.tokens(), 50);
        let mut found = cache.lookup(&first, &mut blocks);
        assert_eq!((found.tokens(), &found.refs[..2]), (30, &table.refs[..2]));
        blocks.free_table(&mut found);
        blocks.free_table(&mut table);
        cache.unpin(one.node);
        cache.unpin(two.node);
        // Too short a beginning is a branch of its own.
        let short: Vec<u32> = (0..15).chain(200..230).collect();
        assert_eq!(admitted(&mut cache, &short, &mut blocks).new_tokens, 45);
    }

    #[test]
    fn what_has_no_reader_gives_way_the_oldest_first() {
        let (mut cache, mut blocks) = (PrefixCache::default(), BlockPool::new(6));
        let text = |start: u32| (start..start + 32).collect::<Vec<u32>>();
        for start in [0, 100, 200] {
            let admitted = admitted(&mut cache, &text(start), &mut blocks);
            let mut table = compute(&mut cache, admitted.node, 99, &mut blocks).unwrap();
            blocks.free_table(&mut table);
            cache.unpin(admitted.node);
        }
        let read = admitted(&mut cache, &text(0), &mut blocks);
        assert_eq!(read.new_tokens, 0);
        assert!(cache.reserve(2, &mut blocks));
        let mut left = |start| {
            let mut found = cache.lookup(&text(start), &mut blocks);
            blocks.free_table(&mut found);
            found.tokens() + found.refs.len()
        };
        assert_eq!([left(0), left(100), left(200)].map(|n| n > 0), [false; 3]);
    }

    proptest! {
        /// Whatever is admitted, computed in part, kept, found and evicted: no more blocks are in use than are
        /// reserved, and all are free in the end.
        #[test]
        fn blocks_are_accounted_for(
            size in 12usize..60,
            steps in prop::collection::vec((0u8..6, 0u32..4, 1usize..60, 0usize..50), 1..80),
        ) {
            let (mut cache, mut blocks) = (PrefixCache::default(), BlockPool::new(size));
            let mut readers: Vec<(NodeId, Vec<u32>)> = Vec::new();
            for (what, family, length, chunk) in steps {
                // Texts of a family begin alike, up to a length.
                let branch = (length as u32 * 7 + family) % 3;
                let text: Vec<u32> = (0..length as u32)
                    .map(|at| if at < 20 * branch { at + family / 2 } else { at + 1000 * (branch + 1) })
                    .collect();
                match what {
                    0..=2 => {
                        if let Some(admitted) = cache.admit(&text, 0, &mut blocks) {
                            readers.push((admitted.node, text));
                        }
                    }
                    3 if !readers.is_empty() => {
                        let (node, text) = &readers[chunk % readers.len()];
                        if let Some(mut table) = compute(&mut cache, *node, chunk, &mut blocks) {
                            prop_assert_eq!(table.tokens(), text.len());
                            blocks.free_table(&mut table);
                        }
                    }
                    4 if !readers.is_empty() => {
                        let (node, _) = readers.swap_remove(chunk % readers.len());
                        cache.unpin(node);
                    }
                    5 => {
                        let mut reserved = blocks_for(text.len());
                        if cache.reserve(reserved, &mut blocks) {
                            let mut table = BlockTable::default();
                            for _ in &text {
                                blocks.append_slot(&mut table).unwrap();
                            }
                            cache.insert(&text, &table, &mut reserved, &mut blocks);
                            blocks.free_table(&mut table);
                            blocks.release(reserved);
                        }
                    }
                    _ => {}
                }
                let mut found = cache.lookup(&text_of(&readers), &mut blocks);
                blocks.free_table(&mut found);
                prop_assert!(blocks.in_use() <= blocks.reserved(), "more in use than reserved");
                for node in &cache.nodes {
                    let of = |id: &usize| &cache.nodes[*id].tokens;
                    prop_assert!(node.children.is_sorted_by(|a, b| of(a) <= of(b)));
                }
                prop_assert_eq!(
                    cache.nodes.iter().map(|node| node.blocks).sum::<usize>(),
                    blocks.reserved()
                );
            }
            for (node, _) in readers {
                cache.unpin(node);
            }
            prop_assert!(cache.reserve(size, &mut blocks), "something is pinned for ever");
            prop_assert_eq!(blocks.in_use(), 0);
        }
    }

    fn text_of(readers: &[(NodeId, Vec<u32>)]) -> Vec<u32> {
        readers.last().map_or(Vec::new(), |(_, text)| text.clone())
    }
}
