//! What a model takes, told from the headers of its files: a device that keeps nothing and counts.

use std::cell::Cell;

use super::settings::block_bytes;
use crate::backend::{
    Activation, Append, Attend, BLOCK_SLOTS, Backend, CacheShape, DeviceError, Embedding, Input,
    Layout, Linear, MatrixSource, Norm, Picked, Picks, Placement, Pool, Precision, Write,
};
use crate::checkpoint::{Folder, LoadError, Stored};
use crate::family;

/// What a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Numbers that training changes.
    pub parameters: u64,
    /// Bytes of the weights on the device, without what fills up its tiles.
    pub weight_bytes: u64,
    /// Bytes of the keys and values of a token; `None` for an encoder, which keeps none.
    pub token_bytes: Option<u64>,
}

/// What the model in `folder` takes with weights of `precision`, for texts of up to `context`
/// tokens. Of the files of weights hardly more than the headers is read. Fails as loading would, but
/// for what only the device finds wrong.
pub fn measure(folder: &Folder, precision: Precision, context: usize) -> Result<Size, LoadError> {
    let scale = Scale::default();
    let network = family::load(folder, &scale, precision, context)?;
    Ok(Size {
        parameters: network.parameters,
        weight_bytes: scale.bytes.get(),
        token_bytes: block_bytes(&network).map(|block| (block / BLOCK_SLOTS) as u64),
    })
}

/// Counts the bytes that a device would keep.
#[derive(Default)]
struct Scale {
    bytes: Cell<u64>,
}

impl Scale {
    fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

fn cannot<T>() -> Result<T, DeviceError> {
    Err(DeviceError::Failed("what only counts cannot compute".to_owned()))
}

impl Backend for Scale {
    type Tensor = ();
    type Matrix = ();
    type Vector = ();
    type Table = ();
    type Cache = ();
    type Input = ();
    type Layout = ();

    fn matrix(&self, source: &MatrixSource, precision: Precision) -> Result<(), DeviceError> {
        for block in &source.blocks {
            let (outputs, inputs) = match block {
                Placement::OutputsByInputs(stored) => (stored.rows(), stored.width()),
                Placement::InputsByOutputs(stored) => (stored.width(), stored.rows()),
            };
            self.add(match precision {
                Precision::F32 => outputs * inputs * size_of::<f32>(),
                Precision::Bf16 => outputs * inputs * size_of::<u16>(),
                // Each output has a scale.
                Precision::Int8 => outputs * (inputs + size_of::<f32>()),
            });
        }
        Ok(())
    }

    fn vector(&self, values: &[f32]) -> Result<(), DeviceError> {
        self.add(size_of_val(values));
        Ok(())
    }

    fn table(&self, rows: &Stored) -> Result<(), DeviceError> {
        self.add(rows.bytes().len());
        Ok(())
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
