//! The best entries for each of many queries, over blocks that come one after the other.
//!
//! Each score is one sum, in 32 bits, over the dimensions in their order, a product and an addition rounded on
//! their own: it depends on its two vectors only, and is the same on every machine.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use proofmill_gemm::{Level, OutOfMemory, Scratch};

use crate::topk::{Hit, TopK};
use crate::vectors::block::Block;
use crate::vectors::flaw::{VectorFlaw, check};

/// Most queries that one thread takes at a time: they stay in a core's own cache for common dimensions.
const GROUP_MAX: usize = 96;
/// Queries that one sweep over entries can answer: groups are multiples of it.
const TOGETHER: usize = 12;
/// Groups for each thread while there are queries enough, so that none waits long for the last.
const GROUPS_PER_THREAD: usize = 4;
/// Entries whose scores are computed before they are looked at; whole panels of them.
const ENTRIES: usize = 1024;
/// Scores that are compared at once.
const LANES: usize = 16;

/// Why a search cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NearestError {
    #[error(transparent)]
    Flaw(#[from] VectorFlaw),
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// Queries with the best entries of all blocks so far.
pub struct Nearest {
    level: Level,
    dimension: usize,
    threads: usize,
    entries: u32,
    queries: usize,
    groups: Vec<Group>,
}

/// Queries that one thread takes at a time.
#[derive(Default)]
struct Group {
    /// `[queries, dimension]`
    queries: Vec<f32>,
    /// For each query, its best entries.
    best: Vec<TopK>,
}

/// The memory of one thread.
#[derive(Default)]
struct Work {
    scratch: Scratch,
    /// `[queries, entries]`
    scores: Vec<f32>,
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
        let even = count.div_ceil(threads * GROUPS_PER_THREAD).next_multiple_of(TOGETHER);
        let group_size = even.min(GROUP_MAX).min(count.div_ceil(threads)).max(1);
        let mut groups: Vec<Group> = Vec::with_capacity(count.div_ceil(group_size));
        for (i, query) in queries.enumerate() {
            check(query, dimension).map_err(|flaw| (i, flaw))?;
            if i % group_size == 0 {
                groups.push(Group::default());
            }
            if let Some(group) = groups.last_mut() {
                group.queries.extend(query);
                // Inner products may be negative, and even then the largest ones are the best.
                group.best.push(TopK::new(k, f64::NEG_INFINITY));
            }
        }
        let level = Level::best();
        Ok(Self { level, dimension, threads, entries: 0, queries: count, groups })
    }

    /// Bytes that one query takes.
    pub fn query_bytes(dimension: usize, k: usize) -> usize {
        dimension * size_of::<f32>() + TopK::bytes(k)
    }

    /// Compares all queries with the next entries, whose ordinals follow those before.
    ///
    /// # Errors
    ///
    /// When the entries have other dimensions than the queries, or memory ends.
    pub fn add(&mut self, block: &Block) -> Result<(), NearestError> {
        let (found, expected) = (self.dimension, block.dimension());
        if found != expected && self.queries > 0 {
            return Err(VectorFlaw::OtherDimension { found, expected }.into());
        }
        let (level, first) = (self.level, self.entries);
        let threads = self.threads.min(self.groups.len());
        let waiting = Mutex::new(self.groups.iter_mut());
        let search = || -> Result<(), OutOfMemory> {
            let mut work = Work::default();
            // The lock guards a position in a list: it cannot be left half done.
            let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some(group) = next() {
                group.add(level, block, first, &mut work)?;
            }
            Ok(())
        };
        if threads <= 1 {
            search()?;
        } else {
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..threads).map(|_| scope.spawn(search)).collect();
                let own = search();
                let joined = others
                    .into_iter()
                    .map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
                joined.fold(own, Result::and)
            })?;
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
    fn add(
        &mut self,
        level: Level,
        block: &Block,
        first: u32,
        work: &mut Work,
    ) -> Result<(), OutOfMemory> {
        for start in (0..block.len()).step_by(ENTRIES) {
            let entries = start..(start + ENTRIES).min(block.len());
            let Work { scratch, scores } = &mut *work;
            scores.resize(self.best.len() * entries.len(), 0.0);
            let (queries, first) = (&self.queries, first + start as u32);
            let panels = block.panels();
            panels.inner_products(level, queries, entries.clone(), scores, scratch)?;
            for (best, scores) in self.best.iter_mut().zip(scores.chunks_exact(entries.len())) {
                offer(best, first, scores);
            }
        }
        Ok(())
    }
}

/// Offers the scores of entries from ordinal `first` on.
fn offer(best: &mut TopK, first: u32, scores: &[f32]) {
    for (chunk, scores) in scores.chunks(LANES).enumerate() {
        // Nearly all stay below the floor. It is one of the scores, or infinite: exact in 32 bits.
        let floor = best.floor() as f32;
        if !scores.iter().fold(false, |any, &score| any | (score > floor)) {
            continue;
        }
        for (ordinal, &score) in (first + (chunk * LANES) as u32..).zip(scores) {
            best.offer(Hit { ordinal, score: f64::from(score) });
        }
    }
}
