//! Texts to be scored as prefix trees, and the steps that compute them.

use std::ops::Range;

use super::block_pool::{BlockPool, BlockTable};
use super::job::{Job, ScoreWork};
use super::prefix_cache::PrefixCache;
use super::prefix_tree::{self, PrefixNode, ScoredText, Target};
use super::score::{LogprobSum, Scorer};
use super::step::{RequestedMethod, SamplingRequest};
use super::workspace::cache_is_full;
use crate::backend::{Backend, DeviceError, SamplerOutput, SamplingMethod};

/// The prefix tree of some jobs that read the same encoder states.
pub struct ScoringTree<'a> {
    /// Job and continuation of each text of the tree.
    owners: Vec<(usize, usize)>,
    texts: Vec<ScoredText<'a>>,
    nodes: Vec<PrefixNode>,
    tables: Vec<BlockTable>,
    encoder_states: &'a BlockTable,
}

impl<'a> ScoringTree<'a> {
    /// Of the jobs `members`, which read `encoder_states`.
    pub fn new(
        jobs: &'a [Job<ScoreWork>],
        members: Range<usize>,
        encoder_states: &'a BlockTable,
    ) -> Self {
        let mut owners = Vec::new();
        let mut texts = Vec::new();
        for job in members {
            for (index, (tokens, before)) in jobs[job].work.continuations.iter().enumerate() {
                if tokens.len() > *before {
                    owners.push((job, index));
                    texts.push(ScoredText { tokens, first: *before });
                }
            }
        }
        let nodes = prefix_tree::build(&texts);
        let tables = vec![BlockTable::default(); nodes.len()];
        Self { owners, texts, nodes, tables, encoder_states }
    }

    /// Begins with the cached prefix of the last batch; how many tokens that is.
    pub fn reuse(&mut self, prefix_cache: &mut PrefixCache, blocks: &mut BlockPool) -> usize {
        let root = self.root();
        // A row that is sampled is computed again.
        let sampled = root.and_then(|root| Some(root.targets.first()?.place));
        let read = sampled.unwrap_or(usize::MAX).min(root.map_or(0, |root| root.end));
        let table = prefix_cache.lookup(&self.beginning()[..read], blocks);
        let reused = table.tokens();
        if let Some(first) = self.tables.first_mut() {
            *first = table;
        }
        reused
    }

    /// Caches what all texts begin with for the next batch.
    pub fn keep(&self, prefix_cache: &mut PrefixCache, blocks: &mut BlockPool) {
        let nothing = BlockTable::default();
        prefix_cache.store(self.beginning(), self.tables.first().unwrap_or(&nothing), blocks);
    }

    /// Frees its blocks.
    pub fn release(&mut self, blocks: &mut BlockPool) {
        for table in &mut self.tables {
            blocks.free_table(table);
        }
    }

    /// The first node, if all texts begin with it.
    fn root(&self) -> Option<&PrefixNode> {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none()).count();
        self.nodes.first().filter(|_| roots == 1)
    }

    /// The tokens that all texts begin with.
    fn beginning(&self) -> &'a [u32] {
        self.root().map_or(&[], |root| &self.texts[root.text].tokens[..root.end])
    }
}

