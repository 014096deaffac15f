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
    /// Where the continuation of each text begins: tokens before it count for no sum.
    begins: Vec<usize>,
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

/// Computes all nodes, parents first, in as few steps as they fit, but for what their tables hold already.
/// Returns how many rows were computed.
pub fn run_steps<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    trees: &mut [ScoringTree<'_>],
    sums: &mut [Vec<LogprobSum>],
) -> Result<usize, DeviceError> {
    let mut rows = 0;
    let mut asked: Vec<(usize, usize, usize)> = Vec::new();
    scorer.step.clear();
    for tree in 0..trees.len() {
        for node in 0..trees[tree].nodes.len() {
            let PrefixNode { start, parent, .. } = trees[tree].nodes[node];
            let mut at = start.max(trees[tree].tables[node].tokens());
            let mut next_want = 0;
            if let Some(parent) = parent.filter(|_| at == start) {
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
                    scorer
                        .step
                        .request_sample(row, SamplingRequest { method, banned: &[], mask: &[] });
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
            sum.add(want.place + 1, tree.begins[text], token.logprob, token.id == want.target);
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
