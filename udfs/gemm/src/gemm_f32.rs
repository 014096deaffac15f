//! `x W^T` in f32. Every sum has one accumulator that takes the inputs in order, by fused multiply-add (or by a
//! product and a sum), so tiles, blocks and instruction sets do not show in the bits.

use crate::operand::Operand;
use crate::simd::{LANES, Simd, SimdKernel};
use crate::tile::{Epilogue, PANEL, Tile, columns, group_panels, load, tiles};

/// Floats of packed rows that stay in the second-level cache while the weights pass by.
const BLOCK_FLOATS: usize = 128 * 1024;
/// Inputs of a tile that are packed before the next ones.
const PACKED_AT_ONCE: usize = 256;
/// Tile sizes with 32 registers: at most 12 rows by 32 columns.
const WIDE: &[usize] = &[12, 8, 4, 2, 1];
/// Tile sizes with 16 registers of half the width: at most 6 rows by 16 columns.
const NARROW: &[usize] = &[6, 2, 1];

/// One product; `FUSED` says whether products are rounded with the sum that they are added to, or before.
pub(crate) struct GemmF32<'a, E, const FUSED: bool> {
    /// `[rows, k]`
    pub(crate) x: Operand<'a>,
    pub(crate) n: usize,
    /// What the epilogue calls the first column.
    pub(crate) first: usize,
    /// `[n / 32][k][32]`
    pub(crate) panels: &'a [f32],
    pub(crate) epilogue: E,
    /// `[rows, n]`
    pub(crate) out: &'a mut [f32],
    /// Numbers from one row of `out` to the next; at least `n`.
    pub(crate) stride: usize,
    /// Room for [`packed_len`] numbers.
    pub(crate) packed: &'a mut [f32],
}

/// Numbers of packed rows at a time.
pub(crate) fn packed_len(rows: usize, k: usize) -> usize {
    // A narrow tile may be larger than the rows it holds.
    block_rows(k).min(rows.next_multiple_of(WIDE[0])) * k
}

/// Rows whose packed form fits [`BLOCK_FLOATS`]: whole tiles of every size.
fn block_rows(k: usize) -> usize {
    (BLOCK_FLOATS / k / WIDE[0]).clamp(4, 32) * WIDE[0]
}

