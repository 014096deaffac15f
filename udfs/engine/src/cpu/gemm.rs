//! `x W^T` in f32. Every sum has one accumulator that takes the inputs in order by fused
//! multiply-add, so tiles, blocks and instruction sets do not show in the bits.

use super::matrix::PANEL;
use super::simd::{LANES, Simd, SimdKernel};
use super::tile::{Epilogue, Tile, columns, group_panels, tiles};

/// Floats of packed rows that stay in the second-level cache while the weights pass by.
const BLOCK_FLOATS: usize = 128 * 1024;
/// Tile sizes with 32 registers: at most 12 rows by 32 columns.
const WIDE: &[usize] = &[12, 8, 4, 2, 1];
/// Tile sizes with 16 registers of half the width: at most 6 rows by 16 columns.
const NARROW: &[usize] = &[6, 2, 1];

/// One product.
pub(super) struct Gemm<'a> {
    /// `[rows, k]`
    pub(super) x: &'a [f32],
    pub(super) k: usize,
    pub(super) n: usize,
    /// `[n / 32][k][32]`
    pub(super) panels: &'a [f32],
    pub(super) epilogue: Epilogue<'a>,
    /// `[rows, n]`
    pub(super) out: &'a mut [f32],
    /// Room for [`packed_len`] numbers.
    pub(super) packed: &'a mut [f32],
}

/// Numbers of packed rows at a time.
pub(super) fn packed_len(rows: usize, k: usize) -> usize {
    // A narrow tile may be larger than the rows it holds.
    block_rows(k).min(rows.next_multiple_of(WIDE[0])) * k
}

/// Rows whose packed form fits [`BLOCK_FLOATS`]: whole tiles of every size.
fn block_rows(k: usize) -> usize {
    (BLOCK_FLOATS / k / WIDE[0]).clamp(4, 32) * WIDE[0]
}

impl SimdKernel for Gemm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, k, n, panels, epilogue, out, packed } = self;
        let sizes = if S::WIDE { WIDE } else { NARROW };
        let block = block_rows(k);
        for (x, out) in x.chunks(block * k).zip(out.chunks_mut(block * n)) {
            let rows = x.len() / k;
            for tile in tiles(rows, sizes) {
                pack(x, k, tile, packed);
            }
            let group = group_panels(size_of::<f32>() * k);
            for (index, panels) in panels.chunks(group * k * PANEL).enumerate() {
                for tile in tiles(rows, sizes) {
                    let x = &packed[tile.first * k..];
                    let out = &mut out[tile.first * n..][..tile.rows * n];
                    for (panel, column) in
                        panels.chunks_exact(k * PANEL).zip(columns(index * group))
                    {
                        let place = PanelOutput {
                            panel: panel.as_chunks().0.as_chunks().0,
                            column,
                            n,
                            k,
                            epilogue,
                        };
                        match tile.size {
                            12 => place.wide::<S, 12>(s, x, out),
                            8 => place.wide::<S, 8>(s, x, out),
                            6 => place.narrow::<S, 6>(s, x, out),
                            4 => place.wide::<S, 4>(s, x, out),
                            2 if S::WIDE => place.wide::<S, 2>(s, x, out),
                            2 => place.narrow::<S, 2>(s, x, out),
                            _ => place.wide::<S, 1>(s, x, out),
                        }
                    }
                }
            }
        }
    }
}

/// Writes the rows of a tile as `[k][size]`.
#[inline(always)]
fn pack(x: &[f32], k: usize, tile: Tile, packed: &mut [f32]) {
    let packed = &mut packed[tile.first * k..][..tile.size * k];
    for lane in 0..tile.size {
        let places = packed[lane..].iter_mut().step_by(tile.size);
        if lane < tile.rows {
            let row = &x[(tile.first + lane) * k..][..k];
            places.zip(row).for_each(|(place, &x)| *place = x);
        } else {
            places.for_each(|place| *place = 0.0);
        }
    }
}

/// A panel and where its sums go.
struct PanelOutput<'a> {
    panel: &'a [[[f32; LANES]; 2]],
    column: usize,
    n: usize,
    k: usize,
    epilogue: Epilogue<'a>,
}

impl PanelOutput<'_> {
    /// A tile of `R` rows by both halves of the panel.
    #[inline(always)]
    fn wide<S: Simd, const R: usize>(&self, s: S, rows: &[f32], out: &mut [f32]) {
        let sums = products::<S, R, 2>(s, self.rows(rows), self.panel, 0);
        self.finish(s, sums, 0, out);
    }

    /// A tile of `R` rows by one half after the other.
    #[inline(always)]
    fn narrow<S: Simd, const R: usize>(&self, s: S, rows: &[f32], out: &mut [f32]) {
        for half in 0..2 {
            let sums = products::<S, R, 1>(s, self.rows(rows), self.panel, half);
            self.finish(s, sums, half, out);
        }
    }

    #[inline(always)]
    fn rows<'r, const R: usize>(&self, packed: &'r [f32]) -> &'r [[f32; R]] {
        packed[..self.k * R].as_chunks().0
    }

    #[inline(always)]
    fn finish<S: Simd, const R: usize, const C: usize>(
        &self,
        s: S,
        sums: [[[f32; LANES]; C]; R],
        half: usize,
        out: &mut [f32],
    ) {
        for (sums, out) in sums.iter().zip(out.chunks_exact_mut(self.n)) {
            for (half, sums) in (half..).zip(sums) {
                let column = self.column + half * LANES;
                if column < self.n {
                    self.epilogue.finish(s, s.load(sums), column, &mut out[column..]);
                }
            }
        }
    }
}

/// The sums of `R` rows and `C` halves of a panel, from half `first` on.
#[inline(always)]
fn products<S: Simd, const R: usize, const C: usize>(
    s: S,
    rows: &[[f32; R]],
    panel: &[[[f32; LANES]; 2]],
    first: usize,
) -> [[[f32; LANES]; C]; R] {
    let mut sums = [[s.splat(0.0); C]; R];
    for (x, weights) in rows.iter().zip(panel) {
        let mut lanes = [s.splat(0.0); C];
        for c in 0..C {
            lanes[c] = s.load(&weights[(first + c) % 2]);
        }
        // Rows outside: each number is spread once.
        for r in 0..R {
            let x = s.splat(x[r]);
            for c in 0..C {
                sums[r][c] = s.mul_add(x, lanes[c], sums[r][c]);
            }
        }
    }
    let mut out = [[[0.0; LANES]; C]; R];
    for r in 0..R {
        for c in 0..C {
            s.store(sums[r][c], &mut out[r][c]);
        }
    }
    out
}
