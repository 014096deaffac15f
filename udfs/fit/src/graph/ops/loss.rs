//! Cross entropy over the real tokens of a part of a batch.

use crate::graph::math::{exp, greatest, sum};

/// `Σ weight (lse(logits) - (1 - smoothing) logits[target] - smoothing mean(logits))` in 64 bits, for
/// logits `[rows, vocabulary]`.
pub struct Loss<'a> {
    /// The right token of each row.
    pub targets: &'a [u32],
    /// What each row counts.
    pub weights: &'a [f32],
    /// Part of the target that is spread evenly.
    pub smoothing: f32,
    /// Whether the gradient of the logits is needed, which costs little on the way forward.
    pub grad: bool,
}

impl Loss<'_> {
    /// The loss, and the gradient of the logits if it is needed; else nothing.
    pub fn forward(&self, logits: &[f32], vocabulary: usize) -> (f64, Vec<f32>) {
        let mut loss = 0.0;
        let mut grad = Vec::new();
        let mut powers = vec![0.0; vocabulary];
        let even = self.smoothing / vocabulary as f32;
        let rows = logits.chunks_exact(vocabulary).zip(self.targets).zip(self.weights);
        for ((row, &target), &weight) in rows {
            let target = target as usize;
            let most = greatest(row);
            for (power, logit) in powers.iter_mut().zip(row) {
                *power = exp(logit - most);
            }
            let total = sum(&powers);
            let right = (1.0 - self.smoothing) * (row[target] - most);
            let spread =
                if even == 0.0 { 0.0 } else { even * (sum(row) - vocabulary as f32 * most) };
            loss += f64::from(weight) * (f64::from(total).ln() - f64::from(right + spread));
            if self.grad {
                let scale = weight / total;
                let from = grad.len();
                grad.extend(powers.iter().map(|power| power * scale - weight * even));
                grad[from + target] -= weight * (1.0 - self.smoothing);
            }
        }
        (loss, grad)
    }
}
