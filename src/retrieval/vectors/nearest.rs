//! The best entries for each of many queries, over blocks that come one after the other.
//!
//! Each score is one sum, in 32 bits, over the dimensions in their order, a product and an addition rounded on
//! their own: it depends on its two vectors only, and is the same on every machine.
//!
//! Few entries have to be scored like that. Products of bytes, several times as fast, say of most that even with all that rounding
//! may have taken (`bound`) they are below the worst of the best ones so far.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use proofmill_gemm::{Level, OutOfMemory, Panels, Scratch, Store};

use crate::topk::{Hit, TopK};
use crate::vectors::block::{Block, VECTORS};
use crate::vectors::bound::Extent;
use crate::vectors::flaw::{VectorFlaw, check};

/// Most queries that one thread takes at a time: they stay in a core's own cache for common dimensions.
const GROUP_MAX: usize = 96;
/// Queries that one sweep over entries can answer: groups are multiples of it.
const TOGETHER: usize = 12;
/// Groups for each thread while there are queries enough, so that none waits long for the last.
const GROUPS_PER_THREAD: usize = 4;
/// Entries whose products are computed before they are looked at; whole panels of them.
const ENTRIES: usize = 1024;
/// Above one in so many products that may matter, all entries are scored together, which is as fast as that many alone.
const ALONE: usize = 16;
/// Scores that are state side by side, each in its order, as a sum alone waits for each of its additions.
const SIDE: usize = 8;

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
    vectors: Vec<f32>,
    queries: Vec<Query>,
}

struct Query {
    extent: Extent,
    /// Its best entries.
    best: TopK,
}

/// The memory of one thread.
#[derive(Default)]
struct Work {
    scratch: Scratch,
    /// `[queries, entries]`: products of bytes, or scores.
    scores: Vec<f32>,
    /// The places of a query and an entry that may be among its best.
    maybe: Vec<(u32, u32)>,
    /// Entries that are scored together.
    panels: Option<Panels>,
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
                group.vectors.extend(query);
                // Inner products may be negative, and even then the largest ones are the best.
                let best = TopK::new(k, f64::NEG_INFINITY);
                group.queries.push(Query { extent: Extent::of(query), best });
            }
        }
        let level = Level::best();
        Ok(Self { level, dimension, threads, entries: 0, queries: count, groups })
    }

    /// Bytes that one query takes.
    pub fn query_bytes(dimension: usize, k: usize) -> usize {
        dimension * size_of::<f32>() + size_of::<Query>() + TopK::bytes(k)
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
        let queries = self.groups.into_iter().flat_map(|group| group.queries);
        queries.map(|query| query.best.into_hits()).collect()
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
            let products = self.queries.len() * entries.len();
            work.scores.resize(products, 0.0);
            work.look(level, &self.vectors, &self.queries, block, entries.clone())?;
            if work.maybe.len() > products / ALONE {
                work.score(level, &self.vectors, block, entries.clone())?;
                let scores = work.scores.chunks_exact(entries.len());
                for (query, scores) in self.queries.iter_mut().zip(scores) {
                    let ordinals = first + start as u32..;
                    for (ordinal, &score) in ordinals.zip(scores) {
                        query.best.offer(Hit { ordinal, score: f64::from(score) });
                    }
                }
            } else {
                self.offer(block, first, &work.maybe);
            }
        }
        Ok(())
    }

    /// Scores pairs one by one, of each query in the order of the entries.
    fn offer(&mut self, block: &Block, first: u32, pairs: &[(u32, u32)]) {
        let dimension = block.dimension();
        for pairs in pairs.chunk_by(|a, b| a.0 == b.0) {
            let query = pairs[0].0 as usize;
            let vector = &self.vectors[query * dimension..][..dimension];
            for pairs in pairs.chunks(SIDE) {
                // A place without a pair repeats the first one.
                let place = |i: usize| pairs.get(i).unwrap_or(&pairs[0]).1 as usize;
                let rows: [&[f32]; SIDE] = std::array::from_fn(|i| block.row(place(i)));
                let scores = scores(vector, rows);
                for (&(_, entry), score) in pairs.iter().zip(scores) {
                    let hit = Hit { ordinal: first + entry, score: f64::from(score) };
                    self.queries[query].best.offer(hit);
                }
            }
        }
    }
}

impl Work {
    /// Notes the pairs that may matter.
    fn look(
        &mut self,
        level: Level,
        vectors: &[f32],
        queries: &[Query],
        block: &Block,
        entries: Range<usize>,
    ) -> Result<(), OutOfMemory> {
        let Self { scratch, scores, maybe, .. } = self;
        block.bytes().multiply(level, vectors, entries.clone(), Store, scores, scratch)?;
        maybe.clear();
        let extents = block.extents(entries.clone());
        for (number, (query, products)) in
            queries.iter().zip(scores.chunks_exact(entries.len())).enumerate()
        {
            let floor = query.best.floor();
            for (chunk, (products, &extent)) in products.chunks(VECTORS).zip(extents).enumerate() {
                let floor = (floor - query.extent.bound(extent, block.dimension())) as f32;
                // Rounded downwards: what is equal may matter.
                let floor = floor.next_down();
                // Nearly all stay below.
                if !products.iter().fold(false, |any, &product| any | (product > floor)) {
                    continue;
                }
                let places = entries.start + chunk * VECTORS..;
                let above = places.zip(products).filter(|(_, product)| **product > floor);
                maybe.extend(above.map(|(place, _)| (number as u32, place as u32)));
            }
        }
        Ok(())
    }

    /// The scores of all entries.
    fn score(
        &mut self,
        level: Level,
        vectors: &[f32],
        block: &Block,
        entries: Range<usize>,
    ) -> Result<(), OutOfMemory> {
        let panels = match &mut self.panels {
            Some(panels) => panels,
            none => none.insert(Panels::new(ENTRIES, block.dimension())?),
        };
        for (output, place) in entries.clone().enumerate() {
            panels.set(output, block.row(place));
        }
        panels.inner_products(level, vectors, 0..entries.len(), &mut self.scores, &mut self.scratch)
    }
}

/// Each the sum of its products in their order.
fn scores(query: &[f32], entries: [&[f32]; SIDE]) -> [f32; SIDE] {
    let mut sums = [0.0f32; SIDE];
    for (i, &x) in query.iter().enumerate() {
        for (sum, entry) in sums.iter_mut().zip(entries) {
            *sum += x * entry[i];
        }
    }
    sums
}
