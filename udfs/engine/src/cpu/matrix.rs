//! Weight matrices of a checkpoint, packed once.

use proofmill_gemm::{INT8_INPUTS_MAX, Int8Panels, Panels};

use crate::backend::{DeviceError, MatrixSource, Placement, Precision, check};
use crate::checkpoint::StoredTensor;

/// `[n, k]`.
#[derive(Debug)]
pub struct Matrix {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) weights: Weights,
}

#[derive(Debug)]
pub(super) enum Weights {
    F32(Panels),
    Int8(Int8Panels),
}

impl Matrix {
    /// Packs.
    pub(super) fn new(source: &MatrixSource, precision: Precision) -> Result<Self, DeviceError> {
        let sizes = source.blocks.iter().map(sizes).collect::<Result<Vec<_>, _>>()?;
        let k = check::inputs(sizes.iter().map(|&(_, k)| k), source)?;
        let n = sizes.iter().map(|&(n, _)| n).sum();
        let weights = match precision {
            Precision::F32 => {
                let mut panels = Panels::new(n, k)?;
                each_output(source, k, |output, row| panels.set(output, row));
                Weights::F32(panels)
            }
            Precision::Bf16 => {
                return Err(DeviceError::Failed(
                    "the processor does not compute in bf16; use f32 or int8".to_owned(),
                ));
            }
            Precision::Int8 if k > INT8_INPUTS_MAX => {
                return Err(DeviceError::Failed(format!(
                    "a matrix with {k} inputs cannot be kept in int8 (at most {INT8_INPUTS_MAX}); \
                     use f32"
                )));
            }
            Precision::Int8 => {
                let mut panels = Int8Panels::new(n, k)?;
                each_output(source, k, |output, row| panels.set(output, row));
                Weights::Int8(panels)
            }
        };
        Ok(Self { n, k, weights })
    }
}

/// Outputs and inputs.
fn sizes(placement: &Placement) -> Result<(usize, usize), DeviceError> {
    let (Placement::OutputsByInputs(stored) | Placement::InputsByOutputs(stored)) = placement;
    match (placement, stored.shape()) {
        (Placement::OutputsByInputs(_), &[n, k]) | (Placement::InputsByOutputs(_), &[k, n]) => {
            Ok((n, k))
        }
        (_, shape) => Err(DeviceError::Failed(format!(
            "expected a weight matrix of 2 dimensions, found the shape {shape:?}"
        ))),
    }
}

/// Calls `take` with every output and its weights, in order.
fn each_output(source: &MatrixSource, k: usize, mut take: impl FnMut(usize, &[f32])) {
    let mut row = vec![0.0; k];
    let mut first = 0;
    for block in &source.blocks {
        match block {
            Placement::OutputsByInputs(stored) => {
                for output in 0..stored.rows() {
                    stored.row(output, &mut row);
                    take(first + output, &row);
                }
                first += stored.rows();
            }
            Placement::InputsByOutputs(stored) => {
                each_column(stored, &mut row, |output, row| take(first + output, row));
                first += stored.width();
            }
        }
    }
}

/// Calls `take` with every column of `stored`, in order.
fn each_column(stored: &StoredTensor, column: &mut [f32], mut take: impl FnMut(usize, &[f32])) {
    let all = stored.values();
    for output in 0..stored.width() {
        for (weight, row) in column.iter_mut().zip(all.chunks_exact(stored.width())) {
            *weight = row[output];
        }
        take(output, column);
    }
}