impl<E: Epilogue, const FUSED: bool> SimdKernel for GemmF32<'_, E, FUSED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, n, first, panels, epilogue, out, stride, packed } = self;
        let sizes = if S::WIDE { WIDE } else { NARROW };
        let k = x.columns();
        let block = block_rows(k);
        for (index, out) in out.chunks_mut(block * stride).enumerate() {
            let start = index * block;
            let rows = (x.rows() - start).min(block);
            let x = x.part(start..start + rows, 0..k);
            for tile in tiles(rows, sizes) {
                pack(s, x, tile, packed);
            }
            let group = group_panels(size_of::<f32>() * k);
            for (index, panels) in panels.chunks(group * k * PANEL).enumerate() {
                for tile in tiles(rows, sizes) {
                    let x = &packed[tile.first * k..];
                    let out = &mut out[tile.first * stride..][..(tile.rows - 1) * stride + n];
                    for (panel, column) in
                        panels.chunks_exact(k * PANEL).zip(columns(index * group))
                    {
                        let panel = panel.as_chunks().0.as_chunks().0;
                        let place = PanelOutput::<E, FUSED> {
                            panel,
                            column,
                            n,
                            first,
                            stride,
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

/// Writes the rows of a tile as `[k][size]`, and zeros for rows that it has not.
#[inline(always)]
pub(crate) fn pack<S: Simd>(s: S, x: Operand<'_>, tile: Tile, packed: &mut [f32]) {
    let (k, rows) = (x.columns(), tile.first..tile.first + tile.rows);
    let packed = &mut packed[tile.first * k..][..tile.size * k];
    if x.column_slice(0, 0..0).is_some() {
        for (column, places) in packed.chunks_exact_mut(tile.size).enumerate() {
            let (own, beyond) = places.split_at_mut(tile.rows);
            if let Some(from) = x.column_slice(column, rows.clone()) {
                own.copy_from_slice(from);
            }
            beyond.fill(0.0);
        }
        return;
    }
    // What is written stays in the first-level cache until all rows of the tile are there.
    for (part, packed) in packed.chunks_mut(PACKED_AT_ONCE * tile.size).enumerate() {
        let first = part * PACKED_AT_ONCE;
        let x = x.part(rows.clone(), first..first + packed.len() / tile.size);
        let mut lane = 0;
        while lane < tile.size {
            let row = |i: usize| x.row_slice(lane + i);
            if lane + 4 <= tile.rows
                && let (Some(a), Some(b), Some(c), Some(d)) = (row(0), row(1), row(2), row(3))
            {
                pack_four(s, [a, b, c, d], tile.size, &mut packed[lane..]);
                lane += 4;
                continue;
            }
            let places = packed[lane..].iter_mut().step_by(tile.size);
            if lane < tile.rows {
                places.zip(x.row(lane)).for_each(|(place, &x)| *place = x);
            } else {
                places.for_each(|place| *place = 0.0);
            }
            lane += 1;
        }
    }
}

/// Writes four rows side by side, `stride` numbers from one column to the next.
#[inline(always)]
fn pack_four<S: Simd>(s: S, rows: [&[f32]; 4], stride: usize, packed: &mut [f32]) {
    let whole = rows[0].len() / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        if let [Some(a), Some(b), Some(c), Some(d)] = rows.map(|row| row[first..].first_chunk()) {
            s.interleave([a, b, c, d], stride, &mut packed[first * stride..]);
        }
    }
    if whole == rows[0].len() {
        return;
    }
    for (lane, row) in rows.into_iter().enumerate() {
        let places = packed[whole * stride..].iter_mut().skip(lane).step_by(stride);
        places.zip(&row[whole..]).for_each(|(place, &x)| *place = x);
    }
}

/// A panel and where its sums go.
struct PanelOutput<'a, E, const FUSED: bool> {
    panel: &'a [[[f32; LANES]; 2]],
    column: usize,
    n: usize,
    first: usize,
    stride: usize,
    k: usize,
    epilogue: E,
}

impl<E: Epilogue, const FUSED: bool> PanelOutput<'_, E, FUSED> {
    /// A tile of `R` rows by both halves of the panel.
    #[inline(always)]
    fn wide<S: Simd, const R: usize>(&self, s: S, rows: &[f32], out: &mut [f32]) {
        let sums = self.begin::<S, R, 2>(s, 0, out);
        let sums = products::<S, R, 2, FUSED>(s, self.rows(rows), self.panel, 0, sums);
        self.finish(s, sums, 0, out);
    }

    /// A tile of `R` rows by one half after the other.
    #[inline(always)]
    fn narrow<S: Simd, const R: usize>(&self, s: S, rows: &[f32], out: &mut [f32]) {
        for half in 0..2 {
            let sums = self.begin::<S, R, 1>(s, half, out);
            let sums = products::<S, R, 1, FUSED>(s, self.rows(rows), self.panel, half, sums);
            self.finish(s, sums, half, out);
        }
    }

    #[inline(always)]
    fn rows<'r, const R: usize>(&self, packed: &'r [f32]) -> &'r [[f32; R]] {
        packed[..self.k * R].as_chunks().0
    }

    /// Where sums begin.
    #[inline(always)]
    fn begin<S: Simd, const R: usize, const C: usize>(
        &self,
        s: S,
        half: usize,
        out: &[f32],
    ) -> [[S::F; C]; R] {
        let mut sums = [[s.splat(0.0); C]; R];
        if E::CONTINUES {
            for (sums, out) in sums.iter_mut().zip(out.chunks(self.stride)) {
                for (half, sum) in (half..).zip(sums) {
                    let column = self.column + half * LANES;
                    *sum = load(s, out.get(column..self.n).unwrap_or_default());
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn finish<S: Simd, const R: usize, const C: usize>(
        &self,
        s: S,
        sums: [[[f32; LANES]; C]; R],
        half: usize,
        out: &mut [f32],
    ) {
        for (sums, out) in sums.iter().zip(out.chunks_mut(self.stride)) {
            for (half, sums) in (half..).zip(sums) {
                let column = self.column + half * LANES;
                if column < self.n {
                    let sums = s.load(sums);
                    self.epilogue.finish(s, sums, self.first + column, &mut out[column..self.n]);
                }
            }
        }
    }
}

/// The sums of `R` rows and `C` halves of a panel, from half `first` on, added to `sums`.
#[inline(always)]
fn products<S: Simd, const R: usize, const C: usize, const FUSED: bool>(
    s: S,
    rows: &[[f32; R]],
    panel: &[[[f32; LANES]; 2]],
    first: usize,
    mut sums: [[S::F; C]; R],
) -> [[[f32; LANES]; C]; R] {
    for (x, weights) in rows.iter().zip(panel) {
        let mut lanes = [s.splat(0.0); C];
        for c in 0..C {
            lanes[c] = s.load(&weights[(first + c) % 2]);
        }
        // Rows outside: each number is spread once.
        for r in 0..R {
            let x = s.splat(x[r]);
            for c in 0..C {
                sums[r][c] = if FUSED {
                    s.mul_add(x, lanes[c], sums[r][c])
                } else {
                    s.add(sums[r][c], s.mul(x, lanes[c]))
                };
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
