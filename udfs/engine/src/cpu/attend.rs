//! Attention in two passes: all logits of a query, each at the place of its key, then the weighted
//! sum of the values from the first key to the last. Where the keys lie does not show in the bits.

use std::ops::Range;

use super::kv_cache::{Layer, Number};
use super::math::exp;
use crate::backend::{AttentionMetadata, BlockRef, Segment};
use proofmill_gemm::reduce::{largest, sum};
use proofmill_gemm::{LANES, Simd, SimdKernel};

/// Queries that share the loading of keys.
const QUERIES: usize = 8;
/// Queries that share the loading of values.
const WEIGHED: usize = 4;

/// T5's bias: `[heads, 2 * reach + 1]`.
#[derive(Clone, Copy)]
pub(super) struct Bias<'a> {
    pub(super) weights: &'a [f32],
    pub(super) reach: usize,
}

/// Some rows of a batch.
pub(super) struct Attention<'a> {
    pub(super) rows: Range<usize>,
    /// `[rows, q_width]`, queries first.
    pub(super) q: &'a [f32],
    pub(super) q_width: usize,
    pub(super) metadata: &'a AttentionMetadata,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) bias: Option<Bias<'a>>,
    /// `[rows, heads * head_dim]`, from the first of `rows` on.
    pub(super) out: &'a mut [f32],
    /// Room for [`scratch_len`] numbers.
    pub(super) scratch: &'a mut [f32],
}

/// The same over the keys and values of a layer.
pub(super) struct Over<'a, N> {
    pub(super) attention: Attention<'a>,
    pub(super) layer: Layer<'a, N>,
}

/// Numbers of scratch: queries, and a row of logits for each.
pub(super) fn scratch_len(metadata: &AttentionMetadata, head_dim: usize) -> usize {
    let keys = metadata.segments.iter().map(|segment| segment.keys).max().unwrap_or(0);
    QUERIES * (head_dim + row_len(keys as usize))
}

/// A row of logits: the last block may reach beyond the last key.
fn row_len(keys: usize) -> usize {
    keys.next_multiple_of(LANES) + LANES
}

impl<N: Number> SimdKernel for Over<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { attention, layer } = self;
        let Attention { rows, q, q_width, metadata, heads, kv_heads, head_dim, .. } = attention;
        let Attention { scale, causal, bias, out, scratch, .. } = attention;
        let group = heads / kv_heads;
        let (columns, logits) = scratch.split_at_mut(QUERIES * head_dim);
        for segment in &metadata.segments {
            let blocks =
                &metadata.blocks[segment.first_block as usize..][..segment.blocks as usize];
            let place = segment.first_row as usize;
            let end = rows.end.min(place + segment.rows as usize).saturating_sub(place) * group;
            let start = rows.start.saturating_sub(place) * group;
            for kv_head in 0..kv_heads {
                for first in (start..end).step_by(QUERIES) {
                    let mut tile = Tile {
                        s,
                        layer,
                        blocks,
                        kv_head,
                        queries: [Query::default(); QUERIES],
                        count: (end - first).min(QUERIES),
                        stride: row_len(segment.keys as usize),
                        logits: &mut *logits,
                    };
                    for (index, query) in tile.queries[..tile.count].iter_mut().enumerate() {
                        let (row, head) = ((first + index) / group, (first + index) % group);
                        *query = Query::new(segment, row, kv_head * group + head, causal);
                    }
                    let size = if tile.count > 4 { 8 } else { tile.count.next_power_of_two() };
                    let columns = &mut columns[..size * head_dim];
                    for (lane, query) in tile.queries[..tile.count].iter().enumerate() {
                        let x = &q[query.row * q_width + query.head * head_dim..][..head_dim];
                        for (place, x) in columns[lane..].iter_mut().step_by(size).zip(x) {
                            *place = *x;
                        }
                    }
                    // The lanes of a tile that no query has taken hold what others left; their
                    // logits are not read.
                    match size {
                        1 => tile.products::<1, 4>(columns.as_chunks().0),
                        2 => tile.products::<2, 4>(columns.as_chunks().0),
                        4 => tile.products::<4, 2>(columns.as_chunks().0),
                        _ => tile.products::<8, 2>(columns.as_chunks().0),
                    }
                    tile.soften(scale, bias);
                    tile.weigh(rows.start, head_dim, heads * head_dim, out);
                }
            }
        }
    }
}

