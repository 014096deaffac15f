//! What tests are made of.

use crate::backend::{DeviceError, Input, Linear, LoadWeights, MatrixSource, Placement, Precision};
use crate::checkpoint::StoredTensor;
use crate::cpu::{Cpu, Isa, Tensor, Vector};
use crate::rng::CounterRng;

/// A device for each instruction set that this processor has.
pub(super) fn devices() -> Vec<Cpu> {
    Isa::ALL.into_iter().filter_map(Cpu::with).collect()
}

/// Numbers in -1..1.
pub(super) fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let rng = CounterRng::new(seed, 0, 0, 0);
    (0..count as u32).map(|i| (rng.uniform(i) * 2.0 - 1.0) as f32).collect()
}

pub(super) fn tensor(data: &[f32], width: usize) -> Tensor {
    let rows = data.len() / width;
    let mut tensor = Tensor::new(rows, width).unwrap();
    tensor.set_rows(rows, width).unwrap();
    tensor.data_mut().copy_from_slice(data);
    tensor
}

/// A tensor of nothing yet.
pub(super) fn empty(rows: usize, width: usize) -> Tensor {
    Tensor::new(rows, width).unwrap()
}

pub(super) fn vector(values: &[f32]) -> Vector {
    Vector::new(values).unwrap()
}

pub(super) fn stored(data: &[f32], width: usize) -> StoredTensor {
    StoredTensor::from_f32(data, vec![data.len() / width, width]).unwrap()
}

/// Weights `[outputs, inputs]`, packed.
pub(super) fn linear(
    weights: &[f32],
    inputs: usize,
    bias: Option<&[f32]>,
    precision: Precision,
) -> Linear<Cpu> {
    let source = MatrixSource { blocks: vec![Placement::OutputsByInputs(stored(weights, inputs))] };
    let matrix = Cpu::default().matrix(&source, precision).unwrap();
    Linear { matrix, bias: bias.map(vector), outputs: weights.len() / inputs, inputs }
}

pub(super) fn bits(tensor: &Tensor) -> Vec<u32> {
    tensor.data().iter().map(|x| x.to_bits()).collect()
}

pub(super) fn input(tokens: &[u32], positions: &[u32], slots: &[u32]) -> Input {
    Input {
        tokens: tokens.to_vec(),
        positions: positions.to_vec(),
        slots: slots.to_vec(),
        sampled: Vec::new(),
    }
}

/// `found` is `wanted` up to `tolerance` of the largest of `wanted` (or of 1, if that is more).
pub(super) fn assert_close(found: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    let size = wanted.iter().fold(1.0_f64, |size, x| size.max(x.abs()));
    for (place, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let error = (f64::from(found) - wanted).abs() / size;
        assert!(error <= tolerance, "at {place}: {found} instead of {wanted}");
    }
}

/// The message of a refusal.
pub(super) fn refusal<T>(result: Result<T, DeviceError>) -> String {
    match result {
        Ok(_) => panic!("nothing was refused"),
        Err(error) => error.to_string(),
    }
}
