//! How much memory a model needs, from the headers of its files.

use std::cell::Cell;

use super::settings::block_bytes;
use crate::architecture;
use crate::backend::{BLOCK_SLOTS, DeviceError, LoadWeights, MatrixSource, Placement, Precision};
use crate::checkpoint::{Folder, LoadError, StoredTensor};

/// The size of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Numbers that training changes.
    pub parameters: u64,
    /// Bytes of the weights on the device, without what fills up its tiles.
    pub weight_bytes: u64,
    /// Bytes of the keys and values of a token; `None` for an encoder, which keeps none.
    pub token_bytes: Option<u64>,
}

/// The size of the model in `folder` with weights of `precision`, for texts of up to `context`
/// tokens. Of the files of weights hardly more than the headers is read. Fails as loading would, but
/// for what only the device finds wrong.
pub fn measure(folder: &Folder, precision: Precision, context: usize) -> Result<Size, LoadError> {
    let counter = SizeCounter::default();
    let network = architecture::load(folder, &counter, precision, context)?;
    Ok(Size {
        parameters: network.parameters,
        weight_bytes: counter.bytes.get(),
        token_bytes: block_bytes(&network).map(|block| (block / BLOCK_SLOTS) as u64),
    })
}

/// Counts the bytes that a device would keep.
#[derive(Default)]
struct SizeCounter {
    bytes: Cell<u64>,
}

impl SizeCounter {
    fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

impl LoadWeights for SizeCounter {
    type Matrix = ();
    type Vector = ();
    type Table = ();

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

    fn table(&self, rows: &StoredTensor) -> Result<(), DeviceError> {
        self.add(rows.bytes().len());
        Ok(())
    }
}
