//! Log-probabilities of continuations; whatever several texts begin with is computed once.

use super::blocks::{Span, blocks_for};
use super::job::{Job, Judging};
use super::queue::Queue;
use super::step::{Ask, Step, Wanted};
use super::tree::{self, Node, Text, Want};
use crate::backend::{Backend, BlockRef, DeviceError, How, Picked};
use crate::network::{Head, Stack};
use crate::request::{Answer, Body, RequestError, Scored};

/// A beginning shorter than this is not worth keeping for the next batch.
const KEPT_TOKENS_MIN: usize = 32;
/// Steps that a batch fills, roughly: more share more, fewer answer sooner.
const STEPS_PER_BATCH: usize = 4;

/// The beginning that all texts of the last batch shared: most often the few-shot examples, which
/// the next batch begins with too.
#[derive(Default)]
pub struct Kept {
    tokens: Vec<u32>,
    span: Span,
}

impl Kept {
    /// Frees its blocks.
    pub fn forget<B: Backend>(&mut self, step: &mut Step<B>) {
        step.blocks.absolve(self.span.refs.len());
        step.blocks.release(&mut self.span);
        self.tokens.clear();
    }
}

/// A batch and the blocks it was promised.
pub struct Batch {
    /// What is judged.
    pub jobs: Vec<Job<Judging>>,
    promised: usize,
}

/// Takes neighbours off the queue until they fill some steps or the cache.
pub fn take<B: Backend>(queue: &Queue, step: &mut Step<B>) -> Batch {
    let mut batch = Batch { jobs: Vec::new(), promised: 0 };
    let budget = step.capacity() * STEPS_PER_BATCH;
    let (mut rows, mut questions) = (0, 0);
    let mut waiting = queue.lock();
    while rows < budget {
        let mut promised = 0;
        let last = batch.jobs.last().map(|job| &job.work);
        let Some(job) = waiting.judging.pop_if(|next| {
            let (new_rows, new_blocks) = cost(last, next);
            // All questions might be about one row, and a row's questions are asked in one step.
            let fits = questions + next.continuations.len() <= step.capacity()
                && (last.is_none() || rows + new_rows <= budget);
            let promise = fits && step.blocks.promise(new_blocks);
            if promise {
                rows += new_rows;
                questions += next.continuations.len();
                promised = new_blocks;
            }
            promise
        }) else {
            break;
        };
        batch.promised += promised;
        batch.jobs.push(job);
    }
    batch
}

/// The most blocks that judging `work` alone takes.
pub fn blocks_needed(work: &Judging) -> usize {
    cost(None, work).1
}

/// Rows and blocks that `next` adds to a batch that ends with `last`, at most.
fn cost(last: Option<&Judging>, next: &Judging) -> (usize, usize) {
    let Some((prompt, before)) = next.continuations.first() else { return (0, 0) };
    let prompt = &prompt[..*before];
    let known =
        last.filter(|_| next.passage.is_empty()).and_then(|last| last.continuations.first());
    let shared = known.map_or(0, |(tokens, before)| common(&tokens[..*before], prompt));
    let own: usize = next.continuations.iter().map(|(all, before)| all.len() - before).sum();
    let rows = next.passage.len() + prompt.len() - shared + own;
    // A node may leave a block partly used, and each continuation may add two nodes.
    let blocks = blocks_for(next.passage.len())
        + blocks_for(prompt.len() - shared)
        + 2
        + next
            .continuations
            .iter()
            .map(|(all, before)| blocks_for(all.len() - before) + 2)
            .sum::<usize>();
    (rows, blocks)
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A continuation's sum so far.
#[derive(Clone, Copy)]
struct Sum {
    logprob: f64,
    is_greedy: bool,
}

/// Judges one batch.
pub struct Judge<'a, B: Backend> {
    /// What computes.
    pub backend: &'a mut B,
    /// The decoder.
    pub stack: &'a Stack<B>,
    /// Its head.
    pub head: &'a Head<B>,
    /// Its memory.
    pub step: &'a mut Step<B>,
    /// What the last batch left.
    pub kept: &'a mut Kept,
}

