//! Operations on whole rows that multiply no matrix: gated linear units and pooling.

use super::math::activate;
use crate::backend::{Activation, Pool, Segment};
use proofmill_gemm::reduce::{padded, squares};
use proofmill_gemm::{LANES, Simd, SimdKernel};

/// `activation(x[..n]) * x[n..]` of every row.
pub(super) struct Glu<'a> {
    /// `[rows, 2 n]`
    pub(super) x: &'a [f32],
    pub(super) activation: Activation,
    pub(super) n: usize,
    /// `[rows, n]`
    pub(super) out: &'a mut [f32],
}

impl SimdKernel for Glu<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (x, out) in self.x.chunks_exact(2 * self.n).zip(self.out.chunks_exact_mut(self.n)) {
            let (gate, x) = x.split_at(self.n);
            let (gates, last_gate) = gate.as_chunks::<LANES>();
            let (xs, last_x) = x.as_chunks::<LANES>();
            let (outs, last_out) = out.as_chunks_mut::<LANES>();
            for ((gate, x), out) in gates.iter().zip(xs).zip(outs) {
                let gate = activate(s, self.activation, s.load(gate));
                s.store(s.mul(gate, s.load(x)), out);
            }
            if !last_out.is_empty() {
                let gate = activate(s, self.activation, s.load(&padded(last_gate, 0.0)));
                let mut all = [0.0; LANES];
                s.store(s.mul(gate, s.load(&padded(last_x, 0.0))), &mut all);
                last_out.copy_from_slice(&all[..last_out.len()]);
            }
        }
    }
}

/// One row per segment.
pub(super) struct Pooling<'a> {
    pub(super) x: &'a [f32],
    pub(super) width: usize,
    pub(super) segments: &'a [Segment],
    pub(super) pool: Pool,
    pub(super) normalize: bool,
    pub(super) out: &'a mut [f32],
}

impl SimdKernel for Pooling<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let width = self.width;
        for (segment, out) in self.segments.iter().zip(self.out.chunks_exact_mut(width)) {
            let count = segment.rows as usize;
            let rows = &self.x[segment.first_row as usize * width..][..count * width];
            match self.pool {
                Pool::First => out.copy_from_slice(&rows[..width]),
                Pool::Last => out.copy_from_slice(&rows[(count - 1) * width..]),
                Pool::Mean => {
                    out.fill(0.0);
                    for row in rows.chunks_exact(width) {
                        out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                    }
                    out.iter_mut().for_each(|sum| *sum /= count as f32);
                }
            }
            if self.normalize {
                let length = squares(s, out, 0.0).sqrt();
                if length != 0.0 {
                    out.iter_mut().for_each(|x| *x /= length);
                }
            }
        }
    }
}
