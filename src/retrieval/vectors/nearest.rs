//! The best entries for each of many queries, over blocks that come one after the other.

use std::sync::{Mutex, PoisonError};

use crate::topk::{Hit, TopK};
use crate::vectors::block::Block;
use crate::vectors::flaw::{VectorFlaw, check};
use crate::vectors::kernel::{LANES, Panel, QUERIES, products};

/// Most bundles of queries that one thread takes at a time: their vectors and one panel stay in a
/// core's own cache for common dimensions.
const GROUP_BUNDLES_MAX: usize = 32;

/// Groups for each thread while there are queries enough, so that none waits long for the last.
const GROUPS_PER_THREAD: usize = 4;

/// Queries with the best entries of all blocks so far.
pub struct Nearest {
    dimension: usize,
    threads: usize,
    entries: u32,
    queries: usize,
    groups: Vec<Group>,
}

/// Queries that one thread takes at a time.
struct Group {
    /// For each bundle, its numbers by dimension; a bundle that is not full ends in zeros.
    bundles: Vec<[f32; QUERIES]>,
    /// For each query, its best entries.
    best: Vec<TopK>,
}

impl Nearest {
    /// For `queries`, each of `dimension` dimensions: the `k` best entries, on `threads` threads.
    /// Neither the number of threads nor the sizes of blocks change a bit of the result.
    ///
    /// # Errors
    ///
    /// The position of the first query that is no vector, and why.
    pub fn new<'a>(
        queries: impl ExactSizeIterator<Item = &'a [f32]>,
        dimension: usize,
        k: usize,
        threads: usize,
    ) -> Result<Self, (usize, VectorFlaw)> {
        let (count, threads) = (queries.len(), threads.max(1));
        let even = count.div_ceil(threads * GROUPS_PER_THREAD).div_ceil(QUERIES);
        let group_size = even.clamp(1, GROUP_BUNDLES_MAX) * QUERIES;
        let mut groups: Vec<Group> = Vec::with_capacity(count.div_ceil(group_size));
        for (i, query) in queries.enumerate() {
            check(query, dimension).map_err(|flaw| (i, flaw))?;
            if i % group_size == 0 {
                groups.push(Group { bundles: Vec::new(), best: Vec::new() });
            }
            if let Some(group) = groups.last_mut() {
                group.push(query, k);
            }
        }
        Ok(Self { dimension, threads, entries: 0, queries: count, groups })
    }

    /// Bytes that one query takes.
    pub fn query_bytes(dimension: usize, k: usize) -> usize {
        dimension * size_of::<f32>() + TopK::bytes(k)
    }

    /// Compares all queries with the next entries, whose ordinals follow those before.
    ///
    /// # Errors
    ///
    /// When the entries have other dimensions than the queries.
    pub fn add(&mut self, block: &Block) -> Result<(), VectorFlaw> {
        let (found, expected) = (self.dimension, block.dimension());
        if found != expected && self.queries > 0 {
            return Err(VectorFlaw::OtherDimension { found, expected });
        }
        let first = self.entries;
        let threads = self.threads.min(self.groups.len());
        let waiting = Mutex::new(self.groups.iter_mut());
        let work = || {
            // The lock guards a position in a list: it cannot be left half done.
            let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some(group) = next() {
                group.add(block, first);
            }
        };
        if threads <= 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                (0..threads).for_each(|_| drop(scope.spawn(work)));
            });
        }
        self.entries += block.len() as u32;
        Ok(())
    }

    /// For each query, its best entries: higher score first, then lower ordinal, also where the
    /// `k`-th place is cut.
    pub fn finish(self) -> Vec<Vec<Hit>> {
        let best = self.groups.into_iter().flat_map(|group| group.best);
        best.map(TopK::into_hits).collect()
    }
}

impl Group {
    fn push(&mut self, query: &[f32], k: usize) {
        let lane = self.best.len() % QUERIES;
        if lane == 0 {
            self.bundles.resize(self.bundles.len() + query.len(), [0.0; QUERIES]);
        }
        let first = self.bundles.len() - query.len();
        for (row, &value) in self.bundles[first..].iter_mut().zip(query) {
            row[lane] = value;
        }
        // Inner products may be negative, and even then the largest ones are the best.
        self.best.push(TopK::new(k, f64::NEG_INFINITY));
    }

    fn add(&mut self, block: &Block, first: u32) {
        let mut ordinal = first;
        for (panel, entries) in block.panels() {
            self.add_panel(block.dimension(), panel, entries, ordinal);
            ordinal += entries as u32;
        }
    }

    fn add_panel(&mut self, dimension: usize, panel: &Panel, entries: usize, first: u32) {
        let bundles = self.bundles.chunks_exact(dimension);
        for (bundle, best) in bundles.zip(self.best.chunks_mut(QUERIES)) {
            let scores: [[f32; LANES]; QUERIES] = products(bundle, panel);
            for (best, scores) in best.iter_mut().zip(&scores) {
                for (ordinal, &score) in (first..).zip(&scores[..entries]) {
                    best.offer(Hit { ordinal, score: f64::from(score) });
                }
            }
        }
    }
}
