//! The policy gradient over the tokens of logged outputs: REINFORCE (Williams 1992) with truncated importance weights.

use crate::graph::math::{exp, greatest, sum};

/// What one output was worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advantage {
    /// Its reward less what is usual, times its share of the batch.
    pub advantage: f32,
    /// Its share of the batch.
    pub share: f32,
    /// The log-probability under which it was drawn; none if the policy under training drew it.
    pub drawn: Option<f32>,
}

/// `-Σ share (min(π / π_drawn, ratio_max) advantage + entropy H)` over outputs, where `π` is the probability of an output with its
/// end and `H` the mean entropy of its tokens' distributions. The weight of an output is not followed: the gradient is that of
/// `log π` times the weight, also where it was cut.
pub struct PolicyLoss<'a> {
    /// The token of each row that was written.
    pub targets: &'a [u32],
    /// Rows of each output.
    pub lengths: &'a [usize],
    /// Of each output.
    pub advantages: &'a [Advantage],
    pub ratio_max: f32,
    pub entropy: f32,
    /// Whether the gradient of the logits is needed.
    pub grad: bool,
}

/// What a row of logits comes to.
struct Row {
    most: f32,
    total: f32,
    logprob: f64,
    entropy: f64,
}

impl PolicyLoss<'_> {
    /// The loss, and the gradient of the logits if it is needed; else nothing.
    pub fn forward(&self, logits: &[f32], vocabulary: usize) -> (f64, Vec<f32>) {
        let (mut loss, mut grad) = (0.0, Vec::new());
        grad.reserve(if self.grad { logits.len() } else { 0 });
        let mut rows = logits.chunks_exact(vocabulary).zip(self.targets);
        for (&length, it) in self.lengths.iter().zip(self.advantages) {
            let rows: Vec<_> = rows.by_ref().take(length).collect();
            let read: Vec<Row> =
                rows.iter().map(|(row, target)| self.read(row, **target as usize)).collect();
            let logprob: f64 = read.iter().map(|row| row.logprob).sum();
            let ratio = match it.drawn {
                Some(drawn) => (logprob - f64::from(drawn)).exp().min(f64::from(self.ratio_max)),
                None => 1.0,
            };
            let weight = ratio * f64::from(it.advantage);
            let spread = f64::from(self.entropy * it.share) / length as f64;
            // Of its own draws the probability cannot be taken back: what is reported has the gradient that is followed.
            let gained = if it.drawn.is_some() { weight } else { weight * logprob };
            loss -= gained + spread * read.iter().map(|row| row.entropy).sum::<f64>();
            if !self.grad {
                continue;
            }
            let (weight, spread) = (weight as f32, spread as f32);
            for ((row, target), Row { most, total, entropy, .. }) in rows.into_iter().zip(read) {
                let (from, log_total, entropy) = (grad.len(), total.ln(), entropy as f32);
                grad.extend(row.iter().map(|logit| {
                    let probability = exp(logit - most) / total;
                    let surprise = logit - most - log_total + entropy;
                    probability * (weight + spread * surprise)
                }));
                grad[from + *target as usize] -= weight;
            }
        }
        (loss, grad)
    }

    fn read(&self, row: &[f32], target: usize) -> Row {
        let most = greatest(row);
        let powers: Vec<f32> = row.iter().map(|logit| exp(logit - most)).collect();
        let total = sum(&powers);
        let log_total = f64::from(total).ln();
        let entropy = if self.entropy == 0.0 {
            0.0
        } else {
            let products: Vec<f32> =
                powers.iter().zip(row).map(|(power, logit)| power * (logit - most)).collect();
            log_total - f64::from(sum(&products)) / f64::from(total)
        };
        Row { most, total, logprob: f64::from(row[target] - most) - log_total, entropy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: [u32; 3] = [1, 0, 2];

    fn loss(logits: &[f32], drawn: Option<f32>, ratio_max: f32) -> (f64, Vec<f32>) {
        let of = |advantage, share| Advantage { advantage, share, drawn };
        let advantages = [of(0.4, 0.5), of(-0.3, 0.5)];
        let lengths = [2, 1];
        let (targets, entropy) = (&TARGETS, 0.1);
        let it = PolicyLoss {
            targets,
            lengths: &lengths,
            advantages: &advantages,
            ratio_max,
            entropy,
            grad: true,
        };
        it.forward(logits, 3)
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let logits = [0.3, -0.2, 1.0, 0.1, 0.4, -0.5, 0.0, 0.7, 0.2];
        // No weight is cut here.
        for drawn in [None, Some(-2.0)] {
            let (_, grad) = loss(&logits, drawn, 100.0);
            for i in 0..logits.len() {
                let moved = |by: f32| {
                    let mut logits = logits;
                    logits[i] += by;
                    loss(&logits, drawn, 100.0).0
                };
                let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!(
                    (f64::from(grad[i]) - expected).abs() < 2e-4,
                    "{i}: {} {expected}",
                    grad[i]
                );
            }
        }
    }

    #[test]
    fn weights_are_cut_but_still_followed() {
        let logits = [0.0; 9];
        // Drawn at e^-20, likely now: the ratio is far above 2.
        let (cut, followed) = loss(&logits, Some(-20.0), 2.0);
        let entropy = 0.1 * 3f64.ln();
        assert!((cut - (-(2.0 * 0.4 - 2.0 * 0.3) - entropy)).abs() < 1e-6, "{cut}");
        // Uniform: the distribution's entropy is at its largest, and has no gradient.
        assert!((f64::from(followed[1]) - 0.8 * (1.0 / 3.0 - 1.0)).abs() < 1e-6, "{}", followed[1]);
        assert!((f64::from(followed[8]) + 0.6 * (1.0 / 3.0 - 1.0)).abs() < 1e-6, "{}", followed[8]);
    }
}
