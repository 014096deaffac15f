//! Weights: how they lie in a checkpoint, and what a device must be able to keep of them.

use crate::checkpoint::StoredTensor;
use crate::request::DeviceError;

/// How weights are kept and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// bfloat16 in, 32-bit sums. Only on a GPU.
    Bf16,
    /// 8-bit weights, scaled per output, and where they are multiplied 8-bit activations, scaled per
    /// row. Their sums are exact. What is not multiplied is f32 on the processor, bfloat16 on a GPU.
    Int8,
}

/// One matrix of a checkpoint, as it lies there.
#[derive(Clone, Debug)]
pub enum Placement {
    /// `[outputs, inputs]`, as torch's `Linear` keeps it.
    OutputsByInputs(StoredTensor),
    /// `[inputs, outputs]`, as GPT-2's `Conv1D` keeps it.
    InputsByOutputs(StoredTensor),
}

/// A weight matrix `[n, k]`: the outputs of all blocks one after the other (fused q, k, v and the
/// like). All blocks have the same `k`.
#[derive(Clone, Debug)]
pub struct MatrixSource {
    /// Never empty.
    pub blocks: Vec<Placement>,
}

/// Keeps the weights of a checkpoint: all that loading a network needs.
pub trait LoadWeights: Sized {
    /// A weight matrix, packed.
    type Matrix: Send + Sync;
    /// A vector of f32.
    type Vector: Send + Sync;
    /// Rows to be looked up.
    type Table: Send + Sync;

    /// Packs a weight matrix.
    fn matrix(
        &self,
        source: &MatrixSource,
        precision: Precision,
    ) -> Result<Self::Matrix, DeviceError>;
    /// Keeps a vector.
    fn vector(&self, values: &[f32]) -> Result<Self::Vector, DeviceError>;
    /// Keeps a table `[rows, width]`.
    fn table(&self, rows: &StoredTensor) -> Result<Self::Table, DeviceError>;
}
