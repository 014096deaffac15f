//! Texts to be judged as trees, and the steps that compute them.

use std::ops::Range;

use super::blocks::{Blocks, Span};
use super::job::{Job, ScoreWork};
use super::kept::Kept;
use super::room::cache_is_full;
use super::score::{Scorer, Sum};
use super::step::{Ask, Wanted};
use super::tree::{self, Node, Text, Want};
use crate::backend::{Backend, DeviceError, How, Picked};

/// The tree of some jobs that read the same source.
pub struct Forest<'a> {
    /// Job and continuation of each text of the tree.
    owners: Vec<(usize, usize)>,
    texts: Vec<Text<'a>>,
    nodes: Vec<Node>,
    spans: Vec<Span>,
    source: &'a Span,
}

impl<'a> Forest<'a> {
    /// Of the jobs `members`, which read `source`.
    pub fn new(jobs: &'a [Job<ScoreWork>], members: Range<usize>, source: &'a Span) -> Self {
        let mut owners = Vec::new();
        let mut texts = Vec::new();
        for job in members {
            for (index, (tokens, before)) in jobs[job].work.continuations.iter().enumerate() {
                if tokens.len() > *before {
                    owners.push((job, index));
                    texts.push(Text { tokens, first: *before });
                }
            }
        }
        let nodes = tree::grow(&texts);
        let spans = vec![Span::default(); nodes.len()];
        Self { owners, texts, nodes, spans, source }
    }

    /// Begins with what the last batch kept; how many tokens that is.
    pub fn reuse(&mut self, kept: &mut Kept, blocks: &mut Blocks) -> usize {
        let root = self.root();
        // A row that is asked about is computed again.
        let asked = root.and_then(|root| Some(root.wants.first()?.place));
        let read = asked.unwrap_or(usize::MAX).min(root.map_or(0, |root| root.end));
        let span = kept.reuse(&self.beginning()[..read], blocks);
        let reused = span.tokens();
        if let Some(first) = self.spans.first_mut() {
            *first = span;
        }
        reused
    }

    /// Keeps what all texts begin with for the next batch.
    pub fn keep(&self, kept: &mut Kept, blocks: &mut Blocks) {
        let nothing = Span::default();
        kept.keep(self.beginning(), self.spans.first().unwrap_or(&nothing), blocks);
    }

    /// Frees what it holds.
    pub fn release(&mut self, blocks: &mut Blocks) {
        for span in &mut self.spans {
            blocks.release(span);
        }
    }

    /// The first node, if all texts begin with it.
    fn root(&self) -> Option<&Node> {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none()).count();
        self.nodes.first().filter(|_| roots == 1)
    }

    /// The tokens that all texts begin with.
    fn beginning(&self) -> &'a [u32] {
        self.root().map_or(&[], |root| &self.texts[root.text].tokens[..root.end])
    }
}

/// Feeds all nodes, parents first, in as few steps as they fit. `reused` tokens of the first node
/// are there already. Returns how many rows were computed.
pub fn run_steps<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    forests: &mut [Forest<'_>],
    sums: &mut [Vec<Sum>],
    reused: usize,
) -> Result<usize, DeviceError> {
    let mut rows = 0;
    let mut asked: Vec<(usize, usize, usize)> = Vec::new();
    scorer.step.clear();
    for tree in 0..forests.len() {
        for node in 0..forests[tree].nodes.len() {
            let skipped = if (tree, node) == (0, 0) { reused } else { 0 };
            let mut at = forests[tree].nodes[node].start + skipped;
            let mut next_want = 0;
            if let Some(parent) = forests[tree].nodes[node].parent {
                forests[tree].spans[node] = scorer.step.blocks.share(&forests[tree].spans[parent]);
            }
            let mut apart = true;
            while at < forests[tree].nodes[node].end {
                if scorer.step.room() == 0 || scorer.step.room_to_ask() == 0 {
                    rows += finish(scorer, forests, sums, &mut asked)?;
                }
                let forest = &mut forests[tree];
                let room = (scorer.step.room(), scorer.step.room_to_ask());
                let (chunk, wants) = chunk(&forest.nodes[node], at, next_want, room);
                if chunk == 0 {
                    rows += finish(scorer, forests, sums, &mut asked)?;
                    continue;
                }
                let tokens = &forest.texts[forest.nodes[node].text].tokens[at..at + chunk];
                let fed = scorer.step.feed(&mut forest.spans[node], tokens, forest.source, apart);
                let last = fed.ok_or_else(cache_is_full)?;
                apart = false;
                for want in next_want..next_want + wants {
                    let Want { place, target, .. } = forest.nodes[node].wants[want];
                    let row = last - (at + chunk - 1 - place) as u32;
                    let how = Wanted::How(How::Given { token: target });
                    scorer.step.ask(row, Ask { how, banned: &[] });
                    asked.push((tree, node, want));
                }
                next_want += wants;
                at += chunk;
            }
        }
    }
    rows += finish(scorer, forests, sums, &mut asked)?;
    Ok(rows)
}

/// How many tokens of `node` from `at` fit the room for rows and for questions together with all
/// questions about them, the first of which is number `want`; and how many questions those are.
fn chunk(node: &Node, at: usize, want: usize, (rows, questions): (usize, usize)) -> (usize, usize) {
    let end = node.end.min(at + rows);
    let about = |end: usize| node.wants[want..].iter().take_while(move |it| it.place < end).count();
    let within = about(end);
    if within <= questions {
        return (end - at, within);
    }
    // Up to the last place all of whose questions fit.
    let place = node.wants[want + questions].place;
    (place - at, about(place))
}

fn finish<B: Backend>(
    scorer: &mut Scorer<'_, B>,
    forests: &[Forest<'_>],
    sums: &mut [Vec<Sum>],
    asked: &mut Vec<(usize, usize, usize)>,
) -> Result<usize, DeviceError> {
    let rows = scorer.step.rows();
    let picked: &Picked = scorer.step.run(scorer.backend, scorer.stack, scorer.head)?;
    for (index, (tree, node, want)) in asked.drain(..).enumerate() {
        let forest = &forests[tree];
        let want = &forest.nodes[node].wants[want];
        let Some(token) = picked.of(index).first() else { continue };
        for &text in &want.texts {
            let (job, continuation) = forest.owners[text];
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

    fn node(places: &[usize]) -> Node {
        let want = |&place: &usize| Want { place, target: 0, texts: vec![0] };
        Node { parent: None, text: 0, start: 2, end: 10, wants: places.iter().map(want).collect() }
    }

    #[test]
    fn a_chunk_ends_with_the_node_the_rows_or_the_questions() {
        let some = node(&[5, 6, 6, 9]);
        assert_eq!(chunk(&some, 2, 0, (50, 50)), (8, 4));
        assert_eq!(chunk(&some, 2, 0, (4, 50)), (4, 1));
        assert_eq!(chunk(&some, 2, 0, (5, 3)), (5, 3));
        assert_eq!(chunk(&some, 7, 3, (50, 1)), (3, 1));
        assert_eq!(chunk(&node(&[]), 3, 0, (2, 1)), (2, 0));
    }

    #[test]
    fn questions_about_one_row_stay_together() {
        let some = node(&[5, 6, 6, 9]);
        // Row 6 has two questions, and there is room for one beside that about row 5.
        assert_eq!(chunk(&some, 2, 0, (50, 2)), (4, 1));
        assert_eq!(chunk(&some, 6, 1, (50, 1)), (0, 0));
        assert_eq!(chunk(&some, 6, 1, (50, 2)), (3, 2));
    }
}
