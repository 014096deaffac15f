//! Root-mean-square normalisation of rows.

use crate::graph::math::dot;

/// `x / sqrt(mean(x^2) + eps) * weight`, for rows `[rows, width]` and a weight `[width]`.
pub struct Norm {
    /// Keeps the root away from 0.
    pub eps: f32,
}

impl Norm {
    /// What a row is multiplied by.
    fn scale(&self, row: &[f32]) -> f32 {
        1.0 / (dot(row, row) / row.len() as f32 + self.eps).sqrt()
    }
}

impl Norm {
    /// The rows, scaled.
    pub fn forward(&self, rows: &[f32], weight: &[f32]) -> Vec<f32> {
        let mut out = Vec::with_capacity(rows.len());
        for row in rows.chunks_exact(weight.len()) {
            let scale = self.scale(row);
            out.extend(row.iter().zip(weight).map(|(x, weight)| x * scale * weight));
        }
        out
    }

    /// The gradients of rows and weight.
    pub fn backward(&self, rows: &[f32], weight: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let width = weight.len();
        let mut grad_rows = Vec::with_capacity(rows.len());
        let mut grad_weight = vec![0.0; width];
        let mut weighed = vec![0.0; width];
        for (row, grad) in rows.chunks_exact(width).zip(grad.chunks_exact(width)) {
            let scale = self.scale(row);
            for ((sum, x), grad) in grad_weight.iter_mut().zip(row).zip(grad) {
                *sum += x * scale * grad;
            }
            for ((weighed, weight), grad) in weighed.iter_mut().zip(weight).zip(grad) {
                *weighed = weight * grad;
            }
            let along = dot(row, &weighed) * scale * scale * scale / width as f32;
            grad_rows
                .extend(row.iter().zip(&weighed).map(|(x, weighed)| weighed * scale - x * along));
        }
        (grad_rows, grad_weight)
    }
}
