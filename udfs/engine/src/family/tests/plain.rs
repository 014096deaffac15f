//! A backend that keeps what it is given and computes nothing.

use crate::backend::{
    Activation, Append, Attend, Backend, CacheShape, DeviceError, Embedding, Input, Layout, Linear,
    MatrixSource, Norm, Picked, Picks, Placement, Pool, Precision, Write,
};
use crate::checkpoint::Stored;

pub struct Plain;

/// A matrix as `[outputs, inputs]`, read out of its source.
pub struct Matrix {
    pub outputs: usize,
    pub inputs: usize,
    pub values: Vec<f32>,
}

fn cannot<T>() -> Result<T, DeviceError> {
    Err(DeviceError::Failed("this backend only remembers".to_owned()))
}

impl Backend for Plain {
    type Tensor = ();
    type Matrix = Matrix;
    type Vector = Vec<f32>;
    type Table = Stored;
    type Cache = ();
    type Input = ();
    type Layout = ();

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
    fn table(&self, rows: &Stored) -> Result<Stored, DeviceError> {
        Ok(rows.clone())
    }
    fn tensor(&self, _: usize, _: usize) -> Result<(), DeviceError> {
        cannot()
    }
    fn cache(&self, _: CacheShape) -> Result<(), DeviceError> {
        cannot()
    }
    fn input(&mut self, _: &Input, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn layout(&mut self, _: &Layout, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn embed(&mut self, _: &(), _: &Embedding<Self>, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn norm(&mut self, _: &(), _: &Norm<Self>, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn linear(
        &mut self,
        _: &(),
        _: &Linear<Self>,
        _: Activation,
        _: Write,
        _: &mut (),
    ) -> Result<(), DeviceError> {
        cannot()
    }
    fn gate(&mut self, _: &(), _: Activation, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn append(
        &mut self,
        _: &mut (),
        _: &(),
        _: &Append<'_, Self>,
        _: &mut (),
        _: usize,
    ) -> Result<(), DeviceError> {
        cannot()
    }
    fn attend(
        &mut self,
        _: &(),
        _: &(),
        _: &Attend<'_, Self>,
        _: &(),
        _: usize,
        _: &mut (),
    ) -> Result<(), DeviceError> {
        cannot()
    }
    fn gather(&mut self, _: &(), _: &[u32], _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn pick(
        &mut self,
        _: &(),
        _: &Linear<Self>,
        _: f32,
        _: &Picks,
        _: &mut Picked,
    ) -> Result<(), DeviceError> {
        cannot()
    }
    fn pool(&mut self, _: &(), _: &(), _: Pool, _: bool, _: &mut ()) -> Result<(), DeviceError> {
        cannot()
    }
    fn copy_blocks(&mut self, _: &mut (), _: &[(u32, u32)]) -> Result<(), DeviceError> {
        cannot()
    }
    fn download(&mut self, _: &(), _: &mut Vec<f32>) -> Result<(), DeviceError> {
        cannot()
    }
}
