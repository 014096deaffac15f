//! Keeps weights as they are given, to be compared.

use crate::backend::{DeviceError, LoadWeights, MatrixSource, Placement, Precision};
use crate::checkpoint::StoredTensor;

pub struct Plain;

/// A matrix as `[outputs, inputs]`, read out of its source.
pub struct Matrix {
    pub outputs: usize,
    pub inputs: usize,
    pub values: Vec<f32>,
}

impl LoadWeights for Plain {
    type Matrix = Matrix;
    type Vector = Vec<f32>;
    type Table = StoredTensor;

    fn matrix(&self, source: &MatrixSource, _: Precision) -> Result<Matrix, DeviceError> {
        let mut matrix = Matrix { outputs: 0, inputs: 0, values: Vec::new() };
        for block in &source.blocks {
            match block {
                Placement::OutputsByInputs(stored) => {
                    matrix.outputs += stored.rows();
                    matrix.inputs = stored.width();
                    matrix.values.extend(stored.values());
                }
                Placement::InputsByOutputs(stored) => {
                    let (inputs, outputs) = (stored.rows(), stored.width());
                    let values = stored.values();
                    matrix.outputs += outputs;
                    matrix.inputs = inputs;
                    let places = (0..outputs).flat_map(|o| (0..inputs).map(move |i| (i, o)));
                    matrix.values.extend(places.map(|(i, o)| values[i * outputs + o]));
                }
            }
        }
        Ok(matrix)
    }
    fn vector(&self, values: &[f32]) -> Result<Vec<f32>, DeviceError> {
        Ok(values.to_vec())
    }
    fn table(&self, rows: &StoredTensor) -> Result<StoredTensor, DeviceError> {
        Ok(rows.clone())
    }
}
