//! The operations that a device must be able to compute.

use super::metadata::{AttentionMetadata, Input};
use super::parts::{Activation, Attend, Embedding, KvWrite, Linear, Norm, Pool, Write};
use super::sampling::{SamplerOutput, SamplingMetadata};
use super::weights::{LoadWeights, Precision};
use crate::request::DeviceError;

/// Sizes of a KV cache.
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
///
/// What is requested is done in that order, but it need not be done when the call returns: a caller
/// that brings something back waits for it ([`Backend::read_sampled`], [`Backend::download`]), and
/// may learn only then that it failed.
pub trait Backend: LoadWeights {
    /// Activations `[rows, width]`, f32 or what stands for it.
    type Tensor: Send;
    /// Keys and values of all layers, in blocks.
    type Cache: Send;
    /// An [`Input`] on the device.
    type Input: Send + Default;
    /// An [`AttentionMetadata`] on the device.
    type Metadata: Send + Default;
    /// Token ids that a step sampled, on the device.
    type Tokens: Send;
    /// The result of [`Backend::sample`], not read yet. It may be dropped unread.
    type Sampled: Send;

    /// Whether the device computes while the host goes on, so that the next step had better be launched before the
    /// tokens of this one are read. Where it is false, what is sampled is there when [`Backend::sample`] returns, and a
    /// row that goes on after the end of an answer would be computed for nothing.
    fn runs_ahead(&self) -> bool;

    /// Calls `wait`, which has nothing to compute meanwhile: others may use what this device does not.
    fn resting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        wait()
    }

    /// Room for `rows` rows of `width`.
    fn tensor(&self, rows: usize, width: usize) -> Result<Self::Tensor, DeviceError>;
    /// A KV cache.
    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, DeviceError>;
    /// Room for the tokens of `rows` sampled rows; none yet.
    fn tokens(&self, rows: usize) -> Result<Self::Tokens, DeviceError>;

    /// Copies tokens, positions and slots to the device. Rows of `from.sampled` take their tokens from `sampled`, as it
    /// is before anything more is sampled into it; fails if they are not there.
    fn upload_input(
        &mut self,
        from: &Input,
        sampled: Option<&Self::Tokens>,
        to: &mut Self::Input,
    ) -> Result<(), DeviceError>;
    /// Copies attention metadata to the device.
    fn upload_metadata(
        &mut self,
        from: &AttentionMetadata,
        to: &mut Self::Metadata,
    ) -> Result<(), DeviceError>;

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

    /// Gated linear unit: `out[r] = activation(x[r][..n]) * x[r][n..]`, where `x` has `2n` columns.
    fn glu(
        &mut self,
        x: &Self::Tensor,
        activation: Activation,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// RoPE and KV write: takes rows of `[q | k | v]` (no `q` if `kv_write.heads` is 0), normalises and
    /// rotates `q` and `k` as `kv_write` says, writes `k` and `v` to the slots of the rows, and leaves
    /// `q` in place.
    fn write_kv(
        &mut self,
        qkv: &mut Self::Tensor,
        rows: &Self::Input,
        kv_write: &KvWrite<'_, Self>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<(), DeviceError>;

    /// `out[r] = softmax(scale q k^T + bias) v` for each head over the keys of the row's segment;
    /// `q` lies in the first `heads * head_dim` columns.
    fn attend(
        &mut self,
        q: &Self::Tensor,
        metadata: &Self::Metadata,
        attend: &Attend<'_, Self>,
        cache: &Self::Cache,
        layer: usize,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// Index select: `out[i] = x[rows[i]]`.
    fn index_select(
        &mut self,
        x: &Self::Tensor,
        rows: &[u32],
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError>;

    /// `logits = scale * (x W^T + bias)`, and for each row the tokens that its method samples, with
    /// their log-probabilities. Logits are not kept. `sampling` has as many rows as `x`.
    ///
    /// `tokens` takes an id per row, for a step that is launched before anybody reads this one: that of the result
    /// where the method is greedy, a sample, or a choice of one token; 0 where nothing could be chosen. Of
    /// other methods it is some token of the vocabulary.
    fn sample(
        &mut self,
        x: &Self::Tensor,
        head: &Linear<Self>,
        scale: f32,
        sampling: &SamplingMetadata,
        tokens: Option<&mut Self::Tokens>,
    ) -> Result<Self::Sampled, DeviceError>;

    /// Waits for what was sampled, and for nothing that was requested later; replaces what `out`
    /// held.
    fn read_sampled(
        &mut self,
        sampled: Self::Sampled,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError>;

    /// One row per segment of `metadata`, made of the segment's rows in `x`; divided by its Euclidean
    /// length if requested (a zero row stays zero).
    fn pool(
        &mut self,
        x: &Self::Tensor,
        metadata: &Self::Metadata,
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
