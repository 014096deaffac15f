//! Texts to be scored as prefix trees.

use std::ops::Range;

use super::block_pool::{BlockPool, BlockTable};
use super::job::{Job, ScoreWork};
use super::prefix_cache::PrefixCache;
use super::prefix_tree::{self, PrefixNode, ScoredText};

/// The prefix tree of some jobs that read the same encoder states.
pub struct ScoringTree<'a> {
    /// Job and continuation of each text of the tree.
    pub(super) owners: Vec<(usize, usize)>,
    /// Where the continuation of each text begins: tokens before it count for no sum.
    pub(super) begins: Vec<usize>,
    pub(super) texts: Vec<ScoredText<'a>>,
    pub(super) nodes: Vec<PrefixNode>,
    pub(super) tables: Vec<BlockTable>,
    pub(super) encoder_states: &'a BlockTable,
}

impl<'a> ScoringTree<'a> {
    /// Of the jobs `members`, which read `encoder_states`.
    pub fn new(
        jobs: &'a [Job<ScoreWork>],
        members: Range<usize>,
        encoder_states: &'a BlockTable,
    ) -> Self {
        let (mut owners, mut begins) = (Vec::new(), Vec::new());
        let mut texts = Vec::new();
        for job in members {
            for (index, (tokens, before)) in jobs[job].work.continuations.iter().enumerate() {
                let first = jobs[job].work.first_scored(index);
                if tokens.len() > first {
                    owners.push((job, index));
                    begins.push(*before);
                    texts.push(ScoredText { tokens, first });
                }
            }
        }
        let nodes = prefix_tree::build(&texts);
        let tables = vec![BlockTable::default(); nodes.len()];
        Self { owners, begins, texts, nodes, tables, encoder_states }
    }

    /// Takes from the cache what earlier requests began with.
    pub fn reuse(&mut self, prefix_cache: &mut PrefixCache, blocks: &mut BlockPool) {
        for (node, table) in self.nodes.iter().zip(&mut self.tables) {
            // A row that is sampled is computed again.
            let read = node.targets.first().map_or(node.end, |target| target.place);
            let mut found = prefix_cache.lookup(&self.texts[node.text].tokens[..read], blocks);
            if found.tokens() > node.start {
                *table = found;
            } else {
                blocks.free_table(&mut found);
            }
        }
    }

    /// Caches what was computed, whose blocks are taken out of `reserved`.
    pub fn keep(
        &self,
        prefix_cache: &mut PrefixCache,
        reserved: &mut usize,
        blocks: &mut BlockPool,
    ) {
        for (node, table) in self.nodes.iter().zip(&self.tables) {
            let tokens = &self.texts[node.text].tokens[..node.end];
            prefix_cache.insert(tokens, table, reserved, blocks);
        }
    }

    /// Frees its blocks.
    pub fn release(&mut self, blocks: &mut BlockPool) {
        for table in &mut self.tables {
            blocks.free_table(table);
        }
    }
}