impl<B: Backend> Judge<'_, B> {
    /// Judges `batch`; `sources[i]` is what the encoder left of job `i`, empty for a decoder alone,
    /// unless the encoder failed.
    /// Returns how many rows were computed.
    pub fn run(
        &mut self,
        mut batch: Batch,
        mut sources: Vec<Span>,
        failure: Option<DeviceError>,
    ) -> usize {
        let mut sums: Vec<Vec<Sum>> = batch
            .jobs
            .iter()
            .map(|job| vec![Sum { logprob: 0.0, is_greedy: true }; job.work.continuations.len()])
            .collect();
        let judged = match failure {
            Some(failure) => Err(failure),
            None => self.judge(&batch.jobs, &sources, &mut sums),
        };
        for source in &mut sources {
            self.step.blocks.release(source);
        }
        self.step.blocks.absolve(batch.promised);
        let rows = judged.as_ref().copied().unwrap_or(0);
        let failure = judged.err().map(|error| RequestError::Failed(error.to_string()));
        for (job, sums) in batch.jobs.drain(..).zip(sums) {
            let answer = match &failure {
                Some(failure) => Err(failure.clone()),
                None => answer(&job.work, &sums),
            };
            job.answer(answer);
        }
        rows
    }

    fn judge(
        &mut self,
        jobs: &[Job<Judging>],
        sources: &[Span],
        sums: &mut [Vec<Sum>],
    ) -> Result<usize, DeviceError> {
        let mut rows = 0;
        if sources.iter().all(|source| source.refs.is_empty()) {
            let members: Vec<usize> = (0..jobs.len()).collect();
            let nothing = Span::default();
            let mut forest = Forest::new(jobs, &members, &nothing);
            rows += forest.run(self, sums, true)?;
        } else {
            // What two texts read may differ even where they write the same: a tree each, but one
            // batch of rows.
            let mut forests: Vec<Forest<'_>> = Vec::new();
            for (index, source) in sources.iter().enumerate() {
                forests.push(Forest::new(jobs, &[index], source));
            }
            rows += run_together(self, &mut forests, sums)?;
        }
        Ok(rows)
    }
}

/// The tree of some jobs that read the same source.
struct Forest<'a> {
    /// Job and continuation of each text of the tree.
    owners: Vec<(usize, usize)>,
    texts: Vec<Text<'a>>,
    nodes: Vec<Node>,
    spans: Vec<Span>,
    source: &'a Span,
}

