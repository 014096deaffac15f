//! Normalisation of rows.

use super::memory::Vector;
use crate::backend::NormKind;
use proofmill_gemm::reduce::{squares, sum};
use proofmill_gemm::{Simd, SimdKernel};

/// A normalisation of rows of one width.
#[derive(Clone, Copy)]
pub(super) struct Normal<'a> {
    pub(super) kind: NormKind,
    pub(super) weight: &'a [f32],
    pub(super) bias: Option<&'a Vector>,
    pub(super) eps: f32,
}

/// Of all rows of `x`.
pub(super) struct Norms<'a> {
    pub(super) x: &'a [f32],
    pub(super) normal: Normal<'a>,
    pub(super) out: &'a mut [f32],
}

impl SimdKernel for Norms<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.normal.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            out.copy_from_slice(x);
            self.normal.apply(s, out);
        }
    }
}

impl Normal<'_> {
    /// Normalises one row.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(self, s: S, row: &mut [f32]) {
        let width = row.len() as f32;
        let mean = match self.kind {
            NormKind::Layer => sum(s, row) / width,
            NormKind::Rms => 0.0,
        };
        let inverse = 1.0 / (squares(s, row, mean) / width + self.eps).sqrt();
        for (x, weight) in row.iter_mut().zip(self.weight) {
            *x = (*x - mean) * inverse * weight;
        }
        if let Some(bias) = self.bias {
            for (x, bias) in row.iter_mut().zip(bias.values()) {
                *x += bias;
            }
        }
    }
}
