//! What stands between the two matrices of an MLP.

use crate::graph::math::{normal, tanh};

/// An activation, or one times a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    Relu,
    /// GELU by the error function.
    Gelu,
    /// GELU by tanh.
    GeluTanh,
    /// GELU by tanh, times the second half of the row.
    GatedGeluTanh,
}

/// `[rows, width]` to the same; of a gate `[rows, 2 width]` to `[rows, width]`, whose activated half comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlpShape {
    pub inner: Inner,
    /// Numbers of a row after it.
    pub width: usize,
}

/// sqrt(2 / π).
const SLOPE: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

fn relu_grad(x: f32) -> f32 {
    if x > 0.0 { 1.0 } else { 0.0 }
}

/// GELU by tanh.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh(SLOPE * (x + CUBIC * x * x * x)))
}

#[inline(always)]
fn gelu_tanh_grad(x: f32) -> f32 {
    let tanh = tanh(SLOPE * (x + CUBIC * x * x * x));
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * SLOPE * (1.0 + 3.0 * CUBIC * x * x)
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    x * normal(x).0
}

#[inline(always)]
fn gelu_grad(x: f32) -> f32 {
    let (below, density) = normal(x);
    below + x * density
}

impl MlpShape {
    /// The rows after it.
    pub fn forward(&self, rows: &[f32]) -> Vec<f32> {
        match self.inner {
            Inner::Relu => rows.iter().map(|&x| relu(x)).collect(),
            Inner::Gelu => rows.iter().map(|&x| gelu(x)).collect(),
            Inner::GeluTanh => rows.iter().map(|&x| gelu_tanh(x)).collect(),
            Inner::GatedGeluTanh => {
                let mut out = Vec::with_capacity(rows.len() / 2);
                for row in rows.chunks_exact(2 * self.width) {
                    let (active, gate) = row.split_at(self.width);
                    out.extend(active.iter().zip(gate).map(|(&x, gate)| gelu_tanh(x) * gate));
                }
                out
            }
        }
    }

    /// The gradient of the rows before it.
    pub fn backward(&self, rows: &[f32], grad: &[f32]) -> Vec<f32> {
        fn each(rows: &[f32], grad: &[f32], slope: impl Fn(f32) -> f32) -> Vec<f32> {
            rows.iter().zip(grad).map(|(&x, grad)| slope(x) * grad).collect()
        }
        match self.inner {
            Inner::Relu => each(rows, grad, relu_grad),
            Inner::Gelu => each(rows, grad, gelu_grad),
            Inner::GeluTanh => each(rows, grad, gelu_tanh_grad),
            Inner::GatedGeluTanh => {
                let mut out = Vec::with_capacity(rows.len());
                let grads = grad.chunks_exact(self.width);
                for (row, grad) in rows.chunks_exact(2 * self.width).zip(grads) {
                    let (active, gate) = row.split_at(self.width);
                    let grads = active.iter().zip(gate).zip(grad);
                    out.extend(grads.map(|((&x, gate), grad)| gelu_tanh_grad(x) * gate * grad));
                    out.extend(active.iter().zip(grad).map(|(&x, grad)| gelu_tanh(x) * grad));
                }
                out
            }
        }
    }
}
