//! What kernels share: how rows are cut into tiles, and what happens to finished sums.

use crate::reduce::padded;
use crate::simd::{LANES, Simd};

/// Outputs of a panel: two registers.
pub const PANEL: usize = 2 * LANES;

/// What happens to sums.
pub trait Epilogue: Copy {
    /// Whether sums go on from what `out` holds, instead of from 0. Only f32 products can.
    const CONTINUES: bool = false;

    /// Writes the sums of outputs `column..column + 16` of a row to `out`, the rest of the row from there; fewer
    /// than 16 if the row ends. Must be `#[inline(always)]`.
    fn finish<S: Simd>(self, s: S, sums: S::F, column: usize, out: &mut [f32]);
}

/// Leaves sums as they are.
#[derive(Clone, Copy)]
pub struct Store;

/// Goes on with sums that are there.
#[derive(Clone, Copy)]
pub(crate) struct Continue;

impl Epilogue for Store {
    #[inline(always)]
    fn finish<S: Simd>(self, s: S, sums: S::F, _: usize, out: &mut [f32]) {
        store(s, sums, out);
    }
}

impl Epilogue for Continue {
    const CONTINUES: bool = true;

    #[inline(always)]
    fn finish<S: Simd>(self, s: S, sums: S::F, _: usize, out: &mut [f32]) {
        store(s, sums, out);
    }
}

/// Stores up to 16 numbers.
#[inline(always)]
fn store<S: Simd>(s: S, x: S::F, out: &mut [f32]) {
    match out.first_chunk_mut::<LANES>() {
        Some(out) => s.store(x, out),
        None => {
            let mut all = [0.0; LANES];
            s.store(x, &mut all);
            out.copy_from_slice(&all[..out.len()]);
        }
    }
}

/// Loads up to 16 numbers, and zeros after them.
#[inline(always)]
pub(crate) fn load<S: Simd>(s: S, from: &[f32]) -> S::F {
    match from.first_chunk() {
        Some(from) => s.load(from),
        None => s.load(&padded(from, 0.0)),
    }
}

/// Bytes of panels that stay in the second-level cache while the tiles of a block of rows pass by.
const GROUP_BYTES: usize = 192 * 1024;

/// Panels of a group, if an output has `bytes` bytes of weights.
pub(crate) fn group_panels(bytes: usize) -> usize {
    (GROUP_BYTES / (bytes * PANEL)).max(1)
}

/// The first columns of panels, from panel `first` on.
#[inline(always)]
pub(crate) fn columns(first: usize) -> impl Iterator<Item = usize> {
    (first * PANEL..).step_by(PANEL)
}

/// Rows `first..first + rows`, computed in a tile of `size >= rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) size: usize,
}

/// Cuts `rows` rows into tiles of the largest of `sizes` (descending) and one that fits the rest.
#[inline(always)]
pub(crate) fn tiles(rows: usize, sizes: &'static [usize]) -> impl Iterator<Item = Tile> {
    let largest = sizes[0];
    (0..rows.div_ceil(largest)).map(move |index| {
        let first = index * largest;
        let rows = (rows - first).min(largest);
        let size = sizes.iter().rev().copied().find(|&size| size >= rows).unwrap_or(largest);
        Tile { first, rows, size }
    })
}