/// A row and head.
#[derive(Clone, Copy, Default)]
struct Query {
    row: usize,
    head: usize,
    place: usize,
    keys: usize,
    /// The sum of the weights of its values.
    total: f32,
}

impl Query {
    #[inline(always)]
    fn new(segment: &Segment, row: usize, head: usize, causal: bool) -> Self {
        let keys = segment.keys as usize;
        // Only causal and biased rows have a place, and they are the last of the keys.
        let place = (keys + row).saturating_sub(segment.rows as usize);
        Self {
            row: segment.first_row as usize + row,
            head,
            place,
            keys: if causal { place + 1 } else { keys },
            total: 0.0,
        }
    }
}

/// Some queries of one key head.
struct Tile<'a, S, N> {
    s: S,
    layer: Layer<'a, N>,
    blocks: &'a [BlockRef],
    kv_head: usize,
    queries: [Query; QUERIES],
    count: usize,
    /// From one query's logits to the next one's.
    stride: usize,
    logits: &'a mut [f32],
}

/// How far a walk over blocks has come.
#[derive(Clone, Copy)]
struct Walk {
    block: usize,
    keys: usize,
}

impl<S: Simd, N: Number> Tile<'_, S, N> {
    /// The products of `Q` queries, as `[head_dim][Q]`, with the keys of all blocks they read, up
    /// to `B` at a time.
    #[inline(always)]
    fn products<const Q: usize, const B: usize>(&mut self, queries: &[[f32; Q]]) {
        let reach = self.queries[..self.count].iter().map(|query| query.keys).max().unwrap_or(0);
        let mut keys = 0;
        let (groups, rest) = self.blocks.as_chunks::<B>();
        for group in groups {
            if keys >= reach {
                return;
            }
            keys = self.block_products(queries, group, keys);
        }
        for block in rest {
            if keys >= reach {
                return;
            }
            keys = self.block_products(queries, &[*block], keys);
        }
    }

    #[inline(always)]
    fn block_products<const Q: usize, const B: usize>(
        &mut self,
        queries: &[[f32; Q]],
        blocks: &[BlockRef; B],
        first: usize,
    ) -> usize {
        let s = self.s;
        let keys: [&[[N; LANES]]; B] =
            std::array::from_fn(|b| self.layer.keys(blocks[b].block as usize, self.kv_head));
        let mut sums = [[s.splat(0.0); B]; Q];
        for (d, query) in queries.iter().enumerate() {
            let mut lanes = [s.splat(0.0); B];
            for b in 0..B {
                lanes[b] = N::load(s, &keys[b][d]);
            }
            for q in 0..Q {
                let query = s.splat(query[q]);
                for b in 0..B {
                    sums[q][b] = s.mul_add(query, lanes[b], sums[q][b]);
                }
            }
        }
        let mut place = first;
        for b in 0..B {
            for (q, sums) in sums.iter().enumerate() {
                let logits = &mut self.logits[q * self.stride + place..];
                if let Some(logits) = logits.first_chunk_mut() {
                    s.store(sums[b], logits);
                }
            }
            place += blocks[b].used as usize;
        }
        place
    }

    /// Turns products into weights `e^(logit - largest)`.
    #[inline(always)]
    fn soften(&mut self, scale: f32, bias: Option<Bias<'_>>) {
        let s = self.s;
        let queries = self.queries[..self.count].iter_mut();
        for (query, logits) in queries.zip(self.logits.chunks_exact_mut(self.stride)) {
            let logits = &mut logits[..query.keys.next_multiple_of(LANES)];
            let (own, beyond) = logits.split_at_mut(query.keys);
            beyond.fill(f32::NEG_INFINITY);
            own.iter_mut().for_each(|logit| *logit *= scale);
            if let Some(bias) = bias {
                bias.add(query, own);
            }
            let best = s.splat(largest(s, own));
            for logits in logits.as_chunks_mut::<LANES>().0 {
                let weights = exp(s, s.sub(s.load(logits), best));
                s.store(weights, logits);
            }
            query.total = sum(s, &logits[..query.keys]);
        }
    }

    /// Writes the weighted means of the values; `out` begins with row `first_row`.
    #[inline(always)]
    fn weigh(&self, first_row: usize, head_dim: usize, width: usize, out: &mut [f32]) {
        let vectors = self.layer.value_vectors();
        for first in (0..self.count).step_by(WEIGHED) {
            let count = (self.count - first).min(WEIGHED);
            let mut column = 0;
            while column < vectors {
                let part = Part { first, count, column, first_row, head_dim, width };
                column += match (count, vectors - column) {
                    (1, 4..) => self.means::<1, 4>(part, out),
                    (1, 2..) => self.means::<1, 2>(part, out),
                    (1, _) => self.means::<1, 1>(part, out),
                    (_, 4..) => self.means::<WEIGHED, 4>(part, out),
                    (_, 2..) => self.means::<WEIGHED, 2>(part, out),
                    (_, _) => self.means::<WEIGHED, 1>(part, out),
                };
            }
        }
    }

    /// Writes `C` vectors of up to `R` queries; gives `C`.
    #[inline(always)]
    fn means<const R: usize, const C: usize>(&self, part: Part, out: &mut [f32]) -> usize {
        let s = self.s;
        // Lanes without a query do another one's work.
        let queries: [usize; R] = std::array::from_fn(|r| part.first + r.min(part.count - 1));
        let weights: [&[f32]; R] =
            std::array::from_fn(|r| &self.logits[queries[r] * self.stride..][..self.stride]);
        let shared = queries.iter().map(|&query| self.queries[query].keys).min().unwrap_or(0);
        let zero = [[s.splat(0.0); C]; R];
        let (walk, sums) =
            self.add_values(Walk { block: 0, keys: 0 }, 0..shared, weights, part.column, zero);
        for r in 0..part.count {
            let query = &self.queries[queries[r]];
            // Keys that only some of the queries read: nothing is added for the others.
            let (_, [sums]) =
                self.add_values(walk, shared..query.keys, [weights[r]], part.column, [sums[r]]);
            let start = (query.row - part.first_row) * part.width + query.head * part.head_dim;
            let out = &mut out[start..start + part.head_dim][part.column * LANES..];
            for (sum, out) in sums.iter().zip(out.chunks_mut(LANES)) {
                let mut mean = [0.0; LANES];
                s.store(s.div(*sum, s.splat(query.total)), &mut mean);
                out.copy_from_slice(&mean[..out.len()]);
            }
        }
        C
    }

    /// Adds the weighted values of the keys `range`, which begins in the block that `walk` stands
    /// before.
    #[inline(always)]
    fn add_values<const R: usize, const C: usize>(
        &self,
        mut walk: Walk,
        range: Range<usize>,
        weights: [&[f32]; R],
        column: usize,
        mut sums: [[S::F; C]; R],
    ) -> (Walk, [[S::F; C]; R]) {
        let s = self.s;
        let vectors = self.layer.value_vectors();
        while walk.keys < range.end {
            let block = self.blocks[walk.block];
            let values = self.layer.values(block.block as usize, self.kv_head);
            let end = walk.keys + block.used as usize;
            for key in range.start.max(walk.keys)..range.end.min(end) {
                let value = &values[(key - walk.keys) * vectors + column..][..C];
                let weights: [S::F; R] = splats(s, weights, key);
                for c in 0..C {
                    let value = N::load(s, &value[c]);
                    for r in 0..R {
                        sums[r][c] = s.mul_add(weights[r], value, sums[r][c]);
                    }
                }
            }
            if end > range.end {
                break;
            }
            walk = Walk { block: walk.block + 1, keys: end };
        }
        (walk, sums)
    }
}