/// Computes all nodes, parents first, in as few steps as they fit. `reused` tokens of the first node
/// are cached. Returns how many rows were computed.
pub fn run_steps<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    trees: &mut [ScoringTree<'_>],
    sums: &mut [Vec<LogprobSum>],
    reused: usize,
) -> Result<usize, DeviceError> {
    let mut rows = 0;
    let mut asked: Vec<(usize, usize, usize)> = Vec::new();
    scorer.step.clear();
    for tree in 0..trees.len() {
        for node in 0..trees[tree].nodes.len() {
            let skipped = if (tree, node) == (0, 0) { reused } else { 0 };
            let mut at = trees[tree].nodes[node].start + skipped;
            let mut next_want = 0;
            if let Some(parent) = trees[tree].nodes[node].parent {
                trees[tree].tables[node] = scorer.step.blocks.fork(&trees[tree].tables[parent]);
            }
            let mut new_block = true;
            while at < trees[tree].nodes[node].end {
                if scorer.step.room() == 0 || scorer.step.sample_room() == 0 {
                    rows += finish(scorer, trees, sums, &mut asked)?;
                }
                let one = &mut trees[tree];
                let room = (scorer.step.room(), scorer.step.sample_room());
                let (chunk, wants) = chunk(&one.nodes[node], at, next_want, room);
                if chunk == 0 {
                    rows += finish(scorer, trees, sums, &mut asked)?;
                    continue;
                }
                let tokens = &one.texts[one.nodes[node].text].tokens[at..at + chunk];
                let fed = scorer.step.add_tokens(
                    &mut one.tables[node],
                    tokens,
                    one.encoder_states,
                    new_block,
                );
                let last = fed.ok_or_else(cache_is_full)?;
                new_block = false;
                for want in next_want..next_want + wants {
                    let Target { place, target, .. } = one.nodes[node].targets[want];
                    let row = last - (at + chunk - 1 - place) as u32;
                    let method = RequestedMethod::Method(SamplingMethod::Score { token: target });
                    scorer.step.request_sample(row, SamplingRequest { method, banned: &[] });
                    asked.push((tree, node, want));
                }
                next_want += wants;
                at += chunk;
            }
        }
    }
    rows += finish(scorer, trees, sums, &mut asked)?;
    Ok(rows)
}

/// How many tokens of `node` from `at` fit the room for rows and for sampled rows together with all
/// their targets, the first of which is number `want`; and how many targets those are.
fn chunk(
    node: &PrefixNode,
    at: usize,
    want: usize,
    (rows, samples): (usize, usize),
) -> (usize, usize) {
    let end = node.end.min(at + rows);
    let about =
        |end: usize| node.targets[want..].iter().take_while(move |it| it.place < end).count();
    let within = about(end);
    if within <= samples {
        return (end - at, within);
    }
    // Up to the last place all of whose targets fit.
    let place = node.targets[want + samples].place;
    (place - at, about(place))
}

fn finish<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    trees: &[ScoringTree<'_>],
    sums: &mut [Vec<LogprobSum>],
    asked: &mut Vec<(usize, usize, usize)>,
) -> Result<usize, DeviceError> {
    let rows = scorer.step.rows();
    let output: &SamplerOutput = scorer.step.run(scorer.backend, scorer.stack, scorer.head)?;
    for (index, (tree, node, want)) in asked.drain(..).enumerate() {
        let tree = &trees[tree];
        let want = &tree.nodes[node].targets[want];
        let Some(token) = output.of(index).first() else { continue };
        for &text in &want.texts {
            let (job, continuation) = tree.owners[text];
            let sum = &mut sums[job][continuation];
            sum.logprob += f64::from(token.logprob);
            sum.is_greedy &= token.id == want.target;
        }
    }
    scorer.step.clear();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(places: &[usize]) -> PrefixNode {
        let want = |&place: &usize| Target { place, target: 0, texts: vec![0] };
        PrefixNode {
            parent: None,
            text: 0,
            start: 2,
            end: 10,
            targets: places.iter().map(want).collect(),
        }
    }

    #[test]
    fn a_chunk_ends_with_the_node_the_rows_or_the_targets() {
        let some = node(&[5, 6, 6, 9]);
        assert_eq!(chunk(&some, 2, 0, (50, 50)), (8, 4));
        assert_eq!(chunk(&some, 2, 0, (4, 50)), (4, 1));
        assert_eq!(chunk(&some, 2, 0, (5, 3)), (5, 3));
        assert_eq!(chunk(&some, 7, 3, (50, 1)), (3, 1));
        assert_eq!(chunk(&node(&[]), 3, 0, (2, 1)), (2, 0));
    }

    #[test]
    fn targets_of_one_row_stay_together() {
        let some = node(&[5, 6, 6, 9]);
        // Row 6 has two targets, and there is room for one beside that of row 5.
        assert_eq!(chunk(&some, 2, 0, (50, 2)), (4, 1));
        assert_eq!(chunk(&some, 6, 1, (50, 1)), (0, 0));
        assert_eq!(chunk(&some, 6, 1, (50, 2)), (3, 2));
    }
}
