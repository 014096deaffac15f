//! Scores a batch: its prefix trees, in as few steps as they fit.

use super::batch_size::{BatchSize, PassFailure};
use super::block_pool::{BlockTable, cache_is_full};
use super::counters::Counters;
use super::job::{Job, ScoreWork};
use super::prefix_cache::PrefixCache;
use super::prefix_tree::{PrefixNode, Target};
use super::score::{Batch, LogprobSum};
use super::scoring_tree::ScoringTree;
use super::step::{RequestedMethod, SamplingRequest, Step};
use crate::backend::{Backend, DeviceError, SamplerOutput, SamplingMethod};
use crate::network::{LmHead, Stack};

/// Scores one batch.
pub struct Scorer<'a, B: Backend> {
    pub backend: &'a mut B,
    pub stack: &'a Stack<B>,
    pub head: &'a LmHead<B>,
    pub step: &'a mut Step<B>,
    pub prefix_cache: &'a mut PrefixCache,
    pub counters: &'a Counters,
}

impl<B: Backend> Scorer<'_, B> {
    /// Scores `batch`; `encoder_states[i]` are those of job `i`, empty for a decoder-only model.
    /// The sums of each job's continuations.
    pub fn run(
        &mut self,
        batch: &mut Batch,
        mut encoder_states: Vec<BlockTable>,
        batch_size: BatchSize,
    ) -> Result<Vec<Vec<LogprobSum>>, PassFailure> {
        let Batch { jobs, reserved, samples, .. } = batch;
        let mut sums: Vec<Vec<LogprobSum>> = jobs
            .iter()
            .map(|job| {
                let count = job.work.continuations.len();
                (0..count).map(|index| LogprobSum::new(&job.work, index)).collect()
            })
            .collect();
        // All targets might be of one row, and a row's targets are sampled in one step.
        self.step.allow(batch_size.rows.max(*samples));
        let scored = self.compute(jobs, &encoder_states, &mut sums, reserved);
        for table in &mut encoder_states {
            self.step.blocks.free_table(table);
        }
        let (requests, rows, least) = (jobs.len(), self.step.rows(), *samples);
        let rows = scored.map_err(|error| PassFailure { error, requests, rows, least })?;
        self.counters.decoded(rows);
        Ok(sums)
    }

    fn compute(
        &mut self,
        jobs: &[Job<ScoreWork>],
        encoder_states: &[BlockTable],
        sums: &mut [Vec<LogprobSum>],
        reserved: &mut usize,
    ) -> Result<usize, DeviceError> {
        let nothing = BlockTable::default();
        // What two texts read may differ even where they write the same: a tree each, but one batch
        // of rows.
        let apart = encoder_states.iter().any(|table| !table.refs.is_empty());
        let mut trees: Vec<ScoringTree<'_>> = if apart {
            let each = encoder_states.iter().enumerate();
            each.map(|(index, encoder_states)| {
                ScoringTree::new(jobs, index..index + 1, encoder_states)
            })
            .collect()
        } else {
            vec![ScoringTree::new(jobs, 0..jobs.len(), &nothing)]
        };
        if let Some(tree) = trees.first_mut().filter(|_| !apart) {
            tree.reuse(self.prefix_cache, &mut self.step.blocks);
        }
        let done = run_steps(self, &mut trees, sums);
        if let (Some(tree), Ok(_)) = (trees.first().filter(|_| !apart), &done) {
            tree.keep(self.prefix_cache, reserved, &mut self.step.blocks);
        }
        for tree in &mut trees {
            tree.release(&mut self.step.blocks);
        }
        done
    }
}

/// Computes all nodes, parents first, in as few steps as they fit, but for what their tables hold already.
/// Returns how many rows were computed.
fn run_steps<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    trees: &mut [ScoringTree<'_>],
    sums: &mut [Vec<LogprobSum>],
) -> Result<usize, DeviceError> {
    let mut rows = 0;
    let mut requested: Vec<(usize, usize, usize)> = Vec::new();
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
                    rows += finish(scorer, trees, sums, &mut requested)?;
                }
                let one = &mut trees[tree];
                let room = (scorer.step.room(), scorer.step.sample_room());
                let (chunk, wants) = chunk(&one.nodes[node], at, next_want, room);
                if chunk == 0 {
                    rows += finish(scorer, trees, sums, &mut requested)?;
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
                    requested.push((tree, node, want));
                }
                next_want += wants;
                at += chunk;
            }
        }
    }
    rows += finish(scorer, trees, sums, &mut requested)?;
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
    requested: &mut Vec<(usize, usize, usize)>,
) -> Result<usize, DeviceError> {
    let rows = scorer.step.rows();
    let output: &SamplerOutput = scorer.step.run(scorer.backend, scorer.stack, scorer.head)?;
    for (index, (tree, node, want)) in requested.drain(..).enumerate() {
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
