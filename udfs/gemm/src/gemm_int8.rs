//! `x W^T` in bytes: rows are scaled to -127..=127 one by one, sums are exact.

use crate::reduce::{largest, padded};
use crate::simd::{LANES, Simd, SimdKernel};
use crate::tile::{Epilogue, PANEL, Tile, columns, group_panels, tiles};

/// Inputs whose products with bytes are added at once.
pub(crate) const QUAD: usize = 4;
/// Rows below this size are taken for zeros in bytes: f32 cannot divide 127 by them.
pub(crate) const SMALLEST: f32 = 1e-35;
/// Bytes of packed rows that stay in the second-level cache while the weights pass by.
const BLOCK_BYTES: usize = 384 * 1024;
/// Tile sizes with 32 registers: at most 12 rows by 32 columns.
const WIDE: &[usize] = &[12, 8, 4, 2, 1];
/// Tile sizes with 16 registers, two to a vector of sums: at most 6 rows by 16 columns.
const NARROW: &[usize] = &[6, 2, 1];

/// One product.
pub(crate) struct GemmInt8<'a, E> {
    /// `[rows, k]`
    pub(crate) x: &'a [f32],
    pub(crate) k: usize,
    pub(crate) n: usize,
    /// What the epilogue calls the first column.
    pub(crate) first: usize,
    /// `[n / 32][k / 4][32][4]`
    pub(crate) panels: &'a [i8],
    pub(crate) outputs: Outputs<'a>,
    pub(crate) epilogue: E,
    /// `[rows, n]`
    pub(crate) out: &'a mut [f32],
    /// Room for [`packed_len`] bytes.
    pub(crate) packed: &'a mut [u8],
    /// Room for [`scales_len`] numbers: what a byte of each row is worth.
    pub(crate) scales: &'a mut [f32],
}

/// What the bytes of all outputs stand for.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    /// What a byte of each output is worth.
    pub(crate) scales: &'a [f32],
    /// The sum of each output's bytes: what every 1 that is added to the bytes of a row adds to its sum.
    pub(crate) offsets: &'a [i32],
}

/// Bytes of packed rows at a time.
pub(crate) fn packed_len(rows: usize, k: usize) -> usize {
    scales_len(rows, k) * k.next_multiple_of(QUAD)
}

/// Packed rows at a time.
pub(crate) fn scales_len(rows: usize, k: usize) -> usize {
    block_rows(k).min(rows.next_multiple_of(WIDE[0]))
}

/// Rows whose packed form fits [`BLOCK_BYTES`]: whole tiles of every size.
fn block_rows(k: usize) -> usize {
    (BLOCK_BYTES / k / WIDE[0]).clamp(4, 64) * WIDE[0]
}

impl<E: Epilogue> SimdKernel for GemmInt8<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, k, n, first, panels, outputs, epilogue, out, packed, scales } = self;
        let sizes = if S::WIDE { WIDE } else { NARROW };
        let (block, depth) = (block_rows(k), k.next_multiple_of(QUAD));
        for (x, out) in x.chunks(block * k).zip(out.chunks_mut(block * n)) {
            let rows = x.len() / k;
            for tile in tiles(rows, sizes) {
                quantise(s, x, k, tile, packed, scales);
            }
            let group = group_panels(depth);
            for (index, panels) in panels.chunks(group * depth * PANEL).enumerate() {
                for tile in tiles(rows, sizes) {
                    let x = &packed[tile.first * depth..];
                    let scales = &scales[tile.first..][..tile.rows];
                    let out = &mut out[tile.first * n..][..tile.rows * n];
                    let places = panels.chunks_exact(depth * PANEL).zip(columns(index * group));
                    for (panel, column) in places {
                        let panel = panel.as_chunks().0.as_chunks().0;
                        let place =
                            PanelOutput { panel, column, n, first, depth, outputs, epilogue };
                        match tile.size {
                            12 => place.wide::<S, 12>(s, x, scales, out),
                            8 => place.wide::<S, 8>(s, x, scales, out),
                            6 => place.narrow::<S, 6>(s, x, scales, out),
                            4 => place.wide::<S, 4>(s, x, scales, out),
                            2 if S::WIDE => place.wide::<S, 2>(s, x, scales, out),
                            2 => place.narrow::<S, 2>(s, x, scales, out),
                            _ => place.wide::<S, 1>(s, x, scales, out),
                        }
                    }
                }
            }
        }
    }
}