/// What [`Tile::means`] writes.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
    column: usize,
    /// The first row of the result.
    first_row: usize,
    head_dim: usize,
    /// Of a row of the result.
    width: usize,
}

#[inline(always)]
fn splats<S: Simd, const R: usize>(s: S, weights: [&[f32]; R], key: usize) -> [S::F; R] {
    let mut out = [s.splat(0.0); R];
    for r in 0..R {
        out[r] = s.splat(weights[r][key]);
    }
    out
}

impl Bias<'_> {
    /// Adds the bias of each key's distance.
    #[inline(always)]
    fn add(self, query: &Query, logits: &mut [f32]) {
        let row = &self.weights[query.head * (2 * self.reach + 1)..][..2 * self.reach + 1];
        // Keys before `near` are out of reach, and so are those from `far` on.
        let near = query.place.saturating_sub(self.reach).min(logits.len());
        let far = (query.place + self.reach + 1).clamp(near, logits.len());
        logits[..near].iter_mut().for_each(|logit| *logit += row[0]);
        logits[far..].iter_mut().for_each(|logit| *logit += row[2 * self.reach]);
        let within = &row[(near + self.reach).saturating_sub(query.place)..];
        logits[near..far].iter_mut().zip(within).for_each(|(logit, bias)| *logit += bias);
    }
}
