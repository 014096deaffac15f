//! What GEMM kernels share: how rows are cut into tiles, and what happens to finished sums.

use super::math::activate;
use super::matrix::PANEL;
use super::reduce::padded;
use super::simd::{LANES, Simd};
use crate::backend::{Activation, Write};

/// What happens to a sum: `write(activation(scale * (sum + bias)))`.
#[derive(Clone, Copy)]
pub(super) struct Epilogue<'a> {
    pub(super) bias: Option<&'a [f32]>,
    pub(super) scale: f32,
    pub(super) activation: Activation,
    pub(super) write: Write,
}

impl Epilogue<'_> {
    /// Finishes the sums of columns `column..column + 16` of a row; `out` is the rest of the row
    /// from there.
    #[inline(always)]
    pub(super) fn finish<S: Simd>(self, s: S, sums: S::F, column: usize, out: &mut [f32]) {
        let mut x = sums;
        if let Some(bias) = self.bias.and_then(|bias| bias[column..].first_chunk()) {
            x = s.add(x, s.load(bias));
        }
        if self.scale != 1.0 {
            x = s.mul(x, s.splat(self.scale));
        }
        x = activate(s, self.activation, x);
        match out.first_chunk_mut::<LANES>() {
            Some(out) => self.put(s, x, out),
            None => {
                let mut all = padded(out, 0.0);
                self.put(s, x, &mut all);
                out.copy_from_slice(&all[..out.len()]);
            }
        }
    }

    #[inline(always)]
    fn put<S: Simd>(self, s: S, x: S::F, out: &mut [f32; LANES]) {
        match self.write {
            Write::Store => s.store(x, out),
            Write::Add => s.store(s.add(s.load(out), x), out),
        }
    }
}

/// Bytes of panels that stay in the second-level cache while the tiles of a block of rows pass by.
const GROUP_BYTES: usize = 192 * 1024;

/// Panels of a group, if an output has `bytes` bytes of weights.
pub(super) fn group_panels(bytes: usize) -> usize {
    (GROUP_BYTES / (bytes * PANEL)).max(1)
}

/// The first columns of panels, from panel `first` on.
#[inline(always)]
pub(super) fn columns(first: usize) -> impl Iterator<Item = usize> {
    (first * PANEL..).step_by(PANEL)
}

/// Rows `first..first + rows`, computed in a tile of `size >= rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) size: usize,
}

/// Cuts `rows` rows into tiles of the largest of `sizes` (descending) and one that fits the rest.
#[inline(always)]
pub(super) fn tiles(rows: usize, sizes: &'static [usize]) -> impl Iterator<Item = Tile> {
    let largest = sizes[0];
    (0..rows.div_ceil(largest)).map(move |index| {
        let first = index * largest;
        let rows = (rows - first).min(largest);
        let size = sizes.iter().rev().copied().find(|&size| size >= rows).unwrap_or(largest);
        Tile { first, rows, size }
    })
}
