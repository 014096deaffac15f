//! The parts of a network. One description serves all families: they differ in which parts they
//! have, not in what a part computes.

use crate::backend::{
    Activation, Embedding, Linear, LoadWeights, Norm, Pool, Precision, RelativeBias, Rope,
};
use crate::checkpoint::Labels;

/// A whole model.
pub struct Network<B: LoadWeights> {
    pub transformer: Transformer<B>,
    /// From hidden states to tokens; an encoder has none.
    pub head: Option<LmHead<B>>,
    /// How an encoder's rows become one vector.
    pub pooling: Option<Pooling<B>>,
    /// From an encoder's first row to classes; few checkpoints have it.
    pub classifier: Option<Classifier<B>>,
    /// Most tokens of a text, special ones included; None where positions have no end (T5).
    pub positions: Option<usize>,
    /// Number of parameters in the checkpoint.
    pub parameters: u64,
    pub precision: Precision,
}

/// The three shapes of transformers.
pub enum Transformer<B: LoadWeights> {
    /// BERT: reads both ways, writes nothing.
    Encoder(Stack<B>),
    /// GPT-2, OPT, Llama, Qwen: reads and writes from left to right.
    Decoder(Stack<B>),
    /// T5, BART, two BERTs: an encoder reads, a decoder writes.
    EncoderDecoder {
        encoder: Stack<B>,
        /// Writes; each of its blocks has a [`CrossAttention`].
        decoder: Stack<B>,
    },
}

impl<B: LoadWeights> Transformer<B> {
    /// The encoder and the decoder, as far as there are any.
    pub fn stacks(&self) -> (Option<&Stack<B>>, Option<&Stack<B>>) {
        match self {
            Self::Encoder(encoder) => (Some(encoder), None),
            Self::Decoder(decoder) => (None, Some(decoder)),
            Self::EncoderDecoder { encoder, decoder } => (Some(encoder), Some(decoder)),
        }
    }
}

/// Embedding, blocks, final norm.
pub struct Stack<B: LoadWeights> {
    /// From tokens to rows.
    pub embedding: Embedding<B>,
    /// After the embedding, before the first block (BART, BERT).
    pub embedding_norm: Option<Norm<B>>,
    pub blocks: Vec<TransformerBlock<B>>,
    /// Whether norms stand before each part (pre-norm) or after its residual sum (post-norm).
    pub norm_first: bool,
    /// After the last block.
    pub final_norm: Option<Norm<B>>,
    /// After the final norm, to the width of the head (small OPT) or to what it reads (BERT).
    pub project_out: Option<Projection<B>>,
    /// Sizes of self-attention.
    pub heads: Heads,
    /// Whether a row reads only what stands before it.
    pub causal: bool,
    pub rope: Option<Rope<B>>,
    /// Relative positions, the same in all blocks; self-attention only.
    pub relative: Option<RelativeBias<B>>,
    /// Width of the residual stream.
    pub width: usize,
    /// Width inside the feed-forward part, after gating.
    pub mlp_width: usize,
}

/// Sizes of attention, the same for self and cross.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Multiplies the logits: `head_dim^-0.5`, or 1 for T5.
    pub scale: f32,
}

pub struct TransformerBlock<B: LoadWeights> {
    pub attention: Attention<B>,
    /// Attention to the encoder's rows.
    pub cross: Option<CrossAttention<B>>,
    pub mlp: Mlp<B>,
}

/// Self-attention.
pub struct Attention<B: LoadWeights> {
    /// `[q | k | v]` in one: `(heads + 2 kv_heads) * head_dim` outputs.
    pub qkv: Linear<B>,
    /// Norms of each head of q and k (Qwen3).
    pub qk_norms: Option<(Norm<B>, Norm<B>)>,
    pub out: Linear<B>,
    /// Before or after, see [`Stack::norm_first`].
    pub norm: Norm<B>,
}

/// Cross-attention.
pub struct CrossAttention<B: LoadWeights> {
    /// From the decoder's rows.
    pub q: Linear<B>,
    /// `[k | v]` from the encoder's rows.
    pub kv: Linear<B>,
    pub out: Linear<B>,
    /// Before or after.
    pub norm: Norm<B>,
}

/// The feed-forward part: `down(activation(up x))`, or `down(activation(gate x) * (up x))` with
/// `up` holding `[gate | up]`.
pub struct Mlp<B: LoadWeights> {
    /// `mlp_width` outputs, or twice as many if gated.
    pub up: Linear<B>,
    pub down: Linear<B>,
    pub activation: Activation,
    /// Whether `up` holds a gate too.
    pub gated: bool,
    /// Before or after.
    pub norm: Norm<B>,
}

/// Between the last block and the head: `norm(activation(linear x))`.
pub struct Projection<B: LoadWeights> {
    pub linear: Linear<B>,
    pub activation: Activation,
    /// Of the stack's width, as `linear` then is.
    pub norm: Option<Norm<B>>,
}

/// From a hidden state to logits.
pub struct LmHead<B: LoadWeights> {
    /// `[vocabulary, width]`.
    pub linear: Linear<B>,
    /// Multiplies the logits (T5 with shared embeddings: `width^-0.5`).
    pub scale: f32,
}

/// From the state of a text's first token to classes: `out(tanh(dense x))`.
pub struct Classifier<B: LoadWeights> {
    pub dense: Linear<B>,
    /// An output for each class.
    pub out: Linear<B>,
    pub labels: Labels,
    /// For each token type, what is added to the position of a token that has it; one where there are no types.
    pub type_offsets: Vec<u32>,
}

/// How an encoder's rows become one vector.
pub struct Pooling<B: LoadWeights> {
    /// Which rows.
    pub pool: Pool,
    /// Applied to the pooled row with tanh (BERT's pooler), if it is requested.
    pub pooler: Option<Linear<B>>,
    /// Whether the vector is divided by its length.
    pub normalize: bool,
}
