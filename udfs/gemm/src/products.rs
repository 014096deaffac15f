//! Products of plain matrices in memory, packed on the way: what training needs.

use std::ops::Range;

use crate::gemm_f32::{GemmF32, pack, packed_len};
use crate::memory::{Buffer, OutOfMemory};
use crate::operand::Operand;
use crate::simd::{Level, Simd, SimdKernel};
use crate::tile::{Continue, PANEL, Store, Tile};

/// Inputs that are multiplied at a time: 12 rows of them fit the first-level cache. Sums go on from block to block,
/// so that it does not show.
const INPUTS: usize = 512;
/// Outputs that are packed at a time: 2 MiB of them.
const OUTPUTS: usize = 1024;

/// What the sums of a product begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// 0: what was there is replaced.
    FromZero,
    /// What is there: products are added to it one by one.
    FromOut,
}

/// Multiplies on one thread; holds the memory for packed operands. Threads that share a product take rows of
/// `a`, or columns of `b`, each: no bit of the result depends on how.
#[derive(Debug)]
pub struct Multiplier {
    level: Level,
    rows: Buffer<f32>,
    panels: Buffer<f32>,
}

impl Default for Multiplier {
    fn default() -> Self {
        Self::new(Level::best())
    }
}

impl Multiplier {
    /// With one instruction set; results are the same with each.
    pub fn new(level: Level) -> Self {
        Self { level, rows: Buffer::default(), panels: Buffer::default() }
    }

    /// `out = a b`, or `out += a b`, where `a` is `[m, k]`, `b` `[k, n]` and `out` `[m, n]`, row by row. With
    /// [`Operand::transposed`] it is `aᵀ b` and `a bᵀ` as well, as fast.
    ///
    /// `out[i][j]` is one sum in f32 that takes `a[i][0] b[0][j]`, `a[i][1] b[1][j]` and so on in this order, each by a
    /// fused multiply-add. Nothing else shows in its bits.
    ///
    /// # Errors
    ///
    /// There is not enough memory for packed operands: 2 MiB for `b`, and half a MiB for `a`.
    ///
    /// # Panics
    ///
    /// If the sizes do not fit each other.
    pub fn multiply(
        &mut self,
        a: Operand<'_>,
        b: Operand<'_>,
        sums: Sums,
        out: &mut [f32],
    ) -> Result<(), OutOfMemory> {
        let (m, k, n) = (a.rows(), a.columns(), b.columns());
        assert!(b.rows() == k, "[{m}, {k}] cannot be multiplied by [{}, {n}]", b.rows());
        assert!(out.len() == m * n, "{} numbers are not [{m}, {n}]", out.len());
        if k == 0 && sums == Sums::FromZero {
            out.fill(0.0);
        }
        if out.is_empty() {
            return Ok(());
        }
        for outputs in blocks(n, OUTPUTS) {
            for inputs in blocks(k, INPUTS) {
                let goes_on = inputs.start > 0 || sums == Sums::FromOut;
                let b = b.part(inputs.clone(), outputs.clone());
                let out = &mut out[outputs.start..];
                self.block(a.part(0..m, inputs), b, goes_on, n, out)?;
            }
        }
        Ok(())
    }

    /// One block of inputs and outputs; rows of `out` are `stride` numbers apart.
    fn block(
        &mut self,
        x: Operand<'_>,
        b: Operand<'_>,
        goes_on: bool,
        stride: usize,
        out: &mut [f32],
    ) -> Result<(), OutOfMemory> {
        let (k, n) = (b.rows(), b.columns());
        let panels = self.panels.room(n.next_multiple_of(PANEL) * k)?;
        self.level.run(PackPanels { outputs: b.transposed(), panels });
        let packed = self.rows.room(packed_len(x.rows(), k))?;
        let (first, panels) = (0, &*panels);
        if goes_on {
            let epilogue = Continue;
            let gemm =
                GemmF32::<'_, _, true> { x, n, first, panels, epilogue, out, stride, packed };
            self.level.run(gemm);
        } else {
            let epilogue = Store;
            let gemm =
                GemmF32::<'_, _, true> { x, n, first, panels, epilogue, out, stride, packed };
            self.level.run(gemm);
        }
        Ok(())
    }
}

/// Packs `[n, k]` as `[n / 32][k][32]`.
struct PackPanels<'a> {
    outputs: Operand<'a>,
    panels: &'a mut [f32],
}

impl SimdKernel for PackPanels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.outputs.rows();
        for first in (0..n).step_by(PANEL) {
            let tile = Tile { first, rows: (n - first).min(PANEL), size: PANEL };
            pack(s, self.outputs, tile, self.panels);
        }
    }
}

/// `0..len` in ranges of `size` and a rest.
fn blocks(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(size).map(move |first| first..(first + size).min(len))
}
