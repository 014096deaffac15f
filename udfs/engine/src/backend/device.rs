//! The operations that a device must know.

use super::layout::{Input, Layout};
use super::parts::{Activation, Append, Attend, Embedding, Linear, Norm, Pool, Write};
use super::picks::{Picked, Picks};
use crate::checkpoint::Stored;
use crate::request::DeviceError;

/// How weights are kept and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// bfloat16 in, 32-bit sums. Only on a GPU.
    Bf16,
    /// 8-bit weights, scaled per output. On the processor activations are 8-bit too, scaled per row;
    /// on a GPU they are bfloat16.
    Int8,
}

/// One matrix of a checkpoint, as it lies there.
#[derive(Clone, Debug)]
pub enum Placement {
    /// `[outputs, inputs]`, as torch's `Linear` keeps it.
    OutputsByInputs(Stored),
    /// `[inputs, outputs]`, as GPT-2's `Conv1D` keeps it.
    InputsByOutputs(Stored),
}

/// A weight matrix `[n, k]`: the outputs of all blocks one after the other (fused q, k, v and the
/// like). All blocks have the same `k`.
#[derive(Clone, Debug)]
pub struct MatrixSource {
    /// Never empty.
    pub blocks: Vec<Placement>,
}

/// Sizes of a key and value cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    pub layers: usize,
    /// Blocks of [`super::BLOCK_SLOTS`] tokens each.
    pub blocks: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// As the weights': beside 8-bit weights, keys and values may be kept in 16 bits.
    pub precision: Precision,
}

/// A device with its own scratch memory. Rows are packed: one row per token, no padding anywhere.
///
/// Whatever the operation, a row of the result depends on the rows it is defined by and on nothing
/// else: not on how many other rows there are, on their order, or on where keys lie in the cache.
/// Sums are added in an order that only the row's own data decides. So the bits of an answer are the
/// same in any batch.
///
/// A tensor has a fixed width and a capacity of rows; an operation sets the number of rows of its
/// result. Operations allocate nothing after the first steps.
pub trait Backend: Sized {
    /// Activations `[rows, width]`, f32 or what stands for it.
    type Tensor: Send;
    type Matrix: Send + Sync;
    /// A vector of f32.
    type Vector: Send + Sync;
    /// Rows to be looked up.
    type Table: Send + Sync;
    /// Keys and values of all layers, in blocks.
    type Cache: Send;
    /// An [`Input`] on the device.
    type Input: Send + Default;
    /// A [`Layout`] on the device.
    type Layout: Send + Default;

    /// Packs a weight matrix.
    fn matrix(
        &self,
        source: &MatrixSource,
        precision: Precision,
    ) -> Result<Self::Matrix, DeviceError>;
    /// Keeps a vector.
    fn vector(&self, values: &[f32]) -> Result<Self::Vector, DeviceError>;
    /// Keeps a table `[rows, width]`.
    fn table(&self, rows: &Stored) -> Result<Self::Table, DeviceError>;
    /// Room for `rows` rows of `width`.
    fn tensor(&self, rows: usize, width: usize) -> Result<Self::Tensor, DeviceError>;
    /// Room for keys and values.
    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, DeviceError>;

    /// Brings tokens, positions and slots to the device.
    fn input(&mut self, from: &Input, to: &mut Self::Input) -> Result<(), DeviceError>;
    /// Brings a layout to the device.
    fn layout(&mut self, from: &Layout, to: &mut Self::Layout) -> Result<(), DeviceError>;

    /// `out[r] = scale * tokens[token(r)] (+ positions[position(r) + offset]) (+ kind)`.
    fn embed(
        &mut self,
        rows: &Self::Input,
        embedding: &Embedding<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Normalises every row of `x`.
    fn norm(
        &mut self,
        x: &Self::Tensor,
        norm: &Norm<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `out = activation(x W^T + bias)`, or that added to `out`.
    fn linear(
        &mut self,
        x: &Self::Tensor,
        weights: &Linear<Self>,
        activation: Activation,
        write: Write,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `out[r] = activation(x[r][..n]) * x[r][n..]`, where `x` has `2n` columns.
    fn gate(
        &mut self,
        x: &Self::Tensor,
        activation: Activation,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Takes rows of `[q | k | v]` (no `q` if `append.heads` is 0), normalises and rotates `q` and
    /// `k` as told, writes `k` and `v` to the slots of the rows, and leaves `q` in place.
    fn append(
        &mut self,
        qkv: &mut Self::Tensor,
        rows: &Self::Input,
        append: &Append<'_, Self>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<(), DeviceError>;

    /// `out[r] = softmax(scale q k^T + bias) v` for each head over the keys of the row's segment;
    /// `q` lies in the first `heads * head_dim` columns.
    fn attend(
        &mut self,
        q: &Self::Tensor,
        layout: &Self::Layout,
        attend: &Attend<'_, Self>,
        cache: &Self::Cache,
        layer: usize,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `out[i] = x[rows[i]]`.
    fn gather(
        &mut self,
        x: &Self::Tensor,
        rows: &[u32],
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `logits = scale * (x W^T + bias)`, and for the row of each pick the tokens it asks for with
    /// their log-probabilities. Logits are not kept. `picks` has as many as `x` has rows.
    fn pick(
        &mut self,
        x: &Self::Tensor,
        head: &Linear<Self>,
        scale: f32,
        picks: &Picks,
        out: &mut Picked,
    ) -> Result<(), DeviceError>;

    /// One row per segment of `layout`, made of the segment's rows in `x`; divided by its Euclidean
    /// length if asked (a zero row stays zero).
    fn pool(
        &mut self,
        x: &Self::Tensor,
        layout: &Self::Layout,
        pool: Pool,
        normalize: bool,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Copies blocks of all layers: `(from, to)`.
    fn copy_blocks(
        &mut self,
        cache: &mut Self::Cache,
        pairs: &[(u32, u32)],
    ) -> Result<(), DeviceError>;

    /// All rows of `x`, one after the other; replaces what `out` held.
    fn download(&mut self, x: &Self::Tensor, out: &mut Vec<f32>) -> Result<(), DeviceError>;
}