/// Writes the rows of a tile as bytes `[k / 4][size][4]`.
#[inline(always)]
fn quantise<S: Simd>(s: S, x: &[f32], k: usize, tile: Tile, packed: &mut [u8], scales: &mut [f32]) {
    let depth = k.next_multiple_of(QUAD);
    let packed = &mut packed[tile.first * depth..][..tile.size * depth];
    for lane in 0..tile.rows {
        let row = &x[(tile.first + lane) * k..][..k];
        let (size, spoilt) = magnitude(s, row);
        let known = size > SMALLEST;
        let inverse = s.splat(if known { 127.0 / size } else { 0.0 });
        scales[tile.first + lane] = spoilt + if known { size / 127.0 } else { 0.0 };
        let mut quads = packed.as_chunks_mut::<QUAD>().0[lane..].iter_mut().step_by(tile.size);
        let (vectors, tail) = row.as_chunks::<LANES>();
        for x in vectors {
            let bytes = s.to_bytes(s.mul(s.load(x), inverse));
            for (bytes, quad) in bytes.as_chunks::<QUAD>().0.iter().zip(&mut quads) {
                *quad = *bytes;
            }
        }
        if !tail.is_empty() {
            let bytes = s.to_bytes(s.mul(s.load(&padded(tail, 0.0)), inverse));
            for (bytes, quad) in bytes.as_chunks::<QUAD>().0.iter().zip(quads) {
                *quad = *bytes;
            }
        }
    }
}

/// The largest magnitude, and 0 or, if any number is infinite or none, NaN.
#[inline(always)]
fn magnitude<S: Simd>(s: S, row: &[f32]) -> (f32, f32) {
    let zero = s.splat(0.0);
    let (mut high, mut low, mut spoilt) = (zero, zero, zero);
    let (vectors, tail) = row.as_chunks::<LANES>();
    let last = padded(tail, 0.0);
    for x in vectors.iter().chain([&last]) {
        let x = s.load(x);
        high = s.max(x, high);
        low = s.min(x, low);
        spoilt = s.mul_add(x, zero, spoilt);
    }
    let mut lanes = [[0.0; LANES]; 2];
    s.store(s.max(high, s.sub(zero, low)), &mut lanes[0]);
    s.store(spoilt, &mut lanes[1]);
    (largest(s, &lanes[0]), lanes[1].iter().sum())
}

/// A panel and where its sums go.
struct PanelOutput<'a, E> {
    panel: &'a [[[i8; QUAD * LANES]; 2]],
    column: usize,
    n: usize,
    first: usize,
    depth: usize,
    outputs: Outputs<'a>,
    epilogue: E,
}

impl<E: Epilogue> PanelOutput<'_, E> {
    /// A tile of `R` rows by both halves of the panel.
    #[inline(always)]
    fn wide<S: Simd, const R: usize>(&self, s: S, rows: &[u8], scales: &[f32], out: &mut [f32]) {
        let sums = products::<S, R, 2>(s, self.rows(rows), self.panel, 0);
        self.finish(s, sums, 0, scales, out);
    }

    /// A tile of `R` rows by one half after the other.
    #[inline(always)]
    fn narrow<S: Simd, const R: usize>(&self, s: S, rows: &[u8], scales: &[f32], out: &mut [f32]) {
        for half in 0..2 {
            let sums = products::<S, R, 1>(s, self.rows(rows), self.panel, half);
            self.finish(s, sums, half, scales, out);
        }
    }

    #[inline(always)]
    fn rows<'r, const R: usize>(&self, packed: &'r [u8]) -> &'r [[[u8; QUAD]; R]] {
        packed[..self.depth * R].as_chunks().0.as_chunks().0
    }

    #[inline(always)]
    fn finish<S: Simd, const R: usize, const C: usize>(
        &self,
        s: S,
        sums: [[[i32; LANES]; C]; R],
        half: usize,
        scales: &[f32],
        out: &mut [f32],
    ) {
        for c in 0..C {
            let column = self.column + (half + c) * LANES;
            let place = self.first + column;
            let Some(offsets) = self.outputs.offsets[place..].first_chunk::<LANES>() else {
                break;
            };
            let Some(worth) = self.outputs.scales[place..].first_chunk::<LANES>() else { break };
            let rows = sums.iter().zip(scales).zip(out.chunks_exact_mut(self.n));
            for ((sums, &scale), out) in rows {
                if column < self.n {
                    let sums = &sums[c];
                    let x = std::array::from_fn(|i| {
                        let offset = S::BYTE_OFFSET.wrapping_mul(offsets[i]);
                        sums[i].wrapping_sub(offset) as f32 * (scale * worth[i])
                    });
                    self.epilogue.finish(s, s.load(&x), place, &mut out[column..]);
                }
            }
        }
    }
}

/// The sums of `R` rows and `C` halves of a panel, from half `first` on.
#[inline(always)]
fn products<S: Simd, const R: usize, const C: usize>(
    s: S,
    rows: &[[[u8; QUAD]; R]],
    panel: &[[[i8; QUAD * LANES]; 2]],
    first: usize,
) -> [[[i32; LANES]; C]; R] {
    let mut sums = [[s.no_dots(); C]; R];
    for (x, weights) in rows.iter().zip(panel) {
        // Weights outside: they stay in registers, and so do the sums.
        let mut lanes = [s.load_weights(&weights[first]); C];
        for c in 1..C {
            lanes[c] = s.load_weights(&weights[(first + c) % 2]);
        }
        for r in 0..R {
            for c in 0..C {
                sums[r][c] = s.dot(sums[r][c], x[r], lanes[c]);
            }
        }
    }
    let mut out = [[[0; LANES]; C]; R];
    for r in 0..R {
        for c in 0..C {
            out[r][c] = s.dots(sums[r][c]);
        }
    }
    out
}
