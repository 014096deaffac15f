//! The right-hand side of a product, packed once: panels of 32 outputs that a tile of rows is multiplied by.

use std::ops::Range;

use crate::gemm_f32::{self, GemmF32};
use crate::gemm_int8::{self, GemmInt8, Outputs, QUAD, SMALLEST};
use crate::memory::{Buffer, OutOfMemory};
use crate::operand::Operand;
use crate::simd::Level;
use crate::tile::{Epilogue, PANEL, Store};

/// Most inputs of [`Int8Panels`]: above it, sums of products of bytes could overflow 32 bits.
pub const INT8_INPUTS_MAX: usize = 1 << 16;
/// Added and taken away again, it rounds what is small to the nearest whole number, halves to even:
/// as `round_ties_even`, which is a call for every number where the processor may be an old one.
const ROUND: f32 = 12_582_912.0;

/// Memory that products work in; one for each thread.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) floats: Buffer<f32>,
    pub(crate) bytes: Buffer<u8>,
    pub(crate) scales: Buffer<f32>,
}

/// `[n, k]` in f32: the weights of `n` outputs, or `n` vectors.
#[derive(Debug)]
pub struct Panels {
    n: usize,
    k: usize,
    /// `[n / 32][k][32]`; the last panel is filled up with zeros.
    numbers: Buffer<f32>,
}

/// `[n, k]` in bytes, scaled for each output.
#[derive(Debug)]
pub struct Int8Panels {
    n: usize,
    k: usize,
    /// `[n / 32][k / 4][32][4]`, with zeros up to a whole four.
    bytes: Buffer<i8>,
    /// What a byte of each output is worth.
    scales: Buffer<f32>,
    /// The sum of each output's bytes.
    offsets: Buffer<i32>,
}

impl Panels {
    /// Zeros. Memory of 1 MiB and more is taken from the system as outputs are set.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    ///
    /// # Panics
    ///
    /// If `k` is 0.
    pub fn new(n: usize, k: usize) -> Result<Self, OutOfMemory> {
        assert!(k > 0, "an output has at least one input");
        let numbers = Buffer::new(n.next_multiple_of(PANEL).saturating_mul(k))?;
        Ok(Self { n, k, numbers })
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.n
    }

    /// Inputs of each output.
    pub fn inputs(&self) -> usize {
        self.k
    }

    /// Sets the `k` numbers of `output`.
    pub fn set(&mut self, output: usize, row: &[f32]) {
        let k = self.k;
        let panel = &mut self.numbers[output / PANEL * PANEL * k..][..PANEL * k];
        for (place, &weight) in panel[output % PANEL..].iter_mut().step_by(PANEL).zip(row) {
            *place = weight;
        }
    }

    /// `out[r][c] = epilogue(x[r] · outputs[c])` for the outputs `columns`, where `x` is `[rows, k]` and `out`
    /// `[rows, columns]`. Each sum takes its inputs in order, by fused multiply-add.
    ///
    /// # Errors
    ///
    /// There is not enough memory for `scratch`.
    ///
    /// # Panics
    ///
    /// If `columns` begins inside a panel or ends beyond the last output.
    pub fn multiply<E: Epilogue>(
        &self,
        level: Level,
        x: &[f32],
        columns: Range<usize>,
        epilogue: E,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), OutOfMemory> {
        self.run::<E, true>(level, x, columns, epilogue, out, scratch)
    }

    /// The same without an epilogue, and with each product rounded before it is added: the loop
    /// `sum += x * y`, which processors without fused multiply-add can do as fast as others.
    ///
    /// # Errors
    ///
    /// There is not enough memory for `scratch`.
    ///
    /// # Panics
    ///
    /// As [`Panels::multiply`].
    pub fn inner_products(
        &self,
        level: Level,
        x: &[f32],
        columns: Range<usize>,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), OutOfMemory> {
        self.run::<Store, false>(level, x, columns, Store, out, scratch)
    }

