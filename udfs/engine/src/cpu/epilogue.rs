//! What happens to the sums of a product with weights.

use proofmill_gemm::reduce::padded;
use proofmill_gemm::{LANES, Simd};

use super::math::activate;
use crate::backend::{Activation, Write};

/// `write(activation(scale * (sum + bias)))`.
#[derive(Clone, Copy)]
pub(super) struct Epilogue<'a> {
    /// Of all outputs, filled up to whole panels.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) scale: f32,
    pub(super) activation: Activation,
    pub(super) write: Write,
}

impl proofmill_gemm::Epilogue for Epilogue<'_> {
    #[inline(always)]
    fn finish<S: Simd>(self, s: S, sums: S::F, column: usize, out: &mut [f32]) {
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
}

impl Epilogue<'_> {
    #[inline(always)]
    fn put<S: Simd>(self, s: S, x: S::F, out: &mut [f32; LANES]) {
        match self.write {
            Write::Store => s.store(x, out),
            Write::Add => s.store(s.add(s.load(out), x), out),
        }
    }
}
