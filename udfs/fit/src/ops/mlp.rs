//! The activation between the two matrices of an MLP: ReLU or a gated GELU.

use crate::math::tanh;
use crate::sizes::Activation;

/// `[rows, width]` to the same for ReLU; `[rows, 2 width]` to `[rows, width]` for a gate, whose
/// activated half comes first.
pub struct MlpShape {
    pub activation: Activation,
    /// Numbers of a row after it.
    pub width: usize,
}

/// sqrt(2 / π).
const SLOPE: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

/// GELU by tanh.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh(SLOPE * (x + CUBIC * x * x * x)))
}

#[inline(always)]
fn gelu_grad(x: f32) -> f32 {
    let tanh = tanh(SLOPE * (x + CUBIC * x * x * x));
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * SLOPE * (1.0 + 3.0 * CUBIC * x * x)
}

impl MlpShape {
    /// The rows after it.
    pub fn forward(&self, rows: &[f32]) -> Vec<f32> {
        match self.activation {
            Activation::Relu => rows.iter().map(|&x| if x < 0.0 { 0.0 } else { x }).collect(),
            Activation::GatedGelu => {
                let mut out = Vec::with_capacity(rows.len() / 2);
                for row in rows.chunks_exact(2 * self.width) {
                    let (active, gate) = row.split_at(self.width);
                    out.extend(active.iter().zip(gate).map(|(&x, gate)| gelu(x) * gate));
                }
                out
            }
        }
    }

    /// The gradient of the rows before it.
    pub fn backward(&self, rows: &[f32], grad: &[f32]) -> Vec<f32> {
        match self.activation {
            Activation::Relu => {
                let pass = |(&x, &grad): (&f32, &f32)| if x > 0.0 { grad } else { 0.0 };
                rows.iter().zip(grad).map(pass).collect()
            }
            Activation::GatedGelu => {
                let mut out = Vec::with_capacity(rows.len());
                let grads = grad.chunks_exact(self.width);
                for (row, grad) in rows.chunks_exact(2 * self.width).zip(grads) {
                    let (active, gate) = row.split_at(self.width);
                    let grads = active.iter().zip(gate).zip(grad);
                    out.extend(grads.map(|((&x, gate), grad)| gelu_grad(x) * gate * grad));
                    out.extend(active.iter().zip(grad).map(|(&x, grad)| gelu(x) * grad));
                }
                out
            }
        }
    }
}
