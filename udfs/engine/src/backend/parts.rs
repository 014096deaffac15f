//! The parts of a network that operations take: weights on the device and how they are used.

use super::weights::LoadWeights;

/// A function applied to every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    /// max(0, x).
    Relu,
    /// x Φ(x), with the error function.
    Gelu,
    /// Its approximation by tanh (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// x / (1 + e^-x).
    Silu,
    Tanh,
}

/// What a result does to what was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Store,
    /// Is added to it: a residual connection.
    Add,
}

/// `x W^T + bias`.
pub struct Linear<B: LoadWeights> {
    /// `[outputs, inputs]`.
    pub matrix: B::Matrix,
    /// `[outputs]`.
    pub bias: Option<B::Vector>,
    pub outputs: usize,
    pub inputs: usize,
}

/// Kinds of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `(x - mean) / sqrt(variance + eps)`.
    Layer,
    /// `x / sqrt(mean(x^2) + eps)`.
    Rms,
}

/// A normalisation with its scale and offset.
pub struct Norm<B: LoadWeights> {
    pub kind: NormKind,
    /// `[width]`.
    pub weight: B::Vector,
    /// `[width]`.
    pub bias: Option<B::Vector>,
    /// Keeps the root away from zero.
    pub eps: f32,
}

/// How tokens become rows.
pub struct Embedding<B: LoadWeights> {
    /// `[vocabulary, width]`.
    pub tokens: B::Table,
    /// Multiplies the token's row.
    pub scale: f32,
    /// `[places, width]` and the row of position 0 in it.
    pub positions: Option<(B::Table, u32)>,
    /// `[width]`, added to every row: BERT's token type 0.
    pub kind: Option<B::Vector>,
    /// Width of a row.
    pub width: usize,
}

/// Rotary positions (halves, as Hugging Face's Llama): for position `p` and `i < head_dim / 2`,
/// `(x[i], x[i + head_dim / 2])` is rotated by the angle whose cosine and sine are
/// `cos[p * head_dim / 2 + i]` and `sin[..]`.
pub struct Rope<B: LoadWeights> {
    /// `[positions, head_dim / 2]`.
    pub cos: B::Vector,
    /// `[positions, head_dim / 2]`.
    pub sin: B::Vector,
    /// Positions there are angles for.
    pub positions: usize,
}

/// T5's relative positions: `weights[head][clamp(key - query, -reach, reach) + reach]` is added to
/// the logit, where key and query are places in the text.
pub struct RelativeBias<B: LoadWeights> {
    /// `[heads, 2 * reach + 1]`.
    pub weights: B::Vector,
    /// The distance from which on all are alike.
    pub reach: usize,
}

/// How `[q | k | v]` rows are rotated and written to a KV cache.
pub struct KvWrite<'a, B: LoadWeights> {
    /// Heads of `q`; 0 if the rows are `[k | v]`.
    pub heads: usize,
    /// Heads of `k` and `v`.
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Normalisation of each head of `q` and of `k` (Qwen3), before the rotation.
    pub norms: Option<(&'a Norm<B>, &'a Norm<B>)>,
    /// Rotation of `q` and `k` by the row's position.
    pub rope: Option<&'a Rope<B>>,
}

/// How rows attend.
pub struct Attend<'a, B: LoadWeights> {
    /// Heads of `q`; a multiple of `kv_heads`.
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Multiplies `q k^T`.
    pub scale: f32,
    /// Whether a row reads only the keys up to its own.
    pub causal: bool,
    /// Added to the logits. The rows are the last of the segment's keys, as for causal attention.
    pub bias: Option<&'a RelativeBias<B>>,
}

/// How the rows of a text become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Mean,
    First,
    Last,
}
