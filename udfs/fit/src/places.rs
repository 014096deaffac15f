//! Where a network finds its parameters, and the sizes of its parts. One description serves all families: they differ
//! in which parts they have.

use proofmill_engine::architecture::Buckets;

use crate::ops::{Heads, MlpShape};

/// A whole network; numbers are places in a [`Plan`](crate::weights::Plan).
#[derive(Clone, Debug)]
pub struct Places {
    pub encoder: Stack,
    pub decoder: Option<Stack>,
    /// From the decoder's rows to logits.
    pub head: Option<Head>,
}

#[derive(Clone, Debug)]
pub struct Stack {
    /// `[vocabulary, width]`
    pub tokens: usize,
    /// `[positions, width]` and `[types, width]`, of which each token has type 0 (BERT).
    pub learned: Option<(usize, usize)>,
    /// After the embedding (BERT).
    pub embedding_norm: Option<NormPlace>,
    /// A table `[buckets, heads]` for distances (T5).
    pub relative: Option<(usize, Buckets)>,
    pub blocks: Vec<Block>,
    /// After the last block (T5).
    pub norm: Option<NormPlace>,
    /// Whether norms stand before each part, or after its sum.
    pub norm_first: bool,
    pub heads: Heads,
    /// Multiplies the scores of attention.
    pub scale: f32,
    pub mlp: MlpShape,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub attention: Attention,
    pub cross: Option<Cross>,
    pub mlp: Mlp,
}

#[derive(Clone, Debug)]
pub struct Attention {
    pub norm: NormPlace,
    pub qkv: Linear,
    pub out: Linear,
}

#[derive(Clone, Debug)]
pub struct Cross {
    pub norm: NormPlace,
    pub q: Linear,
    pub kv: Linear,
    pub out: Linear,
}

#[derive(Clone, Debug)]
pub struct Mlp {
    pub norm: NormPlace,
    pub up: Linear,
    pub down: Linear,
}

/// A matrix `[inputs, outputs]` and its bias.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    pub matrix: usize,
    pub bias: Option<usize>,
}

/// A norm by the mean square, or with a bias one by mean and variance.
#[derive(Clone, Copy, Debug)]
pub struct NormPlace {
    pub weight: usize,
    pub bias: Option<usize>,
    pub eps: f32,
}

/// From rows to logits.
#[derive(Clone, Debug)]
pub struct Head {
    /// Before the matrix (BERT).
    pub transform: Option<Transform>,
    /// Multiplies the logits (T5).
    pub scale: f32,
    /// `[vocabulary, width]`
    pub matrix: usize,
    pub bias: Option<usize>,
}

/// `norm(activation(linear x))`
#[derive(Clone, Debug)]
pub struct Transform {
    pub linear: Linear,
    pub activation: MlpShape,
    pub norm: NormPlace,
}