    fn run<E: Epilogue, const FUSED: bool>(
        &self,
        level: Level,
        x: &[f32],
        columns: Range<usize>,
        epilogue: E,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), OutOfMemory> {
        let &Self { n, k, ref numbers } = self;
        check(&columns, n);
        if columns.is_empty() || x.is_empty() {
            return Ok(());
        }
        let packed = scratch.floats.room(gemm_f32::packed_len(x.len() / k, k))?;
        let panels = &numbers[columns.start * k..columns.end.next_multiple_of(PANEL) * k];
        let (first, n) = (columns.start, columns.len());
        let (x, stride) = (Operand::new(x, x.len() / k, k), n);
        let gemm = GemmF32::<'_, E, FUSED> { x, n, first, panels, epilogue, out, stride, packed };
        level.run(gemm);
        Ok(())
    }
}

impl Int8Panels {
    /// Zeros.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    ///
    /// # Panics
    ///
    /// If `k` is 0 or above [`INT8_INPUTS_MAX`].
    pub fn new(n: usize, k: usize) -> Result<Self, OutOfMemory> {
        assert!((1..=INT8_INPUTS_MAX).contains(&k), "{k} inputs: sums of bytes could overflow");
        let padded = n.next_multiple_of(PANEL);
        Ok(Self {
            n,
            k,
            bytes: Buffer::new(padded.saturating_mul(k.next_multiple_of(QUAD)))?,
            scales: Buffer::new(padded)?,
            offsets: Buffer::new(padded)?,
        })
    }

    /// Sets the `k` numbers of `output`, rounded to -127..=127 of their largest. Numbers that are not finite make
    /// every result NaN, as they do in f32.
    pub fn set(&mut self, output: usize, row: &[f32]) {
        let panel_len = self.k.next_multiple_of(QUAD) * PANEL;
        let largest = row.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
        let scale = largest / 127.0;
        let inverse = if largest > SMALLEST { 127.0 / largest } else { 0.0 };
        let panel = &mut self.bytes[output / PANEL * panel_len..][..panel_len];
        let quads = panel[output % PANEL * QUAD..].chunks_mut(PANEL * QUAD);
        let mut sum = 0;
        for (quad, weights) in quads.zip(row.chunks(QUAD)) {
            for (place, &weight) in quad.iter_mut().zip(weights) {
                *place = (weight * inverse + ROUND - ROUND) as i8;
                sum += i32::from(*place);
            }
        }
        let spoilt = row.iter().any(|weight| !weight.is_finite());
        self.scales[output] = if spoilt { f32::NAN } else { scale };
        self.offsets[output] = sum;
    }

    /// As [`Panels::multiply`], with the rows of `x` rounded to bytes of their largest too. Sums are exact.
    ///
    /// # Errors
    ///
    /// There is not enough memory for `scratch`.
    ///
    /// # Panics
    ///
    /// As [`Panels::multiply`].
    pub fn multiply<E: Epilogue>(
        &self,
        level: Level,
        x: &[f32],
        columns: Range<usize>,
        epilogue: E,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), OutOfMemory> {
        if columns.is_empty() || x.is_empty() {
            return Ok(());
        }
        level.run(self.kernel(x, columns, epilogue, out, scratch)?);
        Ok(())
    }

    /// What [`Int8Panels::multiply`] runs.
    pub(crate) fn kernel<'a, E: Epilogue>(
        &'a self,
        x: &'a [f32],
        columns: Range<usize>,
        epilogue: E,
        out: &'a mut [f32],
        scratch: &'a mut Scratch,
    ) -> Result<GemmInt8<'a, E>, OutOfMemory> {
        let &Self { n, k, .. } = self;
        check(&columns, n);
        let (rows, depth) = (x.len() / k, k.next_multiple_of(QUAD));
        let packed = scratch.bytes.room(gemm_int8::packed_len(rows, k))?;
        let scales = scratch.scales.room(gemm_int8::scales_len(rows, k))?;
        let panels =
            &self.bytes[columns.start * depth..columns.end.next_multiple_of(PANEL) * depth];
        let (first, n) = (columns.start, columns.len());
        let outputs = Outputs { scales: &self.scales, offsets: &self.offsets };
        Ok(GemmInt8 { x, k, n, first, panels, outputs, epilogue, out, packed, scales })
    }
}

/// The outputs `columns` are whole panels, but for the last.
fn check(columns: &Range<usize>, n: usize) {
    assert!(columns.start.is_multiple_of(PANEL), "{columns:?} begins inside a panel");
    assert!(columns.start <= columns.end && columns.end <= n, "{columns:?} of {n} outputs");
}
