//! Layer normalisation of rows.

use crate::graph::math::{dot, sum};

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`, for rows `[rows, width]`, and weight and bias `[width]`.
pub struct LayerNorm {
    /// Keeps the root away from 0.
    pub eps: f32,
}

impl LayerNorm {
    /// The row at mean 0 and variance 1, into `out`; and what it was divided by, as a factor.
    fn standard(&self, row: &[f32], out: &mut [f32]) -> f32 {
        let width = row.len() as f32;
        let mean = sum(row) / width;
        for (out, x) in out.iter_mut().zip(row) {
            *out = x - mean;
        }
        let scale = 1.0 / (dot(out, out) / width + self.eps).sqrt();
        for out in out {
            *out *= scale;
        }
        scale
    }

    /// The rows, normalised.
    pub fn forward(&self, rows: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
        let width = weight.len();
        let mut out = vec![0.0; rows.len()];
        for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            self.standard(row, out);
            for ((out, weight), bias) in out.iter_mut().zip(weight).zip(bias) {
                *out = *out * weight + bias;
            }
        }
        out
    }

    /// The gradients of rows, weight and bias.
    pub fn backward(
        &self,
        rows: &[f32],
        weight: &[f32],
        grad: &[f32],
    ) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let width = weight.len();
        let mut grad_rows = vec![0.0; rows.len()];
        let (mut grad_weight, mut grad_bias) = (vec![0.0; width], vec![0.0; width]);
        let mut normal = vec![0.0; width];
        let numbers = rows.chunks_exact(width).zip(grad.chunks_exact(width));
        for ((row, grad), out) in numbers.zip(grad_rows.chunks_exact_mut(width)) {
            let scale = self.standard(row, &mut normal);
            for ((weight, bias), (x, grad)) in
                grad_weight.iter_mut().zip(&mut grad_bias).zip(normal.iter().zip(grad))
            {
                *weight += x * grad;
                *bias += grad;
            }
            for ((out, weight), grad) in out.iter_mut().zip(weight).zip(grad) {
                *out = weight * grad;
            }
            let (mean, along) = (sum(out) / width as f32, dot(out, &normal) / width as f32);
            for (out, x) in out.iter_mut().zip(&normal) {
                *out = scale * (*out - mean - x * along);
            }
        }
        (grad_rows, grad_weight, grad_bias)
    }
}