impl<'a> Forest<'a> {
    fn new(jobs: &'a [Job<Judging>], members: &[usize], source: &'a Span) -> Self {
        let mut owners = Vec::new();
        let mut texts = Vec::new();
        for &job in members {
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

    fn run<B: Backend>(
        &mut self,
        judge: &mut Judge<'_, B>,
        sums: &mut [Vec<Sum>],
        keep: bool,
    ) -> Result<usize, DeviceError> {
        let reused = if keep { self.reuse(judge) } else { 0 };
        let done = run_steps(judge, std::slice::from_mut(self), sums, reused);
        if keep && done.is_ok() {
            self.keep(judge);
        }
        self.release(judge);
        done
    }

    /// Begins the first node with what the last batch kept; how many tokens that is.
    fn reuse<B: Backend>(&mut self, judge: &mut Judge<'_, B>) -> usize {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none()).count();
        let Some(root) = self.nodes.first().filter(|_| roots == 1) else {
            judge.kept.forget(judge.step);
            return 0;
        };
        let tokens = &self.texts[root.text].tokens[root.start..root.end];
        // A row that is asked about is computed again.
        let until = root.wants.first().map_or(tokens.len(), |want| want.place);
        let shared = common(&judge.kept.tokens, &tokens[..until]);
        if shared < KEPT_TOKENS_MIN {
            judge.kept.forget(judge.step);
            return 0;
        }
        let mut span = judge.step.blocks.share(&judge.kept.span);
        truncate(judge, &mut span, shared);
        self.spans[0] = span;
        shared
    }

    /// Keeps the first node for the next batch, if all texts begin with it.
    fn keep<B: Backend>(&mut self, judge: &mut Judge<'_, B>) {
        judge.kept.forget(judge.step);
        let roots = self.nodes.iter().filter(|node| node.parent.is_none()).count();
        let Some(root) =
            self.nodes.first().filter(|root| roots == 1 && root.end >= KEPT_TOKENS_MIN)
        else {
            return;
        };
        let span = &self.spans[0];
        if judge.step.blocks.promise(span.refs.len()) {
            judge.kept.span = judge.step.blocks.share(span);
            judge.kept.tokens = self.texts[root.text].tokens[..root.end].to_vec();
        }
    }

    fn release<B: Backend>(&mut self, judge: &mut Judge<'_, B>) {
        for span in &mut self.spans {
            judge.step.blocks.release(span);
        }
    }
}

/// Cuts `span` after `tokens` tokens.
fn truncate<B: Backend>(judge: &mut Judge<'_, B>, span: &mut Span, tokens: usize) {
    let mut left = tokens;
    let mut kept = Span::default();
    let mut rest = Span::default();
    for part in span.refs.drain(..) {
        let used = (part.used as usize).min(left);
        left -= used;
        match used {
            0 => rest.refs.push(part),
            _ => kept.refs.push(BlockRef { used: used as u32, ..part }),
        }
    }
    judge.step.blocks.release(&mut rest);
    *span = kept;
}

fn run_together<B: Backend>(
    judge: &mut Judge<'_, B>,
    forests: &mut [Forest<'_>],
    sums: &mut [Vec<Sum>],
) -> Result<usize, DeviceError> {
    let done = run_steps(judge, forests, sums, 0);
    for forest in forests {
        forest.release(judge);
    }
    done
}

/// Feeds all nodes, parents first, in as few steps as they fit. `reused` tokens of the first node
/// are there already.
fn run_steps<B: Backend>(
    judge: &mut Judge<'_, B>,
    forests: &mut [Forest<'_>],
    sums: &mut [Vec<Sum>],
    reused: usize,
) -> Result<usize, DeviceError> {
    let mut rows = 0;
    let mut asked: Vec<(usize, usize, usize)> = Vec::new();
    judge.step.clear();
    for tree in 0..forests.len() {
        for node in 0..forests[tree].nodes.len() {
            let skipped = if (tree, node) == (0, 0) { reused } else { 0 };
            let mut at = forests[tree].nodes[node].start + skipped;
            let mut next_want = 0;
            if let Some(parent) = forests[tree].nodes[node].parent {
                forests[tree].spans[node] = judge.step.blocks.share(&forests[tree].spans[parent]);
            }
            let mut apart = true;
            while at < forests[tree].nodes[node].end {
                if judge.step.room() == 0 || judge.step.room_to_ask() == 0 {
                    rows += finish(judge, forests, sums, &mut asked)?;
                }
                let forest = &mut forests[tree];
                let (chunk, wants) = chunk(&forest.nodes[node], at, next_want, judge.step);
                if chunk == 0 {
                    rows += finish(judge, forests, sums, &mut asked)?;
                    continue;
                }
                let tokens = &forest.texts[forest.nodes[node].text].tokens[at..at + chunk];
                let fed = judge.step.feed(&mut forest.spans[node], tokens, forest.source, apart);
                let last = fed.ok_or(DeviceError::OutOfMemory { bytes: 0 })?;
                apart = false;
                for want in next_want..next_want + wants {
                    let Want { place, target, .. } = forest.nodes[node].wants[want];
                    let row = last - (at + chunk - 1 - place) as u32;
                    let how = Wanted::How(How::Given { token: target });
                    judge.step.ask(row, Ask { how, banned: &[] });
                    asked.push((tree, node, want));
                }
                next_want += wants;
                at += chunk;
            }
        }
    }
    rows += finish(judge, forests, sums, &mut asked)?;
    Ok(rows)
}

/// How many tokens of `node` from `at` fit the step with all questions about them, and how many
/// questions those are.
fn chunk<B: Backend>(node: &Node, at: usize, want: usize, step: &Step<B>) -> (usize, usize) {
    let end = node.end.min(at + step.room());
    let within = node.wants[want..].iter().take_while(|want| want.place < end).count();
    let room = step.room_to_ask();
    if within <= room {
        return (end - at, within);
    }
    // Up to the last place all of whose questions fit.
    let place = node.wants[want + room].place;
    let whole = node.wants[want..].iter().take_while(|want| want.place < place).count();
    (place - at, whole)
}

fn finish<B: Backend>(
    judge: &mut Judge<'_, B>,
    forests: &[Forest<'_>],
    sums: &mut [Vec<Sum>],
    asked: &mut Vec<(usize, usize, usize)>,
) -> Result<usize, DeviceError> {
    let rows = judge.step.rows();
    let picked: &Picked = judge.step.run(judge.backend, judge.stack, judge.head)?;
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
    judge.step.clear();
    Ok(rows)
}

fn answer(work: &Judging, sums: &[Sum]) -> Result<Answer, RequestError> {
    if sums.iter().any(|sum| sum.logprob.is_nan()) {
        return Err(super::not_a_number());
    }
    let scored = |((tokens, before), sum): (&(Vec<u32>, usize), &Sum)| Scored {
        logprob: sum.logprob,
        tokens: (tokens.len() - before) as u32,
        is_greedy: sum.is_greedy,
    };
    Ok(Answer {
        prompt_tokens: work.prompt_tokens,
        prompt_truncated: work.prompt_truncated,
        body: Body::Scores(work.continuations.iter().zip(sums).map(scored).collect()),
    })
}
